//! Proposes changes for a rejection.

use evictd_placement::{Cluster, NodeId, Pod, Symbol};
use evictd_pod::resources::{CPU, EPHEMERAL_STORAGE, MEMORY, PODS};
use evictd_pod::selector::Requirement;
use evictd_pod::wire;
use evictd_pod::{Node, resources};
use evictd_what_if::{Options, SpreadChange, Suggestion};
use std::collections::BTreeSet;

/// Changes that may resolve a rejection without the removal of pods, in the order of preference.
pub(super) fn proposals(
    (cluster, id): (&Cluster, NodeId),
    (node, wire): (&Node, &wire::Pod),
    pod: &Pod,
    (plugin, reasons): (&str, &[String]),
) -> Vec<Options<Suggestion>> {
    match plugin {
        "NodeUnschedulable" => vec![first_of([Suggestion::Uncordon])],
        "TaintToleration" | "NodeAffinity" => vec![first_of(of_fields(plugin, node, wire))],
        "NodeResourcesFit" => {
            let reasons = reasons.iter();
            let mut capacity = reasons.filter_map(|reason| add_capacity(cluster, id, pod, reason));
            let ending = ending_here(cluster, id).into_iter();
            vec![first_of(ending.chain(capacity.next()))]
        }
        "NodePorts" | "NodeVolumeLimits" | "VolumeRestrictions" => {
            vec![first_of(ending_here(cluster, id))]
        }
        "PodTopologySpread" => {
            let labels = absent_topologies(cluster, id, pod).into_iter();
            let changes = labels.chain(ending_here(cluster, id));
            let each = changes.map(|change| first_of([change]));
            each.chain(spread(&wire.spec)).collect()
        }
        "InterPodAffinity" => {
            let labels = absent_topologies(cluster, id, pod).into_iter();
            vec![first_of(labels.chain(ending(cluster, pod)))]
        }
        _ => Vec::new(),
    }
}

/// The change against a filter that only compares fields of the pod with those of the node.
pub(super) fn of_fields(plugin: &str, node: &Node, wire: &wire::Pod) -> Option<Suggestion> {
    match plugin {
        "TaintToleration" => taint(node, wire),
        "NodeAffinity" => node_affinity(node, &wire.spec),
        _ => None,
    }
}

/// The first of these changes that helps.
fn first_of(changes: impl IntoIterator<Item = Suggestion>) -> Options<Suggestion> {
    changes.into_iter().map(|change| vec![change]).collect()
}

/// By how much a `maxSkew` is raised at most.
const MORE_SKEW: usize = 16;

/// Changes of the hard spread constraints, from those that change the least.
fn spread(spec: &wire::PodSpec) -> impl Iterator<Item = Options<Suggestion>> {
    let constraints = spec.topology_spread_constraints.iter();
    let hard = constraints.filter(|constraint| constraint.when_unsatisfiable == "DoNotSchedule");
    hard.flat_map(|constraint| {
        let honors = constraint.node_taints_policy == "Honor";
        let more = constraint.max_skew.saturating_add(1)..;
        let skews = more.take(MORE_SKEW).map(SpreadChange::MaxSkew);
        [
            (!honors).then(|| vec![SpreadChange::HonorTaints]),
            constraint
                .min_domains
                .map(|_| vec![SpreadChange::NoMinDomains]),
            Some(skews.collect()),
            Some(vec![SpreadChange::ScheduleAnyway]),
        ]
        .into_iter()
        .flatten()
        .map(|changes| {
            let key = &constraint.topology_key;
            first_of(changes.into_iter().map(|change| Suggestion::Spread {
                key: key.clone(),
                change,
            }))
        })
    })
}

/// The most terminating pods that are tried.
const ENDING: usize = 16;

/// The end of a pod that terminates, one of the pod's namespace first.
fn ending(cluster: &Cluster, pod: &Pod) -> Vec<Suggestion> {
    let namespace = cluster.template(pod).namespace;
    let pods = cluster
        .node_ids()
        .flat_map(|id| cluster.node(id).pods.iter());
    let (same_namespace, others): (Vec<&Pod>, Vec<&Pod>) = pods
        .filter(|other| other.terminating)
        .partition(|other| cluster.template(other).namespace == namespace);
    same_namespace
        .into_iter()
        .chain(others)
        .take(ENDING)
        .map(|pod| Suggestion::AwaitPods(vec![cluster.full_name(pod)]))
        .collect()
}

