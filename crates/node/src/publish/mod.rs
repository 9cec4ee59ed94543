//! Publishers of facts: the log, the history, events, metrics, the status page, the Node.

pub mod dry_run;
pub mod events;
pub mod evicted;
pub mod history;
mod inverted;
pub mod journal;
pub mod kept;
pub mod metrics;
pub mod node;
pub mod startup;
pub mod status;
pub mod transitions;
pub mod urgency;
pub mod watchdog;
pub(crate) mod words;

use crate::fact::Fact;

/// A view of the facts: the log, the history, events, metrics, the status page.
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
