//! Where ours decides otherwise than Volcano, switch by switch.

/// How a session decides. [`Form::volcano`] is Volcano's own way, quirks included; the default is ours.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each switches something of its own"
)]
pub struct Form {
    /// Whoever has to go goes with all of its gang if the rest would be too few, and gangs that can spare a task come
    /// first (volcano#4607). Volcano breaks as many gangs as a later tier lets it.
    pub whole_gangs: bool,
    /// Nobody goes without whom it would do (volcano#1256). Volcano sends away one after the other in a fixed order until
    /// it does, whoever of them was needed.
    pub fewest_victims: bool,
    /// A queue deserves no more than its jobs can use: what is too small for any gang that waits goes to other queues until that
    /// changes. With Volcano it stands empty for as long as a gang waits that is larger than what its queue deserves (S6-129).
    pub lends_unusable: bool,
    /// What pods of no job hold is not divided among queues (`proportion`). With Volcano a queue that holds all that is left may be
    /// below its part of the whole cluster, so that nobody goes for another one that holds nothing (S6-129).
    pub divides_what_is_left: bool,
    /// Of those who may be sent away for another queue those go who lose the least work: on the node where that is so, and
    /// there the gang of which it is so. Volcano takes the first node by name.
    pub loses_least: bool,
    /// Whether a task can be on a node is asked again with those who have to go away from it, before anybody goes
    /// (volcano#4926). Volcano's reclaim asks only before. A pod to which a node was promised that has no room for it and
    /// gets none, since whoever promised it was killed or others were faster, may take room elsewhere; in Volcano it waits
    /// for ever (S6-116).
    pub asks_placement: bool,
    /// Where gangs decide the order of jobs, one that runs in part comes first (volcano#5805). With Volcano it waits
    /// among all that do not run yet.
    pub broken_gangs_first: bool,
    /// Nobody goes for another queue from one that holds no more than it deserves (volcano#377, #3729, #4947): two
    /// queues would take the same room from each other in turn. With Volcano an earlier tier may grant them. Where no plugin
    /// says what queues deserve, nobody goes for another queue.
    pub keeps_shares: bool,
    /// Nobody goes for a job of its queue that comes after its own when room is given out, as the first plugin says that
    /// tells them apart: else the two would take the same room from each other in turn. With Volcano any tier may grant it,
    /// so that priority and drf in different tiers pull a queue to and fro.
    pub keeps_order: bool,
    /// Where reclaim is an action, a job is let in that its queue's share has room for, however full the cluster is
    /// (volcano#3003, #5881). With Volcano plugin overcommit keeps it out, and what was never let in reclaims nothing.
    pub lets_reclaimers_in: bool,
    /// A job is let in once its smallest gang could be placed on the nodes as they are, beside those that were let in before, or
    /// when others have gone whom its queue may send away (volcano#3910, kueue#11287). One that was let in and then tried in vain
    /// is promised nothing. Volcano lets it in if all nodes together have enough, and keeps its promise.
    pub admits_what_fits: bool,
    /// Nodes are kept for a job that has waited long, for one at a time and not for ever (volcano#748, #947). With Volcano a
    /// large job starves while small ones take whatever becomes free.
    pub reserves: bool,
    /// A task that was to go and stays is what it was before. With Volcano it counts as running, also if it was only
    /// bound (S6-103).
    pub exact_undo: bool,
    /// A group whose tasks start one after the other runs while some of them wait for room of which none has a node yet
    /// (spark-operator#3154). For Volcano it is Unknown, which restarts jobs that have a policy for it.
    pub stages_run: bool,
    /// A pod of no group is a job of its own (volcano#4348). For Volcano somebody has to make a group for it first (S6-059,
    /// S6-089). It is [`Setting::plain_pods`](super::Setting) that a cache goes by.
    pub plain_pods: bool,
    /// A job's priority is at most the lowest priority of its pods. Anyone who may create a pod group may name any class in it,
    /// while admission guards the classes of pods. Volcano takes the class of the group (S6-088).
    pub lowest_pod_priority: bool,
}

impl Default for Form {
    fn default() -> Self {
        Self {
            whole_gangs: true,
            fewest_victims: true,
            lends_unusable: true,
            divides_what_is_left: true,
            loses_least: true,
            asks_placement: true,
            broken_gangs_first: true,
            keeps_shares: true,
            keeps_order: true,
            lets_reclaimers_in: true,
            admits_what_fits: true,
            reserves: true,
            exact_undo: true,
            stages_run: true,
            plain_pods: true,
            lowest_pod_priority: true,
        }
    }
}

impl Form {
    /// Exactly as Volcano at ed72c7c8.
    pub const fn volcano() -> Self {
        Self {
            whole_gangs: false,
            fewest_victims: false,
            lends_unusable: false,
            divides_what_is_left: false,
            loses_least: false,
            asks_placement: false,
            broken_gangs_first: false,
            keeps_shares: false,
            keeps_order: false,
            lets_reclaimers_in: false,
            admits_what_fits: false,
            reserves: false,
            exact_undo: false,
            stages_run: false,
            plain_pods: false,
            lowest_pod_priority: false,
        }
    }
}
