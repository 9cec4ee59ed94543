//! The parts of a job that are placed each for itself, and how near the pods of each have to be (S6-174 to S6-190).

use super::hyper_nodes::{HyperNodeId, HyperNodes};
use super::task::{Status, Task, UnknownPlace};
use crate::session::snapshot::ids::TaskId;
use crate::session::snapshot::resource::Resource;
use evictd_batch_objects::NetworkTopology;
use evictd_pod::selector::selects;
use evictd_pod::wire::{Selector, TextMap, null_is_default};
use hashbrown::HashMap;
use serde::Deserialize;
use serde_json::Value;

/// The longest list of label values in the name of a part; a longer one is cut, with a number that stands for it.
const LONGEST_VALUES: usize = 128;

/// The number of letters of a mistake that are shown.
const LONGEST_MISTAKE: usize = 200;

/// The letters of generated names, as Kubernetes has them.
const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// A policy of a group: its pods with the same values of some labels are one part.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct SubGroupPolicy {
    #[serde(deserialize_with = "null_is_default")]
    pub(crate) name: String,
    sub_group_size: Option<i32>,
    pub(crate) min_sub_groups: Option<i32>,
    label_selector: Option<Selector>,
    #[serde(deserialize_with = "null_is_default")]
    match_label_keys: Vec<String>,
    pub(crate) network_topology: Option<NetworkTopology>,
    /// Why it cannot be read.
    #[serde(skip)]
    unreadable: Option<String>,
}

/// How near pods have to be, once names of tiers are known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Nearness {
    /// Anywhere: the group asks for nothing.
    #[default]
    Anywhere,
    /// It was asked for, but no tier limits it.
    Unlimited,
    /// In one group of at most this tier.
    Within(i32),
}

impl Nearness {
    pub(crate) const fn is_asked(self) -> bool {
        !matches!(self, Self::Anywhere)
    }

    pub(crate) const fn tier(self) -> Option<i32> {
        match self {
            Self::Within(tier) => Some(tier),
            Self::Anywhere | Self::Unlimited => None,
        }
    }
}

/// A part of a job.
#[derive(Debug)]
pub(crate) struct SubJob {
    /// `namespace/job`, or `namespace/job/policy-values`.
    pub(crate) id: String,
    /// Its policy, by its place in the list.
    pub(crate) policy: Option<usize>,
    pub(crate) min_available: i32,
    /// The first value of its labels as a number.
    pub(crate) match_index: i64,
    pub(crate) nearness: Nearness,
    pub(crate) tasks: Vec<TaskId>,
    /// The group of its placed tasks.
    pub(crate) allocated: Option<HyperNodeId>,
    /// The same while its tasks are being placed.
    pub(crate) current: Option<HyperNodeId>,
}

/// The topology of a job: how near its pods have to be, and its parts.
#[derive(Debug, Default)]
pub(crate) struct JobTopology {
    pub(crate) written: Option<NetworkTopology>,
    pub(crate) policies: Vec<SubGroupPolicy>,
    pub(crate) nearness: Nearness,
    /// The group of its placed tasks.
    pub(crate) allocated: Option<HyperNodeId>,
    pub(crate) sub_jobs: Vec<SubJob>,
    /// The place of a part by its identity. A tenant chooses the number of parts, so a search for each pod would be long.
    places: HashMap<String, usize>,
}

impl JobTopology {
    /// The topology of a group; `None` for one that asks for nothing of the kind.
    pub(crate) fn read(written: Option<&NetworkTopology>, policies: &[Value]) -> Option<Box<Self>> {
        if written.is_none() && policies.is_empty() {
            return None;
        }
        Some(Box::new(Self {
            written: written.cloned(),
            policies: policies.iter().map(SubGroupPolicy::read).collect(),
            ..Self::default()
        }))
    }

    /// Whether the job is placed part by part, or within groups of near nodes.
    pub(crate) fn is_placed_by_groups(&self) -> bool {
        !self.policies.is_empty() || self.has_limit()
    }

    /// Whether a tier limits the job or a part of it.
    pub(crate) fn has_limit(&self) -> bool {
        let parts = self.sub_jobs.iter().map(|part| part.nearness);
        let mut all = parts.chain([self.nearness]);
        all.any(|nearness| nearness.tier().is_some())
    }

    /// The tier of the groups that the whole job has to be in; `None` for one with parts, or without a hard topology.
    pub(crate) fn hard_tier(&self, hyper_nodes: &HyperNodes) -> Option<i32> {
        let top = hyper_nodes.at(hyper_nodes.top()).tier;
        let tier = self.nearness.tier().filter(|tier| *tier < top);
        tier.filter(|_| self.policies.is_empty())
    }