/// The end of one of the node's pods that terminate, then of all of them.
fn ending_here(cluster: &Cluster, id: NodeId) -> Vec<Suggestion> {
    let pods = cluster.node(id).pods.iter();
    let ending = pods.filter(|pod| pod.terminating).take(ENDING);
    let names: Vec<String> = ending.map(|pod| cluster.full_name(pod)).collect();
    let each = names.iter().map(|name| vec![name.clone()]);
    let all = (names.len() > 1).then(|| names.clone());
    let sets = each.chain(all);
    sets.map(Suggestion::AwaitPods).collect()
}

/// Whether the state of a node sets this taint, which is gone when the node has recovered.
fn is_of_state(taint: &wire::Taint) -> bool {
    const STATES: [&str; 6] = [
        "not-ready",
        "unreachable",
        "memory-pressure",
        "disk-pressure",
        "pid-pressure",
        "network-unavailable",
    ];
    let state = taint.key.strip_prefix("node.kubernetes.io/");
    state.is_some_and(|state| STATES.contains(&state))
}

fn taint(node: &Node, pod: &wire::Pod) -> Option<Suggestion> {
    let mut taints = node.spec.taints.iter();
    let forbids = |effect: &str| matches!(effect, "NoSchedule" | "NoExecute");
    let taint = taints
        .find(|taint| forbids(&taint.effect) && !taint.is_tolerated(&pod.spec.tolerations))?;
    Some(if is_of_state(taint) {
        Suggestion::Recover(taint.clone())
    } else {
        Suggestion::AddToleration(taint.clone())
    })
}

/// Whether a label describes the node, so that changing it would be wrong, as `kubernetes.io/arch`.
fn describes(key: &str) -> bool {
    let domain = key.split_once('/').map_or("", |(domain, _)| domain);
    let within = |parent: &str| domain == parent || domain.ends_with(&format!(".{parent}"));
    within("kubernetes.io") || within("k8s.io")
}

/// Whether a label is a fact about the node, which nobody should add by hand.
fn is_fact(key: &str) -> bool {
    let facts = [
        "kubernetes.io/arch",
        "kubernetes.io/os",
        "kubernetes.io/hostname",
        "node.kubernetes.io/instance-type",
    ];
    facts.contains(&key)
}

/// The first requirement of the node selector that the node does not meet. If it meets all: the first unmet requirement of the
/// affinity term with the fewest unmet requirements.
fn node_affinity(node: &Node, spec: &wire::PodSpec) -> Option<Suggestion> {
    let labels = &node.metadata.labels;
    if let Some((key, value)) = spec
        .node_selector
        .iter()
        .find(|(key, value)| labels.get(key) != Some(value))
    {
        let change = if is_fact(key) || (describes(key) && labels.contains_key(key)) {
            Suggestion::RemoveNodeSelector(key.to_owned())
        } else {
            Suggestion::AddLabel {
                key: key.to_owned(),
                value: value.to_owned(),
            }
        };
        return Some(change);
    }
    let affinity = spec.affinity.as_ref()?;
    let terms = &affinity
        .node_affinity
        .required
        .as_ref()?
        .node_selector_terms;
    let missed = |term: &wire::NodeSelectorTerm| -> Vec<wire::Requirement> {
        term.match_expressions
            .iter()
            .filter(|requirement| !is_met(requirement, node))
            .cloned()
            .collect()
    };
    let missed = terms
        .iter()
        .filter(|term| term.match_fields.is_empty())
        .map(missed)
        .filter(|missed| !missed.is_empty());
    let change = missed
        .min_by_key(Vec::len)
        .and_then(|missed| meet(missed.first()?, node));
    Some(change.unwrap_or(Suggestion::RemoveNodeAffinity))
}

fn is_met(requirement: &wire::Requirement, node: &Node) -> bool {
    Requirement::of_node(requirement, &mut |text| text)
        .is_ok_and(|requirement: Requirement<&str>| requirement.matches(&&node.metadata.labels))
}

/// The label change that meets a requirement.
fn meet(requirement: &wire::Requirement, node: &Node) -> Option<Suggestion> {
    let key = requirement.key.clone();
    let given = node.metadata.labels.contains_key(&key);
    if is_fact(&key) || (given && describes(&key)) {
        return None;
    }
    let number = || requirement.values.first()?.parse::<i64>().ok();
    let value = match requirement.operator.as_str() {
        "In" => requirement.values.first()?.clone(),
        "Exists" => "true".to_owned(),
        "Gt" => number()?.checked_add(1)?.to_string(),
        "Lt" => number()?.checked_sub(1)?.to_string(),
        _ => return Some(Suggestion::RemoveLabel(key)),
    };
    Some(Suggestion::AddLabel { key, value })
}

