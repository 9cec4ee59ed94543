//! The source `cri`: this node's pods, from its container runtime. It needs no API server and no kubelet, and knows
//! neither priorities nor memory requests.

use super::{Listing, PodSource, SnapshotFile, remote::Remote};
use evictd_cluster_client::{Budget, Follow, Outline, Parsed, Reflector, Store, Unreadable};
use evictd_cri::{Client, Container, ContainerState, Resources, Sandbox};
use evictd_kernel::clock::Clock;
use evictd_pod::{quantity::Quantity, wire};
use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};
use tokio::{
    sync::{Notify, watch},
    time::sleep,
};

/// How often the runtime is asked if it has no events.
const INTERVAL: Duration = Duration::from_secs(1);
/// How often it is asked although it has events, in case one was lost.
const INTERVAL_WITH_EVENTS: Duration = Duration::from_secs(10);
/// A pod has several events at once; one list shows all of them.
const SETTLING: Duration = Duration::from_millis(50);
/// Labels with this prefix are the runtime's copies of the sandbox's metadata.
const RUNTIME_LABELS: &str = "io.kubernetes.pod.";
/// The annotation by which kubelets tell runtimes the grace period of a container's pod, in seconds.
const GRACE_PERIOD: &str = "io.kubernetes.pod.terminationGracePeriod";
/// The CPU shares of a container without a request.
const LEAST_SHARES: u64 = 2;

/// Pods from the container runtime.
#[derive(Debug)]
pub(crate) struct Cri {
    runtime: Client,
    node: String,
    keep: SnapshotFile,
    clock: Clock,
}

impl Cri {
    /// The pods of this node, from this runtime.
    pub(crate) fn new(runtime: Client, node: String, keep: SnapshotFile, clock: Clock) -> Self {
        Self {
            runtime,
            node,
            keep,
            clock,
        }
    }
}

impl PodSource for Cri {
    async fn start(self) -> watch::Receiver<Arc<Listing>> {
        let rest = (self.clock, &Budget::default());
        let remote = Remote::follow("the container runtime", true, &self.keep, rest);
        let receiver = remote.store().sender().subscribe();
        tokio::spawn(self.keep.follow(receiver.clone(), self.clock));
        let changed = Arc::new(Notify::new());
        let mut poller = Poller {
            runtime: self.runtime.clone(),
            node: self.node,
            remote,
            resources: HashMap::new(),
            last: None,
        };
        poller.poll().await;
        let (wake, follows_events) = (Arc::clone(&changed), watch::Sender::new(false));
        let has_events = follows_events.subscribe();
        let closed = poller.remote.store().sender();
        tokio::spawn(async move {
            tokio::select! {
                () = closed.closed() => {}
                () = follow_events(self.runtime, wake, follows_events) => {}
            }
        });
        tokio::spawn(poller.follow(changed, has_events));
        receiver
    }
}

/// Wakes the poller at each event, as long as the runtime has any. `follows` is true after the first one.
async fn follow_events(runtime: Client, changed: Arc<Notify>, follows: watch::Sender<bool>) {
    let mut events = runtime.events();
    loop {
        match events.next().await {
            Ok(Some(_)) => {
                follows.send_replace(true);
                changed.notify_one();
            }
            Ok(None) => return,
            Err(_) => {
                // The poller reports problems with the runtime.
                follows.send_replace(false);
                changed.notify_one();
                sleep(INTERVAL).await;
            }
        }
    }
}

/// The task that asks.
struct Poller {
    runtime: Client,
    node: String,
    remote: Reflector<Remote>,
    /// By container; `None`: this runtime does not report them. Removed containers are dropped.
    resources: HashMap<String, Option<Resources>>,
    /// The last lists, as long as they were taken over.
    last: Option<(Vec<Sandbox>, Vec<Container>)>,
}

