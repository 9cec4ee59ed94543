//! Trials of changes, and the search for the smallest that suffice.

/// A situation that can be tried with changes. Afterwards it is as before.
pub trait Trial {
    /// Something that could be different.
    type Change: Clone;
    /// Why changes do not suffice.
    type Obstacle;

    /// Why these changes do not suffice together; `None` if they do.
    fn obstacle(&mut self, changes: &[Self::Change]) -> Option<Self::Obstacle>;

    /// Whether these changes suffice together.
    fn suffices(&mut self, changes: &[Self::Change]) -> bool {
        self.obstacle(changes).is_none()
    }
}

/// Changes of one kind whose size is a number: how many nodes are added, or by how much a limit is raised. A size of 0 is no change.
pub struct Scaled<'c, C> {
    most: i64,
    of_size: Box<dyn Fn(i64) -> Vec<C> + 'c>,
}

impl<'c, C> Scaled<'c, C> {
    /// Sizes from 1 to `most`.
    pub fn new(most: i64, of_size: impl Fn(i64) -> Vec<C> + 'c) -> Self {
        Self {
            most,
            of_size: Box::new(of_size),
        }
    }
}

impl<C: Clone + 'static> Scaled<'_, C> {
    /// A change that is made or not.
    pub fn fixed(change: C) -> Self {
        Self::new(1, move |_| vec![change.clone()])
    }
}

/// Kinds of changes with the size of each.
type Chosen<'s, 'c, C> = Vec<(&'s Scaled<'c, C>, i64)>;

fn changes<C>(chosen: &[(&Scaled<'_, C>, i64)]) -> Vec<C> {
    let changes = chosen.iter().map(|(scaled, size)| (scaled.of_size)(*size));
    changes.flatten().collect()
}

/// The smallest sizes of all these changes that suffice together; `None` if the largest do not. None of those that are left
/// can be left out.
pub fn smallest<T: Trial>(
    trial: &mut T,
    scaled: &[Scaled<'_, T::Change>],
) -> Option<Vec<T::Change>> {
    let largest = scaled.iter().map(|scaled| (scaled, scaled.most));
    let mut chosen: Chosen<'_, '_, T::Change> = largest.filter(|(_, most)| *most > 0).collect();
    if !trial.suffices(&changes(&chosen)) {
        return None;
    }
    leave_out(trial, &mut chosen);
    // Changes that were needed beside a large one may be unnecessary beside a smaller one.
    while shrink(trial, &mut chosen) && leave_out(trial, &mut chosen) {}
    Some(changes(&chosen))
}

/// The necessary ones of changes that suffice together.
pub(super) fn necessary<T: Trial>(trial: &mut T, all: Vec<T::Change>) -> Vec<T::Change>
where
    T::Change: 'static,
{
    let fixed: Vec<_> = all.into_iter().map(Scaled::fixed).collect();
    let mut chosen = fixed.iter().map(|scaled| (scaled, 1)).collect();
    leave_out(trial, &mut chosen);
    changes(&chosen)
}

/// Removes unnecessary changes, the last first, until each one is necessary. Returns whether there were any.
fn leave_out<T: Trial>(trial: &mut T, chosen: &mut Chosen<'_, '_, T::Change>) -> bool {
    let all = chosen.len();
    let mut stretch = all / 2;
    while stretch > 0 {
        let before = chosen.len();
        let mut end = before;
        while end > 0 {
            let begin = end.saturating_sub(stretch);
            // A stretch at a time: most changes of a long list are unnecessary.
            let without = [&chosen[..begin], &chosen[end..]].concat();
            if !without.is_empty() && trial.suffices(&changes(&without)) {
                *chosen = without;
            }
            end = begin;
        }
        // A change that was needed beside another may be unnecessary without it.
        if stretch > 1 || chosen.len() == before {
            stretch /= 2;
        }
    }
    chosen.len() < all
}

/// Makes each change as small as the others allow. Returns whether any was too large.
fn shrink<T: Trial>(trial: &mut T, chosen: &mut Chosen<'_, '_, T::Change>) -> bool {
    let mut is_smaller = false;
    for index in 0..chosen.len() {
        let largest = chosen[index].1;
        let (mut too_small, mut enough) = (0, largest);
        while enough - too_small > 1 {
            let middle = too_small + (enough - too_small) / 2;
            chosen[index].1 = middle;
            if trial.suffices(&changes(chosen)) {
                enough = middle;
            } else {
                too_small = middle;
            }
        }
        chosen[index].1 = enough;
        is_smaller |= enough < largest;
    }
    is_smaller
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers that must sum up to 10; the obstacle is the missing rest.
    #[derive(Default)]
    struct Sum {
        tries: usize,
    }

    impl Trial for Sum {
        type Change = i64;
        type Obstacle = i64;

        fn obstacle(&mut self, changes: &[i64]) -> Option<i64> {
            self.tries += 1;
            let missing = 10 - changes.iter().sum::<i64>();
            (missing > 0).then_some(missing)
        }
    }

    /// Numbers of which 1 suffices unless 2 is there, which is harmless beside 3.
    struct Harmful;

    impl Trial for Harmful {
        type Change = i64;
        type Obstacle = ();

        fn obstacle(&mut self, changes: &[i64]) -> Option<()> {
            let has = |number| changes.contains(&number);
            let suffices = has(1) && (!has(2) || has(3));
            (!suffices).then_some(())
        }
    }

    fn fixed(changes: &[i64]) -> Vec<Scaled<'static, i64>> {
        changes.iter().copied().map(Scaled::fixed).collect()
    }

    #[test]
    fn the_smallest_sizes_suffice_together_and_none_can_be_left_out() {
        let tens = |most| Scaled::new(most, |size| vec![10 * size]);
        let ones = |most| Scaled::new(most, |size| vec![size]);
        let find = |scaled: &[Scaled<'_, i64>]| smallest(&mut Sum::default(), scaled);
        assert_eq!(find(&[ones(100)]), Some(vec![10]));
        assert_eq!(find(&[ones(9)]), None);
        assert_eq!(find(&[ones(4), ones(7)]), Some(vec![3, 7]));
        assert_eq!(find(&[Scaled::fixed(12), ones(4)]), Some(vec![12]));
        assert_eq!(find(&[tens(3), Scaled::fixed(1)]), Some(vec![10]));
        assert_eq!(find(&fixed(&[9, 7, 1, 2])), Some(vec![9, 7]));
    }

    #[test]
    fn a_change_that_only_another_made_necessary_leaves_with_it() {
        let found = smallest(&mut Harmful, &fixed(&[1, 2, 3]));
        assert_eq!(found, Some(vec![1]));
    }

    #[test]
    fn few_tries_find_the_one_necessary_change_among_many() {
        let mut numbers = vec![0; 255];
        numbers[100] = 10;
        let mut trial = Sum::default();
        assert_eq!(smallest(&mut trial, &fixed(&numbers)), Some(vec![10]));
        assert!(trial.tries < 40, "{} tries", trial.tries);
    }

    #[test]
    fn the_smallest_size_is_found_by_halves() {
        let mut trial = Sum::default();
        let scaled = [Scaled::new(1 << 40, |number| vec![number])];
        assert_eq!(smallest(&mut trial, &scaled), Some(vec![10]));
        assert_eq!(trial.tries, 41);
    }
}