    /// Whether the job or a part of it asks for near nodes.
    pub(crate) fn is_asked(&self) -> bool {
        let parts = self.sub_jobs.iter().map(|part| part.nearness);
        let mut all = parts.chain([self.nearness]);
        all.any(Nearness::is_asked)
    }

    /// Forgets all parts.
    pub(crate) fn clear(&mut self) {
        self.sub_jobs.clear();
        self.places.clear();
    }

    /// Puts a task into the part that it belongs to, and returns the place of that part. `strict` says whether parts of the
    /// same name may be different ones.
    pub(crate) fn assign(
        &mut self,
        (job, min_member): (&str, i32),
        (task, labels): (TaskId, &TextMap),
        strict: bool,
    ) -> usize {
        let mut policies = self.policies.iter().enumerate();
        let matching = policies.find_map(|(at, policy)| Some((at, policy.values(labels)?)));
        let (id, policy) = match &matching {
            None => (job.to_owned(), None),
            Some((at, values)) => {
                let name = &self.policies[*at].name;
                (format!("{job}/{name}-{}", joined(values)), Some(*at))
            }
        };
        let values = matching.map(|(_, values)| values).unwrap_or_default();
        let next = self.sub_jobs.len();
        let identity = match policy {
            // Names of jobs contain no brackets, so that no part has the identity of the job.
            Some(at) if strict => format!("{at}{values:?}"),
            _ => id.clone(),
        };
        let at = *self.places.entry(identity).or_insert(next);
        if at == next {
            let min_available = match policy {
                None if self.policies.is_empty() => min_member,
                None => 1,
                Some(at) => self.policies[at].sub_group_size.unwrap_or(1),
            };
            let first = values.first().and_then(|value| value.parse().ok());
            self.sub_jobs.push(SubJob {
                id,
                policy,
                min_available,
                match_index: first.unwrap_or(0),
                nearness: Nearness::Anywhere,
                tasks: Vec::new(),
                allocated: None,
                current: None,
            });
        }
        self.sub_jobs[at].tasks.push(task);
        at
    }

    /// Finds out how near pods have to be. `strict` says whether an unset mode is a hard one.
    pub(crate) fn settle(&mut self, hyper_nodes: &HyperNodes, strict: bool) {
        let top = hyper_nodes.at(hyper_nodes.top()).tier;
        // All nodes together are no HyperNode: a hard topology with a large tier is still one.
        let most = if strict {
            top.saturating_sub(1)
        } else {
            i32::MAX
        };
        let limit = |tier: Option<i32>| limited(tier.map(|tier| tier.min(most)));
        let nearness = |topology: Option<&NetworkTopology>, widest: i32| {
            let Some(topology) = topology else {
                return Nearness::Anywhere;
            };
            let named = || hyper_nodes.tier_of_name(&topology.highest_tier_name);
            match topology.mode.as_str() {
                "soft" => Nearness::Within(widest),
                "hard" => limit(topology.highest_tier_allowed.or_else(named)),
                _ if strict => limit(topology.highest_tier_allowed.or_else(named)),
                _ => Nearness::Unlimited,
            }
        };
        self.nearness = nearness(self.written.as_ref(), top);
        // A soft part of a job keeps to the limit of the job, whatever its mode.
        let of_job = self.written.as_ref().and_then(|topology| {
            let named = || hyper_nodes.tier_of_name(&topology.highest_tier_name);
            let soft = topology.mode == "soft";
            if soft {
                Some(top)
            } else {
                let tier = topology.highest_tier_allowed.or_else(named);
                tier.map(|tier| tier.min(most))
            }
        });
        let widest = of_job.unwrap_or(top);
        for part in &mut self.sub_jobs {
            let topology = match part.policy {
                None => self.written.as_ref(),
                Some(at) => self.policies[at].network_topology.as_ref(),
            };
            part.nearness = nearness(topology, widest);
        }
    }

    /// Why a hard topology of the job or of a part cannot be kept; `loaded` says whether a plugin keeps it.
    pub(crate) fn objection(&self, hyper_nodes: &HyperNodes, loaded: bool) -> Option<String> {
        let of_job = self.written.as_ref();
        let of_job = of_job.map(|topology| ("spec.networkTopology".to_owned(), topology));
        let mut policies = self.policies.iter();
        let unmatched = policies.find_map(|policy| {
            let why = policy.matches_no_pod()?;
            Some(format!("spec.subGroupPolicy {}: {why}", policy.name))
        });
        let policies = self.policies.iter().filter_map(|policy| {
            let place = format!("spec.subGroupPolicy {}: networkTopology", policy.name);
            Some((place, policy.network_topology.as_ref()?))
        });
        let mut written = of_job.into_iter().chain(policies);
        unmatched.or_else(|| {
            written.find_map(|(place, topology)| {
                let why = why_not(hyper_nodes, topology, loaded)?;
                Some(format!("{place}: {why}"))
            })
        })
    }

