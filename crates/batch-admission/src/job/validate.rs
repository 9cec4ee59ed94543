//! Whether a new job is let in (S6-077 to S6-080, S6-082).

use super::{dependencies, policies, topology, volumes};
use crate::field::{Mistakes, listed};
use crate::{Known, template};
use evictd_batch_objects::{Job, QueueState, TaskSpec};
use evictd_pod::names;
use std::collections::BTreeSet;

/// The plugins of jobs that there are.
pub(crate) const PLUGINS: [&str; 8] = [
    "env",
    "hcclrank",
    "mpi",
    "pytorch",
    "ray",
    "ssh",
    "svc",
    "tensorflow",
];
pub(crate) const NO_TASK: &str = "No task specified in job spec";

/// Everything that is wrong with the job, one after the other; nothing if it is right.
pub(crate) fn check(job: &Job, known: &Known) -> String {
    let (spec, name) = (&job.spec, &job.metadata.name);
    if spec.tasks.is_empty() {
        return NO_TASK.to_owned();
    }
    if !has_mpi_master(job) {
        return "The specified mpi master task was not found".to_owned();
    }
    let mut wrong = Mistakes::default();
    wrong.push(topology::network(spec.network_topology.as_ref()).to_owned());
    let seen = tasks(job, &mut wrong);
    let of_name = names::qualified(name);
    if !of_name.is_empty() {
        let of_name = listed(&of_name);
        wrong.push(format!(
            "create job with name {name} validate failed {of_name}"
        ));
    }
    let replicas = seen
        .iter()
        .fold(0_i32, |all, task| all.wrapping_add(task.replicas));
    if replicas < spec.min_available {
        wrong.push(
            " job 'minAvailable' should not be greater than total replicas in tasks;".to_owned(),
        );
    }
    wrong.push(policies::check(&spec.policies, "spec.policies"));
    let unknown = spec.plugins.keys();
    for plugin in unknown.filter(|plugin| !PLUGINS.contains(&plugin.as_str())) {
        wrong.push(format!(" unable to find job plugin: {plugin};"));
    }
    wrong.push(volumes::check(&spec.volumes));
    wrong.push(queue(&spec.queue, known));
    let depend = seen.iter().any(|task| task.depends_on.is_some());
    if depend && !dependencies::can_start(&spec.tasks) {
        let what =
            " job has dependencies between tasks, but doesn't form a directed acyclic graph(DAG);";
        wrong.push(what.to_owned());
    }
    wrong.concat()
}

/// Checks the tasks up to the first whose name another has already; returns those that were looked at.
fn tasks<'j>(job: &'j Job, wrong: &mut Mistakes) -> &'j [TaskSpec] {
    let (tasks, job_name) = (&job.spec.tasks, &job.metadata.name);
    let mut names_so_far: BTreeSet<&str> = BTreeSet::new();
    for (index, task) in tasks.iter().enumerate() {
        let name = &task.name;
        if task
            .min_available
            .is_some_and(|needed| needed > task.replicas)
        {
            wrong.push(format!(
                " 'minAvailable' is greater than 'replicas' in task: {name}, job: {job_name};"
            ));
        }
        if !names_so_far.insert(name) {
            wrong.push(format!(" duplicated task name {name};"));
            return &tasks[..=index];
        }
        wrong.push(policies::check(&task.policies, "spec.tasks.policies"));
        let pod = format!("{job_name}-{name}-{index}");
        let of_pod = names::qualified(&pod);
        if !of_pod.is_empty() {
            let of_pod = listed(&of_pod);
            wrong.push(format!(
                "create pod with name {pod} validate failed {of_pod};"
            ));
        }
        wrong.push(of_template(job, task, index));
        wrong.push(topology::partitions(task, job_name));
    }
    tasks
}

fn of_template(job: &Job, task: &TaskSpec, index: usize) -> String {
    let found = template::check(&task.name, &job.metadata.namespace, &task.template);
    if found.is_empty() {
        return topology::numa(task, index);
    }
    format!("spec.task[{index}].{}. ", found.join(". "))
}

/// With the plugin mpi there is the task that it takes for the master.
fn has_mpi_master(job: &Job) -> bool {
    let Some(arguments) = job.spec.plugins.get("mpi") else {
        return true;
    };
    let master = flag(arguments.as_deref().unwrap_or_default(), "master");
    let master = master.unwrap_or("master");
    job.spec.tasks.iter().any(|task| task.name == master)
}

/// The value of a flag in Go's notation: `-name=value`, `--name=value`, or the next argument. The last one counts;
/// reading ends at the first argument that is no flag.
fn flag<'a>(arguments: &'a [String], name: &str) -> Option<&'a str> {
    let (mut found, mut rest) = (None, arguments.iter());
    while let Some(argument) = rest.next() {
        let Some(flag) = argument.strip_prefix('-') else {
            break;
        };
        let flag = flag.strip_prefix('-').unwrap_or(flag);
        let (key, value) = match flag.split_once('=') {
            Some((key, value)) => (key, Some(value)),
            None => (flag, rest.next().map(String::as_str)),
        };
        let Some(value) = value else { break };
        match key {
            key if key == name => found = Some(value),
            "master" | "worker" | "port" => {}
            _ => break,
        }
    }
    found
}

/// The queue exists, is open, and has no queues below it.
fn queue(name: &str, known: &Known) -> String {
    let queue = match known.queue(name) {
        Err(not_found) => return format!(" unable to find job queue: {not_found};"),
        Ok(queue) => queue,
    };
    let (state, mut wrong) = (&queue.status.state, Vec::new());
    if *state != QueueState::Open {
        wrong.push(format!(
            " can only submit job to queue with state `Open`, queue `{name}` status is `{state}`;"
        ));
    }
    let children = known.children(name).len();
    if name == "root" {
        wrong.push(" can not submit job to root queue;".to_owned());
    } else if children > 0 {
        wrong.push(format!(
            " can only submit job to leaf queue, queue `{name}` has {children} child queues;"
        ));
    }
    wrong.concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_read_as_go_reads_them() {
        let cases: [(&[&str], Option<&str>); 8] = [
            (&[], None),
            (&["--master=a"], Some("a")),
            (&["-master=a", "--master", "b"], Some("b")),
            (&["--worker=w", "--port", "22", "-master", "a"], Some("a")),
            (&["word", "--master=a"], None),
            (&["--other=1", "--master=a"], None),
            (&["--master"], None),
            (&["--master="], Some("")),
        ];
        for (arguments, expected) in cases {
            let arguments: Vec<_> = arguments.iter().map(ToString::to_string).collect();
            assert_eq!(flag(&arguments, "master"), expected, "{arguments:?}");
        }
    }
}
