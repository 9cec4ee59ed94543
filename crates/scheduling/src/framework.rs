//! A framework: the plugins of one profile at their extension points.

use crate::config::{Args, Configuration, Point, Profile, SpreadDefaults};
use crate::not_tried::{NotTried, claim_problem};
use crate::parallelize::{Parallelizer, Sequential};
use crate::plugins::PluginName;
use crate::pre_bind::PreBindPlan;
use crate::recorder::{
    ERROR, NoRecorder, PluginRuns, Recorder, SKIP, SUCCESS, WAIT, run_plugin, status, timed,
};
use evictd_placement::{
    Checks, Chosen, Cluster, Here, InvalidObject, NodeId, Permit, Plugin, Pod, Score, agent,
    device_choices, plugins, volume_choices,
};
use evictd_pod::compatibility::Release;
use evictd_pod::resource_claims::StoredClaim;
use evictd_pod::wire;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// A plugin that several extension points share.
pub type SharedPlugin = Arc<dyn Plugin>;

/// A `PostFilter` plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PostFilter {
    /// Deallocates devices that the pod cannot use where they are.
    DynamicResources,
    /// Evicts pods of lower priority.
    DefaultPreemption,
}

impl PostFilter {
    /// The plugin of this name in configurations.
    fn of(name: &str) -> Option<Self> {
        let all = [Self::DynamicResources, Self::DefaultPreemption];
        all.into_iter().find(|plugin| plugin.as_str() == name)
    }

    /// The name in configurations.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::DynamicResources => "DynamicResources",
            Self::DefaultPreemption => "DefaultPreemption",
        }
    }
}

/// The plugins of one profile, in their order at each extension point.
#[derive(Clone)]
pub struct Framework {
    /// The `schedulerName` of its pods.
    pub scheduler_name: String,
    /// Run before the filters.
    pub pre_filters: Vec<SharedPlugin>,
    /// Run on each node.
    pub filters: Vec<SharedPlugin>,
    /// Run for a pod that fits on no node.
    pub post_filters: Vec<PostFilter>,
    /// Run for a group that cannot be placed (S7-060, S7-260).
    pub pod_group_post_filters: Vec<PostFilter>,
    /// Score the feasible nodes, each with its weight.
    pub scores: Vec<(SharedPlugin, i64)>,
    /// The names of the plugins at `PreScore`.
    pre_scores: Vec<String>,
    /// The names of the plugins at Reserve.
    reserve_names: Vec<String>,
    /// Custom plugins that reserve resources of the chosen node.
    pub reserves: Vec<SharedPlugin>,
    /// Custom plugins that permit, delay or reject the binding.
    pub permits: Vec<SharedPlugin>,
    /// Custom plugins that run before the binding.
    pub pre_binds: Vec<SharedPlugin>,
    /// Evaluates many nodes in parallel.
    pub parallelizer: Arc<dyn Parallelizer>,
    /// How one of the best nodes is chosen.
    pub tie_break: TieBreak,
    /// Receives how long the plugins take.
    pub recorder: Arc<dyn Recorder>,
    /// Whether there are custom plugins, which may read any label of a pod.
    pub(crate) has_custom_plugins: bool,
    /// How long the devices of a pod may take to be bound.
    pub(crate) device_timeout: Duration,
    /// Whether pods are evicted for their devices where no other eviction helps.
    pub(crate) frees_devices: bool,
    /// Whether `DynamicResources` keeps pods out of the queue whose claims do not exist yet (`PreEnqueue`).
    pub(crate) waits_for_claims: bool,
}

/// How one of several nodes with the highest score is chosen (S5-056). kube-scheduler chooses the one whose filters ended first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TieBreak {
    /// The first by name.
    #[default]
    FirstByName,
    /// The first by name of those with the fewest pods. By name alone, pods that change no score would all be placed on one
    /// node until it is full.
    FewestPods,
}

impl TieBreak {
    /// `None` if there is no node.
    pub(crate) fn choose(self, cluster: &Cluster, top: &[NodeId]) -> Option<NodeId> {
        match self {
            Self::FirstByName => cluster.first_by_name(top),
            Self::FewestPods => cluster.first_of_fewest_pods(top),
        }
    }
}

/// A plugin that rejects a pod on the chosen node.
#[derive(Debug, Clone)]
pub(crate) struct PluginRejection {
    pub(crate) plugin: String,
    pub(crate) reason: String,
}

impl PluginRejection {
    /// The message about the chosen node.
    pub(crate) fn message(&self) -> String {
        format!("0/1 nodes are available: 1 {}.", self.reason)
    }
}

