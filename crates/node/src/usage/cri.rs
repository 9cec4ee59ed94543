//! The container runtime's figures of pods: their memory and processes.

use evictd_cri::{Client, Container, ContainerStats, Memory, SandboxStats};
use evictd_usage::{
    ContainerUsage, PodUsage,
    figure::{Bytes, Figure, Source, sum},
};
use procfs::{Current, Meminfo};
use std::collections::{HashMap, HashSet};

/// No kernel gives more process ids.
const MOST_PROCESSES: u64 = 1 << 22;

/// The usage of every pod of the runtime, by UID. `Err` says why there is none. A pod with two contradicting or
/// impossible figures is left out, so that its cgroup is read instead.
pub(super) async fn usage(runtime: &Client) -> Result<HashMap<String, PodUsage>, String> {
    let message = |error: evictd_cri::Error| error.to_string();
    if let Some(stats) = runtime.sandbox_stats().await.map_err(message)? {
        return Ok(by_uid(
            stats
                .iter()
                .map(|one| (one.pod.uid.as_str(), of_sandbox(one))),
        ));
    }
    let Some(stats) = runtime.container_stats().await.map_err(message)? else {
        return Err("it counts neither pods nor containers".to_owned());
    };
    let (sandboxes, containers) =
        tokio::try_join!(runtime.sandboxes(), runtime.containers()).map_err(message)?;
    let uids: HashMap<&str, &str> = sandboxes
        .iter()
        // A dead sandbox may still be listed, and its pod has another one.
        .filter(|sandbox| sandbox.ready)
        .map(|sandbox| (sandbox.id.as_str(), sandbox.pod.uid.as_str()))
        .collect();
    let mut inside: HashMap<&str, Vec<&Container>> = HashMap::new();
    for container in &containers {
        if let Some(uid) = uids.get(container.sandbox.as_str()) {
            inside.entry(uid).or_default().push(container);
        }
    }
    let stats = inside
        .into_iter()
        .map(|(uid, containers)| (uid, of_containers(&containers, &stats)));
    Ok(by_uid(stats))
}

fn by_uid<'a>(
    reported: impl Iterator<Item = (&'a str, Option<PodUsage>)>,
) -> HashMap<String, PodUsage> {
    let mut twice = HashSet::new();
    let mut all = HashMap::new();
    for (uid, usage) in reported {
        // Which of two is right cannot be known, so the usage counts as unknown.
        if all.insert(uid, usage).is_some() {
            twice.insert(uid);
        }
    }
    let memory = Meminfo::current().map_or(u64::MAX, |machine| machine.mem_total);
    let most = i64::try_from(memory).unwrap_or(i64::MAX);
    all.into_iter()
        .filter(|(uid, _)| !uid.is_empty() && !twice.contains(uid))
        .filter_map(|(uid, usage)| Some((uid.to_owned(), usage?)))
        // More than all memory is a mistake of the runtime, and would be evicted first.
        .filter(|(_, usage)| usage.working_set.is_none_or(|bytes| bytes.value <= most))
        .collect()
}

fn of_sandbox(stats: &SandboxStats) -> Option<PodUsage> {
    let memory = stats.memory.as_ref();
    let at = memory.and_then(|memory| memory.at);
    Some(PodUsage {
        working_set: Some(memory.and_then(working_set)?),
        processes: stats
            .processes
            .filter(|processes| (1..=MOST_PROCESSES).contains(processes))
            .and_then(|processes| i64::try_from(processes).ok())
            .map(|processes| Figure::processes(processes).measured(Source::Runtime, at)),
        containers: stats.containers.iter().map(of_container).collect(),
        ..PodUsage::default()
    })
}

/// The sum of a pod's containers; `None` unless the runtime counts each that runs.
fn of_containers(containers: &[&Container], stats: &[ContainerStats]) -> Option<PodUsage> {
    let mut pod = PodUsage::default();
    for container in containers {
        if container.state != evictd_cri::ContainerState::Running {
            continue;
        }
        let counted = stats.iter().find(|stats| stats.id == container.id)?;
        let memory = counted.memory.as_ref()?;
        pod.working_set = sum([pod.working_set, Some(working_set(memory)?)].into_iter());
        pod.containers.push(of_container(counted));
    }
    pod.working_set.map(|_| pod)
}

fn of_container(stats: &ContainerStats) -> ContainerUsage {
    ContainerUsage {
        name: stats.name.clone(),
        working_set: stats.memory.as_ref().and_then(working_set),
        ..ContainerUsage::default()
    }
}

/// `None` if it is unknown, or more than all that is charged, which cannot be.
fn working_set(memory: &Memory) -> Option<Figure<Bytes>> {
    let working_set = memory.working_set?;
    let possible = memory.usage.is_none_or(|usage| working_set <= usage)
        && (working_set > 0 || memory.rss.unwrap_or(0) == 0);
    let bytes = i64::try_from(working_set).ok().filter(|_| possible)?;
    Some(Figure::bytes(bytes).measured(Source::Runtime, memory.at))
}

#[cfg(test)]
mod tests;
