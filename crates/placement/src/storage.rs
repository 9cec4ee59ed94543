//! Claims, volumes, storage classes and attach limits, as far as they affect scheduling.

use crate::attached;
use crate::invalid_object::InvalidObject;
use crate::labels::Labels;
use crate::resources::amount;
use crate::selector::{NodeSelector, Selector};
use crate::symbol::{Symbol, Symbols};
use crate::table::Objects;
use evictd_pod::Quantity;
use evictd_pod::quantity::Format;
use evictd_pod::resources::units;
use evictd_pod::selector::SelectorError;
use evictd_pod::wire::{self, Metadata};
use hashbrown::HashMap;
use hashbrown::hash_map::Entry;

/// Zone and region labels of volumes, each with the label that replaced it.
pub(crate) const ZONE_LABELS: [(&str, &str); 4] = [
    (
        "failure-domain.beta.kubernetes.io/zone",
        "topology.kubernetes.io/zone",
    ),
    (
        "failure-domain.beta.kubernetes.io/region",
        "topology.kubernetes.io/region",
    ),
    ("topology.kubernetes.io/zone", "topology.kubernetes.io/zone"),
    (
        "topology.kubernetes.io/region",
        "topology.kubernetes.io/region",
    ),
];

/// The drivers on a node, each with its attach limit.
pub(crate) type AttachLimits = Box<[(Symbol, Option<i64>)]>;

/// All storage objects of the cluster.
#[derive(Debug, Default)]
pub(crate) struct Storage {
    /// By namespace and name.
    pub(crate) claims: Objects<(Symbol, Symbol), PersistentClaim>,
    pub(crate) volumes: Objects<Symbol, PersistentVolume>,
    pub(crate) classes: Objects<Symbol, StorageClass>,
    /// The drivers that are registered on each node, with their attach limits.
    pub(crate) limits: Objects<Symbol, AttachLimits>,
    /// By driver.
    pub(crate) drivers: Objects<Symbol, CsiDriver>,
    /// By namespace and name.
    pub(crate) capacities: Objects<(Symbol, Symbol), Capacity>,
    /// The node of each `VolumeAttachment`, by its name.
    attachments: Objects<Symbol, Symbol>,
    /// The attachments of each node.
    attachments_of: HashMap<Symbol, Vec<VolumeAttachment>>,
}

/// A `CSIDriver`.
#[derive(Debug)]
pub(crate) struct CsiDriver {
    /// Whether it publishes storage capacities.
    pub(crate) publishes_capacity: bool,
    /// Whether pods with its volumes are kept off nodes without it.
    pub(crate) must_be_installed: bool,
}

/// A `VolumeAttachment` of a persistent volume.
#[derive(Debug, Clone, Copy)]
pub(crate) struct VolumeAttachment {
    name: Symbol,
    pub(crate) driver: Symbol,
    pub(crate) volume: Symbol,
}

/// A `CSIStorageCapacity`.
#[derive(Debug)]
pub(crate) struct Capacity {
    pub(crate) class: Symbol,
    /// Bytes of the largest volume that can be provisioned; `None` is unknown and counts as none.
    pub(crate) largest_volume: Option<i64>,
    /// Bytes that are left for all volumes; `None` is unknown.
    pub(crate) total: Option<i64>,
    /// The nodes to which it applies.
    pub(crate) nodes: Selector,
}

/// A `PersistentVolumeClaim`.
#[derive(Debug)]
pub(crate) struct PersistentClaim {
    pub(crate) namespace: Symbol,
    pub(crate) name: Symbol,
    /// The volume in its `volumeName`.
    pub(crate) volume: Option<Symbol>,
    pub(crate) state: ClaimState,
    pub(crate) class: Option<Symbol>,
    pub(crate) access: Access,
    pub(crate) requested: i64,
    pub(crate) is_block: bool,
    /// Restricts the volumes; `None` allows all.
    pub(crate) selector: Option<Selector>,
    /// The node on which its volume is being provisioned.
    pub(crate) selected_node: Option<Symbol>,
    pub(crate) is_terminating: bool,
}

/// The phase of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClaimState {
    Unbound,
    /// Claim and volume refer to each other.
    Bound,
    /// The claim's volume no longer exists.
    Lost,
}

