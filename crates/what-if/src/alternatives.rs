//! The search for several sets of changes, from one obstacle to the next.

use super::search::{Trial, necessary};

/// Sets of changes against one obstacle. The first set that helps is made.
pub type Options<C> = Vec<Vec<C>>;

/// A trial that proposes changes against its obstacles.
pub trait Propose: Trial {
    /// What could be done about the obstacle that is left after `changes`, the preferred first.
    fn proposals(
        &mut self,
        changes: &[Self::Change],
        obstacle: &Self::Obstacle,
    ) -> Vec<Options<Self::Change>>;

    /// The same where no proposal helps.
    fn last_resort(
        &mut self,
        _changes: &[Self::Change],
        _obstacle: &Self::Obstacle,
    ) -> Options<Self::Change> {
        Vec::new()
    }

    /// Whether the next obstacle is another one than before.
    fn is_progress(before: &Self::Obstacle, after: &Self::Obstacle) -> bool;
}

/// How long is searched.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The most changes of one set, before unnecessary ones are left out.
    pub changes: usize,
    /// The most sets.
    pub sets: usize,
}

/// The changes that were made, and the obstacle that is left.
struct Step<T: Trial> {
    changes: Vec<T::Change>,
    obstacle: Option<T::Obstacle>,
}

/// A step at which other proposals could have been followed.
struct Branch<T: Trial> {
    changes: Vec<T::Change>,
    obstacle: T::Obstacle,
    others: Vec<Options<T::Change>>,
}

/// Sets of changes that suffice, none of which can be left out. The first follows the preferred proposal against each
/// obstacle, and each other one leaves it at one obstacle, the last first. None if nothing has to change.
pub fn alternatives<T: Propose>(trial: &mut T, limits: Limits) -> Vec<Vec<T::Change>>
where
    T::Change: PartialEq + 'static,
{
    let mut found = Vec::new();
    let mut add = |trial: &mut T, changes: Option<Vec<T::Change>>| {
        // A later change may have made an earlier one unnecessary: removed pods also free resources.
        let set = changes.map(|changes| necessary(trial, changes));
        found.extend(set.filter(|set| !set.is_empty() && !found.contains(set)));
        found.len() < limits.sets
    };
    let first = Step {
        changes: Vec::new(),
        obstacle: trial.obstacle(&[]),
    };
    let mut branches = Vec::new();
    let preferred = follow(trial, first, limits, &mut branches);
    let mut is_wanted = add(trial, preferred);
    while let Some(branch) = branches.pop() {
        let mut others = branch.others.into_iter();
        while is_wanted && let Some(options) = others.next() {
            let step = first_that_helps(trial, &branch.changes, &branch.obstacle, options);
            // Only one obstacle at a time is answered otherwise, or there would be very many sets.
            let other = step.and_then(|step| follow(trial, step, limits, &mut Vec::new()));
            is_wanted = add(trial, other);
        }
    }
    found
}

/// Follows the preferred proposals until no obstacle is left. `None` if none helps, or too many would be needed.
fn follow<T: Propose>(
    trial: &mut T,
    mut step: Step<T>,
    limits: Limits,
    branches: &mut Vec<Branch<T>>,
) -> Option<Vec<T::Change>> {
    while let Some(obstacle) = step.obstacle {
        // A long list of changes is no help to a reader, and each one costs a try.
        if step.changes.len() >= limits.changes {
            return None;
        }
        let mut proposals = trial.proposals(&step.changes, &obstacle).into_iter();
        let helpful = proposals
            .find_map(|options| first_that_helps(trial, &step.changes, &obstacle, options));
        let next = match helpful {
            Some(next) => next,
            None => {
                let options = trial.last_resort(&step.changes, &obstacle);
                first_that_helps(trial, &step.changes, &obstacle, options)?
            }
        };
        branches.push(Branch {
            changes: step.changes,
            obstacle,
            others: proposals.collect(),
        });
        step = next;
    }
    Some(step.changes)
}

/// A set that leads to another obstacle helps: the next step answers that one.
fn first_that_helps<T: Propose>(
    trial: &mut T,
    changes: &[T::Change],
    before: &T::Obstacle,
    options: Options<T::Change>,
) -> Option<Step<T>> {
    options.into_iter().find_map(|option| {
        let changes = [changes, &option].concat();
        let obstacle = trial.obstacle(&changes);
        let helps = obstacle
            .as_ref()
            .is_none_or(|after| T::is_progress(before, after));
        helps.then_some(Step { changes, obstacle })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pod that needs a label, a free port and room, in this order.
    struct Pod;

    const PORT: &str = "stop the pod with the port";

    impl Trial for Pod {
        type Change = &'static str;
        type Obstacle = &'static str;

        fn obstacle(&mut self, changes: &[&'static str]) -> Option<&'static str> {
            let has = |change| changes.contains(&change);
            if !has("gpu") && !has("tpu") {
                return Some("label");
            }
            // A larger node is another node, where the port is free.
            if !has(PORT) && !has("larger node") {
                return Some("port");
            }
            let has_room = has("larger node") || has("remove a pod");
            (!has_room).then_some("room")
        }
    }

    impl Propose for Pod {
        fn proposals(
            &mut self,
            _: &[&'static str],
            obstacle: &&'static str,
        ) -> Vec<Options<&'static str>> {
            match *obstacle {
                "label" => vec![vec![vec!["ssd"], vec!["gpu"]], vec![vec!["tpu"]]],
                "room" => vec![vec![vec!["larger node"]], vec![vec!["remove a pod"]]],
                _ => Vec::new(),
            }
        }

        fn last_resort(&mut self, _: &[&'static str], _: &&'static str) -> Options<&'static str> {
            vec![vec![PORT]]
        }

        fn is_progress(before: &&'static str, after: &&'static str) -> bool {
            before != after
        }
    }

    #[test]
    fn each_set_leaves_the_preferred_proposals_at_one_obstacle_and_is_minimal() {
        let find = |changes, sets| alternatives(&mut Pod, Limits { changes, sets });
        let all = [
            vec!["gpu", "larger node"],
            vec!["gpu", PORT, "remove a pod"],
            vec!["tpu", "larger node"],
        ];
        assert_eq!(find(3, 5), all);
        assert_eq!(find(3, 2), all[..2]);
        assert!(find(2, 5).is_empty());
    }
}
