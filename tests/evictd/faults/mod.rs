//! System calls of a kill fail, one after the other: the hog goes all the same, and nobody else.
//!
//! The daemon is the built one, as an operator runs it, and what fails is what it really calls: a tracer of our own (`ptrace`,
//! which nix wraps safely) makes any call fail that concerns the victim. An injectable layer in the program would only fail where
//! somebody thought of it, and would be there in production; `strace --inject` fails the same calls, but starts anew for each
//! and cannot say which call it was.
//!
//! Of all cases a sample is played: each different call when it is made first and last, with one error. `EVICTD_FAULTS=all`
//! plays every call with every error.

pub(crate) mod tracer;

use crate::cgroup_support::{left_out, processes_below};
use crate::cluster::Cluster;
use crate::daemon::{Daemon, wait};
use crate::node::{Node, Traits, Worker};
use evictd_kernel::cgroup::{DEFAULT_ROOT, Hierarchies};
use nix::errno::Errno;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use tracer::{Plan, Tracer, Watch};

/// Crossed by the pod that has grown.
const LOW: [(&str, &str); 1] = [("memory.available", "88Mi")];
const GROWS: &str = "--hold 1Mi --grow-to 100Mi --per-second 4Gi";
/// The hierarchies that lead to each way to kill on a machine with cgroup v1: `cgroup.kill`, the freezer, one by one.
const WAYS: [&[&str]; 3] = [
    &["memory", "pids", "freezer", "unified"],
    &["memory", "pids", "freezer"],
    &["memory", "pids"],
];
/// Pods that are there at a time, one of which grows after the other.
const CROWD: usize = 6;
/// A burst lasts for so many calls.
const BURST: usize = 40;

const ERRORS: [Errno; 7] = [
    Errno::EMFILE,
    Errno::ENFILE,
    Errno::ENOMEM,
    Errno::EIO,
    Errno::EAGAIN,
    Errno::EINTR,
    Errno::EACCES,
];

/// Where the pods are from.
enum Place {
    Manifests(Node),
    Cluster(Cluster),
}

impl Place {
    fn node(&self) -> &Node {
        match self {
            Self::Manifests(node) => node,
            Self::Cluster(cluster) => &cluster.node,
        }
    }

    fn lines(&self) -> String {
        match self {
            Self::Manifests(_) => String::new(),
            Self::Cluster(cluster) => cluster.lines(),
        }
    }

    /// Makes a pod known; its cgroup.
    fn admit(&self, name: &str) -> String {
        match self {
            Self::Manifests(node) => {
                node.admit(name, Traits::default());
                name.to_owned()
            }
            Self::Cluster(cluster) => {
                let uid = cluster.create(name, &Value::Null).replace('-', "_");
                format!("evictd-pod{uid}.slice")
            }
        }
    }

    fn forget(&self, name: &str) {
        match self {
            Self::Manifests(node) => {
                fs::remove_file(node.path(&format!("manifests/{name}.yaml"))).unwrap();
            }
            Self::Cluster(cluster) => cluster.delete(name),
        }
    }

    /// Whoever is to be told that it was evicted knows it.
    fn knows_the_end_of(&self, name: &str) -> bool {
        match self {
            Self::Manifests(_) => true,
            Self::Cluster(cluster) => {
                let pod = cluster.admin.get("pods", &format!("shop/{name}"));
                pod.is_some_and(|pod| pod["status"]["phase"] == "Failed")
            }
        }
    }
}

/// A pod of two processes that may grow.
struct Hog {
    name: String,
    cgroup: String,
    worker: Worker,
    beside: Worker,
}

impl Hog {
    fn new(place: &Place, name: String) -> Self {
        let cgroup = place.admit(&name);
        let worker = place.node().worker(&format!("{cgroup}/app"), GROWS);
        let beside = place.node().worker(&format!("{cgroup}/beside"), "");
        Self {
            name,
            cgroup,
            worker,
            beside,
        }
    }

    fn lives(&mut self) -> bool {
        // Both are asked, so that both are buried.
        let lives = [self.worker.lives(), self.beside.lives()];
        lives.contains(&true)
    }

    fn is_whole(&mut self) -> bool {
        self.worker.lives() && self.beside.lives()
    }

