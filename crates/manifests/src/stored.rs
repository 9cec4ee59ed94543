//! Defaults of objects other than pods.

use evictd_pod::Node;

/// Sets what the API server sets for a node that it stores: without `status.allocatable` all of the capacity is
/// allocatable. Whether anything was set.
pub fn complete_node(node: &mut Node) -> bool {
    let status = &mut node.status;
    let lacks = node.metadata.uid.is_empty()
        && status.allocatable.is_empty()
        && !status.capacity.is_empty();
    if lacks {
        status.allocatable.clone_from(&status.capacity);
    }
    lacks
}
