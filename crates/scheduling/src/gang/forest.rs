//! Composite groups: which groups they consist of, and whether enough of these are ready (S7-112, S7-113).

use evictd_pod::wire;
use hashbrown::HashMap;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The most levels of groups in a tree, the root and its pod groups included (S7-123).
pub(crate) const MAX_LEVELS: usize = 4;

/// The most groups of a tree. A tenant can create any number of them, and each attempt visits all.
pub(crate) const MAX_GROUPS: usize = 1000;

/// The most ancestors among which a cycle is searched.
const MAX_CYCLE: usize = 64;

/// The name of a composite root begins with it, because a pod group may have the same name (S7-124).
const COMPOSITE: &str = "CompositePodGroup ";

/// A group of pods, or of other groups.
#[derive(Debug, Clone)]
#[allow(missing_docs, reason = "they are the kinds of the API")]
pub enum GroupObject {
    PodGroup(Arc<wire::PodGroup>),
    CompositePodGroup(Arc<wire::CompositePodGroup>),
}

impl GroupObject {
    /// Its metadata.
    pub fn metadata(&self) -> &wire::Metadata {
        match self {
            Self::PodGroup(group) => &group.metadata,
            Self::CompositePodGroup(group) => &group.metadata,
        }
    }

    /// The conditions in its status.
    pub fn conditions(&self) -> &[wire::Condition] {
        match self {
            Self::PodGroup(group) => &group.status.conditions,
            Self::CompositePodGroup(group) => &group.status.conditions,
        }
    }

    pub(crate) fn priority(&self) -> i32 {
        let priority = match self {
            Self::PodGroup(group) => group.spec.priority,
            Self::CompositePodGroup(group) => group.spec.priority,
        };
        priority.unwrap_or(0)
    }

    /// Empty if it has none.
    pub(crate) fn preemption_policy(&self) -> &str {
        match self {
            Self::PodGroup(group) => &group.spec.preemption_policy,
            Self::CompositePodGroup(group) => &group.spec.preemption_policy,
        }
    }

    /// The labels whose values all its nodes must share.
    pub(crate) fn topology(&self) -> impl ExactSizeIterator<Item = &str> {
        let constraints = match self {
            Self::PodGroup(group) => &group.spec.scheduling_constraints,
            Self::CompositePodGroup(group) => &group.spec.scheduling_constraints,
        };
        constraints
            .topology
            .iter()
            .map(|constraint| &*constraint.key)
    }

    /// Whether its pods are bound all at once.
    pub(crate) fn is_barrier(&self) -> bool {
        match self {
            Self::PodGroup(group) => group.spec.scheduling_policy.gang.is_some(),
            Self::CompositePodGroup(_) => true,
        }
    }

    /// `PodGroup shop/web`
    pub(crate) fn title(&self) -> String {
        let kind = match self {
            Self::PodGroup(_) => "PodGroup",
            Self::CompositePodGroup(_) => "CompositePodGroup",
        };
        format!("{kind} {}", self.metadata().full_name())
    }
}

/// `pod group "shop/web"` of the name of a root.
pub(crate) fn title(root: &str) -> String {
    match root.strip_prefix(COMPOSITE) {
        Some(name) => format!("composite pod group {name:?}"),
        None => format!("pod group {root:?}"),
    }
}

/// The name of a composite root.
pub(crate) fn composite_root(name: &str) -> Arc<str> {
    format!("{COMPOSITE}{name}").into()
}

/// `namespace/name` of a composite root; `None` for a pod group.
pub(crate) fn as_composite(root: &str) -> Option<&str> {
    root.strip_prefix(COMPOSITE)
}

/// `namespace/name` of the parent of a group; `None` if it has none.
pub(crate) fn parent<Gang>(group: &wire::Group<Gang>) -> Option<Arc<str>> {
    let name = &group.spec.parent_composite_pod_group_name;
    let namespace = group.metadata.namespace_or_default();
    (!name.is_empty()).then(|| format!("{namespace}/{name}").into())
}

/// The parent of a group, and whether the group is ready, which the parent counts.
pub(crate) type Counted = (Option<Arc<str>>, bool);

/// A child of a composite group, by `namespace/name`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Child {
    PodGroup(Arc<str>),
    Composite(Arc<str>),
}

/// The composite groups that have an object or a child, by `namespace/name`.
#[derive(Debug, Default)]
pub(crate) struct Composites(HashMap<Arc<str>, Composite>);

