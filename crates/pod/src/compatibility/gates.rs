//! The feature gates of kube-scheduler: their stages, defaults and locks in each release.

use super::Release;

/// How mature a feature is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Off unless it is turned on.
    Alpha,
    /// Mostly on.
    Beta,
    /// Stable.
    Ga,
}

impl Stage {
    /// The label of `kubernetes_feature_enabled`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Alpha => "ALPHA",
            Self::Beta => "BETA",
            Self::Ga => "",
        }
    }
}

/// A gate in one release of kube-scheduler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GateState {
    /// The stage of its feature.
    pub stage: Stage,
    /// Whether it is on by default.
    pub default: bool,
    /// Whether it cannot be set otherwise.
    pub locked: bool,
}

const fn alpha() -> Option<GateState> {
    state(Stage::Alpha, false, false)
}

const fn beta(default: bool) -> Option<GateState> {
    state(Stage::Beta, default, false)
}

const fn ga() -> Option<GateState> {
    state(Stage::Ga, true, false)
}

const fn locked() -> Option<GateState> {
    state(Stage::Ga, true, true)
}

#[expect(
    clippy::unnecessary_wraps,
    reason = "a release without the gate has `None` in its column"
)]
const fn state(stage: Stage, default: bool, locked: bool) -> Option<GateState> {
    Some(GateState {
        stage,
        default,
        locked,
    })
}

/// Whether a gate has an effect here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Here {
    /// As in kube-scheduler.
    Settable,
    /// Whatever is set.
    Always(bool),
}

use Here::{Always, Settable};

macro_rules! gates {
    ($($name:ident: $old:expr, $new:expr, $here:expr;)*) => {
        /// A feature gate that concerns the scheduler, by its name in Kubernetes.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        #[allow(missing_docs, reason = "the documentation of Kubernetes describes them")]
        pub enum Gate { $($name,)* }

        impl Gate {
            /// Every gate, by name.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// Its name.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)* }
            }

            /// The gate in a release, which may not have it (S7-002 to S7-008).
            pub const fn state(self, release: Release) -> Option<GateState> {
                match release {
                    Release::V1_36 => match self { $(Self::$name => $old,)* },
                    Release::V1_37 => match self { $(Self::$name => $new,)* },
                }
            }

            const fn here(self) -> Here {
                match self { $(Self::$name => $here,)* }
            }
        }
    };
}

// Name: in 1.36; in 1.37; here.
gates! {
    CSIStorageCapacity: locked(), locked(), Always(true);
    ComponentFlagz: beta(true), beta(true), Always(true);
    ComponentStatusz: beta(true), beta(true), Always(true);
    CompositePodGroup: None, alpha(), Always(true);
    CoordinatedLeaderElection: beta(false), beta(false), Always(false);
    DRAAdminAccess: locked(), locked(), Always(true);
    DRAConsumableCapacity: beta(true), beta(true), Always(true);
    DRADerivedAttributes: None, alpha(), Always(false);
    DRADeviceBindingConditions: beta(true), beta(true), Always(true);
    DRADeviceCompatibilityGroups: None, alpha(), Always(false);
    DRADeviceTaintRules: beta(false), ga(), Settable;
    DRADeviceTaints: beta(true), ga(), Always(true);
    DRAExtendedResource: beta(true), locked(), Always(true);
    DRAFractionalCapacityRange: None, beta(true), Always(true);
    DRAListTypeAttributes: alpha(), alpha(), Always(false);
    DRANodeAllocatableResources: alpha(), alpha(), Always(false);
    DRAOptionalNodeOperations: None, alpha(), Always(false);
    DRAPartitionableDevices: beta(true), beta(true), Always(true);
    DRAPrioritizedList: ga(), locked(), Always(true);
    DRAResourceClaimDeviceStatus: beta(true), locked(), Always(true);
    DRASchedulerFilterTimeout: beta(true), beta(true), Always(true);
    DRAWorkloadResourceClaims: alpha(), beta(false), Always(true);
    DynamicResourceAllocation: locked(), locked(), Always(true);
    GangScheduling: alpha(), None, Always(true);
    GenericWorkload: alpha(), beta(false), Always(true);
    InPlacePodLevelResourcesVerticalScaling: beta(true), beta(true), Always(true);
    InPlacePodVerticalScaling: locked(), locked(), Always(true);
    InPlacePodVerticalScalingSchedulerPreemption: None, alpha(), Settable;
    InterPodAffinityHostnameFastPath: None, alpha(), Always(false);
    MatchLabelKeysInPodAffinity: locked(), locked(), Always(true);
    MatchLabelKeysInPodTopologySpread: beta(true), beta(true), Always(true);
    MutableCSINodeAllocatableCount: beta(true), beta(true), Always(true);
    NodeDeclaredFeatures: beta(true), locked(), Always(true);
    NodeInclusionPolicyInPodTopologySpread: locked(), locked(), Always(true);
    NominatedNodeNameForExpectation: beta(true), beta(true), Always(false);
    OpportunisticBatching: beta(true), beta(true), Always(true);
    PodGroupPreemptionPolicy: None, alpha(), Always(false);
    PodLevelResources: beta(true), beta(true), Always(true);
    PodSchedulingReadiness: locked(), locked(), Always(true);
    SchedulerAsyncAPICalls: beta(false), beta(false), Always(true);
    SchedulerAsyncPreemption: beta(true), beta(true), Always(true);
    SchedulerPopFromBackoffQ: beta(true), beta(true), Always(true);
    SchedulerPreQueueingHints: None, alpha(), Always(false);
    SchedulerQueueingHints: locked(), locked(), Always(true);
    SidecarContainers: locked(), None, Always(true);
    StorageCapacityScoring: alpha(), beta(true), Settable;
    TaintTolerationComparisonOperators: alpha(), alpha(), Always(false);
    TopologyAwareWorkloadScheduling: alpha(), alpha(), Always(true);
    VolumeAttributesClass: locked(), locked(), Always(true);
    VolumeLimitScaling: alpha(), beta(true), Settable;
    WorkloadAwarePreemption: alpha(), None, Always(true);
}

impl Gate {
    /// The gate of this name.
    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|gate| gate.as_str() == name)
    }

    /// The state here that no setting changes; `None` for a gate that can be set.
    pub const fn fixed(self) -> Option<bool> {
        match self.here() {
            Settable => None,
            Always(is_on) => Some(is_on),
        }
    }
}