/// The missing amount of the resource that a reason names.
fn add_capacity(cluster: &Cluster, id: NodeId, pod: &Pod, reason: &str) -> Option<Suggestion> {
    let resource = match reason {
        "Too many pods" => PODS,
        _ => reason.strip_prefix("Insufficient ")?,
    };
    let lacking = lacking(cluster, id, pod, resource);
    let amount = resources::quantity(resource, lacking);
    let resource = resource.to_owned();
    (lacking > 0).then_some(Suggestion::AddCapacity { resource, amount })
}

/// By how much the request exceeds the free amount. Nominated pods of at least this priority count as placed.
fn lacking(cluster: &Cluster, id: NodeId, pod: &Pod, resource: &str) -> i64 {
    let node = cluster.node(id);
    let coming: Vec<&Pod> = cluster
        .nominated()
        .iter()
        .filter(|other| {
            other.identity.nominated == Some(node.name) && other.priority >= pod.priority
        })
        .filter(|other| other.name() != pod.name())
        .collect();
    if resource == PODS {
        let pods = node.pods.len() + coming.len() + 1;
        return i64::try_from(pods).unwrap_or(i64::MAX) - node.allowed_pods;
    }
    let of = |pod: &Pod| requested(cluster, pod, resource);
    let there = match resource {
        CPU => node.allocatable.cpu - node.requested.cpu,
        MEMORY => node.allocatable.memory - node.requested.memory,
        EPHEMERAL_STORAGE => node.allocatable.ephemeral_storage - node.requested.ephemeral_storage,
        name => {
            let mut list = cluster
                .scalars(node.allocatable.scalars)
                .iter()
                .filter(|(symbol, _)| cluster.symbols().text(*symbol) == name);
            let taken = node.pods.iter().map(of).sum::<i64>();
            list.next().map_or(0, |(_, amount)| *amount) - taken
        }
    };
    of(pod) + coming.into_iter().map(of).sum::<i64>() - there
}

/// How much of a resource a pod requests.
fn requested(cluster: &Cluster, pod: &Pod, resource: &str) -> i64 {
    match resource {
        CPU => pod.amounts.cpu,
        MEMORY => pod.amounts.memory,
        EPHEMERAL_STORAGE => pod.amounts.ephemeral_storage,
        name => cluster
            .scalars(pod.amounts.scalars)
            .iter()
            .find(|(symbol, _)| cluster.symbols().text(*symbol) == name)
            .map_or(0, |(_, amount)| *amount),
    }
}

/// How far a node is from fitting: the largest shortfall of a common resource, in thousandths of the request.
pub(super) fn distance(cluster: &Cluster, id: NodeId, pod: &Pod) -> i64 {
    let node = cluster.node(id);
    let (there, taken, wanted) = (&node.allocatable, &node.requested, &pod.amounts);
    [
        (wanted.cpu, there.cpu - taken.cpu),
        (wanted.memory, there.memory - taken.memory),
        (
            wanted.ephemeral_storage,
            there.ephemeral_storage - taken.ephemeral_storage,
        ),
    ]
    .into_iter()
    .filter(|(wanted, _)| *wanted > 0)
    .map(|(wanted, free)| (wanted - free).max(0).saturating_mul(1000) / wanted)
    .max()
    .unwrap_or(0)
}

/// The most values of one label that are tried.
const VALUES: usize = 32;

/// The topology labels that the pod needs and the node does not have, with each value that other nodes have.
fn absent_topologies(cluster: &Cluster, id: NodeId, pod: &Pod) -> Vec<Suggestion> {
    let template = cluster.template(pod);
    let spread = template.spread.iter().map(|term| term.topology_key);
    let near = template.affinity.iter().map(|term| term.topology_key);
    let keys: BTreeSet<Symbol> = spread.chain(near).collect();
    let labels = &cluster.node(id).labels;
    let absent = keys.into_iter().filter(|key| labels.get(*key).is_none());
    let text = |symbol| cluster.symbols().text(symbol);
    absent
        .flat_map(|key| {
            let values: BTreeSet<&str> = cluster
                .nodes()
                .iter()
                .filter_map(|node| node.labels.get(key).map(text))
                .collect();
            values
                .into_iter()
                .take(VALUES)
                .map(move |value| Suggestion::AddLabel {
                    key: text(key).to_owned(),
                    value: value.to_owned(),
                })
        })
        .collect()
}
