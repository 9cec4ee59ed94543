//! The search for changes that suffice.

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

/// Adds the changes that `next` proposes against each obstacle until they suffice. `None` if there is no proposal, or if
/// `most` changes do not suffice.
pub fn step_by_step<T: Trial>(
    trial: &mut T,
    most: usize,
    mut next: impl FnMut(&mut T, &[T::Change], &T::Obstacle) -> Option<Vec<T::Change>>,
) -> Option<Vec<T::Change>> {
    let mut changes = Vec::new();
    while let Some(obstacle) = trial.obstacle(&changes) {
        // A long list of changes is no help to a reader, and each one costs a try.
        if changes.len() >= most {
            return None;
        }
        let more = next(trial, &changes, &obstacle)?;
        changes.extend(more);
    }
    Some(changes)
}

/// Removes each unnecessary change, the last first. All of them suffice, and so does the rest.
pub fn one_by_one<T: Trial>(trial: &mut T, mut changes: Vec<T::Change>) -> Vec<T::Change> {
    for index in (0..changes.len()).rev() {
        let mut without = changes.clone();
        without.remove(index);
        if !without.is_empty() && trial.suffices(&without) {
            changes = without;
        }
    }
    changes
}

/// Removes unnecessary items from a long list, as many as possible at a time, the last first. `change` makes changes of
/// items. Those of all items suffice, and so do those of the rest.
pub fn necessary<T: Trial, I: Clone>(
    trial: &mut T,
    mut items: Vec<I>,
    change: impl Fn(&[I]) -> Vec<T::Change>,
) -> Vec<I> {
    let mut size = items.len() / 2;
    while size > 0 {
        let before = items.len();
        let mut end = items.len();
        while end > 0 {
            let begin = end.saturating_sub(size);
            // A stretch at a time: most items of a long list are unnecessary.
            let without = [&items[..begin], &items[end..]].concat();
            if !without.is_empty() && trial.suffices(&change(&without)) {
                items = without;
            }
            end = begin;
        }
        // An item that was needed beside another may be unnecessary without it.
        if size > 1 || items.len() == before {
            size /= 2;
        }
    }
    items
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

/// The smallest sizes of all these changes that suffice together; `None` if the largest do not. None of those that are left
/// can be left out.
pub fn smallest<T: Trial>(
    trial: &mut T,
    scaled: &[Scaled<'_, T::Change>],
) -> Option<Vec<T::Change>> {
    let mut sizes: Vec<i64> = scaled.iter().map(|scaled| scaled.most).collect();
    let changes = |sizes: &[i64]| -> Vec<T::Change> {
        let made = scaled.iter().zip(sizes).filter(|(_, size)| **size > 0);
        made.flat_map(|(scaled, size)| (scaled.of_size)(*size))
            .collect()
    };
    if !trial.suffices(&changes(&sizes)) {
        return None;
    }
    let with = |sizes: &[i64], index: usize, size: i64| {
        let mut sizes = sizes.to_vec();
        sizes[index] = size;
        changes(&sizes)
    };
    for round in 0.. {
        let made: Vec<usize> = (0..sizes.len()).filter(|index| sizes[*index] > 0).collect();
        let mut is_removed = false;
        for index in made.iter().rev() {
            let without = with(&sizes, *index, 0);
            if !without.is_empty() && trial.suffices(&without) {
                sizes[*index] = 0;
                is_removed = true;
            }
        }
        // Sizes that were needed together may be too large alone.
        if round > 0 && !is_removed {
            break;
        }
        for index in made {
            if sizes[index] > 1 {
                sizes[index] = least(trial, (0, sizes[index]), |size| with(&sizes, index, size));
            }
        }
    }
    Some(changes(&sizes))
}

/// The smallest number for which `change` suffices. It suffices for `enough` and not for `too_few`.
pub fn least<T: Trial>(
    trial: &mut T,
    (too_few, enough): (i64, i64),
    change: impl Fn(i64) -> Vec<T::Change>,
) -> i64 {
    let (mut low, mut high) = (too_few, enough);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if trial.suffices(&change(middle)) {
            high = middle;
        } else {
            low = middle;
        }
    }
    high
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

    #[test]
    fn changes_are_added_until_they_suffice_and_no_more_than_allowed() {
        let half = |_: &mut Sum, _: &[i64], missing: &i64| Some(vec![(*missing + 1) / 2]);
        let found = step_by_step(&mut Sum::default(), 5, half);
        assert_eq!(found, Some(vec![5, 3, 1, 1]));
        assert_eq!(step_by_step(&mut Sum::default(), 3, half), None);
        let none = |_: &mut Sum, _: &[i64], _: &i64| None;
        assert_eq!(step_by_step(&mut Sum::default(), 5, none), None);
    }

    #[test]
    fn unnecessary_changes_are_removed_and_the_rest_suffices() {
        assert_eq!(one_by_one(&mut Sum::default(), vec![9, 7, 1, 2]), [9, 7]);
        assert_eq!(one_by_one(&mut Sum::default(), vec![12]), [12]);
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
    }

    #[test]
    fn few_tries_find_the_one_necessary_item_among_many() {
        let mut items = vec![0; 255];
        items[100] = 10;
        let mut trial = Sum::default();
        assert_eq!(necessary(&mut trial, items, <[i64]>::to_vec), [10]);
        assert!(trial.tries < 40, "{} tries", trial.tries);
    }

    #[test]
    fn the_least_number_is_found_by_halves() {
        let mut trial = Sum::default();
        assert_eq!(least(&mut trial, (0, 1 << 40), |number| vec![number]), 10);
        assert_eq!(trial.tries, 40);
    }
}
