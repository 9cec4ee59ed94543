//! What pods of one workload share: identity, labels and amounts aside, everything that decides where they may be.

use crate::features::Features;
use crate::labels::Labels;
use crate::mistake::Mistake;
use crate::selector::{NodeSelector, Requirement, Selector};
use crate::symbol::{Symbol, Symbols};
use evictd_pod::predicates;
use evictd_pod::selector::SelectorError;
use evictd_pod::wire::{self, Affinity, PodAffinityTerm, TopologySpreadConstraint};

/// A template's place in the cluster's table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TemplateId(pub(crate) u32);

impl TemplateId {
    /// The index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// What pods of one workload share.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Template {
    /// Namespace.
    pub namespace: Symbol,
    /// Who makes a new one when one goes.
    pub owner: Option<Owner>,
    /// The node it names itself.
    pub node_name: Option<Symbol>,
    /// Labels that the node must carry.
    pub node_selector: Labels,
    /// And the nodes that it may be on.
    pub node_affinity: Option<NodeSelector>,
    /// Taints it puts up with.
    pub tolerations: Box<[Toleration]>,
    /// Pods it must be near.
    pub affinity: Box<[PodTerm]>,
    /// Pods it must be away from.
    pub anti_affinity: Box<[PodTerm]>,
    /// Pods that it would rather be near, and, with a negative weight, away from.
    pub preferred: Box<[(i64, PodTerm)]>,
    /// Nodes that it would rather be on.
    pub preferred_nodes: Box<[(i64, NodeSelector)]>,
    /// How evenly it must be spread.
    pub spread: Box<[Spread]>,
    /// How evenly it had better be spread.
    pub soft_spread: Box<[Spread]>,
    /// The images that it runs or mounts, each as often as it does, with their tags.
    pub images: Box<[Symbol]>,
    /// How many containers it has, those for its start included.
    pub containers: i64,
    /// Ports of the node it takes.
    pub ports: Box<[HostPort]>,
    /// Volumes that a node can have too many of, or that cannot be everywhere.
    pub volumes: Box<[Volume]>,
    /// The claims on devices, of a pod that has no node yet.
    pub device_claims: Box<[DeviceClaim]>,
    /// The optional features that its kubelet must have.
    pub features: Features,
}

/// A claim on devices of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DeviceClaim {
    /// The one of this name, which others may use, too.
    Shared(Symbol),
    /// The one of this name, which was made for the pod.
    Own(Symbol),
    /// One that is yet to be made for the pod.
    NotMade,
    /// One that says neither, by its name in the pod.
    Unknown(Symbol),
}

/// The claims on devices of a pod; none for one that its template asks for and that is not needed.
fn device_claims(symbols: &mut Symbols, pod: &wire::Pod) -> Box<[DeviceClaim]> {
    let claims = pod.spec.resource_claims.iter();
    let claims = claims.filter_map(|claim| {
        if let Some(name) = &claim.resource_claim_name {
            return Some(DeviceClaim::Shared(symbols.intern(name)));
        }
        if claim.resource_claim_template_name.is_none() {
            return Some(DeviceClaim::Unknown(symbols.intern(&claim.name)));
        }
        let mut made = pod.status.resource_claim_statuses.iter();
        let Some(made) = made.find(|made| made.name == claim.name) else {
            return Some(DeviceClaim::NotMade);
        };
        let name = made.resource_claim_name.as_ref()?;
        Some(DeviceClaim::Own(symbols.intern(name)))
    });
    claims.collect()
}

/// The controller of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Owner {
    /// `ReplicaSet`, ...
    pub kind: Symbol,
    /// Its name.
    pub name: Symbol,
}

/// Taints that are put up with.
pub type Toleration = predicates::Toleration<Symbol>;

/// A port of the node.
pub type HostPort = predicates::HostPort<Symbol>;

/// Pods that a pod must be near, or away from.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PodTerm {
    /// Which pods.
    pub selector: Selector,
    /// Of these namespaces.
    pub namespaces: Box<[Symbol]>,
    /// And of those with these labels.
    pub namespace_selector: Selector,
    /// Nodes with the same value of this label are one place.
    pub topology_key: Symbol,
}

