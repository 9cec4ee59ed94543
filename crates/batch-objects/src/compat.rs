//! Where evictd decides otherwise than Volcano, one difference at a time.

/// A place where evictd and Volcano ed72c7c8 decide differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Difference {
    /// A victim is evicted together with its whole gang if the rest would be below `minMember`, and gangs that can spare
    /// a task come first (volcano#4607). Volcano breaks as many gangs as a later tier permits.
    WholeGangs,
    /// No pod is evicted unless its room is needed (volcano#1256). Volcano evicts in a fixed order until the task fits, and
    /// keeps victims that turn out to be unnecessary.
    FewestVictims,
    /// A queue deserves no more than its jobs can use. A share that is too small for every pending gang or pod, or beyond
    /// the nodes that they may use, is redistributed to other queues. In Volcano it stays idle as long as they are pending
    /// (S6-129).
    LendUnusableShare,
    /// Proportion does not divide the room that pods without a job occupy. In Volcano a queue that holds all the rest
    /// may still be below its part of the whole cluster. Then no pod is reclaimed for a queue that holds nothing
    /// (S6-129).
    ExcludeForeignPods,
    /// Reclaim takes the node, and there the gang, with the least lost work. Volcano takes the first node by name.
    LeastLostWork,
    /// Filters run again without the victims before any pod is evicted (volcano#4926); Volcano's reclaim runs them only
    /// with the victims in place. A pod whose nominated node has no room may preempt elsewhere; in Volcano it waits for ever
    /// (S6-116).
    RecheckPlacement,
    /// Where gang decides the job order, a job that runs in part comes first (volcano#5805). In Volcano it waits among
    /// all jobs that do not run yet.
    BrokenGangsFirst,
    /// Reclaim evicts nothing from a queue that holds no more than it deserves (volcano#377, #3729, #4947). Otherwise
    /// two queues would reclaim the same room in turn. In Volcano an earlier tier may permit it. Without a plugin that
    /// computes deserved shares, reclaim evicts nothing.
    ReclaimOnlyAboveDeserved,
    /// Preempt evicts nothing from a job that comes before the preemptor in the job order. The first plugin that orders
    /// the two decides. In Volcano any tier may permit it, so priority and drf in different tiers preempt in turn.
    PreemptByJobOrder,
    /// With action reclaim, a job that its queue's share has room for is enqueued, however full the cluster is
    /// (volcano#3003, #5881). In Volcano overcommit rejects it, and a job that is not enqueued reclaims nothing.
    EnqueueReclaimers,
    /// A job is enqueued once its smallest gang could be placed, beside jobs enqueued before it or after evictions for
    /// its queue (volcano#3910, kueue#11287). After a failed attempt nothing stays promised to it. Volcano enqueues it
    /// if all nodes together have enough, and keeps its promise.
    EnqueueWhatFits,
    /// Nodes are reserved for one long-waiting job at a time, for a limited time (volcano#748, #947). In Volcano a large
    /// job starves while small ones use whatever becomes free.
    ReserveNodes,
    /// An eviction that is undone restores the task's earlier status. In Volcano the task counts as running, even if it was
    /// only bound, and plugin usage adds an estimate for a pod that is measured (S6-103, S6-222).
    ExactUndo,
    /// A group whose tasks start in stages stays `Running` while a later stage waits for room
    /// (spark-operator#3154). In Volcano it becomes `Unknown`, which restarts jobs that have a policy for it.
    StagedGroupRuns,
    /// A pod without a group is a job of its own (volcano#4348). Volcano needs a PodGroup for it first (S6-059, S6-089).
    /// A cache of sessions has a setting of its own for it.
    BarePods,
    /// A job's priority is at most the lowest priority of its pods, because anyone who may create a PodGroup may name any
    /// class in it. Volcano takes the class of the group (S6-088).
    LowestPodPriority,
    /// Killing pods counts the retained ones by phase and task. Volcano counts only pods that terminate, so a completed job
    /// shows no succeeded pod after its next event (S6-031).
    KillCountsRetained,
    /// An event on a finished or aborted job neither raises its version nor writes an equal status (S6-024, S6-027).
    FinishedIsFinal,
    /// A kill raises the job's version once, when it succeeds. Volcano raises the cached version with every attempt
    /// (S6-032).
    VersionOncePerKill,
    /// Killing one task, pod or partition keeps the objects of plugins, because the rest of the job uses them (S6-056).
    TargetKeepsPluginObjects,
    /// A policy with exit code 0 matches only a container that exited with 0. In Volcano it matches every event without
    /// an exit code (S6-052).
    ExitCodeZero,
    /// A sync that finds nothing new writes nothing. Volcano writes again when no pod is counted (S6-042).
    EqualStatusIsUnchanged,
    /// A task without `minAvailable` is ready when all its pods are. In Volcano it is ready at once (S6-043).
    UnsetMinAvailableNeedsAll,
    /// A missing queue is reported by an event, and a job that waits for a queue or a claim is retried for ever. Volcano
    /// does not report the queue, and terminates such a job after a few minutes (S6-016, S6-036).
    WaitForMissing,
    /// A pod that has ended before it was first seen raises the event of its end. For Volcano it is a pending pod, so a
    /// failure while no controller ran matches no policy (S6-047).
    EndedWhileAway,
    /// A termination that a crash interrupted is resumed: pods are marked with the action, and the status is written before
    /// the first pod is deleted. In Volcano an interrupted restart is done in part and not counted (S6-033, S6-035).
    ResumeTermination,
    /// A job's PodGroup leaves out tasks that wait for other tasks, and grows when their turn comes
    /// (spark-operator#3154). In Volcano such a job waits for ever for pods that are not created before it runs
    /// (S6-043, S6-046).
    GrowingGang,
    /// The host list follows a job that is scaled before its pods are created. In Volcano they start with the earlier list,
    /// which is rewritten once the job runs (S6-036, S6-056).
    HostsFollowScaling,
    /// Only the branches of a tree of queues that cannot be used get nothing, and their jobs report why. In Volcano one
    /// missing parent, a cycle or a job in an inner queue stops every queue (S6-153, S6-154).
    UsableBranches,
    /// Below a closed queue no job is enqueued. Volcano looks at the state of the leaf alone (S6-161).
    ClosedAncestors,
    /// A capability of the root limits only what it names. In Volcano cpu or memory that it does not name is zero for all
    /// (S6-157).
    UnnamedRootIsUnlimited,
    /// Reclaim keeps the guarantees of all queues above a victim. Volcano keeps that of its leaf (S6-166).
    AncestorGuarantees,
    /// The shares of inner queues follow the placements of a session, so that branches take turns. In Volcano they stay as
    /// they were when it opened (S6-155).
    InnerSharesFollow,
    /// `dequeueStrategy: fifo` of a queue holds: its jobs start in their order, and none passes one that cannot start. In
    /// Volcano at ed72c7c8 no session reads it.
    StrictFifo,
    /// Room that was made for a job goes to that job: it is placed before all others on the nodes that were freed for it.
    /// In Volcano another job may take the room, and the two evict each other in turn.
    NominatedFirst,
    /// Plugin capacity reclaims for a job only what its queue deserves of the resources that the node lacks, from queues
    /// that hold more of these than they deserve. A resource that a queue does not name is returned to a queue that does.
    /// In Volcano two queues above their shares reclaim the same room in turn.
    ReclaimOnlyOwed,
    /// An action that evicts leaves a job to a later action allocate if the job fits without evictions. Volcano evicts
    /// for it. Pipelined there, it would never be bound.
    LeaveToAllocate,
    /// With action preempt, a job is enqueued although its queue or the cluster is full, if pods of its queue that may go
    /// for it make room (volcano#5105). In Volcano it is not enqueued, and a job that is not enqueued preempts nothing.
    EnqueuePreemptors,
    /// The condition of a pod group says why it is not enqueued, with the queue and the key that limits it. Volcano reports
    /// it by an event alone.
    ConditionSaysWhy,
    /// A cron job takes an unfinished job of its own into `status.active`, also where the creation finds it. In Volcano a job
    /// that was created just before a crash stays out of it, so that `Forbid` and `Replace` do not see it (S6-240).
    AdoptJobs,
    /// A cron job looks at each of its active jobs once. Volcano skips some while it shortens the list, and `Replace` fails
    /// with three of them (S6-239).
    EachActiveJobOnce,
    /// A pod that is deleted because its job was scaled down is marked first, and its end is no `PodEvicted`. In Volcano a
    /// policy for evictions then restarts or terminates the whole job (volcano#4072, S6-044).
    SurplusIsNotEvicted,
    /// Scaling down deletes pending pods first, then running ones with the highest index (volcano#2074), where no plugin and
    /// no partition depends on the index. Volcano deletes the highest indices.
    LeastUsefulFirst,
    /// A job that is resumed does not use up a retry (volcano#3067). In Volcano the third resume fails it.
    ResumeKeepsRetries,
    /// A restart because of an evicted pod, of the job, a task, a pod or a partition, does not use up a retry (volcano#2560). Volcano
    /// counts it as a failure.
    EvictionKeepsRetries,
    /// A job may ask for less than a restart when a pod is evicted and enough others are left (volcano#3171). Volcano
    /// restarts the job.
    EvictedAboveMinimum,
    /// A hard network topology that cannot be kept waits and says why, and evictions respect it. Pods of a job whose labels
    /// have different values are in different parts. In Volcano a hard topology whose tier is unknown places the job anywhere
    /// (S6-175). Its preempt leaves such jobs out, its reclaim ignores the topology (S6-191), and parts of one name are one.
    UnknownTopologyWaits,
    /// The actions for gangs and shuffle evict no pod that is critical for the cluster and nothing beyond a disruption
    /// budget, whatever the tiers. Volcano's ignore budgets, and critical pods under some tiers (S6-198). The budget of a
    /// job for plugin tdm holds over all zones. In Volcano each zone may use it up, and a job below it loses a pod (S6-215).
    SpareProtectedPods,
    /// A node with unknown use, or with figures that are too old or of the future, takes no pods of others and loses none.
    /// Plugin rescheduling evicts no pod for which no other node has room, and plugin usage estimates pods that are younger
    /// than the figures. In Volcano unknown use is zero, figures of another time count, and such pods do not (S6-206, S6-222).
    UnknownUseIsNotZero,
    /// By plugin task-topology, running tasks keep those with an anti-affinity off their nodes. In Volcano only tasks that
    /// were placed in the same session do (S6-217).
    RunningTasksRepel,
    /// By plugin numa-aware, a node whose free processors are too few takes no pod that needs whole ones. In Volcano it is the
    /// best node, and its kubelet rejects the pod (S6-223).
    EnoughProcessors,
    /// Failed calls to an ignorable extender are ignored. In Volcano no pod is evicted and no job is ready while they fail
    /// (S6-224).
    IgnorableExtender,
    /// A part of a job with a network topology that may start with fewer pods is tried wherever these could fit. Volcano tries
    /// only groups of nodes with room for all its pending pods. There an elastic job that is larger than the cluster never
    /// starts (S6-178).
    ElasticPartsStart,
    /// Tasks of which a gang needs a number (`minTaskMember`) are placed before others of the job. A queue's share is usable for a
    /// gang only if it has room for them. In Volcano the others may take their room, so that the job never starts.
    NeededRolesFirst,
    /// If the order of its tasks has not placed a gang, allocate tries again: first the tasks that the fewest nodes take, and of
    /// these the largest. In Volcano other tasks may take the only nodes for them, so that the job never starts.
    HardestFirst,
}

