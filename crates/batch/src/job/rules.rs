//! Where ours differs from Volcano's job controller.

/// Switches, each with its meaning when it is on. [`Rules::VOLCANO`] decides exactly as Volcano ed72c7c8 does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "each is a rule of its own")]
pub struct Rules {
    /// Ending pods counts those that stay, by phase and task. Volcano counts only what terminates, so that a job that
    /// completed shows no pod that succeeded after its next event (S6-031).
    pub kills_count_what_stays: bool,
    /// An event on a finished or aborted job neither raises its version nor writes a status that says the same (S6-024,
    /// S6-027).
    pub finished_stays: bool,
    /// Ending pods that fails raises the version only once, when it succeeds at last. Volcano raises the version in its
    /// cache with every try (S6-032).
    pub version_of_success: bool,
    /// Ending one task, pod or partition leaves the objects of plugins alone: the rest of the job uses them (S6-056).
    pub targets_keep_plugins: bool,
    /// A policy with exit code 0 matches only a container that ended with 0. In Volcano it matches every event that says
    /// nothing about an exit code (S6-052).
    pub zero_is_an_exit_code: bool,
    /// A synchronisation that finds nothing new writes nothing. Volcano writes again when no pod is counted (S6-042).
    pub equal_is_unchanged: bool,
    /// A task with no `minAvailable` is ready when all its pods are. In Volcano it is ready at once (S6-043).
    pub unset_needs_all: bool,
    /// A queue that is missing is told in an event, and a job that waits for a queue or a claim is tried without end. In
    /// Volcano it says nothing of the queue, and such a job is terminated after a few minutes (S6-016, S6-036).
    pub waits_for_what_is_missing: bool,
    /// A pod that is seen for the first time when it has already ended is an event as if that had been seen. For Volcano it
    /// is a pod that waits, so that what failed while no controller ran matches no policy (S6-047).
    pub ended_while_away: bool,
    /// An ending of pods that a crash has cut short is carried on: marks say by which action, and the status is written before
    /// the first pod is deleted. With Volcano a restart that is cut short is done in part, and not counted (S6-033, S6-035).
    pub endings_resume: bool,
    /// What a job's PodGroup demands leaves out tasks that wait for others, and grows when those have their turn; what runs
    /// meanwhile makes the job run (spark-operator#3154). With Volcano a job whose gang counts such tasks waits for ever
    /// for pods that are not made before it runs (S6-043, S6-046).
    pub gangs_grow: bool,
    /// The list of hosts follows a job that is scaled while it waits, before its pods are made. With Volcano they start with
    /// the list of before, which is written anew once the job runs (S6-036, S6-056).
    pub hosts_follow_a_waiting_job: bool,
}

impl Rules {
    /// Ours.
    pub const OURS: Self = Self {
        kills_count_what_stays: true,
        finished_stays: true,
        version_of_success: true,
        targets_keep_plugins: true,
        zero_is_an_exit_code: true,
        equal_is_unchanged: true,
        unset_needs_all: true,
        waits_for_what_is_missing: true,
        ended_while_away: true,
        endings_resume: true,
        gangs_grow: true,
        hosts_follow_a_waiting_job: true,
    };

    /// Volcano's.
    pub const VOLCANO: Self = Self {
        kills_count_what_stays: false,
        finished_stays: false,
        version_of_success: false,
        targets_keep_plugins: false,
        zero_is_an_exit_code: false,
        equal_is_unchanged: false,
        unset_needs_all: false,
        waits_for_what_is_missing: false,
        ended_while_away: false,
        endings_resume: false,
        gangs_grow: false,
        hosts_follow_a_waiting_job: false,
    };
}
