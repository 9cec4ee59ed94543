//! What a daemon on a calm machine costs.
#![allow(
    clippy::cast_precision_loss,
    reason = "hundredths of a second of a test's daemon"
)]

use crate::cgroup_support::left_out;
use crate::cluster::Cluster;
use crate::containers::Site;
use crate::daemon::Daemon;
use crate::node::{EVICTD, Node, Traits};
use evictd_testkit::{Authority, TlsProxy};
use serde_json::json;
use std::env;
use std::fs;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

const PODS: usize = 110;
/// What the program may cost. `EVICTD_PROGRAM=FILE` measures that one, such as the one in the packages; else it is the one
/// that was built for the tests, which is not optimised and may be larger.
struct Limits {
    resident_kib: u64,
    resident_kib_in_a_cluster: u64,
    anonymous_kib: u64,
    /// With containers of a runtime, which is asked for their layers.
    resident_kib_with_a_runtime: u64,
    anonymous_kib_with_a_runtime: u64,
    /// Times the processor time of [`Reader`], with limits on local storage checked every 10 s.
    times_reader_with_a_runtime: u64,
    /// It reads one file of the machine, and the daemon several of each pod.
    times_earlyoom: u64,
    /// On a calm machine.
    times_reader: u64,
}

const AS_PACKAGED: Limits = Limits {
    resident_kib: 16 << 10,
    resident_kib_in_a_cluster: 16 << 10,
    anonymous_kib: 4 << 10,
    resident_kib_with_a_runtime: 18_000_000 / 1024,
    anonymous_kib_with_a_runtime: 6_000_000 / 1024,
    times_reader_with_a_runtime: 15,
    times_earlyoom: 400,
    times_reader: 20,
};
const NOT_OPTIMISED: Limits = Limits {
    resident_kib: 52 << 10,
    resident_kib_in_a_cluster: 56 << 10,
    anonymous_kib: 8 << 10,
    resident_kib_with_a_runtime: 60 << 10,
    anonymous_kib_with_a_runtime: 10 << 10,
    times_reader_with_a_runtime: 40,
    times_earlyoom: 2000,
    times_reader: 60,
};

/// The program to measure, with the environment that its unit gives it, and what it may cost.
fn measured() -> (Command, Limits) {
    let packaged = env::var_os("EVICTD_PROGRAM");
    let limits = if packaged.is_some() || !cfg!(debug_assertions) {
        AS_PACKAGED
    } else {
        NOT_OPTIMISED
    };
    let mut command = Command::new(packaged.unwrap_or_else(|| EVICTD.into()));
    command.env("MALLOC_ARENA_MAX", "1");
    (command, limits)
}

/// What the daemon holds, in memory where it may lock itself there: all of it, and what no file is behind.
fn held(daemon: &Daemon) -> [u64; 2] {
    let held = ["VmRSS", "RssAnon"].map(|key| status_kib(daemon.pid(), key));
    eprintln!("{} KiB resident, {} KiB anonymous", held[0], held[1]);
    // Where every process gets huge pages, a thread's stack would take 2 MiB.
    assert_eq!(status_kib(daemon.pid(), "THP_enabled"), 0);
    held
}

fn assert_holds([resident, anonymous]: [u64; 2], resident_kib: u64, anonymous_kib: u64) {
    assert!(resident <= resident_kib, "{resident} KiB resident");
    assert!(anonymous <= anonymous_kib, "{anonymous} KiB anonymous");
}

struct EarlyOom(Child);

impl Drop for EarlyOom {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) fn status_kib(pid: u32, key: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(key))
        .unwrap();
    line.trim_matches([':', ' ', '\t', 'k', 'B'])
        .parse()
        .unwrap()
}

/// Hundredths of a second of user and system time.
fn cpu_ticks(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let mut fields = stat.rsplit_once(") ").unwrap().1.split(' ');
    let mut time = |skip: usize| fields.nth(skip).unwrap().parse::<u64>().unwrap();
    time(11) + time(0)
}

/// The same of the first thread, exactly.
fn precise_ticks(pid: u32) -> f64 {
    let times = fs::read_to_string(format!("/proc/{pid}/schedstat")).unwrap();
    let on_cpu = times.split(' ').next().unwrap().parse().unwrap();
    Duration::from_nanos(on_cpu).as_secs_f64() * 100.0
}

/// Reads as many small files a second as there are pods, as the least of programs that watch them would. A machine that is
/// slow, or busy with other programs, makes its work dearer by the same factor as the daemon's.
struct Reader {
    is_over: Arc<AtomicBool>,
    nanoseconds: Arc<AtomicU64>,
}

