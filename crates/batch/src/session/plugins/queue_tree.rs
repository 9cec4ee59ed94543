//! The tree of queues by `spec.parent`, for plugin capacity with `enableHierarchy` (S6-152 to S6-154).

use crate::session::objects::ROOT;
use crate::session::snapshot::Snapshot;
use crate::session::snapshot::ids::QueueId;

/// The queues above and below each queue.
#[derive(Debug, Clone, Default)]
pub(crate) struct QueueTree {
    /// By queue, the queues above it, the root first.
    pub(crate) ancestors: Vec<Vec<QueueId>>,
    /// By queue, in the order of their names.
    pub(crate) children: Vec<Vec<QueueId>>,
    /// By queue, why it has no place in the tree.
    faults: Vec<Option<TreeFault>>,
    root: Option<QueueId>,
}

/// Why a queue has no place in the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TreeFault {
    /// The parent of this queue, or of one above it, does not exist.
    MissingParent(QueueId),
    /// The parents of this queue lead back to a queue on the way.
    Cycle(QueueId),
}

impl QueueTree {
    pub(crate) fn open(snapshot: &Snapshot) -> Self {
        let count = snapshot.queues.len();
        let mut tree = Self {
            ancestors: vec![Vec::new(); count],
            children: vec![Vec::new(); count],
            faults: vec![None; count],
            root: snapshot
                .live_queues()
                .find(|(_, queue)| &*queue.name == ROOT)
                .map(|(id, _)| id),
        };
        for (id, _) in snapshot.live_queues() {
            match path_to_root(snapshot, id) {
                Ok(path) => {
                    if let Some(parent) = path.last() {
                        tree.children[*parent].push(id);
                    }
                    tree.ancestors[id] = path;
                }
                Err(fault) => tree.faults[id] = Some(fault),
            }
        }
        for children in &mut tree.children {
            children.sort_unstable_by_key(|child| &snapshot.queues[*child].name);
        }
        tree
    }

    /// Whether Volcano would use the tree: it refuses a whole tree for a fault of one queue (S6-153).
    pub(crate) fn is_sound(&self, snapshot: &Snapshot) -> bool {
        let inner = |queue: QueueId| !self.is_leaf(queue);
        self.root.is_some()
            && self.faults.iter().all(Option::is_none)
            && !snapshot.live_jobs().any(|(_, job)| inner(job.queue))
    }

    pub(crate) fn fault(&self, queue: QueueId) -> Option<TreeFault> {
        self.faults[queue]
    }

    pub(crate) fn is_leaf(&self, queue: QueueId) -> bool {
        self.children[queue].is_empty()
    }

    pub(crate) fn is_root(&self, queue: QueueId) -> bool {
        self.root == Some(queue)
    }

    /// The queues without a parent: the root, and the children of a root that does not exist.
    pub(crate) fn tops(&self, snapshot: &Snapshot) -> Vec<QueueId> {
        let queues = snapshot.live_queues().map(|(id, _)| id);
        queues
            .filter(|id| self.faults[*id].is_none() && self.ancestors[*id].is_empty())
            .collect()
    }

    /// The queue so many levels above another one: 1 is its parent.
    pub(crate) fn above(&self, queue: QueueId, level: usize) -> Option<QueueId> {
        let ancestors = &self.ancestors[queue];
        ancestors
            .len()
            .checked_sub(level)
            .and_then(|at| ancestors.get(at).copied())
    }

    /// The index of the deepest ancestor that two queues have in common; 0 also if they have none (S6-168).
    pub(crate) fn common_level(&self, one: QueueId, other: QueueId) -> usize {
        let pairs = self.ancestors[one].iter().zip(&self.ancestors[other]);
        let common = pairs.take_while(|(one, other)| one == other).count();
        common.saturating_sub(1)
    }

    /// The queues on the paths of two leaves that are children of their deepest common ancestor (S6-160).
    pub(crate) fn below_common(&self, one: QueueId, other: QueueId) -> (QueueId, QueueId) {
        let level = self.common_level(one, other);
        let below = |queue: QueueId| {
            let next = self.ancestors[queue].get(level + 1);
            next.copied().unwrap_or(queue)
        };
        (below(one), below(other))
    }
}

/// The queues above a queue, the root first.
fn path_to_root(snapshot: &Snapshot, queue: QueueId) -> Result<Vec<QueueId>, TreeFault> {
    let mut path = Vec::new();
    let mut at = queue;
    // The root has no parent, whatever its spec says.
    while &*snapshot.queues[at].name != ROOT {
        match snapshot.queues[at].parent {
            Some(parent) if path.len() < snapshot.queues.len() => path.push(parent),
            Some(_) => return Err(TreeFault::Cycle(at)),
            // A root without an object has no limits.
            None if &*snapshot.queues[at].parent_name == ROOT => break,
            None => return Err(TreeFault::MissingParent(at)),
        }
        at = path.last().copied().unwrap_or(at);
    }
    path.reverse();
    Ok(path)
}