    /// Finds the groups of tasks that have nodes (S6-187).
    pub(crate) fn recover(&mut self, hyper_nodes: &HyperNodes, tasks: &[Task]) {
        self.allocated = None;
        if !self.is_asked() {
            return;
        }
        for part in &mut self.sub_jobs {
            part.allocated = None;
            if !part.nearness.is_asked() {
                continue;
            }
            let placed = part.tasks.iter().map(|task| &tasks[task.index()]);
            let mut placed = placed
                .filter(|task| task.status.is_allocated())
                .filter_map(|task| task.node)
                .peekable();
            if placed.peek().is_none() {
                continue;
            }
            let mut holding: Vec<HyperNodeId> = hyper_nodes.ids().collect();
            for node in placed {
                holding.retain(|id| hyper_nodes.contains(*id, node));
            }
            part.allocated = holding
                .into_iter()
                .min_by_key(|id| hyper_nodes.at(*id).tier);
        }
        for part in &self.sub_jobs {
            if part.allocated.is_some() {
                self.allocated = hyper_nodes.common(self.allocated, part.allocated);
            }
        }
    }
}

/// Why a topology cannot be kept.
fn why_not(hyper_nodes: &HyperNodes, topology: &NetworkTopology, loaded: bool) -> Option<String> {
    if !hyper_nodes.ready {
        let mistake = hyper_nodes.mistakes.first();
        let mistake = mistake.map_or("unknown", String::as_str);
        return Some(format!("the tree of HyperNodes is wrong: {mistake}"));
    }
    if topology.mode == "soft" {
        return None;
    }
    if !loaded {
        let way = "load it with enabledHyperNodeGradient, or set mode: soft";
        return Some(format!(
            "the scheduler's configuration has no plugin network-topology-aware, so a hard topology cannot be kept; {way}"
        ));
    }
    if hyper_nodes.is_flat() {
        return Some("there are no HyperNodes, so a hard topology cannot be kept".to_owned());
    }
    let name = &topology.highest_tier_name;
    let lowest = hyper_nodes.tiers().first().copied().unwrap_or(0);
    match topology.highest_tier_allowed {
        Some(tier) if tier < lowest => Some(format!(
            "highestTierAllowed is {tier}, and the lowest tier of a HyperNode is {lowest}"
        )),
        Some(_) => None,
        None if name.is_empty() => {
            Some("a hard topology needs highestTierAllowed or highestTierName".to_owned())
        }
        None if hyper_nodes.tier_of_name(name).is_some() => None,
        None => {
            let names: Vec<&str> = hyper_nodes.tier_names().into_iter().collect();
            let names = if names.is_empty() {
                "no tier has a name".to_owned()
            } else {
                format!("there are {}", names.join(", "))
            };
            Some(format!("no HyperNode has the tier name {name}; {names}"))
        }
    }
}

const fn limited(tier: Option<i32>) -> Nearness {
    match tier {
        Some(tier) => Nearness::Within(tier),
        None => Nearness::Unlimited,
    }
}

impl SubGroupPolicy {
    /// A policy; of one that cannot be read the name and the mistake.
    fn read(value: &Value) -> Self {
        Self::deserialize(value).unwrap_or_else(|error| {
            let mistake = error.to_string();
            Self {
                name: value["name"].as_str().unwrap_or_default().to_owned(),
                // The text may quote a value of any length.
                unreadable: Some(mistake.chars().take(LONGEST_MISTAKE).collect()),
                ..Self::default()
            }
        })
    }

    /// Why its topology is one of no pod, although the pods have to keep to it.
    fn matches_no_pod(&self) -> Option<String> {
        if let Some(mistake) = &self.unreadable {
            return Some(format!("it cannot be read: {mistake}"));
        }
        let topology = self.network_topology.as_ref()?;
        let dropped = topology.mode != "soft" && self.match_label_keys.is_empty();
        dropped.then(|| "without matchLabelKeys it matches no pod".to_owned())
    }

    /// The values of its labels, if a pod with these labels belongs to it.
    fn values(&self, labels: &TextMap) -> Option<Vec<String>> {
        let selector = self.label_selector.as_ref();
        if selector.is_some_and(|selector| !selects(selector, labels)) {
            return None;
        }
        let values = self.match_label_keys.iter().map(|key| {
            let value = labels.get(key).filter(|value| !value.is_empty());
            value.map(str::to_owned)
        });
        let values: Vec<String> = values.collect::<Option<_>>()?;
        (!values.is_empty()).then_some(values)
    }
}