/// A plugin that delays the binding of a pod.
#[derive(Debug, Clone)]
pub(crate) struct PendingPermit {
    pub(crate) plugin: String,
    /// How long the pod may wait for it.
    pub(crate) timeout: SignedDuration,
}

/// In a measured attempt the filters are measured on so many nodes.
const SAMPLED_NODES: usize = 2;
/// The longest permit timeout (S5-059).
const MAX_PERMIT_TIMEOUT: SignedDuration = SignedDuration::from_mins(15);

/// A custom (out-of-tree) plugin.
#[derive(Clone)]
pub struct CustomPlugin {
    /// The name in configurations.
    pub name: &'static str,
    /// Its extension points.
    pub points: &'static [Point],
    /// Creates it from its `pluginConfig`, which is an empty map if absent.
    pub make: fn(&mut Cluster, &Value) -> Result<SharedPlugin, String>,
}

impl Framework {
    /// The default profile of kube-scheduler 1.36 (S5-076).
    pub fn of_default(cluster: &mut Cluster) -> Self {
        let profiles = Configuration::default().profiles;
        // The default configuration has one valid profile.
        profiles
            .first()
            .and_then(|profile| Self::new(cluster, profile, &[]).ok())
            .unwrap_or_else(|| Self {
                scheduler_name: String::new(),
                pre_filters: Vec::new(),
                filters: Vec::new(),
                post_filters: Vec::new(),
                pod_group_post_filters: Vec::new(),
                scores: Vec::new(),
                pre_scores: Vec::new(),
                reserve_names: Vec::new(),
                reserves: Vec::new(),
                permits: Vec::new(),
                pre_binds: Vec::new(),
                parallelizer: Arc::new(Sequential),
                tie_break: TieBreak::default(),
                recorder: Arc::new(NoRecorder),
                has_custom_plugins: false,
                device_timeout: Duration::from_mins(10),
                frees_devices: false,
                waits_for_claims: true,
            })
    }

    /// The framework of a profile.
    ///
    /// # Errors
    /// Invalid arguments, with the name of the plugin.
    pub fn new(
        cluster: &mut Cluster,
        profile: &Profile,
        custom: &[CustomPlugin],
    ) -> Result<Self, String> {
        let mut made: BTreeMap<String, Option<SharedPlugin>> = BTreeMap::new();
        let nothing = Value::Object(serde_json::Map::new());
        for point in [
            Point::PreFilter,
            Point::Filter,
            Point::Score,
            Point::Reserve,
            Point::Permit,
            Point::PreBind,
        ] {
            for name in profile.points.at(point) {
                // A plugin with several extension points is one object, which may share state between them.
                if made.contains_key(name) {
                    continue;
                }
                let custom = custom.iter().find(|plugin| plugin.name == *name);
                let args = profile.custom_args.get(name).unwrap_or(&nothing);
                let plugin = match custom {
                    Some(custom) => Some(
                        (custom.make)(cluster, args).map_err(|error| format!("{name}: {error}"))?,
                    ),
                    None => built_in(cluster, name, &profile.args)
                        .map_err(|error| format!("{name}: {error}"))?,
                };
                made.insert(name.clone(), plugin);
            }
        }
        let at = |point| {
            profile
                .points
                .at(point)
                .iter()
                .filter_map(|name| Some((name, made.get(name)?.clone()?)))
                .collect::<Vec<(&String, SharedPlugin)>>()
        };
        let post_filters = |point| {
            let names = profile.points.at(point).iter();
            names.filter_map(|name| PostFilter::of(name)).collect()
        };
        let scores = at(Point::Score)
            .into_iter()
            .map(|(name, plugin)| (plugin, profile.points.weight(name)));
        // The built-in plugins have no code at these points: the cluster reserves for them, and the caller prepares the binding.
        let custom_at = |point| {
            at(point)
                .into_iter()
                .filter(|(name, _)| custom.iter().any(|plugin| plugin.name == *name))
                .map(|(_, plugin)| plugin)
                .collect()
        };
        let plugins = |point| at(point).into_iter().map(|(_, plugin)| plugin).collect();
        if profile.args.frees_devices {
            cluster.keep_freed_devices();
        }
        Ok(Self {
            scheduler_name: profile.scheduler_name.clone(),
            pre_filters: plugins(Point::PreFilter),
            filters: plugins(Point::Filter),
            post_filters: post_filters(Point::PostFilter),
            pod_group_post_filters: post_filters(Point::PodGroupPostFilter),
            scores: scores.collect(),
            pre_scores: profile.points.at(Point::PreScore).to_vec(),
            reserve_names: profile.points.at(Point::Reserve).to_vec(),
            reserves: custom_at(Point::Reserve),
            permits: custom_at(Point::Permit),
            pre_binds: custom_at(Point::PreBind),
            parallelizer: Arc::new(Sequential),
            tie_break: TieBreak::default(),
            recorder: Arc::new(NoRecorder),
            has_custom_plugins: !custom.is_empty(),
            device_timeout: profile.args.binding_timeout.unsigned_abs(),
            frees_devices: profile.args.frees_devices,
            waits_for_claims: waits_for_claims(profile),
        })
    }

