//! Converts a node back to the API's form.

use crate::images::Images;
use crate::node;
use crate::symbol::{Symbol, Symbols};
use evictd_pod::node::{NodeImage, NodeSpec, NodeStatus};
use evictd_pod::pressure::CLOSE_TO;
use evictd_pod::resources::{CPU, EPHEMERAL_STORAGE, MEMORY, PODS};
use evictd_pod::wire::Metadata;
use evictd_pod::wire::Taint;
use evictd_pod::{Node, Quantity};

impl node::Node {
    /// The `Node` object that is compiled to this node, from the cluster's texts, images and the node's scalar resources.
    pub(super) fn to_wire(
        &self,
        symbols: &Symbols,
        images: &Images,
        scalars: &[(Symbol, i64)],
    ) -> Node {
        let node = self;
        let text = |symbol| symbols.text(symbol).to_owned();
        let taints = node.taints.iter().map(|taint| Taint {
            key: text(taint.key),
            value: text(taint.value),
            effect: text(taint.effect),
            time_added: None,
        });
        let images = node.images.iter().map(|name| NodeImage {
            names: vec![text(*name)],
            size_bytes: images.get(*name).map_or(0, |image| image.size),
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
        let scalars = scalars
            .iter()
            .map(|(name, amount)| (text(*name), Quantity::count(*amount)));
        let [cpu, memory] = node.capacity;
        let capacity = [
            (CPU, Quantity::milli(cpu)),
            (MEMORY, Quantity::bytes(memory)),
        ];
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
                ..NodeSpec::default()
            },
            status: NodeStatus {
                capacity: capacity
                    .map(|(name, amount)| (name.to_owned(), amount))
                    .into_iter()
                    .collect(),
                allocatable: common.into_iter().chain(scalars).collect(),
                images: images.collect(),
                conditions,
                ..NodeStatus::default()
            },
            ..Node::default()
        }
    }
}
