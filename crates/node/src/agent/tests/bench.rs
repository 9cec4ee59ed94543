//! A node of plain files, an agent on it, and everything that it tells.

mod shown;

use super::recorder::{Heard, Recorder};
use crate::{
    agent::{
        Agent, Allocatable, Behaviour, Cluster, NodeReclaim, Pauses, Ports, Terminations, Timer,
        Unfinished, start::behaviour,
    },
    config::{self, PodsSource},
    filesystems::WatchedPaths,
    history::Waiting,
    kept::KeptFile,
    near_misses::NearMissLog,
    pause::{Pause, PauseFile},
    pods::{Binder, DeletedPod, Listed, Listing, PodCache},
    publish::{Publishers, kept::KeptPublisher, status::StatusPage},
    reclaim::{MemoryReclaimer, Reclaimer, Runtime},
    server::state::{Question, Shared, Status},
    usage::{DiskRoots, UsageReader},
};
use evictd_decision::record::Record;
use evictd_kernel::{
    cgroup::Hierarchies,
    clock::Clock,
    kill::{CgroupEvictor, SpareFiles},
    signals::{FilesystemPaths, MemoryAvailable, Sampler, SignalSources},
    threads::Pool,
    wake::{WakeListeners, WakeSources},
};
use evictd_pod::{Pod, wire};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::{
    sync::{mpsc, oneshot, watch},
    task::JoinHandle,
    time::{Instant, sleep},
};
use tokio_util::sync::CancellationToken;

/// From one look of the bench's kernel to the next.
const STEP: Duration = Duration::from_millis(50);
/// How often a millisecond passes before a call on another thread takes too long.
const MOST_WAITS: u32 = 60_000;
/// Of the node, in MiB.
const CAPACITY: u64 = 1000;

/// A pod of one process.
struct Runs {
    process: Child,
    memory: u64,
    manifest: Value,
    /// Since when the source of pods does not tell of it any more.
    deleted_at: Option<Timestamp>,
    /// Whether a SIGKILL ends it, as it should.
    dies: bool,
}

impl Runs {
    fn pod(&self) -> Arc<Pod> {
        let pod: wire::Pod = serde_json::from_value(self.manifest.clone()).unwrap();
        Arc::new(Pod::from_wire(pod))
    }
}

/// A node with an agent.
pub(super) struct Bench {
    top: tempfile::TempDir,
    began: Instant,
    clock: Clock,
    heard: Arc<Mutex<Heard>>,
    listings: watch::Sender<Arc<Listing>>,
    pods: BTreeMap<String, Runs>,
    /// Taken outside of every pod.
    outside: u64,
    pub(super) annotation: watch::Sender<Option<Pause>>,
    /// What `evictd status` shows of the agent.
    status: Option<Arc<Shared>>,
    questions: Option<mpsc::Sender<Question>>,
    changes: Option<mpsc::Sender<Box<Behaviour>>>,
    stop: CancellationToken,
    agent: Option<JoinHandle<()>>,
    boot_id: &'static str,
    /// How many agents were.
    killed: u32,
    /// A directory of the filesystem that the agent watches as nodefs.
    pub(super) nodefs: Option<PathBuf>,
    /// The same is watched as imagefs.
    pub(super) imagefs: bool,
    pub(super) runtime: Option<Arc<dyn Runtime>>,
    pub(super) source: PodsSource,
    /// The next agent's way to an API server.
    pub(super) cluster: Option<Cluster>,
}

impl Drop for Bench {
    fn drop(&mut self) {
        for pod in self.pods.values_mut() {
            let _ = pod.process.kill();
            let _ = pod.process.wait();
        }
    }
}

impl Bench {
    /// Nobody is on it yet.
    pub(super) fn new() -> Self {
        let clock = Clock::start();
        let bench = Self {
            top: tempfile::tempdir().unwrap(),
            began: Instant::now(),
            clock,
            heard: Arc::default(),
            listings: watch::Sender::default(),
            pods: BTreeMap::new(),
            outside: 0,
            annotation: watch::Sender::default(),
            status: None,
            questions: None,
            changes: None,
            stop: CancellationToken::new(),
            agent: None,
            boot_id: "first",
            killed: 0,
            nodefs: None,
            imagefs: false,
            runtime: None,
            source: PodsSource::Manifests,
            cluster: None,
        };
        bench.write("cgroup/cgroup.controllers", "memory pids\n");
        bench.write("proc/self/cgroup", "0::/system\n");
        fs::create_dir_all(bench.path("cgroup/kubepods")).unwrap();
        bench.write_meminfo();
        bench
    }

