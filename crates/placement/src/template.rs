//! The part of a pod's spec that decides where it fits, without requests and labels. Pods of one workload share it.

use crate::extended_requests::{ExtendedRequests, requests_of};
use crate::features::Features;
use crate::invalid_object::{InvalidField, InvalidObject};
use crate::labels::Labels;
use crate::selector::{NodeSelector, Requirement, Selector};
use crate::symbol::{Symbol, Symbols};
use evictd_pod::predicates;
use evictd_pod::resource_claims::{PodClaim, entries_of};
use evictd_pod::selector::SelectorError;
use evictd_pod::wire::{self, Affinity, PodAffinityTerm, TopologySpreadConstraint};

/// A template's index in the cluster's table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TemplateId(pub(crate) u32);

impl TemplateId {
    /// The index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The scheduling constraints that pods of one workload share.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Template {
    /// Namespace.
    pub namespace: Symbol,
    /// The controller that replaces the pod.
    pub owner: Option<Owner>,
    /// The `PodGroup` in its namespace that it names.
    pub scheduling_group: Option<Symbol>,
    /// The node in its spec.
    pub node_name: Option<Symbol>,
    /// The node selector.
    pub node_selector: Labels,
    /// Required node affinity.
    pub node_affinity: Option<NodeSelector>,
    /// Tolerations.
    pub tolerations: Box<[Toleration]>,
    /// Required affinity terms.
    pub affinity: Box<[PodTerm]>,
    /// Required anti-affinity terms.
    pub anti_affinity: Box<[PodTerm]>,
    /// Preferred terms; anti-affinity has a negative weight.
    pub preferred: Box<[(i64, PodTerm)]>,
    /// Preferred node affinity.
    pub preferred_nodes: Box<[(i64, NodeSelector)]>,
    /// Spread constraints of kind `DoNotSchedule`.
    pub spread: Box<[Spread]>,
    /// Spread constraints of kind `ScheduleAnyway`.
    pub soft_spread: Box<[Spread]>,
    /// Images of its containers and image volumes with their tags, one entry per use.
    pub images: Box<[Symbol]>,
    /// The number of containers, with init containers.
    pub containers: i64,
    /// The number of image volumes.
    pub image_volumes: i64,
    /// Host ports.
    pub ports: Box<[HostPort]>,
    /// Volumes that limit where the pod fits.
    pub volumes: Box<[Volume]>,
    /// Resource claims, of a pod without a node.
    pub device_claims: Box<[DeviceClaim]>,
    /// Requests for extended resources, of a pod without a node.
    pub extended: Box<[ExtendedRequests]>,
    /// The kubelet features that it needs.
    pub features: Features,
}

/// An entry of `spec.resourceClaims`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DeviceClaim {
    /// Its name within the pod.
    pub entry: Symbol,
    /// The `ResourceClaimTemplate` that it names.
    pub template: Option<Symbol>,
    /// The claim.
    pub claim: ClaimSource,
}

/// A [`PodClaim`] by symbols.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the variants are those of `PodClaim`")]
pub enum ClaimSource {
    Shared(Symbol),
    Own(Symbol),
    NotMade,
    Unknown(Symbol),
}

impl DeviceClaim {
    /// The name of the claim, if there is one.
    pub const fn name(self) -> Option<Symbol> {
        match self.claim {
            ClaimSource::Shared(name) | ClaimSource::Own(name) => Some(name),
            ClaimSource::NotMade | ClaimSource::Unknown(_) => None,
        }
    }
}

fn device_claims(symbols: &mut Symbols, pod: &wire::Pod) -> Box<[DeviceClaim]> {
    let claims = entries_of(pod).map(|(entry, claim)| DeviceClaim {
        entry: symbols.intern(&entry.name),
        template: entry
            .resource_claim_template_name
            .as_ref()
            .map(|template| symbols.intern(template)),
        claim: match claim {
            PodClaim::Shared(name) => ClaimSource::Shared(symbols.intern(name)),
            PodClaim::Own(name) => ClaimSource::Own(symbols.intern(name)),
            PodClaim::NotMade => ClaimSource::NotMade,
            PodClaim::Unknown(name) => ClaimSource::Unknown(symbols.intern(name)),
        },
    });
    claims.collect()
}

/// The controller of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Owner {
    /// For example `ReplicaSet`.
    pub kind: Symbol,
    /// The controller's name.
    pub name: Symbol,
}

/// A toleration.
pub type Toleration = predicates::Toleration<Symbol>;

/// A host port.
pub type HostPort = predicates::HostPort<Symbol>;

/// A term of inter-pod affinity or anti-affinity.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PodTerm {
    /// The selector of pods.
    pub selector: Selector,
    /// The namespaces of these pods.
    pub namespaces: Box<[Symbol]>,
    /// Selects further namespaces by label.
    pub namespace_selector: Selector,
    /// The topology key. Nodes with the same value form a domain.
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

