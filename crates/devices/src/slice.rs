//! Slices and the nodes that can use them.

use evictd_pod::selector::{Labels, NodeTerm};
use evictd_pod::wire;

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
}

impl Slice {
    /// Devices of partitionable pools are not supported.
    pub(crate) fn is_supported(&self) -> bool {
        self.spec.per_device_node_selection.is_none() && self.spec.shared_counters.is_empty()
    }

    /// The only node that can use it.
    pub(crate) fn node(&self) -> Option<&str> {
        let name = self.spec.node_name.as_str();
        (!name.is_empty()).then_some(name)
    }

    pub(crate) fn is_for(&self, node: &dyn Node) -> bool {
        match &self.spec {
            spec if !spec.node_name.is_empty() => spec.node_name == node.name(),
            spec if spec.all_nodes => true,
            spec => spec
                .node_selector
                .as_ref()
                .is_some_and(|selector| selects(selector, node)),
        }
    }
}
