//! The demo: a small real node, pods of real processes, and the agent's real main loop.
//!
//! [`play`] builds a [`Node`] of control groups and a small disk. The pods of a [`Scenario`] are processes of this
//! program, each a [`worker`], and one of them takes all that the node has. The agent of `evictd-node` watches it like
//! any other node. Where no such node can be built, the same play runs with figures that are made up, and says so.
//!
//! What happens is kept in a [`Stage`], from which a [`Screen`], a [`picture`] and the [`summary`] are drawn. The demo
//! runs in a process of its own below a [`guardian`], which removes everything however the demo ends.

pub mod guardian;
mod node;
pub mod picture;
mod scenario;
mod scene;
mod screen;
mod simulated;
pub mod summary;
pub mod worker;

pub use node::{Node, NodeError};
pub use scenario::Scenario;
pub use scene::Stage;
pub use screen::Screen;

use evictd_daemon::tasks::Daemon;
use evictd_decision::record::{Outcome, Record};
use evictd_kernel::{
    cgroup::{DEFAULT_ROOT, Hierarchies},
    clock::Clock,
};
use evictd_node::{
    logging::chain,
    start::{self, StartError},
};
use evictd_node_config as config;
use scenario::{NODE_BYTES, Play, Player};
use scene::Watcher;
use serde::Serialize;
use std::{io, path::Path, process::Stdio, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    process::{Child, ChildStdin, Command},
    sync::mpsc,
    time::{sleep, timeout},
};

/// A scenario that takes longer has failed.
const LONGEST_PLAY: Duration = Duration::from_secs(20);
/// How often the usage of the pods in the picture is updated.
const USAGE_PERIOD: Duration = Duration::from_millis(50);
/// How long answers that are under way may take at the end.
const FINISH: Duration = Duration::from_secs(1);

/// The result of a scenario.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// The scenario.
    pub scenario: Scenario,
    /// `real` or `simulated`.
    pub mode: &'static str,
    /// The pod that should be evicted.
    pub expected: Option<String>,
    /// The pods that were evicted.
    pub evicted: Vec<String>,
    /// The pods that still run.
    pub survivors: Vec<String>,
    /// From the last observation that was not past the threshold to the exit of the last process.
    pub reaction_seconds: Option<f64>,
    /// The least available memory of all observations, in bytes.
    pub lowest_available_bytes: Option<i64>,
    /// How often the kernel's OOM killer killed a process.
    pub kernel_oom_kills: u64,
    /// Every decision with evidence and outcome.
    pub decisions: Vec<Record>,
}

impl Report {
    /// Collected from the records of the stage.
    fn new(
        stage: &Stage,
        terminated: &[(String, Outcome)],
        survivors: Vec<String>,
        kernel_oom_kills: u64,
    ) -> Self {
        let scene = stage.scene();
        let reaction = terminated.first().map(|(_, outcome)| outcome);
        Self {
            scenario: scene.scenario,
            mode: match scene.missing {
                None => "real",
                Some(_) => "simulated",
            },
            expected: Some(scene.scenario.play().expected.to_owned()),
            evicted: terminated.iter().map(|(pod, _)| pod.clone()).collect(),
            survivors,
            reaction_seconds: reaction
                .and_then(Outcome::ended)
                .and_then(|ended| ended.reaction_from_last_clear_look_seconds),
            lowest_available_bytes: scene.lowest_memory,
            kernel_oom_kills,
            decisions: scene.acts.iter().map(|act| act.record.clone()).collect(),
        }
    }

    /// Whether exactly the expected pod was evicted.
    pub fn as_expected(&self) -> bool {
        self.kernel_oom_kills == 0
            && self.evicted.iter().eq(&self.expected)
            && self.survivors == self.scenario.play().others()
    }
}

/// Why the scenario could not be run.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    /// The node could not be built.
    #[error(transparent)]
    Node(#[from] NodeError),
    /// The agent did not start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The demo's own configuration is wrong.
    #[error("the demo's configuration: {0}")]
    Config(String),
    /// A pod could not be started.
    #[error("cannot start the pod {name}")]
    Pod {
        /// Its name.
        name: &'static str,
        /// Why.
        source: io::Error,
    },
    /// It was interrupted.
    #[error("interrupted; everything that it created is removed")]
    Interrupted,
}

/// A running pod of the demo.
struct Actor {
    child: Child,
    stdin: ChildStdin,
}

