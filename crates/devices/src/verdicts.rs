//! Verdicts about nodes, shared by pods whose claims ask for the same. A verdict holds until a slice or the use of a device
//! changes that the node can see, so that usually one node is searched for each pod.

use crate::limits::Problem;
use crate::pool::PoolEntry;
use crate::slice::Slice;
use hashbrown::HashMap;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// For how many kinds of claims verdicts are kept.
const MOST_KINDS: usize = 16;

/// When something changed that the nodes can see.
#[derive(Debug, Default)]
pub(crate) struct Versions {
    /// The last change that several nodes see.
    all: u64,
    /// The last change that only one node sees.
    nodes: HashMap<Box<str>, u64>,
    last: u64,
    /// How many slices choose nodes by label. Labels of nodes change unseen, so that nothing is kept with such slices.
    by_label: usize,
}

/// The version of the slices and uses that a node can see.
type Version = (u64, u64);

impl Versions {
    /// A slice was added, or removed.
    pub(crate) fn slice(&mut self, slice: &Slice, is_new: bool) {
        if slice.is_by_label() {
            self.by_label = if is_new {
                self.by_label + 1
            } else {
                self.by_label.saturating_sub(1)
            };
        }
        self.see(slice);
    }

    /// The use of a device of the pool has changed.
    pub(crate) fn usage(&mut self, pool: &PoolEntry) {
        for slice in pool.slices.values() {
            self.see(slice);
        }
    }

    /// Something changed that every node sees.
    pub(crate) const fn all(&mut self) {
        self.last += 1;
        self.all = self.last;
    }

    /// The node has no local slice any more.
    pub(crate) fn forget(&mut self, node: &str) {
        self.nodes.remove(node);
    }

    fn see(&mut self, slice: &Slice) {
        self.last += 1;
        match slice.node() {
            Some(node) => match self.nodes.get_mut(node) {
                Some(version) => *version = self.last,
                None => {
                    self.nodes.insert(node.into(), self.last);
                }
            },
            None => self.all = self.last,
        }
    }

    /// `None` if the verdict may depend on labels.
    fn of(&self, node: &str) -> Option<Version> {
        let version = self.nodes.get(node).copied().unwrap_or_default();
        (self.by_label == 0).then_some((self.all, version))
    }
}

/// The verdicts about nodes for one kind of claims.
#[derive(Debug, Default)]
pub(crate) struct NodeVerdicts(Mutex<HashMap<Box<str>, (Version, Verdict)>>);

/// Whether devices fit. Answers that name a claim are not kept.
#[derive(Debug, Clone, Copy)]
enum Verdict {
    Fits,
    NotEnough,
    InvalidPools,
}

impl Verdict {
    fn of(found: &Result<(), Problem>) -> Option<Self> {
        match found {
            Ok(()) => Some(Self::Fits),
            Err(Problem::NotEnough) => Some(Self::NotEnough),
            Err(Problem::InvalidPools) => Some(Self::InvalidPools),
            Err(_) => None,
        }
    }

    const fn result(self) -> Result<(), Problem> {
        match self {
            Self::Fits => Ok(()),
            Self::NotEnough => Err(Problem::NotEnough),
            Self::InvalidPools => Err(Problem::InvalidPools),
        }
    }
}

impl NodeVerdicts {
    /// The verdict about a node, which `search` finds if it is not known.
    pub(crate) fn get(
        &self,
        versions: &Versions,
        node: &str,
        search: impl FnOnce() -> Result<(), Problem>,
    ) -> Result<(), Problem> {
        let Some(version) = versions.of(node) else {
            return search();
        };
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, verdict)) = lock().get(node)
            && *at == version
        {
            return verdict.result();
        }
        let found = search();
        if let Some(verdict) = Verdict::of(&found) {
            let mut known = lock();
            match known.get_mut(node) {
                Some(kept) => *kept = (version, verdict),
                None => {
                    known.insert(node.into(), (version, verdict));
                }
            }
        }
        found
    }
}

/// The verdicts for the kinds of claims that were asked for last.
#[derive(Debug, Default)]
pub(crate) struct Verdicts(Mutex<VecDeque<KindVerdicts>>);

/// The requests of claims of one kind, and the verdicts for them.
type KindVerdicts = (Vec<Arc<str>>, Arc<NodeVerdicts>);

impl Verdicts {
    /// The verdicts for claims with these requests.
    pub(crate) fn of(&self, kind: Vec<Arc<str>>) -> Arc<NodeVerdicts> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = known.iter().position(|(other, _)| *other == kind);
        let entry = found.and_then(|at| known.remove(at));
        let (kind, verdicts) = entry.unwrap_or_else(|| (kind, Arc::default()));
        let shared = Arc::clone(&verdicts);
        known.push_back((kind, verdicts));
        if known.len() > MOST_KINDS {
            known.pop_front();
        }
        shared
    }

    /// Forgets all verdicts, because a class has changed.
    pub(crate) fn clear(&self) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
    }
}