#[derive(Debug, Default)]
pub(crate) struct Composite {
    object: Option<Arc<wire::CompositePodGroup>>,
    children: BTreeSet<Child>,
    /// How many of the children are ready. It changes with each pod, so that no event walks the whole tree.
    ready: usize,
}

impl Composite {
    pub(crate) const fn object(&self) -> Option<&Arc<wire::CompositePodGroup>> {
        self.object.as_ref()
    }

    pub(crate) fn children(&self) -> impl Iterator<Item = &Child> {
        self.children.iter()
    }

    /// How many of its groups must be placed at once: one for the policy `basic` (S7-113).
    pub(crate) fn min_group_count(&self) -> Option<usize> {
        Some(min_group_count(self.object.as_ref()?))
    }

    fn is_ready(&self) -> bool {
        self.min_group_count()
            .is_some_and(|least| self.ready >= least)
    }

    pub(crate) fn parent(&self) -> Option<Arc<str>> {
        parent(self.object.as_ref()?)
    }

    fn counted(&self) -> Counted {
        (self.parent(), self.is_ready())
    }
}

/// No API server accepts a count below one.
pub(crate) fn min_group_count(object: &wire::CompositePodGroup) -> usize {
    let gang = object.spec.scheduling_policy.gang.as_ref();
    let least = gang.map_or(1, |gang| gang.min_group_count.max(1));
    usize::try_from(least).unwrap_or(1)
}

/// Whether an update of a group changes nothing for its pods, as that of a condition.
pub(crate) fn is_same_group(old: &wire::PodGroup, new: &wire::PodGroup) -> bool {
    // The other fields of a spec are immutable (S7-010).
    let [old, new] = [old, new].map(|group| &group.spec);
    let least = [old, new].map(|spec| {
        let gang = spec.scheduling_policy.gang.as_ref();
        gang.map(|gang| gang.min_count)
    });
    least[0] == least[1]
        && old.priority == new.priority
        && old.parent_composite_pod_group_name == new.parent_composite_pod_group_name
}

/// Whether an update of a composite group changes nothing for its tree, as that of a condition.
pub(crate) fn is_same_composite(
    old: &wire::CompositePodGroup,
    new: &wire::CompositePodGroup,
) -> bool {
    let parents = [old, new].map(|group| &group.spec.parent_composite_pod_group_name);
    parents[0] == parents[1] && min_group_count(old) == min_group_count(new)
}

impl Composites {
    pub(crate) fn get(&self, name: &str) -> Option<&Composite> {
        self.0.get(name)
    }

    /// Sets or removes the object of a composite group.
    pub(crate) fn set(&mut self, name: &Arc<str>, object: Option<Arc<wire::CompositePodGroup>>) {
        let child = Child::Composite(Arc::clone(name));
        let composite = self.0.entry(Arc::clone(name)).or_default();
        let old = composite.counted();
        // In a cycle the group is above its parent, whose readiness must not be counted for the new parent.
        composite.object = None;
        self.unlink(old, &child);
        let composite = self.0.entry(Arc::clone(name)).or_default();
        composite.object = object;
        let new = composite.counted();
        self.link(new, child);
        self.remove_if_empty(name);
    }

    /// Adds a group to the parent that it names, if there is one.
    pub(crate) fn link(&mut self, (parent, is_ready): Counted, child: Child) {
        let Some(parent) = parent else {
            return;
        };
        let composite = self.0.entry(Arc::clone(&parent)).or_default();
        composite.children.insert(child);
        if is_ready {
            self.count_ready(parent, true);
        }
    }

    /// Removes a group from the parent that it named, if there was one.
    pub(crate) fn unlink(&mut self, (parent, was_ready): Counted, child: &Child) {
        let Some(parent) = parent else {
            return;
        };
        if let Some(composite) = self.0.get_mut(&parent) {
            composite.children.remove(child);
        }
        if was_ready {
            self.count_ready(Arc::clone(&parent), false);
        }
        self.remove_if_empty(&parent);
    }

    /// A child has become ready, or is not ready any more. Its parents follow.
    pub(crate) fn count_ready(&mut self, parent: Arc<str>, is_ready: bool) {
        let (mut next, mut is_ready) = (Some(parent), is_ready);
        while let Some(composite) = next.and_then(|name| self.0.get_mut(&name)) {
            let before = composite.is_ready();
            composite.ready = if is_ready {
                composite.ready + 1
            } else {
                composite.ready.saturating_sub(1)
            };
            let after = composite.is_ready();
            if before == after {
                return;
            }
            (next, is_ready) = (composite.parent(), after);
        }
    }