impl Poller {
    async fn follow(mut self, changed: Arc<Notify>, has_events: watch::Receiver<bool>) {
        let sender = self.remote.store().sender();
        loop {
            let interval = if *has_events.borrow() {
                INTERVAL_WITH_EVENTS
            } else {
                INTERVAL
            };
            tokio::select! {
                () = sender.closed() => return,
                () = sleep(interval) => {}
                () = changed.notified() => sleep(SETTLING).await,
            }
            self.poll().await;
        }
    }

    async fn poll(&mut self) {
        let lists = tokio::try_join!(self.runtime.sandboxes(), self.runtime.containers());
        let lists = match lists {
            Ok(lists) => lists,
            Err(error) => return self.remote.store_mut().lost(&error.to_string()),
        };
        let read_all = self.read_resources(&lists.1).await;
        if self.last.as_ref() != Some(&lists) {
            self.remote.begin();
            let (sandboxes, containers) = &lists;
            for found in pods(sandboxes, containers) {
                self.remote.applied(self.wire(&found), 0);
            }
            self.last = Some(lists).filter(|_| read_all);
        }
        self.remote.up_to_date();
    }

    /// Asks for the limits of new containers; false if the runtime did not answer for all of them.
    async fn read_resources(&mut self, containers: &[Container]) -> bool {
        let runs = |container: &&Container| container.state == ContainerState::Running;
        let running: Vec<&Container> = containers.iter().filter(runs).collect();
        let mut known = HashMap::with_capacity(running.len());
        let mut answers = true;
        for container in running {
            let id = &container.id;
            if let Some(resources) = self.resources.get(id) {
                known.insert(id.clone(), *resources);
            } else if answers {
                match self.runtime.container(id).await {
                    Ok(status) => {
                        let resources = status.and_then(|status| status.resources);
                        known.insert(id.clone(), resources);
                    }
                    Err(_) => answers = false,
                }
            }
        }
        self.resources = known;
        answers
    }

    /// The pod in its API form.
    fn wire(&self, found: &Found<'_>) -> Parsed<wire::Pod> {
        if let Some(problem) = &found.problem {
            return Err(Unreadable {
                outline: found.outline().into(),
                problem: problem.clone(),
            });
        }
        let (sandbox, name) = (found.sandbox, &found.sandbox.pod);
        let labels = sandbox.labels.clone().into_iter();
        let labels = labels.filter(|(key, _)| !key.starts_with(RUNTIME_LABELS));
        let mut containers = Vec::new();
        let mut statuses = Vec::new();
        for container in &found.containers {
            let resources = self.resources.get(&container.id).copied().flatten();
            containers.push(wire::Container {
                name: container.name.clone(),
                resources: resources.map(requirements).unwrap_or_default(),
                ..wire::Container::default()
            });
            statuses.push(wire::ContainerStatus {
                name: container.name.clone(),
                container_id: format!("cri://{}", container.id),
                ..wire::ContainerStatus::default()
            });
        }
        Ok(wire::Pod {
            metadata: wire::Metadata {
                name: name.name.clone(),
                namespace: name.namespace.clone().into(),
                uid: name.uid.as_str().into(),
                labels: labels.collect(),
                annotations: sandbox.annotations.clone().into_iter().collect(),
                ..wire::Metadata::default()
            },
            spec: wire::PodSpec {
                node_name: self.node.clone(),
                termination_grace_period_seconds: grace_period(&found.containers),
                containers,
                ..wire::PodSpec::default()
            }
            .into(),
            status: wire::PodStatus {
                phase: wire::PodPhase::Running,
                start_time: sandbox.created,
                container_statuses: statuses,
                ..wire::PodStatus::default()
            }
            .into(),
        })
    }
}

/// A pod that runs according to the runtime.
#[derive(Debug)]
struct Found<'a> {
    sandbox: &'a Sandbox,
    /// Those that run, by name.
    containers: Vec<&'a Container>,
    /// Why it is not used.
    problem: Option<String>,
}

impl Found<'_> {
    /// Name, namespace and UID, with every other character than a name may have escaped.
    fn outline(&self) -> Outline {
        let name = &self.sandbox.pod;
        let escaped = |text: &str| text.escape_default().to_string();
        Outline {
            name: escaped(&name.name),
            namespace: escaped(&name.namespace),
            uid: name.uid.clone(),
            ..Outline::default()
        }
    }
}

