//! The demo: a small real node, real pods made of real processes, and the daemon's real loop.

pub mod node;
pub mod scenario;
pub mod scene;
pub mod worker;

use crate::{
    agent::{
        Order,
        start::{self, StartError},
    },
    cgroup::{CgroupError, Hierarchies},
    clock::Clock,
    config,
};
use evictd_pod::{Pod, wire};
use node::{Node, NodeError};
use scenario::{NAMESPACE, NODE_BYTES, Play, Player, Scenario};
use scene::{Fate, PodLine, Stage, Watcher};
use serde::Serialize;
use serde_json::Value;
use std::{io, path::Path, process::Stdio, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    process::{Child, ChildStdin, Command},
    sync::mpsc,
    time::{sleep, timeout},
};

/// A play that has not ended by then has failed.
const LONGEST_PLAY: Duration = Duration::from_secs(20);
/// After the expected pod is gone the loop turns a little longer, so that a second victim would be seen.
const ENCORE: Duration = Duration::from_millis(300);

/// How a play ended.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Which play.
    pub scenario: &'static str,
    /// `real` or `simulated`.
    pub mode: &'static str,
    /// Who was expected to go.
    pub expected: Option<String>,
    /// Who went.
    pub evicted: Vec<String>,
    /// Who lives.
    pub survivors: Vec<String>,
    /// From the last look that had not seen the threshold crossed to the last process gone.
    pub reaction_seconds: Option<f64>,
    /// The least memory that any look saw, in bytes.
    pub lowest_available_bytes: Option<i64>,
    /// How often the kernel's OOM killer struck.
    pub kernel_oom_kills: u64,
    /// Every decision with its evidence and outcome.
    pub decisions: Vec<Value>,
}

impl Report {
    /// Whether nothing but the expected happened.
    pub fn as_expected(&self) -> bool {
        self.kernel_oom_kills == 0
            && self
                .expected
                .as_ref()
                .map_or(self.evicted.is_empty(), |expected| {
                    self.evicted == [expected.clone()]
                })
    }
}

