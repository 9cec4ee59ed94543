//! The annotations of a pod group that say which of its tasks belong together.

use crate::session::snapshot::Snapshot;
use crate::session::snapshot::ids::JobId;
use crate::session::snapshot::roles::Role;
use crate::session::snapshot::task::Task;
use crate::session::snapshot::{TOPOLOGY_AFFINITY, TOPOLOGY_ANTI_AFFINITY, TOPOLOGY_TASK_ORDER};
use hashbrown::{HashMap, HashSet};
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// A role that no task of a bucket has. An empty name stands for it.
const NO_ROLE: Role = 0;

/// The precedence of a role by the strongest rule that names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Precedence {
    AgainstOthers,
    WithItself,
    WithOthers,
    AgainstItself,
}

/// Which roles of a job belong on one node, and which do not. A rule of a role with itself is a pair of equal roles.
#[derive(Debug, Default)]
pub(super) struct Affinities {
    with: HashSet<(Role, Role)>,
    against: HashSet<(Role, Role)>,
    precedence: HashMap<Role, Precedence>,
    /// Larger for a role that comes earlier.
    order: HashMap<Role, usize>,
}

impl Affinities {
    /// The rules of a job. `None` if it has no such annotation, or one names an unknown role or a role twice.
    pub(super) fn of(snapshot: &Snapshot, id: JobId) -> Option<Self> {
        let job = &snapshot.jobs[id];
        let text = |key: &str| job.marks.get(key);
        let (with, against) = (text(TOPOLOGY_AFFINITY), text(TOPOLOGY_ANTI_AFFINITY));
        let order = text(TOPOLOGY_TASK_ORDER);
        if with.is_none() && against.is_none() && order.is_none() {
            return None;
        }
        let tasks = job.tasks.iter().map(|task| snapshot.tasks[*task].role);
        let roles: HashMap<&str, Role> = tasks
            .map(|role| (snapshot.roles.name(role), role))
            .chain([("", NO_ROLE)])
            .collect();
        let mut found = Self::default();
        for group in groups(with, &roles)? {
            let precedence = [Precedence::WithItself, Precedence::WithOthers];
            found.precede(&group, precedence);
            found.with.extend(pairs(&group));
        }
        for group in groups(against, &roles)? {
            let precedence = [Precedence::AgainstItself, Precedence::AgainstOthers];
            found.precede(&group, precedence);
            found.against.extend(pairs(&group));
        }
        let order = order.map(|text| group(text, &roles));
        if let Some(order) = order {
            let order = order?.into_iter().rev().enumerate();
            found.order.extend(order.map(|(at, role)| (role, at + 1)));
        }
        Some(found)
    }

    fn precede(&mut self, group: &[Role], [alone, together]: [Precedence; 2]) {
        let precedence = if group.len() == 1 { alone } else { together };
        for role in group {
            let known = self.precedence.entry(*role).or_insert(precedence);
            *known = precedence.max(*known);
        }
    }

    /// Whether a rule names the role.
    pub(super) fn names(&self, role: Role) -> bool {
        role != NO_ROLE && self.precedence.contains_key(&role)
    }

    /// `Less` if the first task comes first: by the order of the annotation, then by the rules.
    pub(super) fn order(&self, one: &Task, other: &Task) -> Ordering {
        let key = |task: &Task| (self.order.get(&task.role), self.precedence.get(&task.role));
        key(other).cmp(&key(one))
    }

    /// How many of these tasks a role wants beside it, less those that it does not want there.
    pub(super) fn attraction(&self, role: Role, tasks: &BTreeMap<Role, i64>) -> i64 {
        let wanted = tasks
            .iter()
            .filter(|(other, _)| self.with.contains(&(role, **other)));
        wanted.map(|(_, count)| count).sum::<i64>() - self.repulsion(role, tasks)
    }

    /// How many of these tasks a role does not want beside it.
    pub(super) fn repulsion(&self, role: Role, tasks: &BTreeMap<Role, i64>) -> i64 {
        let unwanted = tasks
            .iter()
            .filter(|(other, _)| self.against.contains(&(role, **other)));
        unwanted.map(|(_, count)| count).sum()
    }
}

/// The groups of a text like `a,b;c`.
fn groups(text: Option<&str>, roles: &HashMap<&str, Role>) -> Option<Vec<Vec<Role>>> {
    let groups = text.into_iter().flat_map(|text| text.split(';'));
    groups.map(|text| group(text, roles)).collect()
}

/// The roles of a text like `a,b`. `None` if one is unknown or occurs twice.
fn group(text: &str, roles: &HashMap<&str, Role>) -> Option<Vec<Role>> {
    let mut group = Vec::new();
    for name in text.split(',') {
        let role = *roles.get(name)?;
        if role != NO_ROLE && group.contains(&role) {
            return None;
        }
        group.push(role);
    }
    Some(group)
}

/// Every ordered pair of different members; that of a single member with itself.
fn pairs(group: &[Role]) -> impl Iterator<Item = (Role, Role)> {
    let each = group.iter().enumerate();
    each.flat_map(move |(at, one)| {
        let others = group.iter().enumerate();
        let others = others.filter(move |(other, _)| *other != at || group.len() == 1);
        others.map(|(_, other)| (*one, *other))
    })
}
