//! The targets of a flow have to exist, and to depend on each other in no circle (S6-247).

use evictd_batch_workflows::JobFlow;
use std::collections::BTreeMap;

const NO_DAG: &str = "jobflow Flow is not DAG";

/// The mistakes of a flow.
pub(super) fn check(flow: &JobFlow) -> Result<(), String> {
    // Of two flows of one name the last one counts.
    let flows = flow.spec.flows.iter().map(|flow| {
        let targets = flow.depends_on.iter();
        let targets = targets.flat_map(|depends_on| &depends_on.targets);
        (flow.name.as_str(), targets.map(String::as_str).collect())
    });
    let targets: BTreeMap<&str, Vec<&str>> = flows.collect();
    let mut all = targets.values().flatten();
    if let Some(missing) = all.find(|target| !targets.contains_key(*target)) {
        return Err(format!("{NO_DAG}: vertex is not defined: {missing}"));
    }
    if is_acyclic(&targets) {
        Ok(())
    } else {
        Err(NO_DAG.to_owned())
    }
}

/// Flows without open targets are taken away until none is left.
fn is_acyclic(targets: &BTreeMap<&str, Vec<&str>>) -> bool {
    let mut open: BTreeMap<&str, usize> = BTreeMap::new();
    let mut dependents: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, targets) in targets {
        open.insert(name, targets.len());
        for target in targets {
            dependents.entry(target).or_default().push(name);
        }
    }
    let free = open.iter().filter(|(_, open)| **open == 0);
    let mut free: Vec<&str> = free.map(|(name, _)| *name).collect();
    let mut taken = 0;
    while let Some(name) = free.pop() {
        taken += 1;
        for dependent in dependents.remove(name).unwrap_or_default() {
            if let Some(open) = open.get_mut(dependent) {
                *open -= 1;
                if *open == 0 {
                    free.push(dependent);
                }
            }
        }
    }
    taken == targets.len()
}
