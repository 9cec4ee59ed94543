//! Events in the life of a pod that is being scheduled, and the commands that follow from them.

use super::placed::{Binding, WaitingPod};
use crate::plugins::PluginSet;
use crate::queue::{self, Moved, QueueError};
use std::sync::Arc;

/// A report of the caller about one pod. `E` is an event of the cluster.
#[derive(Debug)]
pub(crate) enum Event<'a, E> {
    /// A watch shows a new pod without a node.
    Pending {
        pod: &'a Arc<str>,
        priority: i32,
        /// The nominated node in its status; empty if it has none.
        nominated: &'a str,
    },
    /// A watch shows a change of a pod that has no node.
    Updated {
        pod: &'a Arc<str>,
        priority: i32,
        /// The nominated nodes in its status before and after the change.
        nominated: (&'a str, &'a str),
        /// The change as events of the cluster, which may wake the pod.
        events: Vec<queue::Event<E>>,
    },
    /// A watch shows that the deletion of a pod without a node has begun.
    Terminating { pod: &'a str },
    /// A watch shows the node of a pod.
    Assigned { pod: &'a str, node: &'a str },
    /// The pod is deleted, or has ended. An attempt under way still has to be ended by [`Event::Done`] (S5-029).
    Gone { pod: &'a str },
    /// An attempt has found a node (S5-057).
    Assumed { pod: &'a Arc<str>, node: &'a str },
    /// Plugins delay the binding of an assumed pod (S5-059).
    Delayed {
        pod: &'a str,
        waiting: Box<WaitingPod>,
    },
    /// The attempt is over. With a binding it begins now; without one the pod is dropped, or its binding is not followed.
    Done {
        pod: &'a str,
        binding: Option<Binding>,
    },
    /// A batch session has chosen a node and binds the pod. The caller then reports the pod as assigned, although no watch
    /// shows that.
    BoundBySession {
        pod: &'a Arc<str>,
        node: &'a str,
        binding: Binding,
    },
    /// A batch session evicts the pod.
    EvictedBySession { pod: &'a Arc<str> },
    /// The pod of batch sessions is deleted. An ended pod is [`Event::Gone`] before, and is still evicted.
    Deleted { pod: &'a str },
    /// The pod was not evicted.
    EvictionFailed { pod: &'a str },
    /// A watch shows a pod of batch sessions. That confirms their decisions.
    Shown {
        pod: &'a str,
        has_node: bool,
        terminates: bool,
    },
    /// The pod gives back its node (`ForgetPod`). [`Event::Failed`] follows.
    Forgotten { pod: &'a str },
    /// The attempt failed, or the binding after it.
    Failed {
        pod: &'a str,
        rejectors: PluginSet,
        pending: PluginSet,
        /// The node that is nominated from now on, empty for none; `None` if the pod was deleted.
        nominated: Option<&'a str>,
    },
    /// The attempt was not made, or was ended, because it is costly. The pod is tried when its namespace has its turn.
    PutOff {
        pod: &'a str,
        namespace: &'a Arc<str>,
    },
    /// The API server has answered the request to bind the pod.
    Answered { pod: &'a str, is_bound: bool },
    /// The pod loses its nomination, whatever its status says.
    NominationLeft { pod: &'a str },
    /// The victims of the pod are to be deleted.
    PreemptionBegun { pod: &'a Arc<str>, node: &'a str },
    /// Every victim of the pod but this one terminates.
    LastVictim {
        pod: &'a str,
        victim: &'a str,
        /// It terminates already or was deleted, so no watch event will follow.
        terminates: bool,
    },
    /// A watch shows that a pod, which may be a victim, terminates or was deleted.
    VictimTerminating { victim: &'a str },
    /// The API server has answered every deletion of the pod's victims.
    PreemptionEnded { pod: &'a str, has_failed: bool },
}

/// An action for the caller.
#[derive(Debug)]
pub(crate) enum Command {
    /// Count that a pod has entered a pool.
    Count(Moved),
    /// Ask the API server to bind the pod, and report [`Event::Answered`].
    Bind,
    /// The pod no longer counts on this node: wake the pods that wait for its room.
    Free { node: Arc<str> },
    /// Announce that the pod is bound.
    Announce(Box<Binding>),
    /// The binding failed: free the node, then report [`Event::Forgotten`] and [`Event::Failed`].
    Unbind {
        node: Arc<str>,
        binding: Box<Binding>,
    },
    /// The binding failed, but a watch shows that the pod has a node: leave it there.
    Keep(Box<Binding>),
    /// The failed pod does not wait again.
    Refuse(QueueError),
    /// The pod that was to be evicted stays.
    Restore,
    /// Delete the victims, and report [`Event::LastVictim`] and [`Event::PreemptionEnded`].
    DeleteVictims,
    /// The pod need not wait for its victims any more: its gang may be tried again, and it must be if `activates`.
    Ungate { pod: Arc<str>, activates: bool },
}
