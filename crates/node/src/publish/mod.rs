//! Publishers of facts: the log, the history, events, metrics, the status page, the Node.

pub mod board;
pub mod events;
pub mod evicted;
pub mod heartbeat;
pub mod hurry;
pub mod journal;
pub mod ledger;
pub mod lines;
pub mod meter;
pub mod node;
pub mod rehearsal;
pub mod startup;

use crate::fact::Fact;

/// A publisher.
pub trait Publish: Send {
    /// Publishes a fact. Must return at once, so that it does not delay a decision.
    fn publish(&mut self, fact: &Fact<'_>);
}

/// All publishers, called in this order.
#[derive(Default)]
pub struct Publishers(pub Vec<Box<dyn Publish>>);

impl Publishers {
    /// Passes a fact to all of them.
    pub fn publish(&mut self, fact: &Fact<'_>) {
        for publisher in &mut self.0 {
            publisher.publish(fact);
        }
    }
}
