//! A large job in a stream of small ones: it starts within a bound, and one that fits nowhere is in nobody's way.

use evictd_batch::conf::Conf;
use evictd_batch::session::{Cache, Objects, Outcome, Setting, Turns};
use evictd_batch_objects::{Compat, Difference, PodGroupPhase, PodGroupStatus};
use evictd_placement::Cluster;
use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;
use serde_json::{Value, json};

/// Cores of a node.
const CORES: usize = 4;

#[derive(Debug, Clone)]
struct Job {
    name: String,
    created: Timestamp,
    pods: usize,
    cpu: usize,
    /// Whether pods are made only when it was let in.
    unmade: bool,
    /// How many sessions a pod runs.
    runs: usize,
    status: PodGroupStatus,
    /// Of each pod its node, and how long it runs still.
    nodes: Vec<Option<(String, usize)>>,
}

impl Job {
    fn new(name: String, created: Timestamp, (pods, cpu): (usize, usize), runs: usize) -> Self {
        Self {
            name,
            created,
            pods,
            cpu,
            unmade: false,
            runs,
            status: PodGroupStatus {
                phase: PodGroupPhase::Pending,
                ..PodGroupStatus::default()
            },
            nodes: vec![None; pods],
        }
    }

    fn group(&self) -> Value {
        json!({
            "metadata": {"name": self.name, "namespace": "default", "creationTimestamp": self.created},
            "spec": {"minMember": self.pods, "minTaskMember": {"work": self.pods}, "queue": "default",
                "minResources": {"cpu": (self.pods * self.cpu).to_string()}},
            "status": self.status,
        })
    }

    fn shown(&self) -> Vec<Value> {
        if self.unmade && self.status.phase == PodGroupPhase::Pending {
            return Vec::new();
        }
        let pods = self.nodes.iter().enumerate().map(|(index, node)| {
            let name = format!("{}-work-{index}", self.name);
            let at = node.as_ref().map_or("", |(node, _)| node);
            json!({
                "metadata": {"name": name, "namespace": "default", "uid": name, "annotations": {
                    "scheduling.k8s.io/group-name": self.name, "volcano.sh/task-spec": "work"}},
                "spec": {"schedulerName": "volcano", "nodeName": at, "containers": [
                    {"name": "c", "resources": {"requests": {"cpu": self.cpu.to_string()}}}]},
                "status": {"phase": if node.is_some() { "Running" } else { "Pending" }},
            })
        });
        pods.collect()
    }
}

/// Nodes, jobs and a clock; a session a minute.
struct Stream {
    nodes: usize,
    /// What the queue may have at most, in cores; 0 for all that there is.
    capability: usize,
    now: Timestamp,
    jobs: Vec<Job>,
    made: usize,
    /// How long small jobs run, one after the other.
    lengths: Vec<usize>,
    /// How many pods of small jobs have run.
    done: usize,
    turns: Turns,
}

impl Stream {
    fn new(nodes: usize, lengths: &[usize]) -> Self {
        Self {
            nodes,
            capability: 0,
            now: "2026-01-01T00:00:00Z".parse().unwrap(),
            jobs: Vec::new(),
            made: 0,
            lengths: lengths.to_vec(),
            done: 0,
            turns: Turns::default(),
        }
    }

    /// As many small jobs wait as all nodes could take.
    fn fill(&mut self) {
        let waiting = |job: &&Job| job.name != "large" && job.nodes[0].is_none();
        while self.jobs.iter().filter(waiting).count() < self.nodes * CORES {
            self.made += 1;
            let runs = self.lengths[self.made % self.lengths.len()];
            let name = format!("small-{:04}", self.made);
            self.jobs.push(Job::new(name, self.now, (1, 1), runs));
        }
    }

    fn objects(&self) -> Objects {
        let node = |index: usize| {
            json!({"metadata": {"name": format!("n{index}")},
                "status": {"allocatable": {"cpu": CORES.to_string(), "memory": "64Gi", "pods": "20"}}})
        };
        let mut queue = json!({"weight": 1});
        if self.capability > 0 {
            queue["capability"] = json!({"cpu": self.capability.to_string()});
        }
        serde_json::from_value(json!({
            "nodes": (0..self.nodes).map(node).collect::<Vec<_>>(),
            "queues": [{"metadata": {"name": "default"}, "spec": queue, "status": {"state": "Open"}}],
            "podGroups": self.jobs.iter().map(Job::group).collect::<Vec<_>>(),
            "pods": self.jobs.iter().flat_map(Job::shown).collect::<Vec<_>>(),
        }))
        .unwrap()
    }

