//! Random clusters: every proposal starts the job, none is larger than it has to be, and counts of nodes add up.

use crate::proof::{TRAIN, check, starts_with};
use crate::scenario::{Scenario, conf};
use crate::why;
use evictd_batch::session::Objects;
use evictd_batch::why::{Change, State};
use evictd_pod::Quantity;
use proptest::prelude::*;
use serde_json::json;

/// A cluster in a few numbers.
#[derive(Debug, Clone)]
struct Made {
    /// Cores of each node, and whether it is cordoned.
    nodes: Vec<(u32, bool)>,
    /// Jobs that run: pods, cores, whether they are in the other queue.
    running: Vec<(usize, u32, bool)>,
    /// The same of jobs that wait.
    waiting: Vec<(usize, u32, bool)>,
    /// The job that is asked about: pods, the least of them, cores, whether it has to be let in.
    train: (usize, i32, u32, bool),
    /// Cores that its queue may have.
    capability: Option<u32>,
    /// Whether others go for jobs.
    takes: bool,
    closed: bool,
}

fn made() -> impl Strategy<Value = Made> {
    let job = || (1..4_usize, 1..4_u32, any::<bool>());
    let rarely = || prop::bool::weighted(0.15);
    (
        prop::collection::vec((2..9_u32, rarely()), 1..5),
        prop::collection::vec(job(), 0..5),
        prop::collection::vec(job(), 0..3),
        (1..4_usize, 1..5_i32, 1..5_u32, any::<bool>()),
        prop::option::of(1..12_u32),
        any::<bool>(),
        rarely(),
    )
        .prop_map(
            |(nodes, running, waiting, train, capability, takes, closed)| Made {
                nodes,
                running,
                waiting,
                train,
                capability,
                takes,
                closed,
            },
        )
}

impl Made {
    fn objects(&self) -> Objects {
        let actions = if self.takes {
            "enqueue, allocate, preempt, reclaim, backfill"
        } else {
            "enqueue, allocate, backfill"
        };
        let tiers: [&[&str]; 2] = [
            &["priority", "gang", "conformance"],
            &["overcommit", "drf", "predicates", "proportion", "nodeorder"],
        ];
        let mut own = Scenario::new(&conf(actions, &tiers));
        let mut free = Vec::new();
        for (index, (cores, cordoned)) in self.nodes.iter().enumerate() {
            let with = json!({"spec": {"unschedulable": cordoned}});
            own = own.node_with(&format!("n{index}"), &cores.to_string(), &with);
            free.push(*cores);
        }
        let capability = self
            .capability
            .map(|cpu| json!({"capability": {"cpu": cpu.to_string()}}));
        own = own.queue("gold", &capability.unwrap_or_else(|| json!({})));
        if self.closed {
            own = own.queue_with(&json!({"status": {"state": "Closed"}}));
        }
        let queue = |other: bool| json!({"queue": if other { "q" } else { "gold" }});
        for (index, (pods, cores, other)) in self.running.iter().enumerate() {
            let name = format!("r{index}");
            own = own.job_with(&name, 1, "Running", &queue(*other));
            for pod in 0..*pods {
                let Some(at) = free.iter().position(|free| free >= cores) else {
                    break;
                };
                free[at] -= cores;
                own = own.running(&name, pod, &[&format!("n{at}")], &cores.to_string());
            }
        }
        for (index, (pods, cores, other)) in self.waiting.iter().enumerate() {
            let name = format!("w{index}");
            own = own.job_with(&name, 1, "Inqueue", &queue(*other));
            own = own.waiting(&name, *pods, &cores.to_string());
        }
        let (pods, min, cores, pending) = self.train;
        let mut spec = queue(false);
        let total = u32::try_from(min).unwrap() * cores;
        spec["minResources"] = json!({"cpu": total.to_string()});
        let phase = if pending { "Pending" } else { "Inqueue" };
        own = own.job_with("train", min, phase, &spec);
        own.waiting("train", pods, &cores.to_string()).objects()
    }
}