/// The differences that apply. It is a small value, so it is passed by copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compat(u64);

/// The number of differences.
const COUNT: u32 = Difference::HardestFirst as u32 + 1;

impl Compat {
    /// Every difference applies.
    pub const EVICTD: Self = Self((1 << COUNT) - 1);

    /// None applies: exactly as Volcano at ed72c7c8, quirks included.
    pub const VOLCANO: Self = Self(0);

    /// Whether a difference applies.
    pub const fn has(self, difference: Difference) -> bool {
        self.0 & (1 << difference as u32) != 0
    }

    /// These differences and one more.
    #[must_use]
    pub const fn with(self, difference: Difference) -> Self {
        Self(self.0 | (1 << difference as u32))
    }

    /// These differences but one.
    #[must_use]
    pub const fn without(self, difference: Difference) -> Self {
        Self(self.0 & !(1 << difference as u32))
    }
}

impl Default for Compat {
    fn default() -> Self {
        Self::EVICTD
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_difference_is_switched_alone() {
        assert!(Compat::EVICTD.has(Difference::WholeGangs));
        assert!(Compat::EVICTD.has(Difference::EvictedAboveMinimum));
        let one = Compat::VOLCANO.with(Difference::ExactUndo);
        assert!(one.has(Difference::ExactUndo) && !one.has(Difference::StagedGroupRuns));
        assert_eq!(one.without(Difference::ExactUndo), Compat::VOLCANO);
    }
}