/// A topology spread constraint.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Spread {
    /// The maximum skew between a domain and the global minimum.
    pub max_skew: i64,
    /// The topology key. Nodes with the same value form a domain.
    pub topology_key: Symbol,
    /// The selector of pods.
    pub selector: Selector,
    /// With fewer domains than this the global minimum is 0.
    pub min_domains: usize,
    /// Whether `nodeAffinityPolicy` is `Honor`.
    pub honors_affinity: bool,
    /// Whether `nodeTaintsPolicy` is `Honor`.
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
    /// A soft default constraint.
    pub(crate) const fn soft(topology_key: Symbol, max_skew: i64) -> Self {
        Self {
            max_skew,
            topology_key,
            selector: Selector::Nothing,
            min_domains: 1,
            honors_affinity: true,
            honors_taints: false,
        }
    }

    /// A default constraint of a profile; the selector is filled in per pod.
    pub(crate) fn of_profile(
        symbols: &mut Symbols,
        wire: &TopologySpreadConstraint,
    ) -> Result<Self, SelectorError> {
        Self::new(symbols, wire, &Labels::default())
    }
}

/// Requires the pod's own values of `matchLabelKeys`, or other values for `mismatchLabelKeys`. The API server merges
/// the same requirements into the selectors of stored pods.
fn same_values(
    symbols: &Symbols,
    keys: &[String],
    labels: &Labels,
    demand: fn(Symbol, Symbol) -> Requirement,
) -> Vec<Requirement> {
    // A key without a symbol is a label of no pod.
    let keys = keys.iter().filter_map(|key| symbols.get(key));
    keys.filter_map(|key| labels.get(key).map(|value| demand(key, value)))
        .collect()
}

/// A volume that limits where the pod fits.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Volume {
    /// A claim.
    Claim(Claim),
    /// An in-tree disk and the fields that identify it.
    Disk {
        /// `gcePersistentDisk`, `awsElasticBlockStore`, `iscsi`, `rbd`.
        kind: &'static str,
        /// The name of the disk or image.
        name: Symbol,
        /// The pool of an RBD image.
        pool: Symbol,
        /// The monitors of an RBD image.
        monitors: Box<[Symbol]>,
        /// Whether it is mounted read-only.
        read_only: bool,
    },
}