/// Runs the scenario: with a real node if one can be built, else simulated. The first and the last `calm` are without
/// events.
pub async fn play(
    scenario: Scenario,
    clock: Clock,
    stage: &Stage,
    calm: Duration,
    stop: impl Future<Output = ()>,
) -> Result<Report, DemoError> {
    let play = scenario.play();
    let mut node = match build(&play) {
        Ok(node) => node,
        Err(missing) => {
            stage.scene().missing = Some(chain(&missing));
            return tokio::select! {
                report = simulated::play(&play, stage, calm) => report,
                () = stop => Err(DemoError::Interrupted),
            };
        }
    };
    let mut actors = Vec::new();
    for player in &play.players {
        actors.push(enter(&mut node, player).await?);
        stage.scene().enter(player);
    }
    let performance = perform(&node, &play, &mut actors, clock, stage, calm);
    let terminated = tokio::select! {
        terminated = performance => terminated,
        () = stop => Err(DemoError::Interrupted),
    };
    let mut survivors = Vec::new();
    for (actor, player) in actors.iter_mut().zip(&play.players) {
        if matches!(actor.child.try_wait(), Ok(None)) {
            survivors.push(player.full_name());
        }
    }
    let kernel_oom_kills = node.kernel_oom_kills();
    for actor in &mut actors {
        // If it has exited already, the kill fails, and is not needed.
        let _ = actor.child.kill().await;
    }
    drop(node);
    Ok(Report::new(
        stage,
        &terminated?,
        survivors,
        kernel_oom_kills,
    ))
}

fn build(play: &Play) -> Result<Node, NodeError> {
    let hierarchies = Hierarchies::detect(Path::new(DEFAULT_ROOT))?;
    Node::build(hierarchies, NODE_BYTES, play.most_pids, play.disk_bytes)
}

/// Starts a pod's process, puts it into its cgroup, and writes its manifest.
async fn enter(node: &mut Node, player: &Player) -> Result<Actor, DemoError> {
    let failed = |source| DemoError::Pod {
        name: player.name,
        source,
    };
    let cgroup = node.pod(player.name)?;
    let disk = node.volume(player.name);
    std::fs::create_dir_all(&disk).map_err(failed)?;
    let mut child = Command::new(std::env::current_exe().map_err(failed)?)
        .arg("worker")
        .args(player.role.arguments(Some(&disk.join("data"))))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        // In a process group of its own, so that Ctrl-C reaches only the demo.
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(failed)?;
    let lost = || failed(io::Error::other("its process ended at once"));
    node.enter(&cgroup, child.id().ok_or_else(lost)?)?;
    let mut stdin = child.stdin.take().ok_or_else(lost)?;
    let mut stdout = child.stdout.take().ok_or_else(lost)?;
    stdin.write_all(b"\n").await.map_err(failed)?;
    stdout.read_u8().await.map_err(failed)?;
    let manifest = player.manifest(&cgroup.to_string_lossy(), true);
    let path = node
        .directory
        .join("manifests")
        .join(format!("{}.yaml", player.name));
    std::fs::write(path, manifest).map_err(failed)?;
    Ok(Actor { child, stdin })
}

/// Runs the main loop, starts the hog, and returns the evicted pods in order.
async fn perform(
    node: &Node,
    play: &Play,
    actors: &mut [Actor],
    clock: Clock,
    stage: &Stage,
    calm: Duration,
) -> Result<Vec<(String, Outcome)>, DemoError> {
    let (terminated, mut terminations) = mpsc::unbounded_channel();
    let watcher = Watcher {
        stage: stage.clone(),
        pods: node.kubelet().join("pods"),
        terminated,
    };
    let config = configuration(&node.directory, &node.cgroup, play)?;
    let daemon = Daemon::without_signals();
    let starting = start::ready(&config, (&daemon, clock), Some(Box::new(watcher)));
    let ready = Box::pin(starting).await?;
    let running = ready
        .agent
        .run(ready.questions, ready.changes, daemon.stopping());
    let agent = tokio::spawn(running);
    let mut gone = Vec::new();
    let act = async {
        sleep(calm).await;
        if let Some(hog) = actors.last_mut() {
            // If the hog has exited already, the outcome shows it.
            let _ = hog.stdin.write_all(b"\n").await;
        }
        while let Some(ended) = terminations.recv().await {
            let expected = ended.0 == play.expected;
            gone.push(ended);
            if expected {
                break;
            }
        }
        // Waits long enough to see an unexpected second victim.
        if let Ok(Some(second)) = timeout(calm, terminations.recv()).await {
            gone.push(second);
        }
    };
    tokio::select! {
        _ = timeout(LONGEST_PLAY, act) => {}
        () = watch_usage(node, play, stage) => {}
    }
    daemon.stopping().cancel();
    let _ = agent.await;
    daemon.end(FINISH).await;
    Ok(gone)
}

async fn watch_usage(node: &Node, play: &Play, stage: &Stage) {
    let resource = stage.scene().resource();
    loop {
        for player in &play.players {
            let usage = node.usage(player.name, resource);
            stage.scene().uses(&player.full_name(), usage);
        }
        sleep(USAGE_PERIOD).await;
    }
}

fn configuration(
    directory: &Path,
    cgroup: &Path,
    play: &Play,
) -> Result<config::Effective, DemoError> {
    let (place, cgroup) = (directory.display(), cgroup.display());
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
kubelet: {{rootDir: {place}/disk/kubelet}}
metrics: {{address: ''}}
socket: {place}/evictd.sock
stateDirectory: {place}/state
runtimeDirectory: {place}/run
",
        play.eviction_hard(),
        play.settings
    );
    let loaded =
        config::parse("demo", &text).map_err(|refused| DemoError::Config(refused.to_string()))?;
    Ok(loaded.effective)
}
