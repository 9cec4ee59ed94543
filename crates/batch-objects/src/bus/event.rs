//! The events of a job or its pods.

/// An event of a job, as policies name it (S6-008).
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Event {
    /// `*`: a policy with it matches every event.
    Any,
    /// A pod failed.
    PodFailed,
    /// A pod was deleted, but not by the controller.
    PodEvicted,
    /// A pod waits.
    PodPending,
    /// A pod runs.
    PodRunning,
    /// The phase of the job's PodGroup is `Unknown`.
    Unknown,
    /// All pods of a task succeeded.
    TaskCompleted,
    /// The containers of a task restarted too often.
    TaskFailed,
    /// Something changed that no policy is about.
    OutOfSync,
    /// A user's Command.
    CommandIssued,
    /// No event: the phase of the PodGroup changed (S6-048).
    None,
    /// Anything else.
    Other(Box<str>),
}

impl Event {
    const KNOWN: [Self; 11] = [
        Self::Any,
        Self::PodFailed,
        Self::PodEvicted,
        Self::PodPending,
        Self::PodRunning,
        Self::Unknown,
        Self::TaskCompleted,
        Self::TaskFailed,
        Self::OutOfSync,
        Self::CommandIssued,
        Self::None,
    ];

    /// The event of this name.
    pub fn of(name: &str) -> Self {
        let known = Self::KNOWN.into_iter().find(|known| known.as_str() == name);
        known.unwrap_or_else(|| Self::Other(name.into()))
    }

    /// Its name.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Any => "*",
            Self::PodFailed => "PodFailed",
            Self::PodEvicted => "PodEvicted",
            Self::PodPending => "PodPending",
            Self::PodRunning => "PodRunning",
            Self::Unknown => "Unknown",
            Self::TaskCompleted => "TaskCompleted",
            Self::TaskFailed => "TaskFailed",
            Self::OutOfSync => "OutOfSync",
            Self::CommandIssued => "CommandIssued",
            Self::None => "",
            Self::Other(name) => name,
        }
    }

    /// Whether no policy is asked about it (S6-051).
    pub fn is_internal(&self) -> bool {
        matches!(
            self,
            Self::OutOfSync | Self::CommandIssued | Self::PodRunning
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s6_008_events_have_volcanos_names_and_some_are_internal() {
        for event in Event::KNOWN {
            assert_eq!(Event::of(event.as_str()), event);
        }
        let internal = Event::KNOWN.into_iter().filter(Event::is_internal);
        let names: Vec<String> = internal.map(|event| event.as_str().to_owned()).collect();
        assert_eq!(names, ["PodRunning", "OutOfSync", "CommandIssued"]);
        assert_eq!(Event::of("Rain"), Event::Other("Rain".into()));
    }
}
