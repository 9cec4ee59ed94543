//! Reads nodes and leases.

use crate::{
    amounts::amounts_of_list, document::Document, error::DocumentError, finder::Finder, yaml,
};
use evictd_pod::{Node, node::Lease};
use serde::Deserialize;

#[derive(Deserialize)]
struct Kind {
    kind: String,
}

/// A list as `kubectl get` prints it.
#[derive(Deserialize)]
struct List {
    items: Vec<Item>,
}

#[derive(Deserialize)]
#[serde(tag = "kind")]
enum Item {
    Node(Node),
    Lease(Lease),
    #[serde(other)]
    Other,
}

impl Document {
    /// Parses a v1 Node, as `kubectl get node NAME -o json` prints it.
    ///
    /// # Errors
    /// All mistakes that one pass finds, or another kind of object.
    pub fn node(&self) -> Result<Node, DocumentError> {
        let node: Node = self.parse()?;
        match node.kind.as_str() {
            "Node" => {
                self.check_amounts(&node)?;
                Ok(node)
            }
            "" => Err(self
                .wrong("is not a Kubernetes object, because it has no kind; a v1 Node is needed")),
            other => Err(self.wrong(format!("is a {other}; a v1 Node is needed"))),
        }
    }

    /// Negative amounts of a node are mistakes.
    fn check_amounts(&self, node: &Node) -> Result<(), DocumentError> {
        let amounts = amounts_of_list(&node.status.allocatable, &["status", "allocatable"]);
        let spans = yaml::spans(self.text());
        let mut finder = Finder::new(self.name());
        finder.find_negative(&node.metadata.name, &amounts, |way| {
            spans.first()?.place(way)
        });
        finder.finish(())
    }

    /// Parses a v1 Node, or a v1 List with one Node and its lease, as `kubectl get -n kube-node-lease node/NAME
    /// lease/NAME -o json` prints it.
    ///
    /// # Errors
    /// As for [`Self::node`], and unless there is exactly one node.
    pub fn node_and_lease(&self) -> Result<(Node, Option<Lease>), DocumentError> {
        if !self.parse::<Kind>().is_ok_and(|one| one.kind == "List") {
            return Ok((self.node()?, None));
        }
        let (mut nodes, mut leases) = (Vec::new(), Vec::new());
        for item in self.parse::<List>()?.items {
            match item {
                Item::Node(node) => nodes.push(node),
                Item::Lease(lease) => leases.push(lease),
                Item::Other => {}
            }
        }
        let [node] = <[Node; 1]>::try_from(nodes).map_err(|nodes| {
            let count = nodes.len();
            self.wrong(format!("holds {count} nodes; exactly one is needed"))
        })?;
        self.check_amounts(&node)?;
        let of_node = |lease: &Lease| lease.metadata.name == node.metadata.name;
        let lease = leases.into_iter().find(of_node);
        Ok((node, lease))
    }
}
