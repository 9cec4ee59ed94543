//! A node as selectors of devices match it.

use crate::node::Node;
use crate::symbol::Symbols;

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