    fn path(&self, below: &str) -> PathBuf {
        self.top.path().join(below)
    }

    fn write(&self, below: &str, text: &str) {
        let path = self.path(below);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// What is left of the node, in MiB.
    pub(super) fn available(&self) -> u64 {
        let of_pods: u64 = self.pods.values().map(|pod| pod.memory).sum();
        CAPACITY - of_pods - self.outside
    }

    fn write_meminfo(&self) {
        let (total, left) = (CAPACITY << 10, self.available() << 10);
        let text = format!(
            "MemTotal: {total} kB\nMemAvailable: {left} kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\n"
        );
        self.write("proc/meminfo", &text);
    }

    /// The kernel's figures are no figures, until somebody takes or gives back memory.
    pub(super) fn spoil_meminfo(&self) {
        self.write("proc/meminfo", "MemTotal: lots\n");
    }

    /// So many MiB are taken by nobody's pod.
    pub(super) fn take_outside(&mut self, mebibytes: u64) {
        self.outside = mebibytes;
        self.write_meminfo();
    }

    /// A pod that holds so many MiB and does not listen to SIGTERM.
    pub(super) fn pod(&mut self, name: &str, mebibytes: u64) {
        self.pod_with(name, mebibytes, json!({}));
    }

    /// The same with this specification.
    pub(super) fn pod_with(&mut self, name: &str, mebibytes: u64, spec: Value) {
        let mut manifest = json!({});
        manifest["spec"] = spec;
        self.pod_of(name, mebibytes, manifest);
    }

    /// The same of this manifest, whose name and UID are added.
    pub(super) fn pod_of(&mut self, name: &str, mebibytes: u64, mut manifest: Value) {
        for (key, value) in [("name", name), ("namespace", "shop"), ("uid", name)] {
            manifest["metadata"][key] = json!(value);
        }
        let mut process = Command::new("/bin/sh")
            .args(["-c", "trap '' TERM; echo ready; exec sleep 600"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let output = process.stdout.take().unwrap();
        BufReader::new(output).read_line(&mut line).unwrap();
        let pid = process.id();
        let group = format!("cgroup/kubepods/pod{name}");
        self.write(
            &format!("proc/{pid}/cgroup"),
            &format!("0::/kubepods/pod{name}\n"),
        );
        let stat = format!("{pid} (x) S 1 2 3 4 5 0 7 8 9 10 11 12 13 14 15 16 1 0 99 1\n");
        self.write(&format!("proc/{pid}/stat"), &stat);
        self.write(&format!("{group}/cgroup.kill"), "");
        self.write(&format!("{group}/cgroup.procs"), &format!("{pid}\n"));
        self.write(&format!("{group}/cgroup.events"), "populated 1\nfrozen 0\n");
        self.write(&format!("{group}/pids.current"), "1\n");
        let runs = Runs {
            process,
            memory: 0,
            manifest,
            deleted_at: None,
            dies: true,
        };
        if let Some(mut before) = self.pods.insert(name.to_owned(), runs) {
            let _ = before.process.kill();
            let _ = before.process.wait();
        }
        self.grow(name, mebibytes);
        self.list();
    }

    /// Holds so many MiB from now on.
    pub(super) fn grow(&mut self, name: &str, mebibytes: u64) {
        self.pods.get_mut(name).unwrap().memory = mebibytes;
        let group = format!("cgroup/kubepods/pod{name}");
        let bytes = mebibytes << 20;
        self.write(&format!("{group}/memory.current"), &format!("{bytes}\n"));
        let stat = format!("anon {bytes}\nfile 0\ninactive_file 0\nshmem 0\n");
        self.write(&format!("{group}/memory.stat"), &stat);
        self.write_meminfo();
    }

    /// What it holds is page cache, which can be asked for.
    pub(super) fn caches(&mut self, name: &str, mebibytes: u64) {
        self.grow(name, mebibytes);
        let group = format!("cgroup/kubepods/pod{name}");
        self.write(
            &format!("{group}/memory.stat"),
            "anon 0\nfile 0\ninactive_file 0\nshmem 0\n",
        );
        self.write(&format!("{group}/memory.reclaim"), "");
    }

    /// Whether its page cache was asked for.
    pub(super) fn is_asked_for_cache(&self, name: &str) -> bool {
        let file = self.path(&format!("cgroup/kubepods/pod{name}/memory.reclaim"));
        !fs::read_to_string(file).unwrap().is_empty()
    }

    /// Its runtime has not made its cgroup yet, or has.
    pub(super) fn has_cgroup(&self, name: &str, has: bool) {
        let group = self.path(&format!("cgroup/kubepods/pod{name}"));
        let aside = self.path(&format!("aside-{name}"));
        let (from, to) = if has { (aside, group) } else { (group, aside) };
        fs::rename(from, to).unwrap();
    }

    /// A file of so many KiB in this emptyDir of the pod.
    pub(super) fn fill_volume(&self, name: &str, volume: &str, kibibytes: usize) {
        let volumes = format!("kubelet/pods/{name}/volumes/kubernetes.io~empty-dir");
        self.write(
            &format!("{volumes}/{volume}/data"),
            &"x".repeat(kibibytes << 10),
        );
    }

    /// SIGKILL does not end it, as a process that waits for a dead disk.
    pub(super) fn never_dies(&mut self, name: &str) {
        self.pods.get_mut(name).unwrap().dies = false;
    }

    /// The source of pods does not tell of it any more, and it runs on.
    pub(super) fn delete_by_force(&mut self, name: &str) {
        let now = self.clock.now();
        self.pods.get_mut(name).unwrap().deleted_at = Some(now);
        self.list();
    }

    /// Its last process ends.
    pub(super) fn leave(&mut self, name: &str) {
        let group = format!("cgroup/kubepods/pod{name}");
        self.write(&format!("{group}/cgroup.procs"), "");
        self.write(&format!("{group}/cgroup.events"), "populated 0\nfrozen 0\n");
        self.write(&format!("{group}/pids.current"), "0\n");
        self.grow(name, 0);
    }

    /// Whether it runs.
    pub(super) fn lives(&self, name: &str) -> bool {
        let procs = self.path(&format!("cgroup/kubepods/pod{name}/cgroup.procs"));
        !fs::read_to_string(procs).unwrap_or_default().is_empty()
    }

    fn list(&self) {
        let listed = |runs: &Runs| Listed {
            pod: runs.pod(),
            manifest: None,
            wire: None,
            evicted: false,
            evicted_at: None,
        };
        let deleted = |runs: &Runs| {
            let deleted = DeletedPod {
                pod: runs.pod(),
                at: runs.deleted_at?,
                grace: Duration::ZERO,
            };
            Some(Arc::new(deleted))
        };
        let pods = self.pods.values();
        let listing = Listing {
            pods: pods
                .clone()
                .filter(|pod| pod.deleted_at.is_none())
                .map(listed)
                .collect(),
            deleted: pods.filter_map(deleted).collect(),
            ..Listing::default()
        };
        self.listings.send_replace(Arc::new(listing));
    }

    /// An agent begins with these lines of configuration.
    pub(super) fn start(&mut self, lines: &str) {
        self.start_with(lines, &[]);
    }

    /// The same after an earlier run that has left these records.
    pub(super) fn start_with(&mut self, lines: &str, unfinished: &[Record]) {
        // The first sample waits 100 ms of real time for a filesystem, which a new thread may need on a busy machine.
        let (thread, has_run) = std::sync::mpsc::channel::<()>();
        Pool::of_this_process()
            .submit(move || drop(thread))
            .unwrap();
        let _ = has_run.recv();
        let hierarchies = Hierarchies::detect(&self.path("cgroup")).unwrap();
        let (proc, roots) = (self.path("proc"), vec![PathBuf::from("kubepods")]);
        let sources = SignalSources {
            proc_root: proc.clone(),
            hierarchies: Some(hierarchies.clone()),
            node_cgroup: None,
            pods_cgroups: roots.clone(),
            memory_available: MemoryAvailable::MemAvailable,
            filesystems: FilesystemPaths {
                nodefs: self.nodefs.clone(),
                imagefs: self.nodefs.clone().filter(|_| self.imagefs),
                ..FilesystemPaths::default()
            },
        };
        let disk = DiskRoots {
            kubelet: self.path("kubelet"),
            logs: self.path("logs"),
            proc: proc.clone(),
        };
        let recorder = Recorder {
            began: self.clock.now() - jiff::SignedDuration::try_from(self.began.elapsed()).unwrap(),
            heard: Arc::clone(&self.heard),
        };
        let (shared, _) = Shared::new(
            self.clock,
            Status::default(),
            self.path("state"),
            Waiting::default(),
        );
        let page = StatusPage::new(Arc::clone(&shared), hierarchies.clone());
        self.status = Some(shared);
        let binder = Binder::new(hierarchies.clone(), proc.clone(), roots.clone());
        let kept = PauseFile::new(self.path("run"));
        let conditions = KeptFile::new(self.path("run"));
        let held = conditions.read(self.boot_id);
        let ports = Ports {
            timer: Timer::of_runtime(),
            wake_listeners: WakeListeners::new(WakeSources::default(), None),
            sampler: Sampler::new(&sources).unwrap(),
            filesystems: WatchedPaths::new(&Self::config(lines), Path::new("/"), None),
            pod_cache: PodCache::new(self.listings.subscribe(), binder),
            allocatable: Allocatable::of_machine(&proc),
            usage: UsageReader::new(hierarchies.clone(), disk, None),
            reclaim: NodeReclaim::new(
                match self.runtime.clone() {
                    Some(runtime) => {
                        Reclaimer::start(&Self::config(lines), self.source, runtime, self.clock)
                    }
                    None => Reclaimer::off(&Self::config(lines), self.clock),
                },
                MemoryReclaimer::new(&Self::config(lines), &hierarchies, self.clock),
            ),
            terminations: Terminations::new(
                Arc::new(CgroupEvictor {
                    hierarchies,
                    proc_root: proc,
                    pod_roots: roots,
                    kill_deadline: Duration::from_secs(30),
                    clock: self.clock,
                    spare: Arc::new(SpareFiles::default()),
                }),
                None,
                self.cluster.take(),
            ),
            pauses: Pauses::new(kept, Some(self.annotation.subscribe()), self.clock.now()),
            publishers: Publishers(vec![
                Box::new(recorder),
                Box::new(page),
                Box::new(KeptPublisher::new(
                    conditions,
                    self.boot_id.to_owned(),
                    &held,
                )),
            ]),
            kept: held,
            near_misses: NearMissLog::open(&self.path("state")),
            unfinished: unfinished.iter().filter_map(Unfinished::read).collect(),
            boot_id: self.boot_id.to_owned(),
        };
        let own = behaviour(&Self::config(lines), self.source);
        let agent = Agent::new(self.clock, own, ports);
        let (questions, to_answer) = mpsc::channel(1);
        let (changes, to_apply) = mpsc::channel(1);
        let stop = CancellationToken::new();
        self.questions = Some(questions);
        self.changes = Some(changes);
        self.stop = stop.clone();
        self.agent = Some(tokio::spawn(async move {
            Box::pin(agent.run(to_answer, to_apply, stop))
                .await
                .unwrap();
        }));
    }

    fn config(lines: &str) -> config::Effective {
        let text = format!(
            "apiVersion: evictd.dev/v1alpha1\nkind: EvictionConfiguration\nhousekeepingInterval: 10s\n{lines}\n"
        );
        config::parse("the test", &text).unwrap().effective
    }

    /// It goes by these lines from now on.
    pub(super) async fn reload(&self, lines: &str) {
        let behaviour = Box::new(behaviour(&Self::config(lines), self.source));
        let changes = self.changes.as_ref().unwrap();
        changes.send(behaviour).await.unwrap();
    }

    /// It ends as one that was killed. What it has begun has no hold on the pods any more: each has another group by the same
    /// name.
    pub(super) fn kill_agent(&mut self) {
        self.agent.take().unwrap().abort();
        self.killed += 1;
        let orphans = self.path(&format!("orphans-{}", self.killed));
        let groups = self.path("cgroup/kubepods");
        fs::rename(&groups, &orphans).unwrap();
        for name in self.pods.keys() {
            let (from, to) = (
                orphans.join(format!("pod{name}")),
                groups.join(format!("pod{name}")),
            );
            fs::create_dir_all(&to).unwrap();
            for file in fs::read_dir(from).unwrap() {
                let file = file.unwrap();
                fs::copy(file.path(), to.join(file.file_name())).unwrap();
            }
        }
    }

    /// The machine is another one since its start.
    pub(super) const fn reboot(&mut self) {
        self.boot_id = "second";
    }

    /// It is told to end; whether it has within this time.
    pub(super) async fn stop(&mut self, within: u64) -> bool {
        self.stop.cancel();
        let ended = self.agent.take().unwrap();
        tokio::time::timeout(Duration::from_secs(within), ended)
            .await
            .is_ok()
    }

    /// `evictd pause`, for so many seconds.
    pub(super) async fn pause(&self, seconds: Option<i64>) {
        let now = self.clock.now();
        let pause = Pause {
            since: now,
            until: seconds.map(|seconds| now + jiff::SignedDuration::from_secs(seconds)),
            reason: "a drill".to_owned(),
            by: crate::pause::By::Command,
        };
        self.ask(|answer| Question::Pause { pause, answer }).await;
    }

    /// `evictd resume`.
    pub(super) async fn resume(&self) {
        self.ask(|answer| Question::Resume { answer }).await;
    }

    /// `evictd disk`, asked again until there is an answer.
    pub(super) async fn disk(&self) -> Value {
        loop {
            let (answer, answered) = oneshot::channel();
            let questions = self.questions.as_ref().unwrap();
            questions.send(Question::Disk { answer }).await.unwrap();
            if let Ok(ledger) = answered.await.unwrap() {
                return ledger;
            }
            self.step().await;
        }
    }

    /// Lets one step pass. Walks of directories and questions to filesystems take real time, and the paused clock would
    /// run on meanwhile, so the step ends with theirs.
    async fn step(&self) {
        sleep(STEP).await;
        let threads = Pool::of_this_process();
        let mut waits = 0;
        while !threads.is_idle() {
            waits += 1;
            assert!(waits < MOST_WAITS, "a walk takes {waits} ms");
            std::thread::park_timeout(Duration::from_millis(1));
        }
    }

    /// `GET /v1/near-misses`.
    pub(super) async fn near_misses(&self) -> Value {
        let (answer, answered) = oneshot::channel();
        let question = Question::NearMisses { answer };
        let questions = self.questions.as_ref().unwrap();
        questions.send(question).await.unwrap();
        answered.await.unwrap().unwrap()
    }

    async fn ask(&self, question: impl FnOnce(crate::server::state::Answer) -> Question) {
        let (answer, answered) = oneshot::channel();
        let questions = self.questions.as_ref().unwrap();
        questions.send(question(answer)).await.unwrap();
        answered.await.unwrap().unwrap();
    }

    /// Lets so many seconds pass, in which the kernel does as it is told.
    pub(super) async fn pass(&mut self, seconds: f64) {
        let end = Instant::now() + Duration::from_secs_f64(seconds);
        while Instant::now() < end {
            self.step().await;
            let killed = |(name, pod): (&String, &Runs)| {
                let file = self.path(&format!("cgroup/kubepods/pod{name}/cgroup.kill"));
                let told = fs::read_to_string(file).is_ok_and(|told| told == "1");
                (pod.dies && told && self.lives(name)).then(|| name.clone())
            };
            let killed: Vec<String> = self.pods.iter().filter_map(killed).collect();
            for name in killed {
                self.leave(&name);
            }
        }
    }

    /// Lets time pass until the pod does not run any more, at most so many seconds; whether it is gone. For what is found by a
    /// walk of directories: walks take real time, and none of this.
    pub(super) async fn pass_until_gone(&mut self, name: &str, seconds: f64) -> bool {
        let end = Instant::now() + Duration::from_secs_f64(seconds);
        while self.lives(name) && Instant::now() < end {
            self.pass(1.0).await;
        }
        !self.lives(name)
    }
}
