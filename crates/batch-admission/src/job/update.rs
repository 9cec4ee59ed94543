//! The fields of a job that may change (S6-081).

use super::topology;
use evictd_batch_objects::{Job, JobSpec, LifecyclePolicy, written};
use evictd_pod::duration;

pub(crate) const OTHER_FIELDS: &str = "job updates may not change fields other than `minAvailable`, `tasks[*].replicas under spec` and `PriorityClassName`";
pub(crate) const OTHER_TASKS: &str = "job updates may not add or remove tasks";

/// The first thing that is wrong with the change.
pub(crate) fn check(old: &Job, new: &Job) -> Result<(), String> {
    let mut replicas = 0_i32;
    for task in &new.spec.tasks {
        let name = &task.name;
        if task.replicas < 0 {
            return Err(format!("'replicas' must be >= 0 in task: {name}"));
        }
        match task.min_available {
            Some(needed) if needed < 0 => {
                return Err(format!("'minAvailable' must be >= 0 in task: {name}"));
            }
            Some(needed) if needed > task.replicas => {
                return Err(format!(
                    "'minAvailable' must be <= 'replicas' in task: {name}"
                ));
            }
            _ => {}
        }
        let of_partitions = topology::partitions(task, &new.metadata.name);
        if !of_partitions.is_empty() {
            return Err(of_partitions);
        }
        // The sum wraps as that of Volcano does.
        replicas = replicas.wrapping_add(task.replicas);
    }
    if new.spec.min_available > replicas {
        return Err("job 'minAvailable' must not be greater than total replicas".to_owned());
    }
    if new.spec.min_available < 0 {
        return Err("job 'minAvailable' must be >= 0".to_owned());
    }
    let of_network = topology::network(new.spec.network_topology.as_ref());
    if !of_network.is_empty() {
        return Err(of_network.to_owned());
    }
    if old.spec.tasks.len() != new.spec.tasks.len() {
        return Err(OTHER_TASKS.to_owned());
    }
    if fixed(&old.spec) != fixed(&new.spec) {
        return Err(OTHER_FIELDS.to_owned());
    }
    Ok(())
}

/// The immutable fields, in a canonical form. Claim names that the controller generated are left out.
fn fixed(spec: &JobSpec) -> JobSpec {
    let mut fixed = spec.clone();
    fixed.min_available = 0;
    fixed.priority_class_name.clear();
    alike(&mut fixed.running_estimate);
    alike_policies(&mut fixed.policies);
    for task in &mut fixed.tasks {
        alike_policies(&mut task.policies);
        task.replicas = 0;
        task.min_available = None;
        task.template = written::template(&task.template);
    }
    for volume in &mut fixed.volumes {
        // The controller writes the name of the claim that it creates, so this is no change by a user.
        if let Some(claim) = &volume.volume_claim {
            volume.volume_claim = Some(written::cleaned(claim));
            volume.volume_claim_name.clear();
        }
    }
    // A plugin without arguments is written as null or as an empty list.
    for arguments in fixed.plugins.values_mut() {
        arguments.get_or_insert_default();
    }
    fixed
}

fn alike_policies(policies: &mut [LifecyclePolicy]) {
    for policy in policies {
        alike(&mut policy.timeout);
    }
}

/// `90m` is `1h30m0s`.
fn alike(length: &mut Option<String>) {
    if let Some(Ok(parsed)) = length.as_deref().map(duration::parse) {
        *length = Some(duration::format(parsed));
    }
}
