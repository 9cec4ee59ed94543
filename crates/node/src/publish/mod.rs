//! Publishers of facts: the log, the history, events, metrics, the status page, the Node.

pub(crate) mod dry_run;
pub(crate) mod events;
pub(crate) mod evicted;
pub(crate) mod history;
mod inverted;
pub(crate) mod journal;
pub(crate) mod kept;
pub(crate) mod metrics;
pub(crate) mod node;
pub(crate) mod startup;
pub(crate) mod status;
pub(crate) mod transitions;
pub(crate) mod urgency;
pub(crate) mod watchdog;
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
