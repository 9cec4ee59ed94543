//! The node.

use super::{Document, DocumentError};
use evictd_pod::Node;

impl Document {
    /// A v1 Node, as `kubectl get node NAME -o json` prints it.
    ///
    /// # Errors
    /// Every mistake that can be found in one go, and when it is something else.
    pub fn node(&self) -> Result<Node, DocumentError> {
        let node: Node = self.parse()?;
        match node.kind.as_str() {
            "Node" => Ok(node),
            "" => {
                Err(self
                    .wrong("is no Kubernetes object, since it has no kind; a v1 Node is needed"))
            }
            other => Err(self.wrong(format!("is a {other}; a v1 Node is needed"))),
        }
    }
}