    /// Why the queue keeps a pod back that waits for a claim; `None` if all its claims exist, or the profile does not wait.
    pub fn waits_for(&self, cluster: &Cluster, pod: &wire::Pod) -> Option<NotTried> {
        if !self.waits_for_claims {
            return None;
        }
        let problem = claim_problem(pod, |namespace, name| {
            let claim = cluster.devices().claim(namespace, name)?;
            Some(StoredClaim::of(&claim.metadata))
        });
        problem.map(NotTried::NoClaim)
    }

    /// The plugins for a group that cannot be placed. 1.36 has no extension point of its own for them (S7-260).
    pub(crate) fn post_filters_of_groups(&self, release: Release) -> &[PostFilter] {
        match release {
            Release::V1_36 => &self.post_filters,
            Release::V1_37 => &self.pod_group_post_filters,
        }
    }

    /// Runs the Reserve and the Permit plugins (S5-058, S5-059). After a rejection nothing stays reserved.
    pub(crate) fn reserve_and_permit(
        &self,
        chosen: Chosen<'_>,
        (pod, node): (&Pod, NodeId),
    ) -> Result<(PreBindPlan, Vec<PendingPermit>), PluginRejection> {
        let (reserved, took) = timed(&*self.recorder, || {
            self.run_reserve(chosen)?;
            Ok(self.choose_claims(chosen.cluster, pod, node))
        });
        self.record(Point::Reserve, status(reserved.is_ok()), took);
        let permitted = reserved.and_then(|plan| {
            let (permits, took) = timed(&*self.recorder, || self.run_permit(chosen));
            let code = match &permits {
                Ok(pending) if !pending.is_empty() => WAIT,
                permits => status(permits.is_ok()),
            };
            self.record(Point::Permit, code, took);
            Ok((plan, permits?))
        });
        if permitted.is_err() {
            self.unreserve(chosen);
        }
        permitted
    }

    /// Records how long all plugins of a point took.
    pub(crate) fn record(&self, point: Point, status: &'static str, took: Duration) {
        self.recorder
            .on_point(&self.scheduler_name, point, status, took);
    }

    /// Chooses the volumes and devices of the pod's claims, as `VolumeBinding` and `DynamicResources` do in Reserve.
    fn choose_claims(&self, cluster: &Cluster, pod: &Pod, node: NodeId) -> PreBindPlan {
        PreBindPlan {
            volumes: self.reserve_of(PluginName::VolumeBinding, || {
                volume_choices(cluster, pod, node)
            }),
            devices: self.reserve_of(PluginName::DynamicResources, || {
                device_choices(cluster, pod, node)
            }),
        }
    }

    /// Runs the Reserve of a built-in plugin, and measures it if the profile enables it.
    fn reserve_of<T>(&self, plugin: PluginName, run: impl FnOnce() -> T) -> T {
        let name = plugin.as_str();
        if !self.reserve_names.iter().any(|enabled| enabled == name) {
            return run();
        }
        run_plugin(&*self.recorder, (name, Point::Reserve), run, |_| SUCCESS)
    }

    fn run_reserve(&self, chosen: Chosen<'_>) -> Result<(), PluginRejection> {
        for plugin in &self.reserves {
            let of_plugin = (plugin.name(), Point::Reserve);
            let run = || plugin.reserve(chosen);
            let reserved = run_plugin(&*self.recorder, of_plugin, run, |reserved| {
                status(reserved.is_ok())
            });
            reserved.map_err(|reason| PluginRejection {
                plugin: plugin.name().to_owned(),
                reason,
            })?;
        }
        Ok(())
    }

    fn run_permit(&self, chosen: Chosen<'_>) -> Result<Vec<PendingPermit>, PluginRejection> {
        let mut pending = Vec::new();
        for permit in &self.permits {
            let plugin = permit.name().to_owned();
            let run = || permit.permit(chosen);
            let code = |permit: &Permit| match permit {
                Permit::Allow => SUCCESS,
                Permit::Wait(_) => WAIT,
                Permit::Reject(_) => status(false),
            };
            match run_plugin(&*self.recorder, (&plugin, Point::Permit), run, code) {
                Permit::Allow => {}
                Permit::Wait(timeout) => {
                    let timeout = timeout.min(MAX_PERMIT_TIMEOUT);
                    pending.push(PendingPermit { plugin, timeout });
                }
                Permit::Reject(reason) => return Err(PluginRejection { plugin, reason }),
            }
        }
        Ok(pending)
    }

