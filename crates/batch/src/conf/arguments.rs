//! The arguments that plugins and actions have. Others mean nothing, and are reported.

use super::names::{Action, PluginName};

/// The values of an argument.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Argument {
    Number,
    AtLeast(f64),
    Boolean,
    Text,
    Map,
    Any,
}

use Argument::{Any, AtLeast, Boolean, Map, Number, Text};

impl PluginName {
    /// The names of its arguments; one may end in `*`.
    pub(super) const fn arguments(self) -> &'static [(&'static str, Argument)] {
        match self {
            Self::Gang
            | Self::Priority
            | Self::Conformance
            | Self::Drf
            | Self::Proportion
            | Self::ResourceQuota
            | Self::Pdb
            | Self::Cdp => &[],
            Self::Capacity => &[("ancestorReclaimLevel", AtLeast(0.0))],
            Self::Overcommit => &[("overcommit-factor", AtLeast(1.0))],
            Self::Predicates => &[
                ("predicate.NodeAffinityEnable", Boolean),
                ("predicate.TaintTolerationEnable", Boolean),
                ("predicate.NodePortsEnable", Boolean),
                ("predicate.PodAffinityEnable", Boolean),
                ("predicate.NodeVolumeLimitsEnable", Boolean),
                ("predicate.VolumeZoneEnable", Boolean),
                ("predicate.PodTopologySpreadEnable", Boolean),
                ("predicate.VolumeBindingEnable", Boolean),
                ("predicate.DynamicResourceAllocationEnable", Boolean),
                // Volcano's caches and timeouts, which change no decision.
                ("predicate.CacheEnable", Boolean),
                ("volumebinding.*", Any),
                ("dynamicresources.*", Any),
            ],
            Self::NodeOrder => &[
                ("leastrequested.weight", Number),
                ("mostrequested.weight", Number),
                ("balancedresource.weight", Number),
                ("nodeaffinity.weight", Number),
                ("imagelocality.weight", Number),
                ("tainttoleration.weight", Number),
                ("podaffinity.weight", Number),
                ("podtopologyspread.weight", Number),
            ],
            Self::Binpack => &[
                ("binpack.weight", AtLeast(0.0)),
                ("binpack.cpu", AtLeast(0.0)),
                ("binpack.memory", AtLeast(0.0)),
                ("binpack.resources", Text),
                ("binpack.resources.*", AtLeast(0.0)),
            ],
            Self::NodeGroup => &[("strict", Boolean), ("enablePreferredOrder", Boolean)],
            Self::ResourceStrategyFit => &[
                ("resourceStrategyFitWeight", Number),
                ("resources", Map),
                ("sra", Map),
                ("proportional", Map),
            ],
            Self::NetworkTopologyAware => &[
                ("weight", AtLeast(0.0)),
                ("hypernode.binpack.cpu", AtLeast(0.0)),
                ("hypernode.binpack.memory", AtLeast(0.0)),
                ("hypernode.binpack.resources", Text),
                ("hypernode.binpack.resources.*", AtLeast(0.0)),
                ("hypernode.binpack.normal-pod.enable", Boolean),
                ("hypernode.binpack.normal-pod.fading", AtLeast(0.0)),
                ("hypernode.gradient.evict.max-hypernodes", AtLeast(1.0)),
            ],
            Self::Sla => &[("sla-waiting-time", Text)],
            Self::TaskTopology => &[("task-topology.weight", Number)],
            Self::NumaAware => &[("weight", Number)],
            Self::Usage => &[
                ("usage.weight", AtLeast(0.0)),
                ("cpu.weight", AtLeast(0.0)),
                ("memory.weight", AtLeast(0.0)),
                ("thresholds", Map),
                ("estimator", Map),
            ],
            Self::Rescheduling => &[
                ("interval", Text),
                ("metricsPeriod", Text),
                ("strategies", Any),
            ],
            Self::Tdm => &[
                ("tdm.revocable-zone.*", Text),
                ("tdm.evict.period", Text),
                ("tdm.evict.max-num", Any),
                ("tdm.evict.max-step-number", Any),
            ],
        }
    }
}

impl Action {
    /// The names of its arguments.
    pub(super) const fn arguments(self) -> &'static [(&'static str, Argument)] {
        match self {
            Self::Enqueue => &[("placementEnable", Boolean)],
            Self::Allocate => &[
                ("predicateErrorCacheEnable", Boolean),
                ("reservation.afterSeconds", AtLeast(0.0)),
                ("reservation.forSeconds", AtLeast(0.0)),
            ],
            Self::Backfill | Self::Reclaim => &[("predicateErrorCacheEnable", Boolean)],
            Self::Preempt => &[
                ("predicateErrorCacheEnable", Boolean),
                // Volcano's bound on candidate nodes. Here every node is a candidate.
                ("minCandidateNodesPercentage", Number),
                ("minCandidateNodesAbsolute", Number),
                ("maxCandidateNodesAbsolute", Number),
                ("enableTopologyAwarePreemption", Boolean),
                ("topologyAwarePreemptWorkerNum", Number),
            ],
            Self::GangPreempt | Self::GangReclaim => {
                &[("allowWholeBundle", Boolean), ("maxDomains", AtLeast(1.0))]
            }
            Self::Shuffle => &[],
        }
    }
}