    fn remove_if_empty(&mut self, name: &str) {
        let is_empty = |one: &Composite| one.object.is_none() && one.children.is_empty();
        if self.0.get(name).is_some_and(is_empty) {
            self.0.remove(name);
        }
    }

    /// The root above a group with this parent.
    ///
    /// # Errors
    /// A parent does not exist, or the tree has a cycle or too many levels (S7-112, S7-123).
    pub(crate) fn root(&self, parent: &Arc<str>) -> Result<Arc<str>, String> {
        let mut name = Arc::clone(parent);
        // The group itself is the first level.
        for _ in 1..MAX_LEVELS {
            let composite = self.0.get(&name).filter(|one| one.object.is_some());
            let Some(composite) = composite else {
                return Err(format!(
                    "its CompositePodGroup {name} does not exist in scheduling.k8s.io/v1alpha3"
                ));
            };
            match composite.parent() {
                Some(parent) => name = parent,
                None => return Ok(name),
            }
        }
        Err(self.invalid(parent))
    }

    /// Why the tree above these groups is invalid.
    fn invalid(&self, parent: &Arc<str>) -> String {
        let mut path = vec![Arc::clone(parent)];
        let mut seen = BTreeSet::from([Arc::clone(parent)]);
        while path.len() < MAX_CYCLE {
            let last = path.last().and_then(|name| self.0.get(name));
            let Some(next) = last.and_then(Composite::parent) else {
                break;
            };
            path.push(Arc::clone(&next));
            if !seen.insert(Arc::clone(&next)) {
                let start = path.iter().position(|name| *name == next).unwrap_or(0);
                return format!(
                    "CompositePodGroup {next} is an ancestor of itself: {}",
                    path[start..].join(" -> ")
                );
            }
        }
        format!(
            "the tree of CompositePodGroup {parent} has more than {MAX_LEVELS} levels of groups"
        )
    }

    /// Those of a composite group and of the composite groups below it that can have no pods, each with the reason. At most
    /// [`MAX_GROUPS`] are looked at.
    pub(crate) fn invalid_below(&self, name: &Arc<str>) -> Vec<(GroupObject, String)> {
        let mut found = Vec::new();
        let mut seen = BTreeSet::from([Arc::clone(name)]);
        let mut open = vec![Arc::clone(name)];
        while let Some(name) = open.pop() {
            let Some(composite) = self.0.get(&name) else {
                continue;
            };
            if let Some(object) = &composite.object
                && let Some(problem) = self.problem(&name)
            {
                found.push((GroupObject::CompositePodGroup(Arc::clone(object)), problem));
            }
            for child in &composite.children {
                if let Child::Composite(child) = child
                    && seen.len() < MAX_GROUPS
                    && seen.insert(Arc::clone(child))
                {
                    open.push(Arc::clone(child));
                }
            }
        }
        found
    }

    /// Why no pod group may have this parent. A missing ancestor is no reason, because it may come.
    fn problem(&self, name: &Arc<str>) -> Option<String> {
        let mut next = Arc::clone(name);
        for _ in 1..MAX_LEVELS {
            next = self.0.get(&next)?.parent()?;
        }
        Some(self.invalid(name))
    }

    /// The names of the pod groups below a root, which may be a part of an invalid tree.
    pub(crate) fn leaves(&self, root: &str) -> Vec<Arc<str>> {
        let mut leaves = Vec::new();
        let mut level = vec![root];
        let mut visited = 0;
        for _ in 1..MAX_LEVELS {
            let composites = std::mem::take(&mut level);
            let children = composites
                .into_iter()
                .filter_map(|name| self.0.get(name))
                .flat_map(|composite| &composite.children);
            for child in children.take(MAX_GROUPS.saturating_sub(visited)) {
                visited += 1;
                match child {
                    Child::PodGroup(name) => leaves.push(Arc::clone(name)),
                    Child::Composite(name) => level.push(name),
                }
            }
        }
        leaves
    }

    /// Why a root is not ready; `None` if it is, or does not exist (S7-113).
    pub(crate) fn waits_for(&self, root: &str) -> Option<String> {
        let composite = self.0.get(root)?;
        let needed = composite.min_group_count()?;
        (composite.ready < needed).then(|| {
            format!(
                "waiting for composite pod group {:?} tree to meet quorum: it needs {needed} ready groups and has {}",
                root.split_once('/').map_or(root, |(_, name)| name),
                composite.ready
            )
        })
    }
}
