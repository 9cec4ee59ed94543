//! Feature gates of Kubernetes.

use super::values::boolean;

/// Feature gates of Kubernetes 1.36 and 1.37 that concern its scheduler, and whether they are on here.
const GATES: [(&str, bool); 34] = [
    ("AllAlpha", false),
    ("AllBeta", false),
    ("CSIStorageCapacity", true),
    ("DRAAdminAccess", true),
    ("DRAConsumableCapacity", false),
    ("DRADeviceBindingConditions", false),
    ("DRADeviceTaints", true),
    ("DRAExtendedResource", false),
    ("DRAPartitionableDevices", false),
    ("DRAPrioritizedList", true),
    ("DRAResourceClaimDeviceStatus", false),
    ("DRASchedulerFilterTimeout", false),
    ("DynamicResourceAllocation", true),
    ("GangScheduling", true),
    ("GenericWorkload", true),
    ("InPlacePodLevelResourcesVerticalScaling", false),
    ("InPlacePodVerticalScaling", true),
    ("MatchLabelKeysInPodAffinity", true),
    ("MatchLabelKeysInPodTopologySpread", true),
    ("MutableCSINodeAllocatableCount", true),
    ("NodeDeclaredFeatures", true),
    ("NodeInclusionPolicyInPodTopologySpread", true),
    ("NominatedNodeNameForExpectation", false),
    ("OpportunisticBatching", true),
    ("PodLevelResources", true),
    ("PodSchedulingReadiness", true),
    ("SchedulerAsyncAPICalls", true),
    ("SchedulerAsyncPreemption", true),
    ("SchedulerPopFromBackoffQ", true),
    ("SchedulerQueueingHints", true),
    ("SidecarContainers", true),
    ("StorageCapacityScoring", false),
    ("TaintTolerationComparisonOperators", false),
    ("VolumeAttributesClass", true),
];

/// `Name=true`, which may follow the name of a component: `kube:Name=true`.
pub(super) fn gate(text: &str) -> Result<(String, bool), String> {
    let (name, value) = text
        .split_once('=')
        .ok_or("Name=true or Name=false is needed")?;
    let name = name.trim();
    let name = name.strip_prefix("kube:").unwrap_or(name);
    let value = boolean(value.trim())?;
    if GATES.iter().any(|(known, _)| *known == name) {
        return Ok((name.to_owned(), value));
    }
    let known = GATES.iter().map(|(known, _)| *known);
    let nearest = known.min_by_key(|known| strsim::levenshtein(known, name));
    Err(format!(
        "there is no such gate for a scheduler; the nearest is {}",
        nearest.unwrap_or_default()
    ))
}

/// Of gates that are set, those that are the other way here; the last setting of each counts.
pub(super) fn warnings(set: &[(String, bool)]) -> impl Iterator<Item = String> {
    GATES.iter().filter_map(|(name, here)| {
        let (_, value) = set.iter().rev().find(|(own, _)| own == name)?;
        let is = if *here { "on" } else { "off" };
        (value != here).then(|| {
            format!("--feature-gates {name}={value} changes nothing: it is always {is} here")
        })
    })
}
