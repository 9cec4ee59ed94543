//! The search for several sets of changes, from one obstacle to the next.

use super::search::{Trial, necessary};

/// Sets of changes against one obstacle. The first set that helps is made.
pub type Options<C> = Vec<Vec<C>>;

/// A trial that proposes changes against its obstacles.
pub trait Propose: Trial {
    /// Changes that may remove the obstacle that is left after `changes`, the preferred first.
    fn proposals(
        &mut self,
        changes: &[Self::Change],
        obstacle: &Self::Obstacle,
    ) -> Vec<Options<Self::Change>>;

    /// Changes to try if no proposal helps, the preferred first.
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

/// Where a search ends.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The most changes of one set, before unnecessary ones are left out.
    pub changes: usize,
    /// The most sets.
    pub sets: usize,
}

/// Sets of changes that suffice, none of which can be left out. The first follows the preferred proposal against each
/// obstacle, and each other one leaves it at one obstacle, the last first. Empty if nothing has to change.
pub fn alternatives<T: Propose>(trial: &mut T, limits: Limits) -> Vec<Vec<T::Change>>
where
    T::Change: PartialEq + 'static,
{
    let mut found = Vec::new();
    if let Some(obstacle) = trial.obstacle(&[]) {
        let first = (Vec::new(), Some(obstacle));
        explore(trial, first, (limits, true), &mut found);
    }
    found
}

/// Follows the preferred proposals from here until no obstacle is left. With `may_leave` also the others at one obstacle.
fn explore<T: Propose>(
    trial: &mut T,
    (changes, obstacle): (Vec<T::Change>, Option<T::Obstacle>),
    (limits, may_leave): (Limits, bool),
    found: &mut Vec<Vec<T::Change>>,
) where
    T::Change: PartialEq + 'static,
{
    let Some(obstacle) = obstacle else {
        // A later change may have made an earlier one unnecessary: removed pods also free resources.
        let set = necessary(trial, changes);
        if !found.contains(&set) {
            found.push(set);
        }
        return;
    };
    // A long list of changes is no help to a reader, and each one costs a try.
    if changes.len() >= limits.changes {
        return;
    }
    let mut has_helped = false;
    for options in trial.proposals(&changes, &obstacle) {
        if found.len() >= limits.sets || (has_helped && !may_leave) {
            return;
        }
        if let Some(next) = first_that_helps(trial, &changes, &obstacle, options) {
            // The preferred proposal is left at one obstacle at a time, or there would be very many sets.
            explore(trial, next, (limits, may_leave && !has_helped), found);
            has_helped = true;
        }
    }
    if !has_helped {
        let options = trial.last_resort(&changes, &obstacle);
        if let Some(next) = first_that_helps(trial, &changes, &obstacle, options) {
            explore(trial, next, (limits, may_leave), found);
        }
    }
}

/// Changes, and the obstacle that is left.
type Step<T> = (Vec<<T as Trial>::Change>, Option<<T as Trial>::Obstacle>);

/// The first set that leads to another obstacle, with that obstacle: the next step answers it.
fn first_that_helps<T: Propose>(
    trial: &mut T,
    changes: &[T::Change],
    before: &T::Obstacle,
    options: Options<T::Change>,
) -> Option<Step<T>> {
    options.into_iter().find_map(|option| {
        let changes = [changes, &option].concat();
        let after = trial.obstacle(&changes);
        let is_left = after.as_ref();
        let helps = is_left.is_none_or(|after| T::is_progress(before, after));
        helps.then_some((changes, after))
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
