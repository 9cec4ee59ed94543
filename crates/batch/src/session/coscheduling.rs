//! Groups of the plugin Coscheduling (`PodGroup` of scheduling.x-k8s.io), which sessions do not read. They are easily mistaken
//! for groups that sessions read, so that sessions report once how their pods are scheduled.

use crate::session::objects::Setting;
use crate::session::snapshot::upstream::upstream_job_of;
use evictd_batch_objects::GROUP_NAME;
use evictd_pod::wire::Pod;

/// The labels by which pods name such a group: that of today, and that of the plugin's first versions.
const LABELS: [&str; 2] = [
    "scheduling.x-k8s.io/pod-group",
    "pod-group.scheduling.sigs.k8s.io",
];

/// The most letters of a scheduler's name that are shown; the API server does not check the name.
const LONGEST_NAME: usize = 63;

/// The label of a group of the plugin Coscheduling that a pod has, and its value. `None` also for a pod that names a group
/// that sessions read.
pub(crate) fn group_of(pod: &Pod) -> Option<(&'static str, &str)> {
    let labels = &pod.metadata.labels;
    let found = LABELS.into_iter().find_map(|label| {
        let group = labels.get(label).filter(|group| !group.is_empty())?;
        Some((label, group))
    })?;
    let of_volcano = pod.metadata.annotations.get(GROUP_NAME);
    let is_read = of_volcano.is_some_and(|name| !name.is_empty()) || upstream_job_of(pod).is_some();
    (!is_read).then_some(found)
}

/// How sessions treat such a pod of their scheduler.
pub(crate) const fn treatment(plain_pods: bool) -> &'static str {
    if plain_pods {
        "start one by one"
    } else {
        "wait for a PodGroup of scheduling.volcano.sh"
    }
}

/// Which notices about groups of the plugin Coscheduling are given already.
#[derive(Debug, Default)]
pub struct Coscheduling {
    of_ours: bool,
    of_others: bool,
}

impl Coscheduling {
    /// The notice about a pod in such a group: which scheduler handles the group, and how its pods are scheduled. There is one
    /// for the pods of batch sessions and one for those of other schedulers, each only once.
    pub fn notice(&mut self, pod: &Pod, setting: &Setting) -> Option<String> {
        let (label, group) = group_of(pod)?;
        let is_ours = pod.spec.scheduler_name == setting.scheduler;
        let given = if is_ours {
            &mut self.of_ours
        } else {
            &mut self.of_others
        };
        if std::mem::replace(given, true) {
            return None;
        }
        let namespace = pod.metadata.namespace_or_default();
        let of_plugin =
            format!("{namespace}/{group} is a group of the plugin Coscheduling (label {label})");
        let scheduler: String = pod
            .spec
            .scheduler_name_or_default()
            .chars()
            .take(LONGEST_NAME)
            .collect();
        Some(if is_ours {
            let treatment = treatment(setting.plain_pods);
            format!(
                "{of_plugin}, which sessions do not read: such pods of scheduler {scheduler} {treatment}"
            )
        } else {
            format!(
                "{of_plugin}: scheduler {scheduler} places its pods, together only if it has that plugin; sessions leave them \
                 alone"
            )
        })
    }
}