/// A claim that a pod mounts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Claim {
    /// Its name in the pod's namespace.
    pub name: Symbol,
    /// Whether it is created and deleted with the pod.
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
        // The number of a pod's volumes fits into `i64`.
        i64::try_from(self.volumes.len()).unwrap_or(i64::MAX)
    }

    /// All selectors of pods.
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

    /// The topology keys of all its terms and constraints.
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

    /// The template of the pod on a node, where preferences no longer matter.
    pub(crate) fn as_placed(&self) -> Self {
        Self {
            node_name: None,
            preferred_nodes: Box::default(),
            soft_spread: Box::default(),
            images: Box::default(),
            device_claims: Box::default(),
            extended: Box::default(),
            ..self.clone()
        }
    }

    /// Compiles the template of a pod with these labels. A placed pod's node does not count as a node in its spec.
    pub(crate) fn new(
        symbols: &mut Symbols,
        pod: &wire::Pod,
        labels: &Labels,
        placed: bool,
    ) -> Result<Self, InvalidObject> {
        let spec = &pod.spec;
        let nothing = Affinity::default();
        let affinity = spec.affinity.as_deref().unwrap_or(&nothing);
        if !placed {
            limit_terms(spec, affinity)?;
        }
        let namespace = symbols.intern(pod.metadata.namespace_or_default());
        let mut terms = |terms: &[PodAffinityTerm], field: &str| -> Result<_, InvalidObject> {
            let terms = terms.iter().take(MOST_TERMS).enumerate();
            terms
                .map(|(index, term)| {
                    PodTerm::new(symbols, term, namespace, labels)
                        .map_err(|error| InvalidObject::new(format!("{field}[{index}]"), error))
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
        let image_volumes = spec.volumes.iter().filter(|volume| volume.image.is_some());
        let ports = predicates::host_ports(spec, |text| symbols.intern(text)).collect();
        Ok(Self {
            namespace,
            owner: owner.map(|owner| Owner {
                kind: symbols.intern(&owner.kind),
                name: symbols.intern(&owner.name),
            }),
            scheduling_group: spec.pod_group().map(|group| symbols.intern(group)),
            node_name: (!placed && !spec.node_name.is_empty())
                .then(|| symbols.intern(&spec.node_name)),
            node_selector: Labels::new(symbols, &spec.node_selector),
            node_affinity: node_affinity
                .map(|selector| NodeSelector::new(symbols, selector))
                .transpose()
                .map_err(|error| {
                    InvalidObject::new("spec.affinity.nodeAffinity".to_owned(), error)
                })?,
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
            // Preferences matter only while the pod has no node.
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
            // The number of a pod's containers fits into `i64`.
            containers: i64::try_from(spec.containers.len() + spec.init_containers.len())
                .unwrap_or(i64::MAX),
            image_volumes: i64::try_from(image_volumes.count()).unwrap_or(i64::MAX),
            ports,
            device_claims: if placed {
                Box::default()
            } else {
                device_claims(symbols, pod)
            },
            extended: if placed {
                Box::default()
            } else {
                requests_of(spec)
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

/// How many terms or constraints a list of a pod may have. A placed pod counts with the first ones of a longer list.
const MOST_TERMS: usize = 256;

/// Rejects a pod with a list of terms that is too long.
fn limit_terms(spec: &wire::PodSpec, affinity: &Affinity) -> Result<(), InvalidObject> {
    let lists = [
        (
            "spec.affinity.podAffinity",
            affinity.pod_affinity.required.len(),
        ),
        (
            "spec.affinity.podAffinity",
            affinity.pod_affinity.preferred.len(),
        ),
        (
            "spec.affinity.podAntiAffinity",
            affinity.pod_anti_affinity.required.len(),
        ),
        (
            "spec.affinity.podAntiAffinity",
            affinity.pod_anti_affinity.preferred.len(),
        ),
        (
            "spec.topologySpreadConstraints",
            spec.topology_spread_constraints.len(),
        ),
    ];
    match lists.into_iter().find(|(_, count)| *count > MOST_TERMS) {
        None => Ok(()),
        Some((field, count)) => {
            let most = MOST_TERMS;
            let error = InvalidField::Terms { count, most };
            Err(InvalidObject::new(field.to_owned(), error))
        }
    }
}

/// Preferred terms; anti-affinity gets a negative weight.
fn preferred_terms(
    symbols: &mut Symbols,
    affinity: &Affinity,
    namespace: Symbol,
    labels: &Labels,
) -> Result<Box<[(i64, PodTerm)]>, InvalidObject> {
    let near = affinity.pod_affinity.preferred.iter().take(MOST_TERMS);
    let near = near.enumerate();
    let near = near.map(|(index, term)| (1, "podAffinity", index, term));
    let away = affinity.pod_anti_affinity.preferred.iter().take(MOST_TERMS);
    let away = away.enumerate();
    let away = away.map(|(index, term)| (-1, "podAntiAffinity", index, term));
    near.chain(away)
        .map(|(sign, field, index, wire)| {
            let term = PodTerm::new(symbols, &wire.pod_affinity_term, namespace, labels);
            let field = || {
                format!(
                    "spec.affinity.{field}.preferredDuringSchedulingIgnoredDuringExecution[{index}]"
                )
            };
            let term = term.map_err(|error| InvalidObject::new(field(), error))?;
            Ok((sign * i64::from(wire.weight), term))
        })
        .collect()
}

/// Preferred node affinity. Terms without weight or requirements are dropped (S5-084).
pub(crate) fn preferred_nodes(
    symbols: &mut Symbols,
    affinity: &wire::NodeAffinity,
) -> Result<Box<[(i64, NodeSelector)]>, InvalidObject> {
    let has_requirements = |term: &wire::NodeSelectorTerm| {
        !(term.match_expressions.is_empty() && term.match_fields.is_empty())
    };
    let preferred = affinity.preferred.iter().enumerate();
    let preferred =
        preferred.filter(|(_, wire)| wire.weight != 0 && has_requirements(&wire.preference));
    preferred
        .map(|(index, wire)| {
            let selector = wire::NodeSelector {
                node_selector_terms: vec![wire.preference.clone()],
            };
            let field = || {
                format!("spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[{index}]")
            };
            let selector = NodeSelector::new(symbols, &selector);
            let selector = selector.map_err(|error| InvalidObject::new(field(), error))?;
            Ok((i64::from(wire.weight), selector))
        })
        .collect()
}

/// The constraints of one kind: `DoNotSchedule` or `ScheduleAnyway`.
fn spread(
    symbols: &mut Symbols,
    pod: &wire::Pod,
    labels: &Labels,
    soft: bool,
) -> Result<Box<[Spread]>, InvalidObject> {
    let constraints = pod.spec.topology_spread_constraints.iter();
    let constraints = constraints.take(MOST_TERMS).enumerate();
    let wanted =
        constraints.filter(|(_, wire)| (wire.when_unsatisfiable == "ScheduleAnyway") == soft);
    wanted
        .map(|(index, wire)| {
            Spread::new(symbols, wire, labels).map_err(|error| {
                InvalidObject::new(format!("spec.topologySpreadConstraints[{index}]"), error)
            })
        })
        .collect()
}

/// The images of a pod. A name without a tag means `latest` (S5-092).
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
