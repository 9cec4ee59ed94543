//! Metrics of pod groups, of the domains that they are tried in, and of preemptions for them, under the names of kube-scheduler
//! 1.37 (S7-021, S7-054, S7-095).

use super::StabilityLevel::Alpha;
use super::{Buckets, Counters, Gauges, Histograms, MILLISECONDS, Maker, opts};

/// How many pods or groups a preemption evicts.
const VICTIMS: Buckets = Buckets(1.0, 2.0, 11);
/// Up to half a minute.
const EVALUATION: Buckets = Buckets(0.001, 2.0, 16);

/// The comments name the labels in their order.
#[derive(Debug, Clone)]
pub(crate) struct GroupMetrics {
    /// `queue`, `type` (pod, podgroup).
    pub(crate) queued_entities: Gauges<2>,
    /// `queue`, `event`, `type`.
    pub(crate) queue_incoming_entities: Counters<3>,
    /// `result` (scheduled, `waiting_on_preemption`, unschedulable, error), `profile`.
    pub(crate) schedule_attempts: Counters<2>,
    /// `result`, `profile`.
    pub(crate) attempt_duration: Histograms<2>,
    pub(crate) algorithm_duration: Histograms<0>,
    /// `profile`.
    pub(crate) generated_placements: Counters<1>,
    /// `result` (feasible, infeasible), `profile`.
    pub(crate) placement_evaluations: Counters<2>,
    /// `result`, `profile`.
    pub(crate) placement_evaluation_duration: Histograms<2>,
    /// `preemptor` (pod, podgroup), `result`.
    pub(crate) preemption_evaluation_duration: Histograms<2>,
    /// `result`.
    pub(crate) preemption_attempts: Counters<1>,
    pub(crate) preemption_victims: Histograms<0>,
    /// `preemptor`.
    pub(crate) disruptions: Histograms<1>,
}

impl GroupMetrics {
    #[rustfmt::skip]
    pub(super) fn new(make: &mut Maker) -> Self {
        Self {
            queued_entities: make.gauges(opts("scheduler_queued_entities", Alpha, "Pods without a group, and groups, that wait, by queue"), ["queue", "type"]),
            queue_incoming_entities: make.counters(opts("scheduler_queue_incoming_entities", Alpha, "Pods without a group, and groups, that were added to a queue, by event"), ["queue", "event", "type"]),
            schedule_attempts: make.counters(opts("scheduler_podgroup_schedule_attempts", Alpha, "Attempts to schedule a group, by result"), ["result", "profile"]),
            attempt_duration: make.histograms(opts("scheduler_podgroup_scheduling_attempt_duration_seconds", Alpha, "Duration of an attempt of a group, without the bindings"), ["result", "profile"], MILLISECONDS),
            algorithm_duration: make.histograms(opts("scheduler_podgroup_scheduling_algorithm_duration_seconds", Alpha, "Duration of an attempt of a group, without the bindings"), [], MILLISECONDS),
            generated_placements: make.counters(opts("scheduler_generated_placements", Alpha, "Domains in which groups could be placed"), ["profile"]),
            placement_evaluations: make.counters(opts("scheduler_placement_evaluations", Alpha, "Domains in which groups were tried, by result"), ["result", "profile"]),
            placement_evaluation_duration: make.histograms(opts("scheduler_placement_evaluation_duration_seconds", Alpha, "Duration of trying a group in one domain"), ["result", "profile"], MILLISECONDS),
            preemption_evaluation_duration: make.histograms(opts("scheduler_preemption_evaluation_duration_seconds", Alpha, "Duration of looking for victims"), ["preemptor", "result"], EVALUATION),
            preemption_attempts: make.counters(opts("scheduler_workload_preemption_attempts", Alpha, "Preemptions that were tried for a group"), ["result"]),
            preemption_victims: make.histograms(opts("scheduler_workload_preemption_victims", Alpha, "Victims of one preemption for a group"), [], VICTIMS),
            disruptions: make.histograms(opts("scheduler_preemption_workload_disruptions", Alpha, "Victims of one preemption; pods that are evicted only together count once"), ["preemptor"], VICTIMS),
        }
    }
}
