//! The loop and its states in paused time: waits of minutes take none. The kernel's files are fixtures, and what the kernel
//! does with them the bench does.

mod bench;
mod deaf;
mod hard;
mod hooks;
mod near;
mod paused;
mod reclaim;
mod recorder;
mod restarted;
mod soft;