    /// Runs Unreserve, the last plugin first (S5-058).
    pub(crate) fn unreserve(&self, chosen: Chosen<'_>) {
        for plugin in self.reserves.iter().rev() {
            plugin.unreserve(chosen);
        }
    }

    /// Devices that are not bound within the timeout of the profile are given up.
    pub(crate) fn give_up_late_devices(&self, cluster: &mut Cluster, now: Timestamp) {
        let before = now.checked_sub(self.device_timeout);
        let devices = cluster.devices_mut();
        devices.set_late_before(before.unwrap_or(Timestamp::MIN));
    }

    /// The error of the first `PreBind` plugin that fails.
    pub(crate) fn pre_bind_error(&self, chosen: Chosen<'_>) -> Option<String> {
        self.pre_binds.iter().find_map(|plugin| {
            let of_plugin = (plugin.name(), Point::PreBind);
            let run = || plugin.pre_bind(chosen);
            let code = |ran: &Result<_, _>| if ran.is_ok() { SUCCESS } else { ERROR };
            let reason = run_plugin(&*self.recorder, of_plugin, run, code).err()?;
            Some(format!(
                "running PreBind plugin {:?}: {reason}",
                plugin.name()
            ))
        })
    }

    /// Counts the nodes that each filter has evaluated. A filter evaluates the nodes that no filter before it rejected.
    /// `ended`: for each node the filter that rejected it, or the number of filters for a feasible one.
    pub(crate) fn count_filters(&self, active: &[usize], ended: impl Iterator<Item = usize>) {
        // The nodes by the active filter that rejected them; the last number is that of the feasible ones.
        let mut by_filter = vec![0_u64; active.len() + 1];
        for index in ended {
            by_filter[active.partition_point(|filter| *filter < index)] += 1;
        }
        let mut evaluated: u64 = by_filter.iter().sum();
        let mut ended = active.iter().zip(by_filter).peekable();
        for (index, filter) in self.filters.iter().enumerate() {
            let name = filter.name();
            let has_pre_filter = self.pre_filters.iter().any(|plugin| plugin.name() == name);
            let ended_here = ended.next_if(|(active, _)| **active == index);
            // Only PreFilter makes kube-scheduler skip a filter, such as one that has nothing to check.
            if ended_here.is_none() && has_pre_filter {
                continue;
            }
            self.count(name, Point::Filter, evaluated);
            evaluated -= ended_here.map_or(0, |(_, count)| count);
        }
    }

