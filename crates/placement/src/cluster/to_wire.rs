//! Converts a node back to the API's form.

use super::Cluster;
use crate::id::NodeId;
use evictd_pod::node::{NodeImage, NodeSpec, NodeStatus};
use evictd_pod::pressure::CLOSE_TO;
use evictd_pod::resources::{CPU, EPHEMERAL_STORAGE, MEMORY, PODS};
use evictd_pod::wire::Metadata;
use evictd_pod::wire::Taint;
use evictd_pod::{Node, Quantity};

impl Cluster {
    /// The `Node` object that [`Cluster::update_node`] would compile to this node: its name, labels, taints, cordon,
    /// allocatable resources, images and pressure.
    pub fn node_to_wire(&self, id: NodeId) -> Node {
        let (node, symbols) = (self.node(id), &self.symbols);
        let text = |symbol| symbols.text(symbol).to_owned();
        let taints = node.taints.iter().map(|taint| Taint {
            key: text(taint.key),
            value: text(taint.value),
            effect: text(taint.effect),
            time_added: None,
        });
        let images = node.images.iter().map(|name| NodeImage {
            names: vec![text(*name)],
            size_bytes: self.images.get(*name).map_or(0, |image| image.size),
        });
        let amounts = &node.allocatable;
        let common = [
            (CPU, Quantity::milli(amounts.cpu)),
            (MEMORY, Quantity::bytes(amounts.memory)),
            (
                EPHEMERAL_STORAGE,
                Quantity::bytes(amounts.ephemeral_storage),
            ),
            (PODS, Quantity::count(node.allowed_pods)),
        ];
        let common = common.map(|(name, amount)| (name.to_owned(), amount));
        let scalars = self.scalars(amounts.scalars).iter();
        let scalars = scalars.map(|(name, amount)| (text(*name), Quantity::count(*amount)));
        let labels = node.labels.iter();
        let (conditions, close_to) = node.pressure.to_wire();
        let annotations = close_to.into_iter();
        Node {
            metadata: Metadata {
                name: text(node.name),
                labels: labels
                    .map(|(key, value)| (text(key), text(value)))
                    .collect(),
                annotations: annotations
                    .map(|close| (CLOSE_TO.to_owned(), close))
                    .collect(),
                ..Metadata::default()
            },
            spec: NodeSpec {
                taints: taints.collect(),
                unschedulable: node.unschedulable,
            },
            status: NodeStatus {
                allocatable: common.into_iter().chain(scalars).collect(),
                images: images.collect(),
                conditions,
                ..NodeStatus::default()
            },
            ..Node::default()
        }
    }
}