impl PersistentClaim {
    /// A new claim that asks for the same and has no volume yet; `None` if it restricts the volumes by their labels.
    pub(crate) fn like(
        &self,
        symbols: &Symbols,
        name: String,
    ) -> Option<wire::PersistentVolumeClaim> {
        if self.selector.is_some() {
            return None;
        }
        let storage = Quantity::new(self.requested, Format::BinarySi);
        let mut claim = wire::PersistentVolumeClaim::default();
        claim.metadata.namespace = symbols.text(self.namespace).to_owned().into();
        claim.metadata.name = name;
        let spec = &mut claim.spec;
        spec.storage_class_name = self.class.map(|class| symbols.text(class).to_owned());
        spec.access_modes = self.access.names();
        spec.resources.requests.insert("storage", storage);
        if self.is_block {
            "Block".clone_into(&mut spec.volume_mode);
        }
        Some(claim)
    }
}

impl ClaimState {
    fn new(wire: &wire::PersistentVolumeClaim) -> Self {
        let completed = "pv.kubernetes.io/bind-completed";
        let completed = wire.metadata.annotations.contains_key(completed);
        match wire.status.phase.as_str() {
            "Lost" => Self::Lost,
            // The binder writes the annotation before the phase, and the claim is bound from then on.
            phase if (phase == "Bound" || completed) && !wire.spec.volume_name.is_empty() => {
                Self::Bound
            }
            _ => Self::Unbound,
        }
    }
}

/// A `PersistentVolume`.
#[derive(Debug)]
pub(crate) struct PersistentVolume {
    pub(crate) labels: Labels,
    /// The nodes that reach it; `None` is all.
    pub(crate) affinity: Option<NodeSelector>,
    pub(crate) class: Option<Symbol>,
    pub(crate) capacity: i64,
    pub(crate) access: Access,
    pub(crate) is_block: bool,
    /// Namespace and name of its `claimRef`.
    pub(crate) claim: Option<(Symbol, Symbol)>,
    pub(crate) is_available: bool,
    pub(crate) is_terminating: bool,
    /// The driver that attaches it, and the driver's name for it.
    pub(crate) attached: Option<(Symbol, Symbol)>,
    /// The CSI volume handle. Such a volume counts as long as its `VolumeAttachment` exists.
    pub(crate) csi_handle: Option<Symbol>,
    pub(crate) zones: Box<[Zone]>,
}

/// A zone or region label of a volume.
#[derive(Debug, Clone)]
pub(crate) struct Zone {
    pub(crate) key: Symbol,
    /// The label key that nodes use today.
    pub(crate) modern: Symbol,
    pub(crate) values: Box<[Symbol]>,
}

/// A `StorageClass`.
#[derive(Debug)]
pub(crate) struct StorageClass {
    /// Whether its binding mode is `WaitForFirstConsumer`.
    pub(crate) is_delayed: bool,
    /// The provisioner; `None` if volumes are not provisioned.
    pub(crate) provisioner: Option<Symbol>,
    /// The driver that attaches its volumes.
    pub(crate) attacher: Option<Symbol>,
    /// Where volumes can be provisioned; `None` is everywhere.
    pub(crate) topologies: Option<NodeSelector>,
}

/// Access modes, a bit each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Access(u8);

impl Access {
    const MODES: [&'static str; 4] = [
        "ReadWriteOnce",
        "ReadOnlyMany",
        "ReadWriteMany",
        "ReadWriteOncePod",
    ];

    fn new(modes: &[String]) -> Self {
        let known = Self::MODES.iter().enumerate();
        let given = known.filter(|(_, mode)| modes.iter().any(|given| given == *mode));
        Self(given.fold(0, |bits, (index, _)| bits | 1 << index))
    }

    /// The names of the modes.
    fn names(self) -> Vec<String> {
        let modes = Self::MODES.iter().enumerate();
        let given = modes.filter(|(index, _)| self.0 & 1 << index != 0);
        given.map(|(_, mode)| (*mode).to_owned()).collect()
    }

    /// Whether only one pod may use it (`ReadWriteOncePod`).
    pub(crate) const fn is_exclusive(self) -> bool {
        self.0 & 1 << 3 != 0
    }

    /// Whether it contains all modes of `wanted`.
    pub(crate) const fn covers(self, wanted: Self) -> bool {
        self.0 & wanted.0 == wanted.0
    }
}

/// A text; an empty one counts as absent.
fn given(symbols: &mut Symbols, text: &str) -> Option<Symbol> {
    (!text.is_empty()).then(|| symbols.intern(text))
}

/// The class of a claim or volume. The annotation is older than the field and takes precedence.
fn class(symbols: &mut Symbols, metadata: &Metadata, field: &str) -> Option<Symbol> {
    let annotation = metadata
        .annotations
        .get("volume.beta.kubernetes.io/storage-class");
    given(symbols, annotation.unwrap_or(field))
}