    /// Counts the nodes that plugins have scored. A single node is not scored (S5-054).
    pub(crate) fn count_scores<'n>(&self, plugins: impl Iterator<Item = &'n str>, nodes: usize) {
        for name in plugins.filter(|_| nodes > 1) {
            if self.pre_scores.iter().any(|plugin| plugin == name) {
                self.count(name, Point::PreScore, 1);
            }
            self.count(name, Point::Score, nodes as u64);
        }
    }

    pub(crate) fn count(&self, plugin: &str, point: Point, count: u64) {
        if count > 0 {
            self.recorder
                .on_evaluated(&self.scheduler_name, plugin, point, count);
        }
    }

    /// Measures each filter on a few nodes, if this attempt is measured.
    pub(crate) fn sample_filters(&self, active: &[usize], checks: &mut Checks<'_>, nodes: usize) {
        if !self.recorder.samples_plugins() {
            return;
        }
        for node in (0..nodes).step_by(nodes.div_ceil(SAMPLED_NODES).max(1)) {
            let here = checks.on(NodeId::of(node));
            for (position, filter) in active.iter().enumerate() {
                let (checked, took) = timed(&*self.recorder, || here.check(position));
                let name = self.filters[*filter].name();
                let status = checked.map_or_else(|rejection| rejection.code.as_str(), |()| SUCCESS);
                self.recorder.on_plugin(name, Point::Filter, status, took);
            }
        }
    }

    /// Measures each score on a few nodes, if this attempt is measured.
    pub(crate) fn sample_scores<'n>(
        &self,
        names: impl Iterator<Item = &'n str>,
        scores: &[&dyn Score],
        cluster: &Cluster,
        nodes: &[NodeId],
    ) {
        if nodes.len() < 2 || !self.recorder.samples_plugins() {
            return;
        }
        for (name, score) in names.zip(scores) {
            for node in nodes
                .iter()
                .step_by(nodes.len().div_ceil(SAMPLED_NODES).max(1))
            {
                let here = Here::new(cluster, *node);
                let (_, took) = timed(&*self.recorder, || score.raw(here));
                self.recorder.on_plugin(name, Point::Score, SUCCESS, took);
            }
        }
    }

    /// Prepares the scores of one plugin; `None` if it skips the pod.
    pub(crate) fn pre_score(
        &self,
        plugin: &SharedPlugin,
        (cluster, pod): (&Cluster, &Pod),
        nodes: &[NodeId],
        runs: &mut PluginRuns<'_>,
    ) -> Option<Box<dyn Score>> {
        let name = plugin.name();
        let run = || plugin.score(cluster, pod, nodes);
        if !self.pre_scores.iter().any(|enabled| enabled == name) {
            return run();
        }
        let status = |score: &Option<_>| if score.is_some() { SUCCESS } else { SKIP };
        runs.run(name, run, status)
    }

    /// Begins to count the evaluations of all plugins, which dashboards then see from zero on.
    pub fn begin_counting(&self) {
        let begin = |point, names: &mut dyn Iterator<Item = &str>| {
            for name in names {
                self.recorder
                    .on_evaluated(&self.scheduler_name, name, point, 0);
            }
        };
        begin(
            Point::PreFilter,
            &mut self.pre_filters.iter().map(|plugin| plugin.name()),
        );
        begin(
            Point::Filter,
            &mut self.filters.iter().map(|plugin| plugin.name()),
        );
        begin(
            Point::PreScore,
            &mut self.pre_scores.iter().map(String::as_str),
        );
        begin(
            Point::Score,
            &mut self.scores.iter().map(|(plugin, _)| plugin.name()),
        );
    }

    /// Whether custom plugins may reject pods.
    pub(crate) fn has_other_plugins(&self) -> bool {
        [
            &self.pre_filters,
            &self.filters,
            &self.reserves,
            &self.permits,
        ]
        .into_iter()
        .flatten()
        .any(|plugin| PluginName::parse(plugin.name()).is_none())
    }
}

/// Whether pods of the profile wait for their claims.
pub(crate) fn waits_for_claims(profile: &Profile) -> bool {
    let names = profile.points.at(Point::PreEnqueue);
    names.iter().any(|name| name == "DynamicResources")
}

/// `None` for a plugin that neither filters nor scores nodes.
fn built_in(
    cluster: &mut Cluster,
    name: &str,
    args: &Args,
) -> Result<Option<SharedPlugin>, InvalidObject> {
    let plugin: SharedPlugin = match name {
        "NodeUnschedulable" => Arc::new(plugins::NodeUnschedulable),
        "NodeName" => Arc::new(plugins::NodeName),
        "TaintToleration" => Arc::new(plugins::TaintToleration),
        "NodeAffinity" => Arc::new(plugins::NodeAffinity::new(
            cluster,
            args.added_affinity.as_ref(),
        )?),
        "NodePorts" => Arc::new(plugins::NodePorts),
        "NodeDeclaredFeatures" => Arc::new(plugins::NodeDeclaredFeatures),
        "NodeResourcesFit" => Arc::new(args.fit.clone()),
        "VolumeRestrictions" => Arc::new(plugins::VolumeRestrictions),
        "NodeVolumeLimits" => Arc::new(plugins::NodeVolumeLimits),
        "VolumeBinding" => Arc::new(match args.binding_shape.as_slice() {
            [] => plugins::VolumeBinding::default(),
            shape => plugins::VolumeBinding {
                shape: shape.to_vec(),
            },
        }),
        "VolumeZone" => Arc::new(plugins::VolumeZone),
        "PodTopologySpread" => Arc::new(match &args.spread {
            SpreadDefaults::System => plugins::PodTopologySpread::of_system(cluster),
            SpreadDefaults::List(list) => plugins::PodTopologySpread::of_list(cluster, list)?,
        }),
        "InterPodAffinity" => Arc::new(args.affinity),
        "DynamicResources" => Arc::new(plugins::DynamicResources),
        "NodeResourcesBalancedAllocation" => Arc::new(args.balanced.clone()),
        "ImageLocality" => Arc::new(plugins::ImageLocality),
        "EvictdPressure" => Arc::new(agent::EvictdPressure::new(cluster)),
        "EvictdHeadroom" => Arc::new(agent::EvictdHeadroom),
        "EvictdReturn" => Arc::new(agent::EvictdReturn),
        _ => return Ok(None),
    };
    Ok(Some(plugin))
}
