//! The waiting pods and their groups, as the queueing hints see them.

use super::claims::Claims;
use super::pods::Pods;
use crate::change::Change;
use crate::config::Point;
use crate::events::ClusterEvent;
use crate::gang::{Groups, group_of};
use crate::hints;
use crate::plugins::{PluginName, PluginSet};
use crate::queue::{QueueingHints, Settings};
use crate::recorder::{SUCCESS, SharedRecorder, UNRESOLVABLE, timed};
use evictd_pod::requests::may_be_resized;
use evictd_pod::wire::{self, Shared};
use std::collections::BTreeSet;

/// The state that queueing hints read.
#[derive(Debug, Default)]
pub(super) struct HintContext {
    pub(super) pods: Pods,
    pub(super) groups: Groups,
    pub(super) claims: Claims,
    /// The schedulers whose profile does not enable `DynamicResources` at `PreEnqueue`.
    pub(super) without_claims: BTreeSet<String>,
    /// Sorted. The position is the index of the profile.
    pub(super) scheduler_names: BTreeSet<String>,
    pub(super) has_extenders: bool,
    pub(super) settings: Settings,
    pub(super) recorder: SharedRecorder,
}

impl HintContext {
    /// Why a pod must wait for one of its claims.
    pub(super) fn missing_claim(&self, pod: &wire::Pod) -> Option<String> {
        if pod.spec.resource_claims.is_empty()
            || self
                .without_claims
                .contains(pod.spec.scheduler_name_or_default())
        {
            return None;
        }
        self.claims.problem(pod)
    }

    /// The first plugin that keeps the pod out of the queue.
    fn closed_gate(&self, pod: &wire::Pod) -> Option<PluginName> {
        let group = group_of(pod);
        let checks: [(PluginName, &dyn Fn() -> bool); 3] = [
            (PluginName::SchedulingGates, &|| {
                !pod.spec.scheduling_gates.is_empty()
            }),
            (PluginName::DynamicResources, &|| {
                self.missing_claim(pod).is_some()
            }),
            (PluginName::GangScheduling, &|| {
                let group = group.as_ref();
                group.is_some_and(|group| !self.groups.may_begin(group))
            }),
        ];
        let mut checks = checks.into_iter();
        let closed = checks.find(|(plugin, check)| self.pre_enqueue(*plugin, check));
        closed.map(|(plugin, _)| plugin)
    }
}

impl QueueingHints<ClusterEvent> for HintContext {
    fn registered(&self, event: &ClusterEvent) -> PluginSet {
        let registered = match self.settings.as_kube_scheduler {
            true if event.kind.is_overlooked() => return PluginSet::default(),
            true => hints::registered_in_kube_scheduler(event.kind),
            false => hints::registered(event.kind),
        };
        let extender = self.has_extenders.then_some(PluginName::Extender);
        let other = self.settings.other_plugins.then_some(PluginName::Other);
        registered.or(extender.into_iter().chain(other).collect())
    }

    fn wakes(&self, plugin: PluginName, pod: &str, event: &ClusterEvent) -> bool {
        let wakes = if self.settings.as_kube_scheduler {
            hints::wakes_in_kube_scheduler
        } else {
            hints::wakes
        };
        let Some(pod) = self.pods.get(pod) else {
            return true;
        };
        let recorder = &*self.recorder.0;
        if !recorder.samples_hints() {
            return wakes(plugin, pod, event);
        }
        let (wakes, took) = timed(recorder, || wakes(plugin, pod, event));
        recorder.on_hint(plugin.as_str(), event.label(), wakes, took);
        wakes
    }

    fn template(&self, plugin: PluginName, pod: &str, event: &ClusterEvent) -> Option<usize> {
        // About a node these read the spec alone, and the status of a pod that is being resized.
        let reads_spec = matches!(event.change, Change::Node(_))
            && matches!(
                plugin,
                PluginName::NodeUnschedulable
                    | PluginName::TaintToleration
                    | PluginName::NodeAffinity
                    | PluginName::NodeResourcesFit
            );
        let pod = reads_spec.then(|| self.pods.get(pod)).flatten()?;
        let is_shared = !Shared::is_sole(&pod.spec) && !may_be_resized(pod);
        is_shared.then(|| Shared::address(&pod.spec))
    }

    fn gate(&self, pod: &str) -> Option<PluginName> {
        let pod = self.pods.get(pod)?;
        let recorder = &*self.recorder.0;
        let (gate, took) = timed(recorder, || self.closed_gate(pod));
        // kube-scheduler records no other status of the point, even if a plugin gates the pod.
        let profile = pod.spec.scheduler_name_or_default();
        recorder.on_point(profile, Point::PreEnqueue, SUCCESS, took);
        gate
    }

    fn pre_enqueue(&self, plugin: PluginName, check: &dyn Fn() -> bool) -> bool {
        let recorder = &*self.recorder.0;
        if !recorder.samples_plugins() {
            return check();
        }
        let (is_gated, took) = timed(recorder, check);
        let status = if is_gated { UNRESOLVABLE } else { SUCCESS };
        recorder.on_plugin(plugin.as_str(), Point::PreEnqueue, status, took);
        is_gated
    }

    fn profile(&self, pod: &str) -> u16 {
        let name = self
            .pods
            .get(pod)
            .map(|pod| pod.spec.scheduler_name_or_default());
        let mut names = self.scheduler_names.iter();
        let at = name.and_then(|name| names.position(|other| other == name));
        // No configuration has 65536 profiles.
        u16::try_from(at.unwrap_or(0)).unwrap_or(u16::MAX)
    }
}
