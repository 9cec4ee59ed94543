//! Tries the groups of a tree one after the other, depth first, without going back (S7-115).
//!
//! Unlike in kube-scheduler, each group first gets only the pods that it needs, so that later groups have room for theirs. Then
//! the groups that are not needed are tried, and at last the other pods.

use super::forest::GroupObject;
use super::placements::Placements;
use super::region::Region;
use super::tree::GroupTree;
use super::trial::{Progress, Trial, TrialResult, best_of, utilization};
use super::{Member, MemberOutcome, fit_message};
use evictd_placement::{Domains, Statement};
use std::ops::Range;

/// An attempt of a tree, and its results.
#[derive(Debug)]
pub(crate) struct TreeTrial<'t> {
    tree: &'t GroupTree,
    /// The topology domains of each group.
    domains: &'t [Domains],
    /// The members below each group.
    members: Vec<Range<usize>>,
    states: Vec<GroupState<'t>>,
    /// Why there is no decision about the topology of a group.
    error: Option<String>,
    /// There is no decision about a member, or the attempt was interrupted.
    is_stopped: bool,
}

/// A group in an attempt.
#[derive(Debug, Clone, Default)]
struct GroupState<'t> {
    result: GroupResult,
    /// The nodes that it may use.
    region: Region<'t>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
enum GroupResult {
    #[default]
    NotTried,
    Placed,
    Failed(Failed),
}

/// Why a group was not placed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Failed {
    message: String,
    /// The first of its groups that has too few pods, with the reason.
    child: Option<String>,
}

impl Failed {
    /// The message, with the group that has too few pods.
    fn text(&self) -> String {
        let Self { message, child } = self;
        match child {
            Some(child) => format!("{message} ({child})"),
            None => message.clone(),
        }
    }
}

/// How many pods of a group are placed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Extent {
    /// As few as it needs.
    Quorum,
    All,
}

/// The state that an attempt changes.
struct Pass<'p, 's> {
    trial: &'p mut Trial<'s>,
    statement: &'p mut Statement,
    members: &'p mut [Member],
}

impl Pass<'_, '_> {
    fn take_back(&mut self, range: Range<usize>) {
        let members = &mut self.members[range];
        self.trial.take_back(self.statement, members);
        for member in members {
            if matches!(member.outcome, MemberOutcome::Fits(_)) {
                member.outcome = MemberOutcome::NotTried;
            }
        }
    }

    fn placed(&self, range: Range<usize>) -> usize {
        let members = self.members[range].iter();
        members.filter(|member| member.node().is_some()).count()
    }

    fn has_error(&self, range: Range<usize>) -> bool {
        let mut members = self.members[range].iter();
        members.any(|member| member.error().is_some()) || self.trial.cluster.interrupt().is_raised()
    }
}

impl<'t> TreeTrial<'t> {
    /// An attempt of these members, which are sorted by their groups.
    pub(crate) fn new(tree: &'t GroupTree, domains: &'t [Domains], members: &[Member]) -> Self {
        Self {
            tree,
            domains,
            members: tree.members(members),
            states: vec![GroupState::default(); tree.groups.len()],
            error: None,
            is_stopped: false,
        }
    }

    /// Tries all groups. Returns whether the root is placed; then its members stay on their nodes.
    pub(crate) fn run(
        &mut self,
        trial: &mut Trial<'_>,
        statement: &mut Statement,
        members: &mut [Member],
    ) -> bool {
        if self.tree.groups.is_empty() {
            return false;
        }
        let mut pass = Pass {
            trial,
            statement,
            members,
        };
        self.try_group(&mut pass, 0, &Region::default(), Extent::All)
    }

    /// Why there is no decision about the topology of a group.
    pub(crate) fn error(&self) -> Option<&str> {
        self.error.as_deref()
    }

