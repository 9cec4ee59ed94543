//! Phases of a job (S6-006).

/// The phase of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Phase {
    /// Not enough of its pods have started.
    Pending,
    /// Enough of its pods have started.
    Running,
    /// Its pods are ended, and are made anew then.
    Restarting,
    /// Its pods are ended; it can be resumed.
    Aborting,
    /// They are; it can be resumed.
    Aborted,
    /// The running pods are being killed.
    Completing,
    /// It is; final.
    Completed,
    /// Its pods are ended for good.
    Terminating,
    /// They are; final.
    Terminated,
    /// Too many of its pods failed, or it was restarted too often; final.
    Failed,
}

impl Phase {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Pending,
        Self::Running,
        Self::Restarting,
        Self::Aborting,
        Self::Aborted,
        Self::Completing,
        Self::Completed,
        Self::Terminating,
        Self::Terminated,
        Self::Failed,
    ];

    /// The phase of this name; an empty or unknown one is handled as `Pending` (S6-006).
    pub fn of(name: &str) -> Self {
        let known = Self::ALL.into_iter().find(|phase| phase.as_str() == name);
        known.unwrap_or(Self::Pending)
    }

    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Running => "Running",
            Self::Restarting => "Restarting",
            Self::Aborting => "Aborting",
            Self::Aborted => "Aborted",
            Self::Completing => "Completing",
            Self::Completed => "Completed",
            Self::Terminating => "Terminating",
            Self::Terminated => "Terminated",
            Self::Failed => "Failed",
        }
    }

    /// Whether it is never left (S6-027).
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Completed | Self::Terminated | Self::Failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s6_006_phases_have_volcanos_names_and_an_unknown_one_is_pending() {
        for phase in Phase::ALL {
            assert_eq!(Phase::of(phase.as_str()), phase);
        }
        assert_eq!(Phase::of(""), Phase::Pending);
        assert_eq!(Phase::of("Weird"), Phase::Pending);
    }
}
