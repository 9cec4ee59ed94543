//! The arguments that plugins and actions have. Others mean nothing, and are reported.

use super::names::{Action, PluginName};

/// The values of an argument.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Argument {
    Boolean,
    /// A whole number in these bounds, not in quotes.
    Whole(i64, i64),
    /// A number in these bounds, not in quotes.
    Real(f64, f64),
    /// A whole number, or a quantity.
    Amount,
    Text,
    /// A list of texts.
    Texts,
    /// An address that begins with `http://` or `https://`.
    Url,
    /// A text like `30s` or `1h30m`.
    Duration,
    /// No other text.
    Word(&'static str),
    Map,
    /// A map with these keys.
    Keys(Known),
    /// A list of maps with these keys.
    Items(Known),
    Any,
}

/// The keys of a map, each with its values.
type Known = &'static [(&'static str, Argument)];

use Argument::{
    Amount, Any, Boolean, Duration, Items, Keys, Map, Real, Text, Texts, Url, Whole, Word,
};

/// Without bounds.
const EACH: Argument = Real(f64::NEG_INFINITY, f64::INFINITY);
const INTEGER: Argument = Whole(i64::MIN, i64::MAX);
const NOT_NEGATIVE: Argument = Whole(0, i64::MAX);
const PERCENT: Argument = Whole(0, 100);
const PART: Argument = Real(0.0, 1.0);

/// How plugin usage estimates the use of pods.
const ESTIMATOR: Known = &[
    ("request_ratio", PART),
    ("burst_ratio", PART),
    ("risk_threshold", PART),
    ("risk_factor", Real(1.0, f64::INFINITY)),
    ("be_cpu", Amount),
    ("be_mem", Amount),
];

const OF_NODES: Known = &[("cpu", EACH), ("memory", EACH)];

/// The strategies of plugin rescheduling.
const STRATEGY: Known = &[
    ("name", Word("lowNodeUtilization")),
    (
        "params",
        Keys(&[
            ("thresholds", Keys(OF_NODES)),
            ("targetThresholds", Keys(OF_NODES)),
        ]),
    ),
];

const OF_EXTENDER: Known = &[
    ("extender.urlPrefix", Url),
    ("extender.httpTimeout", Duration),
    ("extender.onSessionOpenVerb", Text),
    ("extender.onSessionCloseVerb", Text),
    ("extender.predicateVerb", Text),
    ("extender.prioritizeVerb", Text),
    ("extender.preemptableVerb", Text),
    ("extender.reclaimableVerb", Text),
    ("extender.queueOverusedVerb", Text),
    ("extender.jobEnqueueableVerb", Text),
    ("extender.jobEnqueuedVerb", Text),
    ("extender.jobReadyVerb", Text),
    ("extender.allocateFuncVerb", Text),
    ("extender.deallocateFuncVerb", Text),
    ("extender.ignorable", Boolean),
    ("extender.managedResources", Texts),
];

/// The keys of `metrics` at the top.
pub(super) const OF_METRICS: Known = &[
    ("type", Any),
    // Of Volcano's other sources, about which the type warns.
    ("address", Any),
    ("interval", Duration),
    ("tls.*", Any),
    ("elasticsearch.*", Any),
];

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
            Self::Capacity => &[("ancestorReclaimLevel", NOT_NEGATIVE)],
            Self::Overcommit => &[("overcommit-factor", Real(1.0, f64::INFINITY))],
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
                ("leastrequested.weight", INTEGER),
                ("mostrequested.weight", INTEGER),
                ("balancedresource.weight", INTEGER),
                ("nodeaffinity.weight", INTEGER),
                ("imagelocality.weight", INTEGER),
                ("tainttoleration.weight", INTEGER),
                ("podaffinity.weight", INTEGER),
                ("podtopologyspread.weight", INTEGER),
            ],
            Self::Binpack => &[
                ("binpack.weight", NOT_NEGATIVE),
                ("binpack.cpu", NOT_NEGATIVE),
                ("binpack.memory", NOT_NEGATIVE),
                ("binpack.resources", Text),
                ("binpack.resources.*", NOT_NEGATIVE),
            ],
            Self::NodeGroup => &[("strict", Boolean), ("enablePreferredOrder", Boolean)],
            Self::ResourceStrategyFit => &[
                ("resourceStrategyFitWeight", INTEGER),
                ("resources", Map),
                ("sra", Map),
                ("proportional", Map),
            ],
            Self::NetworkTopologyAware => &[
                ("weight", NOT_NEGATIVE),
                ("hypernode.binpack.cpu", NOT_NEGATIVE),
                ("hypernode.binpack.memory", NOT_NEGATIVE),
                ("hypernode.binpack.resources", Text),
                ("hypernode.binpack.resources.*", NOT_NEGATIVE),
                ("hypernode.binpack.normal-pod.enable", Boolean),
                (
                    "hypernode.binpack.normal-pod.fading",
                    Real(0.0, f64::INFINITY),
                ),
                (
                    "hypernode.gradient.evict.max-hypernodes",
                    Whole(1, i64::MAX),
                ),
            ],
            Self::Sla => &[("sla-waiting-time", Duration)],
            Self::TaskTopology => &[("task-topology.weight", INTEGER)],
            Self::NumaAware => &[("weight", INTEGER)],
            Self::Usage => &[
                ("usage.weight", NOT_NEGATIVE),
                ("cpu.weight", NOT_NEGATIVE),
                ("memory.weight", NOT_NEGATIVE),
                ("thresholds", Keys(&[("cpu", PERCENT), ("mem", PERCENT)])),
                ("estimator", Keys(ESTIMATOR)),
            ],
            Self::Rescheduling => &[
                ("interval", Duration),
                ("metricsPeriod", Duration),
                ("strategies", Items(STRATEGY)),
            ],
            Self::Extender => OF_EXTENDER,
            Self::Tdm => &[
                ("tdm.revocable-zone.*", Text),
                ("tdm.evict.period", Duration),
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
                ("reservation.afterSeconds", Real(0.0, f64::INFINITY)),
                ("reservation.forSeconds", Real(0.0, f64::INFINITY)),
            ],
            Self::Backfill | Self::Reclaim => &[("predicateErrorCacheEnable", Boolean)],
            Self::Preempt => &[
                ("predicateErrorCacheEnable", Boolean),
                // Volcano's bound on candidate nodes. Here every node is a candidate.
                ("minCandidateNodesPercentage", INTEGER),
                ("minCandidateNodesAbsolute", INTEGER),
                ("maxCandidateNodesAbsolute", INTEGER),
                ("enableTopologyAwarePreemption", Boolean),
                ("topologyAwarePreemptWorkerNum", INTEGER),
            ],
            Self::GangPreempt | Self::GangReclaim => &[
                ("allowWholeBundle", Boolean),
                ("maxDomains", Whole(1, i64::MAX)),
            ],
            Self::Shuffle => &[],
        }
    }
}
