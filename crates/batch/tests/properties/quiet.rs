//! With unchanged demand a cluster comes to rest, whatever the tiers of the configuration are.

use crate::{Job, node_of, objects};
use evictd_batch::conf::Conf;
use evictd_batch::session::{Cache, Objects, Outcome, Setting};
use evictd_batch_objects::{Compat, Difference};
use evictd_placement::Cluster;
use jiff::Timestamp;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// Jobs that want more than there is.
fn job() -> impl Strategy<Value = Job> {
    let pods = prop::collection::vec(prop::option::weighted(0.3, 0_usize..3), 1..5);
    let queue = prop_oneof![3 => Just(0_usize), 1 => 0_usize..3];
    let own = (queue, -1_i32..4, 0_usize..3, any::<bool>(), 1_u32..4, pods);
    own.prop_map(|(queue, min, priority, inqueue, cpu, pods)| Job {
        queue,
        min,
        priority,
        inqueue,
        cpu,
        pods,
    })
}

/// Plugins that have a say in who comes first and who goes, in any order and in any tiers.
fn tiers() -> impl Strategy<Value = Vec<Vec<&'static str>>> {
    let plugins = vec!["priority", "gang", "drf", "conformance"];
    let some = prop::sample::subsequence(plugins, 1..=4).prop_shuffle();
    (some, prop::collection::vec(any::<bool>(), 4)).prop_map(|(plugins, cuts)| {
        let mut tiers = vec![Vec::new()];
        for (plugin, cut) in plugins.into_iter().zip(cuts) {
            if cut {
                tiers.push(Vec::new());
            }
            if let Some(tier) = tiers.last_mut() {
                tier.push(plugin);
            }
        }
        tiers.retain(|tier| !tier.is_empty());
        tiers
    })
}

fn conf(tiers: &[Vec<&str>], shared: bool, reclaims: bool) -> String {
    let reclaim = if reclaims { ", reclaim" } else { "" };
    let mut text = format!("actions: \"enqueue, allocate, preempt{reclaim}, backfill\"\ntiers:\n");
    let mut last = vec!["predicates", "nodeorder"];
    if shared {
        last.push("proportion");
    }
    for tier in tiers.iter().chain([&last]) {
        text.push_str("- plugins:\n");
        for plugin in tier {
            text.push_str("  - name: ");
            text.push_str(plugin);
            text.push('\n');
        }
    }
    text
}

/// A cluster whose pods are made anew when they have gone.
struct World {
    jobs: Vec<Job>,
    weights: Vec<i32>,
    cores: u32,
    /// Whether pods take a session to go.
    slow: bool,
    /// Whether pods remember the node that is being freed for them. A pod that does takes no more room from others.
    remembers: bool,
    going: BTreeSet<String>,
    nominated: BTreeMap<String, String>,
}

impl World {
    fn objects(&self) -> Objects {
        let mut objects = objects(&self.jobs, &self.weights, self.cores);
        for pod in &mut objects.pods {
            let key = format!("default/{}", pod.metadata.name);
            if self.going.contains(&key) {
                pod.metadata.deletion_timestamp = Some(Timestamp::UNIX_EPOCH.into());
            }
            if let Some(node) = self.nominated.get(&key) {
                pod.status.nominated_node_name.clone_from(node);
            }
        }
        objects
    }

    /// Runs a session and carries it out; how many pods go.
    fn step(&mut self, conf: &Conf, compat: Compat) -> usize {
        let objects = self.objects();
        let mut cluster = Cluster::new();
        for node in &objects.nodes {
            cluster.add_node(node);
        }
        let pods = objects.pods.iter();
        for pod in pods.filter(|pod| !pod.spec.node_name.is_empty()) {
            cluster.add_pod(pod.clone()).unwrap();
        }
        let mut cache = Cache::of(&mut cluster, &objects, Setting::default());
        let outcome = cache.session(&mut cluster, conf, compat);
        self.carry_out(&outcome)
    }