impl PodTerm {
    fn new(
        symbols: &mut Symbols,
        wire: &PodAffinityTerm,
        namespace: Symbol,
        labels: &Labels,
    ) -> Result<Self, SelectorError> {
        let mut more = same_values(symbols, &wire.match_label_keys, labels, Requirement::equals);
        more.extend(same_values(
            symbols,
            &wire.mismatch_label_keys,
            labels,
            Requirement::differs,
        ));
        let mut namespaces: Vec<Symbol> = wire
            .namespaces
            .iter()
            .map(|name| symbols.intern(name))
            .collect();
        if namespaces.is_empty() && wire.namespace_selector.is_none() {
            namespaces.push(namespace);
        }
        Ok(Self {
            selector: Selector::new(symbols, wire.label_selector.as_ref())?.and(more),
            namespaces: namespaces.into(),
            namespace_selector: Selector::new(symbols, wire.namespace_selector.as_ref())?,
            topology_key: symbols.intern(&wire.topology_key),
        })
    }
}

/// How evenly pods must, or had better, be spread.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Spread {
    /// By how many pods a place may exceed the emptiest.
    pub max_skew: i64,
    /// Nodes with the same value of this label are one place.
    pub topology_key: Symbol,
    /// Which pods count.
    pub selector: Selector,
    /// With fewer places than this the emptiest counts as empty.
    pub min_domains: usize,
    /// Whether nodes that the pod's node selector and affinity rule out do not count.
    pub honors_affinity: bool,
    /// Whether nodes with taints that the pod does not tolerate do not count.
    pub honors_taints: bool,
}

impl Spread {
    fn new(
        symbols: &mut Symbols,
        wire: &TopologySpreadConstraint,
        labels: &Labels,
    ) -> Result<Self, SelectorError> {
        let more = same_values(symbols, &wire.match_label_keys, labels, Requirement::equals);
        Ok(Self {
            max_skew: i64::from(wire.max_skew),
            topology_key: symbols.intern(&wire.topology_key),
            selector: Selector::new(symbols, wire.label_selector.as_ref())?.and(more),
            min_domains: wire
                .min_domains
                .and_then(|count| usize::try_from(count).ok())
                .unwrap_or(1),
            honors_affinity: wire.node_affinity_policy != "Ignore",
            honors_taints: wire.node_taints_policy == "Honor",
        })
    }
}

impl Spread {
    /// Advice for pods that say nothing about it.
    pub(crate) const fn advice(topology_key: Symbol, max_skew: i64) -> Self {
        Self {
            max_skew,
            topology_key,
            selector: Selector::Nothing,
            min_domains: 1,
            honors_affinity: true,
            honors_taints: false,
        }
    }

    /// A default constraint of a profile; it has no selector.
    pub(crate) fn of_profile(
        symbols: &mut Symbols,
        wire: &TopologySpreadConstraint,
    ) -> Result<Self, SelectorError> {
        Self::new(symbols, wire, &Labels::default())
    }
}

/// Demands that pods equal, or differ from, one with these labels in each of the keys that it carries. The API server
/// writes the same into the selectors of pods that it stores.
fn same_values(
    symbols: &Symbols,
    keys: &[String],
    labels: &Labels,
    demand: fn(Symbol, Symbol) -> Requirement,
) -> Vec<Requirement> {
    // A key that no label has is in no table.
    let keys = keys.iter().filter_map(|key| symbols.get(key));
    keys.filter_map(|key| labels.get(key).map(|value| demand(key, value)))
        .collect()
}

/// A volume that decides where its pod may be.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Volume {
    /// A claim.
    Claim(Claim),
    /// A disk that the pod names: kind, name, and what else tells it apart.
    Disk {
        /// `gcePersistentDisk`, `awsElasticBlockStore`, `iscsi`, `rbd`.
        kind: &'static str,
        /// Its name.
        name: Symbol,
        /// Pool of an image.
        pool: Symbol,
        /// Monitors of an image.
        monitors: Box<[Symbol]>,
        /// Whether it is only read.
        read_only: bool,
    },
}

/// A claim of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Claim {
    /// Its name in the pod's namespace.
    pub name: Symbol,
    /// Made for the pod and with it.
    pub ephemeral: bool,
}

