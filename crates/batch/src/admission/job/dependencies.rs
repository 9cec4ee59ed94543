//! Whether the tasks of a job can start one after the other (S6-082).

use crate::wire::TaskSpec;
use std::collections::BTreeMap;

/// Whether every task has its turn when each waits for those that it depends on. A task that depends on one that is not
/// there, or names one twice, never has; nor have two of the same name.
pub(in crate::admission) fn can_start(tasks: &[TaskSpec]) -> bool {
    let mut waits: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for task in tasks {
        let of = task.depends_on.iter().flat_map(|depends| &depends.name);
        waits.insert(&task.name, of.map(String::as_str).collect());
    }
    let mut started = 0;
    while let Some((next, _)) = waits.iter().find(|(_, before)| before.is_empty()) {
        let next = *next;
        waits.remove(next);
        started += 1;
        for before in waits.values_mut() {
            // One that is named twice is waited for twice, and starts once.
            if let Some(place) = before.iter().position(|name| *name == next) {
                before.remove(place);
            }
        }
    }
    started == tasks.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::DependsOn;

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
        let cases: [(&[(&str, &[&str])], bool); 6] = [
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
