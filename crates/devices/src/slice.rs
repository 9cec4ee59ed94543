//! Slices and the nodes that can use them.

use evictd_pod::selector::{Labels, NodeTerm};
use evictd_pod::wire;
use std::sync::Arc;

/// The properties of a node that decide which devices it can use.
pub trait Node {
    /// Its name.
    fn name(&self) -> &str;
    /// The value of one of its labels.
    fn label(&self, key: &str) -> Option<&str>;
}

impl<'n> Labels<&'n str> for &'n dyn Node {
    fn value(&self, key: &'n str) -> Option<&'n str> {
        self.label(key)
    }

    fn number(&self, value: &'n str) -> Option<i64> {
        value.parse().ok()
    }
}

/// Whether a node selector matches a node.
pub fn selects<'n>(selector: &'n wire::NodeSelector, node: &'n dyn Node) -> bool {
    let mut terms = selector.node_selector_terms.iter();
    terms.any(|term| {
        let term = NodeTerm::new(term, &mut |text| text);
        term.is_ok_and(|term| term.matches(node.name(), &node))
    })
}

/// A `ResourceSlice`.
#[derive(Debug)]
pub(crate) struct Slice {
    pub(crate) spec: wire::SliceSpec,
    /// Unique among all slices and their versions.
    pub(crate) version: u64,
    /// For each device the index of the first equal one.
    pub(crate) kinds: Vec<usize>,
    /// For each device the rules that have added its last taints, in their order; nothing if no rule selects any.
    pub(crate) rules: Vec<Vec<Arc<str>>>,
}

impl Slice {
    /// The slice as its driver has published it.
    pub(crate) fn published(&self) -> wire::SliceSpec {
        let mut spec = self.spec.clone();
        for (device, rules) in spec.devices.iter_mut().zip(&self.rules) {
            let published = device.taints.len().saturating_sub(rules.len());
            device.taints.truncate(published);
        }
        spec
    }

    /// Whether its devices have the taints of this other version, from the same rules.
    pub(crate) fn has_taints_of(&self, spec: &wire::SliceSpec, rules: &[Vec<Arc<str>>]) -> bool {
        let (has, others) = (self.spec.devices.iter(), spec.devices.iter());
        let taints = |device| -> &Vec<wire::Taint> {
            let device: &wire::Device = device;
            &device.taints
        };
        self.rules == rules && has.map(taints).eq(others.map(taints))
    }

    /// The rule that has added a taint, by the index of device and taint; `None` if the driver has published it.
    pub(crate) fn rule_of(&self, (device, taint): (usize, usize)) -> Option<&str> {
        let rules = self.rules.get(device)?;
        let published = self.spec.devices.get(device)?.taints.len() - rules.len();
        rules.get(taint.checked_sub(published)?).map(|rule| &**rule)
    }

    /// Whether it defines counters. Such a slice has no devices.
    pub(crate) fn has_counters(&self) -> bool {
        !self.spec.shared_counters.is_empty()
    }

    /// The only node that can use it.
    pub(crate) fn node(&self) -> Option<&str> {
        let name = self.spec.node_name.as_str();
        (!name.is_empty()).then_some(name)
    }

    /// Whether it can be used on nodes that labels decide.
    pub(crate) fn is_by_label(&self) -> bool {
        self.spec.node_selector.is_some() || self.is_per_device()
    }

    /// Whether each device says which nodes can use it.
    fn is_per_device(&self) -> bool {
        self.spec.per_device_node_selection == Some(true)
    }

    /// Whether the node can use one of its devices.
    pub(crate) fn is_for(&self, node: &dyn Node) -> bool {
        let spec = &self.spec;
        if self.is_per_device() {
            return spec.devices.iter().any(|device| self.allows(device, node));
        }
        matches(
            &spec.node_name,
            spec.all_nodes,
            spec.node_selector.as_ref(),
            node,
        )
    }

    /// Whether a device of the slice allows the node, if each says so itself.
    pub(crate) fn allows(&self, device: &wire::Device, node: &dyn Node) -> bool {
        let selector = device.node_selector.as_ref();
        !self.is_per_device() || matches(&device.node_name, device.all_nodes, selector, node)
    }

    /// The node and the nodes that can use a device.
    pub(crate) fn nodes_of<'s>(
        &'s self,
        device: &'s wire::Device,
    ) -> (&'s str, Option<&'s wire::NodeSelector>) {
        if self.is_per_device() {
            (&device.node_name, device.node_selector.as_ref())
        } else {
            (&self.spec.node_name, self.spec.node_selector.as_ref())
        }
    }
}

fn matches(name: &str, all: bool, selector: Option<&wire::NodeSelector>, node: &dyn Node) -> bool {
    if name.is_empty() {
        all || selector.is_some_and(|selector| selects(selector, node))
    } else {
        name == node.name()
    }
}

/// For each device the index of the first one that differs from it only by name.
pub(crate) fn kinds(devices: &[wire::Device]) -> Vec<usize> {
    let mut kinds: Vec<usize> = Vec::with_capacity(devices.len());
    for (index, device) in devices.iter().enumerate() {
        let mut known = (0..index).filter(|other| kinds[*other] == *other);
        let known = known.find(|other| are_equal(&devices[*other], device));
        kinds.push(known.unwrap_or(index));
    }
    kinds
}

fn are_equal(one: &wire::Device, other: &wire::Device) -> bool {
    let of = |device: &wire::Device| {
        (
            device.binds_to_node,
            device.allow_multiple_allocations,
            device.all_nodes,
        )
    };
    of(one) == of(other)
        && one.attributes == other.attributes
        && one.capacity == other.capacity
        && one.taints == other.taints
        && one.consumes_counters == other.consumes_counters
        && one.binding_conditions == other.binding_conditions
        && one.node_name == other.node_name
        && one.node_selector == other.node_selector
}
