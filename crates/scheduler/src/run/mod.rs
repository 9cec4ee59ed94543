//! `evictd-scheduler run`: the scheduler as a process.
//!
//! ```text
//!   watches -> WatchEvent -> Engine -> Writer -> bindings, conditions, preemptions -> Outcome -> Engine
//!                            |    `--> Events (what `kubectl describe` shows of a pod)
//!                            `-> Scheduler (crates/scheduling): cache, queue, one attempt after the other
//! ```
//!
//! [`process`] connects the parts. The [`engine`] is the only owner of cache and queue, so that no lock is held while it
//! decides. Everything that waits for a network is a task beside it: [`watches`] (with [`watch_cache`], which keeps the last
//! state of each object), [`extenders`], [`writer`] and [`events`]. [`batch`] runs sessions on the same cache. [`serve`] is
//! the secure port, which reads [`view`] and [`metrics`].

mod api_retry;
mod batch;
mod batch_conf;
mod batch_extender;
mod deadline;
mod default_queues;
mod engine;
mod events;
mod extenders;
mod frameworks;
mod gang_barriers;
mod groups;
mod leases;
mod metrics;
mod node_use;
pub(crate) mod pages;
mod pod_ref;
pub(crate) mod process;
mod release;
mod resources;
pub(crate) mod serve;
mod threads;
mod view;
mod watch_cache;
mod watches;
mod writer;

pub(crate) use batch::BatchSettings;