/// Why there was no play.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    /// No node could be built.
    #[error(transparent)]
    Node(#[from] NodeError),
    /// No cgroups.
    #[error(transparent)]
    Cgroups(#[from] CgroupError),
    /// The agent did not start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The demo's own configuration is wrong.
    #[error("the demo's configuration: {0}")]
    Config(String),
    /// A pod could not be started.
    #[error("cannot start the pod {name}: {source}")]
    Pod {
        /// Its name.
        name: &'static str,
        /// Why.
        source: io::Error,
    },
}

/// A running pod.
struct Actor {
    name: &'static str,
    child: Child,
    stdin: ChildStdin,
}

/// Plays it for real. `calm` is how long nothing happens at first.
pub async fn play(
    scenario: Scenario,
    clock: Clock,
    stage: &Stage,
    calm: Duration,
) -> Result<Report, DemoError> {
    let play = scenario.play();
    let hierarchies = Hierarchies::detect(Path::new("/sys/fs/cgroup"))?;
    let mut node = Node::build(hierarchies, NODE_BYTES, play.most_pids, play.disk_bytes)?;
    let mut actors = Vec::new();
    for player in &play.players {
        actors.push(enter(&mut node, player).await?);
        stage.scene().pods.push(pod_line(player));
    }
    let outcome = perform(&node, &play, &mut actors, clock, stage, calm).await;
    let mut survivors = Vec::new();
    for actor in &mut actors {
        if matches!(actor.child.try_wait(), Ok(None)) {
            survivors.push(format!("{NAMESPACE}/{}", actor.name));
        }
    }
    let kernel_oom_kills = node.kernel_oom_kills();
    for actor in &mut actors {
        let _ = actor.child.kill().await;
    }
    drop(node);
    let landed = outcome?;
    let scene = stage.scene();
    Ok(Report {
        scenario: scenario.name(),
        mode: "real",
        expected: Some(play.expected.to_owned()),
        evicted: landed.iter().map(|(pod, _)| pod.clone()).collect(),
        survivors,
        reaction_seconds: landed
            .first()
            .and_then(|(_, outcome)| outcome["reactionFromLastClearLookSeconds"].as_f64()),
        lowest_available_bytes: scene.trace.iter().map(|(_, available)| *available).min(),
        kernel_oom_kills,
        decisions: scene.decisions.clone(),
    })
}

/// Starts a pod's process, puts it into its cgroup, and writes its manifest.
async fn enter(node: &mut Node, player: &Player) -> Result<Actor, DemoError> {
    let failed = |source| DemoError::Pod {
        name: player.name,
        source,
    };
    let cgroup = node.pod(player.name)?;
    let disk = node.directory.join("disk").join(player.name);
    std::fs::create_dir_all(&disk).map_err(failed)?;
    let mut child = Command::new(std::env::current_exe().map_err(failed)?)
        .arg("worker")
        .args(player.role.arguments(Some(&disk.join("data"))))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(failed)?;
    let lost = || failed(io::Error::other("its process ended at once"));
    node.enter(&cgroup, child.id().ok_or_else(lost)?)?;
    let mut stdin = child.stdin.take().ok_or_else(lost)?;
    let mut stdout = child.stdout.take().ok_or_else(lost)?;
    stdin.write_all(b"\n").await.map_err(failed)?;
    stdout.read_u8().await.map_err(failed)?;
    let manifest = player.manifest(&cgroup.to_string_lossy(), Some(&disk.to_string_lossy()));
    let path = node
        .directory
        .join("manifests")
        .join(format!("{}.yaml", player.name));
    std::fs::write(path, manifest).map_err(failed)?;
    Ok(Actor {
        name: player.name,
        child,
        stdin,
    })
}

/// Runs the loop, lets the hog go, and returns who left, in order.
async fn perform(
    node: &Node,
    play: &Play,
    actors: &mut [Actor],
    clock: Clock,
    stage: &Stage,
    calm: Duration,
) -> Result<Vec<(String, Value)>, DemoError> {
    let (landed, mut landings) = mpsc::unbounded_channel();
    let watcher = Watcher {
        stage: stage.clone(),
        landed,
    };
    let config = configuration(node, play)?;
    let ready = start::ready(&config, clock, Some(Box::new(watcher))).await?;
    let agent = tokio::spawn(ready.agent.run(ready.questions, ready.orders));
    let mut gone = Vec::new();
    let act = async {
        sleep(calm).await;
        if let Some(hog) = actors.last_mut() {
            // A hog that is gone already shows in the outcome.
            let _ = hog.stdin.write_all(b"\n").await;
        }
        while let Some(landing) = landings.recv().await {
            let expected = landing.0 == play.expected;
            gone.push(landing);
            if expected {
                break;
            }
        }
        if let Ok(Some(second)) = timeout(ENCORE, landings.recv()).await {
            gone.push(second);
        }
    };
    let watch_memory = async {
        loop {
            for actor in actors_memory(node, stage) {
                stage
                    .scene()
                    .pods
                    .iter_mut()
                    .filter(|line| line.pod == actor.0)
                    .for_each(|line| line.usage = actor.1);
            }
            sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::select! {
        _ = timeout(LONGEST_PLAY, act) => {}
        () = watch_memory => {}
    }
    // It ends by itself if it takes no orders any more.
    let _ = ready.give_order.send(Order::Stop).await;
    let _ = agent.await;
    Ok(gone)
}

fn actors_memory(node: &Node, stage: &Stage) -> Vec<(String, Option<i64>)> {
    let names: Vec<String> = stage
        .scene()
        .pods
        .iter()
        .map(|line| line.pod.clone())
        .collect();
    names
        .into_iter()
        .map(|pod| {
            let name = pod.rsplit('/').next().unwrap_or_default().to_owned();
            let memory = node.memory_of(&node.cgroup.join(name));
            (pod, memory)
        })
        .collect()
}

fn configuration(node: &Node, play: &Play) -> Result<config::Effective, DemoError> {
    let place = node.directory.display();
    let cgroup = node.cgroup.display();
    let text = format!(
        "apiVersion: evictd.dev/v1alpha1
kind: EvictionConfiguration
nodeName: demo
nodeCgroup: {cgroup}
cgroupRoots: [{cgroup}]
evictionHard: {}
{}
pods: {{source: manifests, manifests: {place}/manifests, staticPodPath: ''}}
filesystems: {{nodefs: {place}/disk, imagefs: {place}/disk, containerfs: {place}/disk}}
metrics: {{address: ''}}
socket: {place}/evictd.sock
stateDirectory: {place}/state
",
        play.eviction_hard(),
        play.settings
    );
    let loaded =
        config::parse("demo", &text).map_err(|refused| DemoError::Config(refused.to_string()))?;
    Ok(loaded.effective)
}

fn pod_line(player: &Player) -> PodLine {
    let pod: wire::Pod = serde_saphyr::from_str(&player.manifest("demo", None)).unwrap_or_default();
    let pod = Pod::from_wire(pod);
    PodLine {
        pod: format!("{NAMESPACE}/{}", player.name),
        qos: pod.qos.as_str(),
        priority: pod.priority(),
        request: pod.memory_request.value(),
        usage: None,
        critical: player.priority_class.is_some(),
        fate: Fate::Alive,
    }
}