    fn carry_out(&mut self, outcome: &Outcome) -> usize {
        for pod in std::mem::take(&mut self.going) {
            *node_of(&mut self.jobs, &pod) = None;
        }
        let evicted = outcome.evicted.iter().map(|own| own.pod.clone());
        if self.slow {
            self.going.extend(evicted);
        } else {
            evicted.for_each(|pod| *node_of(&mut self.jobs, &pod) = None);
        }
        for (pod, node) in &outcome.binds {
            *node_of(&mut self.jobs, pod) = Some(node[1..].parse().unwrap());
            self.nominated.remove(pod);
        }
        for (pod, condition) in &outcome.pod_conditions {
            if let Some(node) = condition
                .nominated_node_name
                .as_ref()
                .filter(|_| self.remembers)
            {
                self.nominated.insert(pod.clone(), node.clone());
            }
        }
        for (job, phase) in &outcome.phases {
            let index: usize = job["default/j".len()..].parse().unwrap();
            self.jobs[index].inqueue |= phase != "Pending";
        }
        outcome.evicted.len()
    }
}

proptest! {
    // Each is a sequence of sessions.
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn preempt_ends_while_the_demand_is_unchanged(
        jobs in prop::collection::vec(job(), 2..7),
        weights in prop::collection::vec(1_i32..4, 3),
        cores in 1_u32..6,
        tiers in tiers(),
        shared in any::<bool>(),
        reclaims in any::<bool>(),
        slow in any::<bool>(),
        remembers in any::<bool>(),
        admits_what_fits in any::<bool>(),
    ) {
        let mut world = World {
            jobs, weights, cores, slow, remembers,
            going: BTreeSet::new(),
            nominated: BTreeMap::new(),
        };
        let text = conf(&tiers, shared, reclaims && shared);
        let conf = Conf::read(&text).unwrap();
        let compat = if admits_what_fits {
            Compat::EVICTD
        } else {
            Compat::EVICTD.without(Difference::EnqueueWhatFits)
        };
        let pods: usize = world.jobs.iter().map(|job| job.pods.len()).sum();
        let gone: Vec<usize> = (0..30).map(|_| world.step(&conf, compat)).collect();
        let last: usize = gone.iter().rev().take(8).sum();
        prop_assert!(last == 0, "{gone:?}\n{text}");
        // As if each job took room from each pod once.
        let all: usize = gone.iter().sum();
        prop_assert!(all <= pods * world.jobs.len(), "{gone:?}\n{text}");
    }
}

/// Two jobs of which each comes first by one of two plugins in different tiers: of what is there each can have all.
fn two(tiers: &[Vec<&'static str>], priorities: [usize; 2], compat: Compat) -> Vec<usize> {
    let job = |priority: usize, nodes: [Option<usize>; 3]| Job {
        queue: 0,
        min: 1,
        priority,
        inqueue: true,
        cpu: 1,
        pods: nodes.to_vec(),
    };
    let jobs = vec![
        job(priorities[0], [Some(0), Some(1), Some(2)]),
        job(priorities[1], [None, None, None]),
    ];
    let mut world = World {
        jobs,
        weights: vec![1],
        cores: 1,
        slow: false,
        remembers: false,
        going: BTreeSet::new(),
        nominated: BTreeMap::new(),
    };
    let conf = Conf::read(&conf(tiers, false, false)).unwrap();
    (0..20).map(|_| world.step(&conf, compat)).collect()
}

#[test]
fn priority_and_drf_in_different_tiers_do_not_preempt_in_turn() {
    let layouts = [
        ([vec!["priority"], vec!["drf"]], [1, 0]),
        ([vec!["drf"], vec!["priority"]], [1, 0]),
        ([vec!["drf"], vec!["priority"]], [0, 1]),
        ([vec!["priority", "gang"], vec!["drf"]], [1, 0]),
        ([vec!["priority"], vec!["conformance"]], [0, 0]),
    ];
    for (tiers, priorities) in layouts {
        let gone = |compat: Compat| -> Vec<usize> { two(&tiers, priorities, compat) };
        let last = |gone: &[usize]| gone.iter().rev().take(8).sum::<usize>();
        let theirs = Compat::EVICTD.without(Difference::PreemptByJobOrder);
        for compat in [Compat::VOLCANO, theirs] {
            let gone = gone(compat);
            assert!(last(&gone) > 0, "{tiers:?} {priorities:?}: {gone:?}");
        }
        let own = gone(Compat::EVICTD);
        assert_eq!(last(&own), 0, "{tiers:?} {priorities:?}: {own:?}");
    }
}
