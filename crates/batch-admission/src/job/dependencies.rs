//! Whether the tasks of a job can start one after the other (S6-082).

use evictd_batch_objects::TaskSpec;
use std::collections::{BTreeMap, BTreeSet};

/// Whether every task has its turn when each waits for those that it depends on. A task that depends on one that is not
/// there, or names one twice, never has; nor have two of the same name.
pub(crate) fn can_start(tasks: &[TaskSpec]) -> bool {
    let (mut waits, mut followers) = (BTreeMap::new(), BTreeMap::<&str, BTreeSet<&str>>::new());
    for task in tasks {
        let before = task.depends_on.iter().flat_map(|depends| &depends.name);
        let mut count = 0_usize;
        for name in before {
            // One that is named twice is waited for twice, and starts once.
            count += 1;
            followers.entry(name).or_default().insert(&task.name);
        }
        waits.insert(task.name.as_str(), count);
    }
    let ready = waits.iter().filter(|(_, count)| **count == 0);
    let mut ready: Vec<&str> = ready.map(|(name, _)| *name).collect();
    let mut started = 0;
    while let Some(next) = ready.pop() {
        started += 1;
        for follower in followers.remove(next).unwrap_or_default() {
            let Some(count) = waits.get_mut(follower).filter(|count| **count > 0) else {
                continue;
            };
            *count -= 1;
            if *count == 0 {
                ready.push(follower);
            }
        }
    }
    started == tasks.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use evictd_batch_objects::DependsOn;

    fn task(name: &str, on: &[&str]) -> TaskSpec {
        TaskSpec {
            name: name.to_owned(),
            depends_on: Some(DependsOn {
                name: on.iter().map(|&name| name.to_owned()).collect(),
                iteration: String::new(),
            }),
            ..TaskSpec::default()
        }
    }

    #[test]
    fn only_what_is_waited_for_once_and_exists_starts() {
        type Tasks<'t> = &'t [(&'t str, &'t [&'t str])];
        let cases: [(Tasks<'_>, bool); 6] = [
            (&[("a", &[]), ("b", &["a"]), ("c", &["a", "b"])], true),
            (&[("a", &["b"]), ("b", &["a"])], false),
            (&[("a", &["a"])], false),
            (&[("a", &["x"])], false),
            (&[("a", &[]), ("b", &["a", "a"])], false),
            (&[("a", &[]), ("a", &[])], false),
        ];
        for (tasks, expected) in cases {
            let tasks: Vec<_> = tasks.iter().map(|(name, on)| task(name, on)).collect();
            assert_eq!(can_start(&tasks), expected, "{tasks:?}");
        }
    }
}