/// The same change, by one less; `None` where that is none.
fn less(change: &Change) -> Option<Change> {
    match change.clone() {
        Change::Weight { queue, from, to } if to - 1 > from => Some(Change::Weight {
            queue,
            from,
            to: to - 1,
        }),
        Change::MoreNodes { like, count } if count > 1 => Some(Change::MoreNodes {
            like,
            count: count - 1,
        }),
        Change::Capability {
            queue,
            resource,
            from,
            to,
        } if to.milli_value() - 1000 > from.milli_value() => Some(Change::Capability {
            queue,
            resource,
            from,
            to: Quantity::milli(to.milli_value() - 1000),
        }),
        Change::MinMember { from, to } if to + 1 < from => {
            Some(Change::MinMember { from, to: to + 1 })
        }
        _ => None,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn every_proposal_starts_the_job(made in made()) {
        let objects = made.objects();
        let answer = why(&objects, &[]);
        check(&objects, &answer);
    }

    #[test]
    fn no_proposal_is_larger_than_it_has_to_be(made in made()) {
        let objects = made.objects();
        for proposal in why(&objects, &[]).soonest {
            let [change] = proposal.changes.as_slice() else { continue };
            if let Some(less) = less(change) {
                prop_assert!(
                    !starts_with(&objects, &[&less], TRAIN),
                    "{} and so does {less}",
                    proposal.words
                );
            }
        }
    }

    #[test]
    fn no_change_of_a_proposal_can_be_left_out(made in made()) {
        let objects = made.objects();
        for proposal in why(&objects, &[]).soonest {
            for left_out in 0..proposal.changes.len() {
                let mut changes: Vec<&Change> = proposal.changes.iter().collect();
                changes.remove(left_out);
                prop_assert!(
                    !starts_with(&objects, &changes, TRAIN),
                    "{} without {left_out}",
                    proposal.words
                );
            }
        }
    }

    #[test]
    fn nodes_add_up_and_pods_do_too(made in made()) {
        let answer = why(&made.objects(), &[]);
        if let Some(diagnosis) = answer.diagnosis {
            let places = &diagnosis.feasibility;
            prop_assert_eq!(places.nodes, made.nodes.len());
            let waiting: usize = places.roles.iter().map(|role| role.waiting).sum();
            let placed: usize = places.roles.iter().map(|role| role.placed).sum();
            prop_assert_eq!(waiting, places.waiting);
            prop_assert_eq!(placed, places.now + places.later);
            for role in places.roles.iter().filter(|role| role.placed < role.waiting) {
                prop_assert_eq!(role.refused.values().sum::<usize>(), places.nodes);
            }
            prop_assert!(diagnosis.ahead.iter().all(|own| own.pod_group != "default/train"));
        }
        prop_assert!(!answer.headline.is_empty());
        prop_assert!(answer.state != State::Starts || answer.soonest.is_empty());
    }
}

/// Clusters that a property failed on, with every choice of queues, and whether others are evicted for jobs.
#[test]
fn every_proposal_starts_the_job_in_clusters_where_one_did_not() {
    type Jobs<'a> = &'a [(usize, u32)];
    type Cluster<'a> = (&'a [u32], Jobs<'a>, Jobs<'a>, (usize, i32, u32));
    let found: [Cluster<'_>; 2] = [
        (
            &[6, 4, 3, 4],
            &[(1, 1), (2, 2), (2, 2), (1, 2)],
            &[(2, 2)],
            (2, 2, 4),
        ),
        (&[2, 7, 4], &[(2, 2)], &[(1, 3), (3, 3)], (3, 2, 4)),
    ];
    for (nodes, running, waiting, (pods, min, cores)) in found {
        let flags = running.len() + waiting.len() + 2;
        for choice in 0..1_u32 << flags {
            let flag = |index: usize| choice >> index & 1 == 1;
            let jobs = |jobs: Jobs<'_>, first: usize| -> Vec<(usize, u32, bool)> {
                let jobs = jobs.iter().enumerate();
                jobs.map(|(index, (pods, cores))| (*pods, *cores, flag(first + index)))
                    .collect()
            };
            let made = Made {
                nodes: nodes.iter().map(|cores| (*cores, false)).collect(),
                running: jobs(running, 2),
                waiting: jobs(waiting, 2 + running.len()),
                train: (pods, min, cores, flag(0)),
                capability: None,
                takes: flag(1),
                closed: false,
            };
            let objects = made.objects();
            let answer = why(&objects, &[]);
            check(&objects, &answer);
        }
    }
}