/// Values in a name. Long ones are cut, so that no pod can make a name as long as it likes.
fn joined(values: &[String]) -> String {
    let all = values.join("-");
    if all.len() <= LONGEST_VALUES {
        return all;
    }
    // FNV-1a: the same values have the same number in every session.
    let hash = all.bytes().fold(0x811c_9dc5_u32, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    });
    let digits = hash.to_string();
    let letters = digits.bytes().map(|digit| {
        let at = usize::from(digit) % LETTERS.len();
        char::from(LETTERS[at])
    });
    letters.collect()
}

impl SubJob {
    fn count(&self, tasks: &[Task], counts: impl Fn(&Task) -> bool) -> i32 {
        let count = self
            .tasks
            .iter()
            .filter(|task| counts(&tasks[task.index()]));
        i32::try_from(count.count()).unwrap_or(i32::MAX)
    }

    pub(crate) fn is_ready(&self, tasks: &[Task]) -> bool {
        self.count(tasks, Task::is_there) >= self.min_available
    }

    pub(crate) fn is_pipelined(&self, tasks: &[Task]) -> bool {
        let counts = |task: &Task| {
            task.is_there()
                || task.status == Status::Pipelined
                || task.unknown_place != UnknownPlace::None
        };
        self.count(tasks, counts) >= self.min_available
    }

    /// The requests of its tasks that wait.
    pub(crate) fn waiting(&self, tasks: &[Task]) -> Resource {
        let mut sum = Resource::default();
        for task in self.tasks.iter().map(|task| &tasks[task.index()]) {
            if task.status == Status::Pending {
                sum.add(&task.request);
            }
        }
        sum
    }

    /// The sum of the requests of its pending tasks, if it cannot start without any of them. Otherwise the sum is not known.
    pub(crate) fn needed(&self, tasks: &[Task]) -> Option<Resource> {
        let waiting = self.count(tasks, |task| task.status == Status::Pending);
        let missing = self.min_available - self.count(tasks, Task::is_there);
        (waiting <= missing).then(|| self.waiting(tasks))
    }

    /// The highest priority of its tasks.
    pub(crate) fn priority(&self, tasks: &[Task]) -> i32 {
        let priorities = self.tasks.iter().map(|task| tasks[task.index()].priority);
        priorities.max().unwrap_or(0).max(0)
    }
}

#[cfg(test)]
mod tests {
    use crate::conf::Conf;
    use crate::session::observer::Observer;
    use crate::session::{Cache, Objects, Session, Setting};
    use evictd_batch_objects::Compat;
    use evictd_placement::Cluster;
    use serde_json::json;

    /// The cores that the only part of the only job needs to start.
    struct Needs(Vec<Option<f64>>);

    impl Observer for Needs {
        fn opened(&mut self, session: &Session<'_>) {
            let snapshot = &session.tx.snapshot;
            let networks = snapshot.jobs.iter().filter_map(|job| job.network.as_ref());
            let parts = networks.flat_map(|network| &network.sub_jobs);
            let needs = parts.map(|part| part.needed(&snapshot.tasks));
            self.0.extend(needs.map(|need| need.map(|need| need.cpu)));
        }
    }

    #[test]
    fn what_a_part_needs_to_start_is_known_only_if_it_needs_all_pods_that_wait() {
        for (least, expected) in [(4, Some(5000.0)), (3, Some(5000.0)), (2, None), (1, None)] {
            let pods = [("a", "", "2"), ("b", "", "3"), ("c", "node", "4")];
            let pods = pods.map(|(name, node, cpu)| {
                let phase = if node.is_empty() { "Pending" } else { "Running" };
                json!({"metadata": {"name": name, "uid": name, "annotations": {"scheduling.k8s.io/group-name": "job"}},
                    "spec": {"schedulerName": "volcano", "nodeName": node,
                        "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]},
                    "status": {"phase": phase}})
            });
            let objects = json!({
                "nodes": [{"metadata": {"name": "node"}, "status": {"allocatable": {"cpu": "4", "pods": "9"}}}],
                "queues": [{"metadata": {"name": "default"}, "status": {"state": "Open"}}],
                "podGroups": [{"metadata": {"name": "job"},
                    "spec": {"minMember": least, "networkTopology": {"mode": "soft"}}}],
                "pods": pods,
            });
            let objects: Objects = serde_json::from_value(objects).unwrap();
            let mut cluster = Cluster::new();
            cluster.add_node(&objects.nodes[0]);
            let mut cache = Cache::of(&mut cluster, &objects, Setting::default());
            let mut needs = Needs(Vec::new());
            let conf = Conf::read("").unwrap();
            cache.watched(&mut cluster, &conf, Compat::EVICTD, &mut needs);
            assert_eq!(needs.0, [expected], "{least}");
        }
    }
}