impl Volume {
    fn new(symbols: &mut Symbols, wire: &wire::Volume, pod: &str) -> Option<Self> {
        if let Some(claim) = &wire.persistent_volume_claim {
            return Some(Self::Claim(Claim {
                name: symbols.intern(&claim.claim_name),
                ephemeral: false,
            }));
        }
        if wire.ephemeral.is_some() {
            return Some(Self::Claim(Claim {
                name: symbols.intern(&format!("{pod}-{}", wire.name)),
                ephemeral: true,
            }));
        }
        let disks = [
            ("gcePersistentDisk", &wire.gce_persistent_disk),
            ("awsElasticBlockStore", &wire.aws_elastic_block_store),
            ("iscsi", &wire.iscsi),
            ("rbd", &wire.rbd),
        ];
        let (kind, disk) = disks
            .into_iter()
            .find_map(|(kind, disk)| Some((kind, disk.as_deref()?)))?;
        Some(Self::Disk {
            kind,
            name: symbols.intern(&disk.name),
            pool: symbols.intern(&disk.pool),
            monitors: disk
                .monitors
                .iter()
                .map(|monitor| symbols.intern(monitor))
                .collect(),
            read_only: disk.read_only,
        })
    }
}

impl Template {
    /// How many volumes its pods name.
    pub(crate) fn named_volumes(&self) -> i64 {
        // A pod's volumes fit into memory.
        i64::try_from(self.volumes.len()).unwrap_or(i64::MAX)
    }

    /// The selectors of pods that it holds.
    pub(crate) fn selectors(&self) -> impl Iterator<Item = &Selector> {
        let preferred = self.preferred.iter().map(|(_, term)| term);
        let terms = self
            .affinity
            .iter()
            .chain(&self.anti_affinity)
            .chain(preferred);
        let spread = self.spread.iter().chain(&self.soft_spread);
        let spread = spread.map(|spread| &spread.selector);
        terms.map(|term| &term.selector).chain(spread)
    }

    /// The labels whose values are places for it.
    pub(crate) fn topology_keys(&self) -> impl Iterator<Item = Symbol> {
        let preferred = self.preferred.iter().map(|(_, term)| term);
        let terms = self
            .affinity
            .iter()
            .chain(&self.anti_affinity)
            .chain(preferred);
        let spread = self.spread.iter().chain(&self.soft_spread);
        let spread = spread.map(|spread| spread.topology_key);
        terms.map(|term| term.topology_key).chain(spread)
    }

    /// The same of a pod that has a node: what it would like matters no more.
    pub(crate) fn as_placed(&self) -> Self {
        Self {
            node_name: None,
            preferred_nodes: Box::default(),
            soft_spread: Box::default(),
            images: Box::default(),
            device_claims: Box::default(),
            ..self.clone()
        }
    }

    /// What this pod with these labels shares with its like. A placed pod's node is where it is, not what its template asks
    /// for.
    pub(crate) fn new(
        symbols: &mut Symbols,
        pod: &wire::Pod,
        labels: &Labels,
        placed: bool,
    ) -> Result<Self, Mistake> {
        let spec = &pod.spec;
        let namespace = symbols.intern(pod.metadata.namespace_or_default());
        let nothing = Affinity::default();
        let affinity = spec.affinity.as_deref().unwrap_or(&nothing);
        let mut terms = |terms: &[PodAffinityTerm], field: &str| -> Result<_, Mistake> {
            let terms = terms.iter().enumerate();
            terms
                .map(|(index, term)| {
                    PodTerm::new(symbols, term, namespace, labels)
                        .map_err(|error| Mistake::new(format!("{field}[{index}]"), error))
                })
                .collect()
        };
        let near = terms(&affinity.pod_affinity.required, "spec.affinity.podAffinity")?;
        let away = terms(
            &affinity.pod_anti_affinity.required,
            "spec.affinity.podAntiAffinity",
        )?;
        let preferred = preferred_terms(symbols, affinity, namespace, labels)?;
        let node_affinity = affinity.node_affinity.required.as_ref();
        let owner = pod
            .metadata
            .owner_references
            .iter()
            .find(|owner| owner.controller);
        let ports = predicates::host_ports(spec, |text| symbols.intern(text)).collect();
        Ok(Self {
            namespace,
            owner: owner.map(|owner| Owner {
                kind: symbols.intern(&owner.kind),
                name: symbols.intern(&owner.name),
            }),
            node_name: (!placed && !spec.node_name.is_empty())
                .then(|| symbols.intern(&spec.node_name)),
            node_selector: Labels::new(symbols, &spec.node_selector),
            node_affinity: node_affinity
                .map(|selector| NodeSelector::new(symbols, selector))
                .transpose()
                .map_err(|error| Mistake::new("spec.affinity.nodeAffinity".to_owned(), error))?,
            tolerations: spec
                .tolerations
                .iter()
                .filter_map(|toleration| {
                    Toleration::new(toleration, &mut |text| symbols.intern(text))
                })
                .collect(),
            affinity: near,
            anti_affinity: away,
            preferred,
            spread: spread(symbols, pod, labels, false)?,
            // What a pod would like matters only while it has no node.
            preferred_nodes: if placed {
                Box::default()
            } else {
                preferred_nodes(symbols, &affinity.node_affinity)?
            },
            soft_spread: if placed {
                Box::default()
            } else {
                spread(symbols, pod, labels, true)?
            },
            images: if placed {
                Box::default()
            } else {
                images(symbols, spec)
            },
            // A pod's containers fit into memory many times over.
            containers: i64::try_from(spec.containers.len() + spec.init_containers.len())
                .unwrap_or(i64::MAX),
            ports,
            device_claims: if placed {
                Box::default()
            } else {
                device_claims(symbols, pod)
            },
            features: Features::of_pod(spec),
            volumes: spec
                .volumes
                .iter()
                .filter_map(|volume| Volume::new(symbols, volume, &pod.metadata.name))
                .collect(),
        })
    }
}