    fn watch(&self, place: &Place, plan: Option<Plan>) -> Watch {
        let hierarchies = Hierarchies::detect(Path::new(DEFAULT_ROOT)).unwrap();
        let pod = place.node().group.relative.join(&self.cgroup);
        let below: Vec<_> = hierarchies.mounts().map(|mount| mount.join(&pod)).collect();
        let pids = below.iter().flat_map(|dir| processes_below(dir));
        Watch {
            pids: pids.collect(),
            below,
            connections: matches!(place, Place::Cluster(_)),
            plan,
            ..Watch::default()
        }
    }
}

/// A node on which one pod after the other grows until it is evicted.
struct Stage {
    crowd: Vec<Hog>,
    innocents: [Worker; 2],
    made: usize,
    /// Evicted, and still in the manifests: what reads them looks at every pod.
    gone: Vec<String>,
    /// Ends before its tracer, which waits for that.
    daemon: Daemon,
    tracer: Tracer,
    place: Place,
}

impl Stage {
    fn new(test: &str, place: Place) -> Option<Self> {
        let node = place.node();
        let innocents = ["one", "two"].map(|name| node.worker(&place.admit(name), "--hold 8Mi"));
        let daemon = Daemon::start(node, &LOW, &place.lines());
        let tracer = match Tracer::attach(daemon.pid()) {
            Ok(tracer) => tracer,
            Err(error) => {
                left_out(test, format!("the daemon cannot be traced: {error}"));
                return None;
            }
        };
        Some(Self {
            crowd: Vec::new(),
            innocents,
            made: 0,
            gone: Vec::new(),
            daemon,
            tracer,
            place,
        })
    }

    /// Makes pods that are small yet, and waits until all are known that are there, and nobody else.
    fn gather(&mut self) {
        for name in self.gone.drain(..) {
            self.place.forget(&name);
        }
        for number in self.made..self.made + CROWD {
            self.crowd
                .push(Hog::new(&self.place, format!("hog-{number}")));
        }
        self.made += CROWD;
        let all = CROWD + self.innocents.len();
        self.daemon.eventually("all pods are known", |daemon| {
            daemon.status()["pods"]["active"] == all
        });
    }

    /// One more pod grows and these calls fail; the calls that there were.
    fn play(&mut self, plan: Option<&Plan>) -> Vec<String> {
        if self.crowd.is_empty() {
            self.gather();
        }
        let mut hog = self.crowd.pop().unwrap();
        self.tracer.begin(hog.watch(&self.place, plan.cloned()));
        hog.worker.grow();
        let gone = wait(|| !hog.lives());
        let said = |daemon: &Daemon| {
            let last = daemon.status()["lastDecision"].clone();
            last["pod"] == json!(format!("shop/{}", hog.name)) && !last["outcome"].is_null()
        };
        let recorded =
            gone && wait(|| said(&self.daemon) && self.place.knows_the_end_of(&hog.name));
        let seen = self.tracer.end().seen;
        let failed = plan.map(|plan| {
            let first = seen.get(plan.calls.start);
            let first = first.map_or("nothing", String::as_str);
            format!("{plan:?}, the first of which is {first}")
        });
        let failed = failed.unwrap_or_default();
        assert!(
            gone,
            "{} lives on after {failed}; calls: {seen:#?}",
            hog.name
        );
        assert!(
            recorded,
            "what became of {} is not told after {failed}",
            hog.name
        );
        let others = self.innocents.iter_mut().all(Worker::lives);
        assert!(
            others && self.crowd.iter_mut().all(Hog::is_whole),
            "somebody else has gone after {failed}"
        );
        self.gone.push(hog.name);
        seen
    }

    /// Every pod that has grown was evicted once, and each record has an outcome.
    fn check_history(&mut self, played: usize) {
        // The file is written after the status.
        let mut evictions = Vec::new();
        let all_finished = wait(|| {
            evictions = self.daemon.evictions();
            let mut outcomes = evictions.iter().map(|decision| &decision["outcome"]);
            outcomes.all(|outcome| !outcome.is_null())
        });
        assert!(all_finished, "not all have an outcome: {evictions:#?}");
        assert_eq!(evictions.len(), played, "{evictions:#?}");
        for decision in &evictions {
            let outcome = &decision["outcome"];
            assert_eq!(outcome["survivors"], json!([]), "{decision:#}");
            assert!(
                outcome["lastProcessGoneSeconds"].is_number(),
                "{decision:#}"
            );
        }
    }
}

