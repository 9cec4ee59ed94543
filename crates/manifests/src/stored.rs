//! Defaults of objects other than pods.

use evictd_pod::Node;

/// Sets the defaults of a node: without `status.allocatable` all of its capacity is allocatable. The note says so.
pub(crate) fn complete_node(node: &mut Node) -> Option<String> {
    let status = &mut node.status;
    if !status.allocatable.is_empty() {
        return None;
    }
    let is_stored = !node.metadata.uid.is_empty();
    if is_stored || status.capacity.is_empty() {
        return Some("nodes without status.allocatable have room for no pod".to_owned());
    }
    status.allocatable.clone_from(&status.capacity);
    Some("nodes without status.allocatable offer all of their capacity".to_owned())
}
