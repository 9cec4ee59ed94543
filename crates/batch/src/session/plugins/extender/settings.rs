//! The arguments of plugin extender.

use crate::conf::Arguments;
use evictd_pod::duration;
use serde_json::Value;
use std::time::Duration;

/// The longest wait for one answer.
const LONGEST: Duration = Duration::from_secs(5);
/// The wait for one answer without `extender.httpTimeout`.
const USUAL: Duration = Duration::from_secs(1);

/// A question or a notification, each with a path of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verb {
    SessionOpen,
    SessionClose,
    Predicate,
    Prioritize,
    Preemptable,
    Reclaimable,
    QueueOverused,
    JobEnqueueable,
    JobEnqueued,
    JobReady,
    Allocate,
    Deallocate,
}

impl Verb {
    const ALL: [Self; 12] = [
        Self::SessionOpen,
        Self::SessionClose,
        Self::Predicate,
        Self::Prioritize,
        Self::Preemptable,
        Self::Reclaimable,
        Self::QueueOverused,
        Self::JobEnqueueable,
        Self::JobEnqueued,
        Self::JobReady,
        Self::Allocate,
        Self::Deallocate,
    ];

    /// The argument with its path.
    pub(super) const fn argument(self) -> &'static str {
        match self {
            Self::SessionOpen => "extender.onSessionOpenVerb",
            Self::SessionClose => "extender.onSessionCloseVerb",
            Self::Predicate => "extender.predicateVerb",
            Self::Prioritize => "extender.prioritizeVerb",
            Self::Preemptable => "extender.preemptableVerb",
            Self::Reclaimable => "extender.reclaimableVerb",
            Self::QueueOverused => "extender.queueOverusedVerb",
            Self::JobEnqueueable => "extender.jobEnqueueableVerb",
            Self::JobEnqueued => "extender.jobEnqueuedVerb",
            Self::JobReady => "extender.jobReadyVerb",
            Self::Allocate => "extender.allocateFuncVerb",
            Self::Deallocate => "extender.deallocateFuncVerb",
        }
    }
}

#[derive(Debug)]
pub(super) struct Settings {
    /// By verb, in the order of [`Verb::ALL`]; `None` where the configuration names no path.
    urls: [Option<String>; Verb::ALL.len()],
    pub(super) within: Duration,
    /// Whether a failed call is ignored.
    pub(super) ignorable: bool,
    /// Only pods that request one of these concern the server; all pods if it is empty.
    pub(super) managed: Vec<String>,
}

impl Settings {
    pub(super) fn new(arguments: &Arguments) -> Self {
        let prefix = arguments.text("extender.urlPrefix").unwrap_or_default();
        let prefix = prefix.trim_end_matches('/');
        let within = arguments.text("extender.httpTimeout");
        let within = within.and_then(|text| duration::parse(text).ok());
        let within = within.and_then(|within| Duration::try_from(within).ok());
        let within = within.filter(|within| !within.is_zero());
        let managed = arguments.value("extender.managedResources");
        let managed = managed.and_then(Value::as_array).into_iter().flatten();
        Self {
            urls: Verb::ALL.map(|verb| {
                let path = arguments.text(verb.argument()).unwrap_or_default();
                (!path.is_empty()).then(|| format!("{prefix}/{path}"))
            }),
            within: within.unwrap_or(USUAL).min(LONGEST),
            ignorable: arguments.boolean("extender.ignorable", false),
            managed: managed
                .filter_map(|name| Some(name.as_str()?.to_owned()))
                .collect(),
        }
    }

    /// The address for a verb; `None` where the configuration names none.
    pub(super) fn url(&self, verb: Verb) -> Option<&str> {
        self.urls[verb as usize].as_deref()
    }
}