    /// A minute: pods end, new jobs come, and a session is run and carried out.
    fn minute(&mut self, compat: Compat) {
        self.now += SignedDuration::from_mins(1);
        for job in &mut self.jobs {
            for (_, left) in job.nodes.iter_mut().flatten() {
                *left -= 1;
            }
        }
        let before = self.jobs.len();
        self.jobs
            .retain(|job| !job.nodes.iter().flatten().any(|(_, left)| *left == 0));
        self.done += before - self.jobs.len();
        self.fill();
        let outcome = self.session(compat);
        for job in &mut self.jobs {
            let mut status = outcome.pod_groups[&format!("default/{}", job.name)]
                .status
                .clone();
            for condition in &mut status.conditions {
                condition.last_transition_time.get_or_insert(self.now);
            }
            job.status = status;
            for (index, node) in job.nodes.iter_mut().enumerate() {
                let pod = format!("default/{}-work-{index}", job.name);
                if let Some(bound) = outcome.binds.get(&pod) {
                    *node = Some((bound.clone(), job.runs));
                }
            }
        }
    }

    fn session(&mut self, compat: Compat) -> Outcome {
        let objects = self.objects();
        let mut cluster = Cluster::new();
        for node in &objects.nodes {
            assert!(cluster.add_node(node));
        }
        let pods = objects.pods.iter();
        for pod in pods.filter(|pod| !pod.spec.node_name.is_empty()) {
            cluster.add_pod(pod.clone()).unwrap();
        }
        let mut cache = Cache::of(&mut cluster, &objects, Setting::default());
        cache.set_now(self.now);
        cache.set_turns(std::mem::take(&mut self.turns));
        let outcome = cache.session(&mut cluster, &Conf::read("").unwrap(), compat);
        self.turns = cache.turns().clone();
        outcome
    }

    /// A large job comes when the nodes are full; after how many minutes it starts, if it does within an hour.
    fn starts(&mut self, pods: usize, unmade: bool, compat: Compat) -> Option<usize> {
        for _ in 0..3 {
            self.minute(compat);
        }
        let mut large = Job::new("large".to_owned(), self.now, (pods, CORES), 1000);
        large.unmade = unmade;
        self.jobs.push(large);
        (1..60).find(|_| {
            self.minute(compat);
            let mut jobs = self.jobs.iter();
            jobs.any(|job| job.name == "large" && job.nodes[0].is_some())
        })
    }
}

fn without() -> Compat {
    Compat::EVICTD.without(Difference::ReserveNodes)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    #[test]
    fn a_large_job_starts_within_a_bound(
        nodes in 1_usize..4,
        part in 1_usize..4,
        lengths in prop::collection::vec(1_usize..6, 3..8),
        unmade in any::<bool>(),
        bounded in any::<bool>(),
        also_admits in any::<bool>(),
    ) {
        let longest = lengths.iter().max().copied().unwrap();
        let mut stream = Stream::new(nodes, &lengths);
        let part = part.min(nodes);
        if bounded {
            stream.capability = part * CORES;
        }
        let compat = if also_admits {
            Compat::EVICTD
        } else {
            Compat::VOLCANO.with(Difference::ReserveNodes)
        };
        let started = stream.starts(part, unmade, compat);
        // It waits ten minutes, then for the longest pod that runs, and a session or two; one more where its pods are made first.
        let most = 10 + longest + 3 + usize::from(unmade);
        prop_assert!(started.is_some_and(|minutes| minutes <= most), "{started:?}");
    }

    #[test]
    fn a_job_that_fits_nowhere_holds_up_no_other_job(
        nodes in 1_usize..4,
        lengths in prop::collection::vec(1_usize..6, 3..8),
    ) {
        let done = |compat: Compat| {
            let mut stream = Stream::new(nodes, &lengths);
            let started = stream.starts(nodes + 1, false, compat);
            (started, stream.done)
        };
        let (own, theirs) = (done(Compat::EVICTD), done(without()));
        prop_assert_eq!(own, theirs);
        prop_assert_eq!(own.0, None);
    }
}

#[test]
fn a_share_that_is_just_enough_is_kept_for_a_large_job() {
    let mut stream = Stream::new(3, &[4, 5, 1]);
    stream.capability = CORES;
    let compat = Compat::VOLCANO.with(Difference::ReserveNodes);
    let started = stream.starts(1, false, compat);
    assert!(started.is_some_and(|minutes| minutes <= 18), "{started:?}");
}

#[test]
fn without_a_reservation_a_large_job_starves() {
    // Of the pods on a node never all end at once.
    let lengths = [3, 4, 5, 4];
    let started = |compat: Compat| Stream::new(2, &lengths).starts(2, false, compat);
    assert_eq!(started(without()), None);
    assert_eq!(started(Compat::VOLCANO), None);
    assert!(started(Compat::EVICTD).is_some_and(|minutes| minutes <= 18));
}