fn mistake(field: &'static str) -> impl Fn(SelectorError) -> InvalidObject {
    move |error| InvalidObject::new(field.to_owned(), error)
}

impl Storage {
    pub(crate) fn add_claim(
        &mut self,
        symbols: &mut Symbols,
        wire: &wire::PersistentVolumeClaim,
    ) -> Result<(), InvalidObject> {
        let (metadata, spec) = (&wire.metadata, &wire.spec);
        let namespace = symbols.intern(metadata.namespace_or_default());
        let name = symbols.intern(&metadata.name);
        let selector = spec.selector.as_ref();
        let selector = selector.map(|selector| Selector::new(symbols, Some(selector)));
        let claim = PersistentClaim {
            namespace,
            name,
            volume: given(symbols, &spec.volume_name),
            state: ClaimState::new(wire),
            class: class(
                symbols,
                metadata,
                spec.storage_class_name.as_deref().unwrap_or(""),
            ),
            access: Access::new(&spec.access_modes),
            requested: amount(&spec.resources.requests, "storage"),
            is_block: spec.volume_mode == "Block",
            selector: selector.transpose().map_err(mistake("spec.selector"))?,
            selected_node: metadata
                .annotations
                .get("volume.kubernetes.io/selected-node")
                .and_then(|node| given(symbols, node)),
            is_terminating: metadata.deletion_timestamp.is_some(),
        };
        self.claims.put(symbols, (namespace, name), claim);
        Ok(())
    }

    pub(crate) fn add_volume(
        &mut self,
        symbols: &mut Symbols,
        wire: &wire::PersistentVolume,
    ) -> Result<(), InvalidObject> {
        let (metadata, spec) = (&wire.metadata, &wire.spec);
        let affinity = spec.node_affinity.required.as_ref();
        let affinity = affinity.map(|affinity| NodeSelector::new(symbols, affinity));
        let claim = spec.claim_ref.as_ref();
        let attached = attached::of_volume(wire);
        let volume = PersistentVolume {
            labels: Labels::new(symbols, &metadata.labels),
            affinity: affinity.transpose().map_err(mistake("spec.nodeAffinity"))?,
            class: class(symbols, metadata, &spec.storage_class_name),
            capacity: amount(&spec.capacity, "storage"),
            access: Access::new(&spec.access_modes),
            is_block: spec.volume_mode == "Block",
            claim: claim.map(|claim| {
                (
                    symbols.intern(&claim.namespace),
                    symbols.intern(&claim.name),
                )
            }),
            // A handwritten volume has no phase, and is free.
            is_available: matches!(wire.status.phase.as_str(), "" | "Available"),
            is_terminating: metadata.deletion_timestamp.is_some(),
            attached: attached
                .map(|(driver, handle)| (symbols.intern(driver), symbols.intern(&handle))),
            csi_handle: spec
                .csi
                .as_ref()
                .map(|csi| symbols.intern(&csi.volume_handle)),
            zones: zones(symbols, metadata),
        };
        let name = symbols.intern(&metadata.name);
        self.volumes.put(symbols, name, volume);
        Ok(())
    }

    pub(crate) fn add_class(
        &mut self,
        symbols: &mut Symbols,
        wire: &wire::StorageClass,
    ) -> Result<(), InvalidObject> {
        let topologies = topologies(&wire.allowed_topologies);
        let topologies = topologies.map(|topologies| NodeSelector::new(symbols, &topologies));
        // This name means that volumes are made by hand: nothing is provisioned or attached by a driver.
        let is_static = wire.provisioner == "kubernetes.io/no-provisioner";
        let attacher = attached::by_provisioner(&wire.provisioner);
        let class = StorageClass {
            attacher: given(symbols, attacher).filter(|_| !is_static),
            is_delayed: wire.volume_binding_mode == "WaitForFirstConsumer",
            provisioner: given(symbols, &wire.provisioner).filter(|_| !is_static),
            topologies: topologies
                .transpose()
                .map_err(mistake("allowedTopologies"))?,
        };
        let name = symbols.intern(&wire.metadata.name);
        self.classes.put(symbols, name, class);
        Ok(())
    }

    pub(crate) fn add_driver(&mut self, symbols: &mut Symbols, wire: &wire::CsiDriverObject) {
        let name = symbols.intern(&wire.metadata.name);
        let driver = CsiDriver {
            publishes_capacity: wire.spec.storage_capacity,
            must_be_installed: wire.spec.prevent_pod_scheduling_if_missing,
        };
        self.drivers.put(symbols, name, driver);
    }