/// Pods that a pod would rather be near, and, with a negative weight, away from.
fn preferred_terms(
    symbols: &mut Symbols,
    affinity: &Affinity,
    namespace: Symbol,
    labels: &Labels,
) -> Result<Box<[(i64, PodTerm)]>, Mistake> {
    let near = affinity.pod_affinity.preferred.iter().enumerate();
    let near = near.map(|(index, term)| (1, "podAffinity", index, term));
    let away = affinity.pod_anti_affinity.preferred.iter().enumerate();
    let away = away.map(|(index, term)| (-1, "podAntiAffinity", index, term));
    near.chain(away)
        .map(|(sign, field, index, wire)| {
            let term = PodTerm::new(symbols, &wire.pod_affinity_term, namespace, labels);
            let field = || {
                format!(
                    "spec.affinity.{field}.preferredDuringSchedulingIgnoredDuringExecution[{index}]"
                )
            };
            let term = term.map_err(|error| Mistake::new(field(), error))?;
            Ok((sign * i64::from(wire.weight), term))
        })
        .collect()
}

/// Nodes that a pod would rather be on. Terms without a weight, and those that demand nothing, mean none (S5-084).
pub(crate) fn preferred_nodes(
    symbols: &mut Symbols,
    affinity: &wire::NodeAffinity,
) -> Result<Box<[(i64, NodeSelector)]>, Mistake> {
    let says = |term: &wire::NodeSelectorTerm| {
        !(term.match_expressions.is_empty() && term.match_fields.is_empty())
    };
    let preferred = affinity.preferred.iter().enumerate();
    let preferred = preferred.filter(|(_, wire)| wire.weight != 0 && says(&wire.preference));
    preferred
        .map(|(index, wire)| {
            let selector = wire::NodeSelector {
                node_selector_terms: vec![wire.preference.clone()],
            };
            let field = || {
                format!("spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[{index}]")
            };
            let selector = NodeSelector::new(symbols, &selector);
            let selector = selector.map_err(|error| Mistake::new(field(), error))?;
            Ok((i64::from(wire.weight), selector))
        })
        .collect()
}

/// The constraints that forbid, or those that only advise.
fn spread(
    symbols: &mut Symbols,
    pod: &wire::Pod,
    labels: &Labels,
    soft: bool,
) -> Result<Box<[Spread]>, Mistake> {
    let constraints = pod.spec.topology_spread_constraints.iter().enumerate();
    let wanted =
        constraints.filter(|(_, wire)| (wire.when_unsatisfiable == "ScheduleAnyway") == soft);
    wanted
        .map(|(index, wire)| {
            Spread::new(symbols, wire, labels).map_err(|error| {
                Mistake::new(format!("spec.topologySpreadConstraints[{index}]"), error)
            })
        })
        .collect()
}

/// The images of a pod; a name without a tag means the latest (S5-092).
fn images(symbols: &mut Symbols, spec: &wire::PodSpec) -> Box<[Symbol]> {
    let containers = spec.init_containers.iter().chain(&spec.containers);
    let run = containers.map(|container| &container.image);
    let mounted = spec
        .volumes
        .iter()
        .filter_map(|volume| volume.image.as_ref());
    let all = run.chain(mounted.map(|image| &image.reference));
    let all = all.filter(|name| !name.is_empty());
    let mut with_tag = |name: &String| {
        if name.rfind(':') > name.rfind('/') {
            symbols.intern(name)
        } else {
            symbols.intern(&format!("{name}:latest"))
        }
    };
    all.map(&mut with_tag).collect()
}