    /// The nodes that a member may use.
    pub(crate) fn region(&self, member: &Member) -> Region<'t> {
        let state = self.states.get(member.group);
        state.map(|state| state.region.clone()).unwrap_or_default()
    }

    /// Why a group was not placed; `None` if it was, or was not tried.
    pub(crate) fn message(&self, group: usize) -> Option<&str> {
        match &self.states.get(group)?.result {
            GroupResult::Failed(failed) => Some(&failed.message),
            _ => None,
        }
    }

    /// The groups that were not placed and need further pods. Each has the reason and the first of its groups with too few pods.
    pub(crate) fn failed(&self) -> impl Iterator<Item = (&'t GroupObject, String)> {
        let groups = self.tree.groups.iter().zip(&self.states);
        groups.filter_map(|(group, state)| match &state.result {
            // Its condition is true already, and stays so.
            GroupResult::Failed(_) if group.is_satisfied && self.states.len() > 1 => None,
            GroupResult::Failed(failed) => Some((&group.object, failed.text())),
            _ => None,
        })
    }

    /// Adds the result of the preemption to the message of each group that was not placed.
    pub(crate) fn append(&mut self, result: &str) {
        for state in &mut self.states {
            if let GroupResult::Failed(failed) = &mut state.result {
                failed.message = format!("{}, {result}", failed.message);
            }
        }
    }

    fn try_group(
        &mut self,
        pass: &mut Pass<'_, '_>,
        index: usize,
        within: &Region<'t>,
        extent: Extent,
    ) -> bool {
        let scheduled = self.tree.scheduled(index);
        let regions = within.inside(pass.trial.cluster, &self.domains[index], scheduled);
        let regions = match regions {
            Ok(regions) => regions,
            Err(error) => {
                self.error = Some(error);
                self.is_stopped = true;
                return false;
            }
        };
        match self.tree.groups[index].object {
            GroupObject::PodGroup(_) => self.try_pods(pass, index, regions, extent),
            GroupObject::CompositePodGroup(_) => self.try_groups(pass, index, &regions, extent),
        }
    }

    /// Tries the pods of a pod group.
    fn try_pods(
        &mut self,
        pass: &mut Pass<'_, '_>,
        index: usize,
        mut regions: Vec<Region<'t>>,
        extent: Extent,
    ) -> bool {
        let (group, range) = (&self.tree.groups[index], self.members[index].clone());
        pass.trial.quorum = group.quorum;
        let members = &mut pass.members[range.clone()];
        let result = pass.trial.run(pass.statement, members, &regions);
        self.is_stopped |= pass.has_error(range.clone());
        match result {
            TrialResult::Placed(region) => {
                self.states[index] = GroupState {
                    result: GroupResult::Placed,
                    region: regions.swap_remove(region),
                };
                if extent == Extent::Quorum {
                    self.trim(pass, index);
                }
                true
            }
            TrialResult::Failed(progress) => {
                let message = fit_message(group.quorum, progress);
                let message = self.of_placements(index, regions.len(), message);
                self.fail(pass, index, message);
                false
            }
        }
    }

    /// Leaves on their nodes only as many pods of a group as it needs.
    fn trim(&self, pass: &mut Pass<'_, '_>, index: usize) {
        let (quorum, range) = (self.tree.groups[index].quorum, self.members[index].clone());
        let needed = quorum.min_count.saturating_sub(quorum.scheduled);
        let members = pass.members[range.clone()].iter().enumerate();
        let mut placed = members.filter(|(_, member)| member.node().is_some());
        if let Some((first, _)) = placed.nth(needed) {
            let others = range.start + first..range.end;
            pass.take_back(others.clone());
            let members = pass.members[others].iter_mut();
            for member in members.filter(|member| member.pod.is_some()) {
                member.outcome = MemberOutcome::NotTried;
            }
        }
    }

    /// Tries the groups of a composite group, in the region where most of their pods fit (S7-119).
    fn try_groups(
        &mut self,
        pass: &mut Pass<'_, '_>,
        index: usize,
        regions: &[Region<'t>],
        extent: Extent,
    ) -> bool {
        let (range, subtree) = (
            self.members[index].clone(),
            index..self.tree.groups[index].end,
        );
        let mut fitting = Vec::new();
        let mut first = None;
        let members = &pass.members[range.clone()];
        let of_trial = (pass.trial.profiles, pass.trial.is_repetition);
        let placements = Placements::new(of_trial, members, regions.len());
        let is_choice = regions.len() != 1;
        if let [only] = regions {
            fitting.push((0, 0, only.clone()));
        } else {
            for region in regions {
                let began = placements.begin();
                self.begin(index, region.clone());
                let is_placed = self.try_children(pass, index, Extent::All);
                let fit = pass.placed(range.clone());
                // While the members are placed, because they count, too.
                let utilization = if is_placed {
                    utilization(pass.trial.cluster, region)
                } else {
                    0
                };
                pass.take_back(range.clone());
                if self.is_stopped {
                    return false;
                }
                placements.tried(began, is_placed);
                if is_placed {
                    fitting.push((fit, utilization, region.clone()));
                } else if first.is_none() {
                    let members = pass.members[range.clone()].iter_mut();
                    let outcomes = members.map(|member| std::mem::take(&mut member.outcome));
                    let outcomes: Vec<MemberOutcome> = outcomes.collect();
                    first = Some((outcomes, self.states[subtree.clone()].to_vec()));
                }
            }
        }
        let scheduled = self.tree.scheduled(index).count();
        let scores: Vec<(usize, i64)> =
            fitting.iter().map(|(fit, full, _)| (*fit, *full)).collect();
        if let Some(best) = best_of(&scores, scheduled) {
            let began = placements.begin();
            self.begin(index, fitting.swap_remove(best).2);
            let was_repetition = pass.trial.is_repetition;
            pass.trial.is_repetition |= is_choice;
            let is_placed = self.try_children(pass, index, extent);
            pass.trial.is_repetition = was_repetition;
            if !is_choice && !self.is_stopped {
                placements.tried(began, is_placed);
            }
            if is_placed {
                self.states[index].result = GroupResult::Placed;
                return true;
            }
        } else if let Some((outcomes, states)) = first {
            let members = pass.members[range].iter_mut();
            for (member, outcome) in members.zip(outcomes) {
                member.outcome = outcome;
            }
            self.states[subtree].clone_from_slice(&states);
        }
        if !self.is_stopped {
            let message = self.message(index).unwrap_or_default().to_owned();
            let message = self.of_placements(index, regions.len(), message);
            self.fail(pass, index, message);
        }
        false
    }

    /// Forgets the results below a composite group, which is tried in this region.
    fn begin(&mut self, index: usize, region: Region<'t>) {
        let end = self.tree.groups[index].end;
        self.states[index..end].fill(GroupState::default());
        self.states[index].region = region;
    }

    /// Tries the groups of a composite group in its region. Returns whether enough of them are placed, and any pod at all.
    fn try_children(&mut self, pass: &mut Pass<'_, '_>, index: usize, extent: Extent) -> bool {
        let (tree, quorum) = (self.tree, self.tree.groups[index].quorum);
        let children: Vec<usize> = tree.unsatisfied(index).collect();
        let mut progress = Progress {
            placed: 0,
            remaining: children.len(),
        };
        for child in children {
            let Progress { placed, remaining } = progress;
            let is_enough = quorum.scheduled + placed >= quorum.min_count;
            if is_enough || !quorum.is_possible(placed, remaining) {
                break;
            }
            progress.remaining -= 1;
            let region = self.states[index].region.clone();
            let is_placed = self.try_group(pass, child, &region, Extent::Quorum);
            progress.placed += usize::from(is_placed);
            if self.is_stopped {
                return false;
            }
        }
        if quorum.scheduled + progress.placed < quorum.min_count {
            self.fail(pass, index, fit_message(quorum, Some(progress)));
            return false;
        }
        if extent == Extent::All {
            self.extend(pass, index);
            self.fill(pass, index);
        }
        if pass.placed(self.members[index].clone()) == 0 && !self.is_stopped {
            self.fail(pass, index, fit_message(quorum, None));
        }
        !self.is_stopped && self.message(index).is_none()
    }

    /// Tries the groups that were not needed, here and below.
    fn extend(&mut self, pass: &mut Pass<'_, '_>, index: usize) {
        let tree = self.tree;
        for child in tree.unsatisfied(index) {
            if self.is_stopped {
                return;
            }
            match self.states[child].result {
                GroupResult::NotTried => {
                    let region = self.states[index].region.clone();
                    self.try_group(pass, child, &region, Extent::Quorum);
                }
                GroupResult::Placed => self.extend(pass, child),
                GroupResult::Failed(_) => {}
            }
        }
    }

    /// Tries the pods that the groups below did not need.
    fn fill(&mut self, pass: &mut Pass<'_, '_>, index: usize) {
        let tree = self.tree;
        for child in &tree.groups[index].children {
            if self.is_stopped {
                return;
            }
            let range = self.members[*child].clone();
            let is_placed = self.states[*child].result == GroupResult::Placed;
            if tree.groups[*child].is_satisfied {
                if !range.is_empty() {
                    let region = self.states[index].region.clone();
                    self.try_group(pass, *child, &region, Extent::All);
                }
            } else if is_placed && tree.groups[*child].children.is_empty() {
                let region = self.states[*child].region.clone();
                for member in &mut pass.members[range.clone()] {
                    if matches!(member.outcome, MemberOutcome::NotTried) {
                        pass.trial.place_one(pass.statement, member, &region);
                    }
                }
                self.is_stopped |= pass.has_error(range);
            } else if is_placed {
                self.fill(pass, *child);
            }
        }
    }

    /// A group is not placed: its pods leave their nodes, and the groups below that were placed fail with it (S7-117).
    fn fail(&mut self, pass: &mut Pass<'_, '_>, index: usize, message: String) {
        pass.take_back(self.members[index].clone());
        let tree = self.tree;
        let short = tree.unsatisfied(index).find_map(|child| {
            let GroupResult::Failed(failed) = &self.states[child].result else {
                return None;
            };
            let title = tree.groups[child].object.title();
            Some(format!("{title}: {}", failed.text()))
        });
        let known = match &mut self.states[index].result {
            GroupResult::Failed(failed) => failed.child.take(),
            _ => None,
        };
        let child = known.or(short);
        for below in index + 1..tree.groups[index].end {
            let is_concerned = !tree.groups[below].is_satisfied || !self.members[below].is_empty();
            let state = &mut self.states[below].result;
            if is_concerned && !matches!(state, GroupResult::Failed(_)) {
                let message = message.clone();
                *state = GroupResult::Failed(Failed {
                    message,
                    child: None,
                });
            }
        }
        self.states[index].result = GroupResult::Failed(Failed { message, child });
    }

    /// The message of a group with a topology constraint, which was tried in so many regions (S7-092, S7-119).
    fn of_placements(&self, index: usize, count: usize, message: String) -> String {
        if self.domains[index].keys().len() == 0 {
            return message;
        }
        if count == 0 {
            return "0/0 placements are available: no node has the labels of the topology constraint"
                .to_owned();
        }
        let is_tree = self.tree.groups.len() > 1;
        let which = if is_tree { "first" } else { "reported" };
        format!("0/{count} placements are available, {which} placement status: {message}")
    }
}

impl GroupTree {
    /// The groups of a composite group that need further pods.
    fn unsatisfied(&self, index: usize) -> impl Iterator<Item = usize> {
        let children = self.groups[index].children.iter().copied();
        children.filter(|child| !self.groups[*child].is_satisfied)
    }
}
