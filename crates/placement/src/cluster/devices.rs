//! Devices, resource claims, and devices that are assumed for pods on their way to a node.

use super::Cluster;
use crate::devices::DeviceChoice;
use crate::node::Node;
use crate::pod::Pod;
use crate::symbol::Symbols;
use evictd_devices::Inventory;

/// A node as selectors of devices match it.
pub(crate) struct NodeView<'c> {
    pub(crate) symbols: &'c Symbols,
    pub(crate) node: &'c Node,
}

impl evictd_devices::Node for NodeView<'_> {
    fn name(&self) -> &str {
        self.symbols.text(self.node.name)
    }

    fn label(&self, key: &str) -> Option<&str> {
        let value = self.node.labels.get(self.symbols.get(key)?)?;
        Some(self.symbols.text(value))
    }
}

impl Cluster {
    /// Slices, classes and claims.
    pub const fn devices(&self) -> &Inventory {
        &self.devices
    }

    /// Slices, classes and claims, to update. Cached results of other pods do not depend on them.
    pub const fn devices_mut(&mut self) -> &mut Inventory {
        &mut self.devices
    }

    /// Assumes these devices for a pod, so that no other pod gets them. [`Cluster::remove_pod`] releases them unless
    /// the claims themselves show the allocation.
    pub fn assume_devices(&mut self, pod: &Pod, choices: &[DeviceChoice]) {
        let pod_key = self.pod_key(pod);
        for choice in choices {
            if let Some(allocation) = &choice.allocation {
                let (uid, allocation) = (&choice.uid, allocation.clone());
                self.devices.assume(uid, &pod_key, allocation);
            }
        }
    }
}