    pub(crate) fn add_capacity(
        &mut self,
        symbols: &mut Symbols,
        wire: &wire::CsiStorageCapacity,
    ) -> Result<(), InvalidObject> {
        let nodes = Selector::new(symbols, wire.node_topology.as_ref());
        // A driver that limits single volumes says so; else a volume may take the whole pool.
        let largest_volume = wire.maximum_volume_size.or(wire.capacity);
        let capacity = Capacity {
            class: symbols.intern(&wire.storage_class_name),
            largest_volume: largest_volume.map(|largest_volume| units("storage", largest_volume)),
            total: wire.capacity.map(|total| units("storage", total)),
            nodes: nodes.map_err(mistake("nodeTopology"))?,
        };
        let namespace = symbols.intern(wire.metadata.namespace_or_default());
        let name = symbols.intern(&wire.metadata.name);
        self.capacities.put(symbols, (namespace, name), capacity);
        Ok(())
    }

    pub(crate) fn add_csi_node(&mut self, symbols: &mut Symbols, wire: &wire::CsiNode) {
        let drivers = wire.spec.drivers.iter();
        let limits = drivers.map(|driver| (symbols.intern(&driver.name), driver.allocatable.count));
        let limits: Box<[_]> = limits.collect();
        let name = symbols.intern(&wire.metadata.name);
        self.limits.put(symbols, name, limits);
    }

    /// Adds an attachment whose name is new. An attachment without a driver or a persistent volume is ignored.
    pub(crate) fn add_attachment(&mut self, symbols: &mut Symbols, wire: &wire::VolumeAttachment) {
        let spec = &wire.spec;
        let volume = &spec.source.persistent_volume_name;
        // An inline volume has no PersistentVolume and counts by the pod that uses it.
        if [&spec.attacher, &spec.node_name, volume]
            .iter()
            .any(|text| text.is_empty())
        {
            return;
        }
        let name = symbols.intern(&wire.metadata.name);
        let node = symbols.intern(&spec.node_name);
        let attachment = VolumeAttachment {
            name,
            driver: symbols.intern(&spec.attacher),
            volume: symbols.intern(volume),
        };
        self.attachments.put(symbols, name, node);
        self.attachments_of
            .entry(node)
            .or_default()
            .push(attachment);
    }

    /// The node of an attachment.
    pub(crate) fn attached_to(&self, name: Symbol) -> Option<Symbol> {
        self.attachments.get(&name).copied()
    }

    /// Removes an attachment from its node.
    pub(crate) fn remove_attachment(&mut self, symbols: &mut Symbols, name: Symbol, node: Symbol) {
        if let Entry::Occupied(mut attachments) = self.attachments_of.entry(node) {
            attachments.get_mut().retain(|other| other.name != name);
            // An empty list would stay for a node that may never come back.
            if attachments.get().is_empty() {
                attachments.remove();
            }
        }
        self.attachments.remove(symbols, &name);
    }

    /// The attachments of a node.
    pub(crate) fn attachments_of(&self, node: Symbol) -> &[VolumeAttachment] {
        self.attachments_of.get(&node).map_or(&[], Vec::as_slice)
    }
}

/// Parses zones that are joined with two underscores. A label with an empty zone is ignored.
fn zones(symbols: &mut Symbols, metadata: &Metadata) -> Box<[Zone]> {
    let labels = ZONE_LABELS.into_iter();
    let labels = labels.filter_map(|(key, modern)| {
        let value = metadata.labels.get(key)?;
        let mut values = value.split("__").map(str::trim);
        // As in kube-scheduler, a malformed label excludes no node.
        if values.clone().any(str::is_empty) {
            return None;
        }
        let values = values.by_ref().map(|value| symbols.intern(value)).collect();
        Some(Zone {
            key: symbols.intern(key),
            modern: symbols.intern(modern),
            values,
        })
    });
    labels.collect()
}

/// Converts the terms to a node selector.
fn topologies(terms: &[wire::TopologySelectorTerm]) -> Option<wire::NodeSelector> {
    let terms = terms.iter().map(|term| wire::NodeSelectorTerm {
        match_expressions: term
            .match_label_expressions
            .iter()
            .map(|label| wire::Requirement {
                key: label.key.clone(),
                operator: "In".to_owned(),
                values: label.values.clone(),
            })
            .collect(),
        match_fields: Vec::new(),
    });
    let node_selector_terms: Vec<_> = terms.collect();
    (!node_selector_terms.is_empty()).then_some(wire::NodeSelector {
        node_selector_terms,
    })
}
