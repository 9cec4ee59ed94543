//! Devices, the claims on them, and what was promised to pods on their way to a node.

use super::Cluster;
use crate::devices::DeviceChoice;
use crate::node::Node;
use crate::pod::Pod;
use crate::symbol::Symbols;
use evictd_devices::Inventory;

/// A node as selectors of devices see it.
pub(crate) struct Seen<'c> {
    pub(crate) symbols: &'c Symbols,
    pub(crate) node: &'c Node,
}

impl evictd_devices::Node for Seen<'_> {
    fn name(&self) -> &str {
        self.symbols.text(self.node.name)
    }

    fn label(&self, key: &str) -> Option<&str> {
        let value = self.node.labels.get(self.symbols.get(key)?)?;
        Some(self.symbols.text(value))
    }
}

impl Cluster {
    /// What is known of devices.
    pub const fn devices(&self) -> &Inventory {
        &self.devices
    }

    /// The same, to be told of slices, classes and claims. Answers that are kept for other pods do not depend on them.
    pub const fn devices_mut(&mut self) -> &mut Inventory {
        &mut self.devices
    }

    /// A pod gets these devices with its node: nobody else is given them. [`Cluster::remove_pod`] takes that back as long as
    /// the claims themselves do not say it.
    pub fn promise_devices(&mut self, pod: &Pod, choices: &[DeviceChoice]) {
        let known_as = self.known_as(pod);
        for choice in choices {
            if let Some(allocation) = &choice.allocation {
                let (uid, allocation) = (&choice.uid, allocation.clone());
                self.devices.promise(uid, &known_as, allocation);
            }
        }
    }
}