/// The longest grace period of the pod's containers. `None`, which counts as 30 s, if no container has one.
fn grace_period(containers: &[&Container]) -> Option<i64> {
    let periods = containers.iter().filter_map(|container| {
        let seconds = container.annotations.get(GRACE_PERIOD)?;
        seconds.parse().ok().filter(|seconds| *seconds >= 0)
    });
    periods.max()
}

/// The running pods, one per UID. Of a pod's sandboxes the ready one counts, else the newest with a running container.
/// A sandbox that is neither belongs to an earlier instance.
fn pods<'a>(sandboxes: &'a [Sandbox], containers: &'a [Container]) -> Vec<Found<'a>> {
    let mut running: HashMap<&str, Vec<&Container>> = HashMap::new();
    for container in containers {
        if container.state == ContainerState::Running {
            let inside = running.entry(container.sandbox.as_str()).or_default();
            inside.push(container);
        }
    }
    let mut by_uid: BTreeMap<&str, Vec<&Sandbox>> = BTreeMap::new();
    for sandbox in sandboxes {
        if sandbox.ready || running.contains_key(sandbox.id.as_str()) {
            by_uid.entry(&sandbox.pod.uid).or_default().push(sandbox);
        }
    }
    let newest = |group: &[&'a Sandbox]| {
        let age = |sandbox: &&&Sandbox| (sandbox.ready, sandbox.pod.attempt, sandbox.created);
        group.iter().max_by_key(age).copied()
    };
    let mut found = Vec::new();
    for (uid, group) in by_uid {
        let Some(sandbox) = newest(&group) else {
            continue;
        };
        let mut inside = running.remove(sandbox.id.as_str()).unwrap_or_default();
        inside.sort_by(|a, b| a.name.cmp(&b.name));
        let same_pod = |other: &&Sandbox| {
            other.pod.name == sandbox.pod.name && other.pod.namespace == sandbox.pod.namespace
        };
        let problem = if uid.is_empty() {
            Some("the runtime gives no UID for it".to_owned())
        } else if !group.iter().all(same_pod) {
            Some(format!(
                "the runtime has another pod with its UID, {}",
                uid.escape_default()
            ))
        } else {
            let named = [
                ("name", &sandbox.pod.name),
                ("namespace", &sandbox.pod.namespace),
                ("UID", &sandbox.pod.uid),
            ];
            named
                .into_iter()
                .find(|(_, text)| !is_name(text))
                .map(|(what, text)| format!("{text:?} is not a {what}"))
        };
        found.push(Found {
            sandbox,
            containers: inside,
            problem,
        });
    }
    found
}

/// Whether Kubernetes could have given this name.
fn is_name(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    !text.is_empty() && text.len() <= 253 && text.bytes().all(allowed)
}

/// The request and the limits that follow from the resources of a container.
fn requirements(given: Resources) -> wire::ResourceRequirements {
    let mut requirements = wire::ResourceRequirements::default();
    let mut add = |limits: bool, name: &str, text: String| {
        let Ok(quantity) = text.parse::<Quantity>() else {
            return;
        };
        let list = if limits {
            &mut requirements.limits
        } else {
            &mut requirements.requests
        };
        list.insert(name, quantity);
    };
    if let Some(shares) = given.cpu_shares.filter(|shares| *shares > LEAST_SHARES) {
        add(
            false,
            "cpu",
            format!("{}m", shares.saturating_mul(1000).div_ceil(1024)),
        );
    }
    if let Some((quota, period)) = given.cpu_quota.zip(given.cpu_period) {
        add(
            true,
            "cpu",
            format!("{}m", quota.saturating_mul(1000) / period),
        );
    }
    if let Some(limit) = given.memory_limit {
        add(true, "memory", limit.to_string());
    }
    requirements
}

#[cfg(test)]
mod tests;