impl Reader {
    fn start() -> Self {
        let reader = Self {
            is_over: Arc::default(),
            nanoseconds: Arc::default(),
        };
        let (is_over, nanoseconds) = (Arc::clone(&reader.is_over), Arc::clone(&reader.nanoseconds));
        std::thread::spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                for _ in 0..PODS {
                    std::hint::black_box(fs::read("/proc/meminfo").unwrap());
                }
                let times = fs::read_to_string("/proc/thread-self/schedstat").unwrap();
                let on_cpu = times.split(' ').next().unwrap().parse().unwrap();
                nanoseconds.store(on_cpu, Ordering::Relaxed);
                let _ = nix::poll::poll(&mut [], nix::poll::PollTimeout::from(1000_u16));
            }
        });
        reader
    }

    /// Its processor time, in hundredths of a second.
    fn ticks(&self) -> f64 {
        Duration::from_nanos(self.nanoseconds.load(Ordering::Relaxed)).as_secs_f64() * 100.0
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

fn open_files(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count()
}

#[test]
fn with_110_pods_on_a_calm_machine_it_costs_next_to_nothing() {
    let name = "with_110_pods_on_a_calm_machine_it_costs_next_to_nothing";
    let Some(node) = Node::new(name) else { return };
    for number in 0..PODS {
        let pod = format!("pod-{number}");
        node.group.make(&pod);
        node.admit(&pod, Traits::default());
    }
    let _sleeper = node.worker("pod-0", "--hold 1Mi");
    let earlyoom = Command::new("earlyoom")
        .args(["--dryrun", "-m", "1", "-r", "0"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .ok()
        .map(EarlyOom);
    // The machine itself is the node: its memory is far from any threshold.
    let lines = "housekeepingInterval: 1s\nnodeCgroup: ''";
    let (program, limits) = measured();
    let daemon = Daemon::start_by(&node, program, &[("memory.available", "1Mi")], lines);
    daemon.eventually("all pods are known", |daemon| {
        daemon.status()["pods"]["active"] == PODS
    });
    // Once everything has been asked for once: what is needed then is there.
    for path in ["/v1/ranking", "/v1/history", "/v1/status"] {
        assert!(daemon.get(path).is_some());
    }
    let reader = Reader::start();
    let (files, ticks) = (open_files(daemon.pid()), cpu_ticks(daemon.pid()));
    let read = reader.ticks();
    let others = earlyoom.as_ref().map(|other| precise_ticks(other.0.id()));
    let uptime = || daemon.status()["uptimeSeconds"].as_u64().unwrap();
    let begun = uptime();
    // Seldom, since each question costs time that is not the loop's.
    daemon.eventually("a while passes", |_| {
        let _ = nix::poll::poll(&mut [], nix::poll::PollTimeout::from(2000_u16));
        uptime() >= begun + 8
    });
    let ticks = cpu_ticks(daemon.pid()) - ticks;
    assert_holds(held(&daemon), limits.resident_kib, limits.anonymous_kib);
    let times = ticks as f64 / (reader.ticks() - read);
    eprintln!("{times:.1} times the processor time of a reader");
    assert!(
        times <= limits.times_reader as f64,
        "{times} times the reader"
    );
    match (&earlyoom, others) {
        (Some(other), Some(before)) => {
            let times = ticks as f64 / (precise_ticks(other.0.id()) - before);
            eprintln!("{times:.1} times the processor time of earlyoom, which looks at no pod");
            assert!(
                times <= limits.times_earlyoom as f64,
                "{times} times earlyoom"
            );
        }
        _ => left_out(name, "the comparison with earlyoom, which is not installed"),
    }
    assert!(files < 64 + 4 * PODS, "{files} open files");
    daemon.eventually("the open files become no more", |daemon| {
        open_files(daemon.pid()) <= files
    });
}

/// The memory after a start depends on how busy the machine is: of three starts the middle one counts.
#[test]
fn with_110_pods_from_an_api_server_it_holds_no_more_of_them_than_it_needs() {
    let starts: Vec<[u64; 2]> = (0..3).filter_map(|_| held_in_a_cluster()).collect();
    let middle = |which: usize| {
        let mut all: Vec<u64> = starts.iter().map(|held| held[which]).collect();
        all.sort_unstable();
        all.get(1).copied()
    };
    if let Some((resident, anonymous)) = middle(0).zip(middle(1)) {
        let (_, limits) = measured();
        assert_holds(
            [resident, anonymous],
            limits.resident_kib_in_a_cluster,
            limits.anonymous_kib,
        );
    }
}

/// What a new daemon holds of pods from an API server; `None`, having said so, where that can't be tried.
fn held_in_a_cluster() -> Option<[u64; 2]> {
    let cluster = Cluster::new("with_110_pods_from_an_api_server")?;
    // What most of a real pod is: what kubectl and others keep in it, and what the kubelet tells of it.
    let managed: Vec<_> = (0..4)
        .map(|number| json!({"manager": format!("m{number}"), "fieldsV1": {"f:spec": "x".repeat(500)}}))
        .collect();
    let metadata = json!({
        "labels": {"app": "web", "pod-template-hash": "5d8f9c7b6"},
        "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "y".repeat(2000)},
        "managedFields": managed,
    });
    for number in 0..PODS {
        let uid = cluster.create(&format!("pod-{number}"), &metadata);
        let cgroup = format!("evictd-pod{}.slice", uid.replace('-', "_"));
        cluster.node.group.make(&cgroup);
    }
    // As in every cluster. Over plain HTTP the client would read up to 400 KiB at once, and keep that much.
    let authority = Authority::new("servers").unwrap();
    let identity = authority.sign(&["127.0.0.1"]).unwrap();
    let proxy = TlsProxy::start(&cluster.api.url(), &identity, None).unwrap();
    cluster.use_proxy(&proxy, &authority, &json!({}));
    let (program, _) = measured();
    let lines = cluster.lines();
    let daemon = Daemon::start_by(
        &cluster.node,
        program,
        &[("memory.available", "1Mi")],
        &lines,
    );
    daemon.eventually("all pods are known and kept", |daemon| {
        let kept = fs::read_to_string(cluster.node.path("run/pods.json")).unwrap_or_default();
        daemon.status()["pods"]["active"] == PODS && kept.matches("pod-").count() >= PODS
    });
    for path in ["/v1/ranking", "/v1/history", "/v1/status"] {
        assert!(daemon.get(path).is_some());
    }
    // Everything is told once more, as after every outage.
    cluster.api.go_away();
    daemon.eventually("it is away", |daemon| daemon.warns("stay in use"));
    cluster.api.compact();
    cluster.api.come_back();
    daemon.eventually("it is back", Daemon::is_sure_of_its_pods);
    Some(held(&daemon))
}

#[test]
fn with_110_pods_in_a_real_runtime_whose_limits_are_checked_it_costs_little() {
    let Some(mut site) = Site::new("with_110_pods_in_a_real_runtime") else {
        return;
    };
    site.crowd(PODS);
    let (program, limits) = measured();
    let daemon = Daemon::start_by(
        &site.cluster.node,
        program,
        &[("memory.available", "1Mi")],
        &site.lines(""),
    );
    daemon.eventually("all pods are known", |daemon| {
        daemon.status()["pods"]["active"] == PODS
    });
    for path in ["/v1/ranking?signal=nodefs.available", "/v1/status"] {
        assert!(daemon.get(path).is_some());
    }
    daemon.eventually("the ledger has all pods", |daemon| {
        let ledger = daemon.get("/v1/disk").unwrap_or_default();
        ledger.to_string().matches("shop/calm-").count() >= PODS
    });
    let times = times_reader(&daemon, &Reader::start());
    eprintln!("{times:.1} times the processor time of a reader");
    let (resident, anonymous) = (
        limits.resident_kib_with_a_runtime,
        limits.anonymous_kib_with_a_runtime,
    );
    assert_holds(held(&daemon), resident, anonymous);
    let most = limits.times_reader_with_a_runtime as f64;
    assert!(times <= most, "{times} times the reader");
}

/// The processor time for two checks of limits, beside a reader's.
fn times_reader(daemon: &Daemon, reader: &Reader) -> f64 {
    // The daemon is not asked for the time, because its answers would be part of the cost.
    let uptime = || -> u64 {
        let uptime = fs::read_to_string("/proc/uptime").unwrap();
        uptime.split('.').next().unwrap().parse().unwrap()
    };
    let (ticks, read, begun) = (cpu_ticks(daemon.pid()), reader.ticks(), uptime());
    daemon.eventually("limits are checked twice", |_| {
        let _ = nix::poll::poll(&mut [], nix::poll::PollTimeout::from(5000_u16));
        uptime() >= begun + 20
    });
    (cpu_ticks(daemon.pid()) - ticks) as f64 / (reader.ticks() - read)
}