/// What is to fail of a kill that makes these calls.
pub(crate) fn cases(calls: &[String]) -> Vec<Plan> {
    let one = |call: usize, errno: usize| Plan {
        calls: call..call + 1,
        only: None,
        errno: ERRORS[errno % ERRORS.len()],
    };
    let mut cases: Vec<Plan> = if std::env::var("EVICTD_FAULTS").is_ok_and(|value| value == "all") {
        let all =
            (0..calls.len()).flat_map(|call| (0..ERRORS.len()).map(move |errno| (call, errno)));
        all.map(|(call, errno)| one(call, errno)).collect()
    } else {
        let is_first = |call: &usize| !calls[..*call].contains(&calls[*call]);
        let is_last = |call: &usize| !calls[*call + 1..].contains(&calls[*call]);
        let some = (0..calls.len()).filter(|call| is_first(call) || is_last(call));
        some.enumerate()
            .map(|(number, call)| one(call, number))
            .collect()
    };
    // Permissions that are refused for long are refused.
    let errors = ERRORS.into_iter().filter(|errno| *errno != Errno::EACCES);
    let starts = (0..calls.len()).step_by(BURST / 2);
    cases.extend(starts.zip(errors.cycle()).map(|(start, errno)| Plan {
        calls: start..start + BURST,
        only: None,
        errno,
    }));
    cases
}

fn manifests(test: &str, hierarchies: &[&str]) -> Option<Place> {
    Node::within(test, "", hierarchies).map(Place::Manifests)
}

fn every_call_fails(test: &str, place: Option<Place>) {
    let Some(mut stage) = place.and_then(|place| Stage::new(test, place)) else {
        return;
    };
    let calls = stage.play(None);
    let cases = cases(&calls);
    eprintln!("{test}: {} cases in {} calls", cases.len(), calls.len());
    for case in &cases {
        stage.play(Some(case));
    }
    stage.check_history(cases.len() + 1);
}

#[test]
fn whatever_fails_of_one_write_to_cgroup_kill_the_hog_goes_and_nobody_else() {
    let test = "whatever_fails_of_one_write_to_cgroup_kill";
    every_call_fails(test, manifests(test, WAYS[0]));
}

#[test]
fn whatever_fails_of_a_kill_in_the_freezer_the_hog_goes_and_nobody_else() {
    let test = "whatever_fails_of_a_kill_in_the_freezer";
    every_call_fails(test, manifests(test, WAYS[1]));
}

#[test]
fn whatever_fails_of_a_repeated_kill_the_hog_goes_and_nobody_else() {
    let test = "whatever_fails_of_a_repeated_kill";
    every_call_fails(test, manifests(test, WAYS[2]));
}

/// What the API server is told and tells fails, too.
#[test]
fn whatever_fails_of_a_kill_in_a_cluster_the_hog_goes_and_is_told_and_nobody_else() {
    let test = "whatever_fails_of_a_kill_in_a_cluster";
    every_call_fails(test, Cluster::new(test).map(Place::Cluster));
}

/// As where a security module forbids it of one pod only.
#[test]
fn a_pod_that_may_not_be_signalled_is_set_aside_and_the_daemon_lives_on() {
    let test = "a_pod_that_may_not_be_signalled_is_set_aside";
    let place = manifests(test, WAYS[2]);
    let Some(mut stage) = place.and_then(|place| Stage::new(test, place)) else {
        return;
    };
    stage.gather();
    let mut hog = stage.crowd.pop().unwrap();
    stage.crowd.clear();
    let plan = Plan {
        calls: 0..usize::MAX,
        only: Some("pidfd_send_signal"),
        errno: Errno::EPERM,
    };
    stage.tracer.begin(hog.watch(&stage.place, Some(plan)));
    hog.worker.grow();
    let refused = format!("shop/{} was not evicted: cannot signal process", hog.name);
    stage
        .daemon
        .eventually("the pod is set aside", |daemon| daemon.said(&refused) == 1);
    stage.daemon.some_turns_pass();
    assert!(hog.is_whole(), "nothing could be sent to it");
}
