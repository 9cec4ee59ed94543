#![doc = include_str!("../README.md")]
//!
//! | module | what it does |
//! |---|---|
//! | [`signals`] | samples what the node has left: memory, process ids, filesystems, swap, pressure |
//! | [`wake`] | wakes the loop when the kernel says that memory grows short, before the next sample is due |
//! | [`cgroup`] | finds the hierarchies, the groups of pods and the processes in them |
//! | [`kill`] | ends the processes of a control group, with a grace period or at once, and waits until they are gone |
//! | [`walk`] | adds up what a directory holds, within a budget |
//! | [`deleted`] | finds files that are deleted but still open, which no walk sees |
//! | [`kubelet`] | finds the kubelet's process, and what it was started with |
//! | [`kernel_file`] | keeps a file of `/proc` or of a group open and reads it without allocating |
//! | [`threads`] | threads made at the start, for calls that may hang: later there may be no process id left for one |
//! | [`protect`] | keeps this process from being chosen by the kernel's OOM killer |
//! | [`clock`] | a clock that is never set back |
//!
//! The contents of the kernel's files are untrusted. An impossible figure counts as unobserved, and a missing or
//! overlong file is an error with its name. Nothing here decides anything; the types of signals and thresholds are
//! `evictd-eviction`'s.
//!
//! `cargo run -p evictd-kernel --example signals` prints the figures of this machine.

pub mod cgroup;
pub mod clock;
pub mod deleted;
pub mod kernel_file;
pub mod kill;
pub mod kubelet;
pub mod protect;
pub mod signals;
pub mod threads;
pub mod wake;
pub mod walk;
