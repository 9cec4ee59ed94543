//! From the choice of a node to the binding: what plugins of one's own reserve, and when they permit.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod scenario;

use evictd_placement::{Chosen, Permit, Plugin};
use evictd_pod::wire;
use evictd_scheduling::{Attempt, Outcome, Pool, Rejected};
use jiff::SignedDuration;
use scenario::{Scenario, node};
use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex};

/// What the plugins are to say, by their names, and what they were asked.
#[derive(Default)]
struct Script {
    refuses: BTreeMap<&'static str, &'static str>,
    permits: BTreeMap<&'static str, Permit>,
    too_late: BTreeMap<&'static str, &'static str>,
    asked: Vec<String>,
}

struct Scripted(&'static str, Arc<Mutex<Script>>);

impl Plugin for Scripted {
    fn name(&self) -> &str {
        self.0
    }

    fn reserve(&self, chosen: Chosen<'_>) -> Result<(), String> {
        let mut script = self.1.lock().unwrap();
        let asked = format!("{} reserves for {}", self.0, chosen.pod.metadata.name);
        script.asked.push(asked);
        script
            .refuses
            .get(self.0)
            .map_or(Ok(()), |reason| Err((*reason).to_owned()))
    }

    fn unreserve(&self, chosen: Chosen<'_>) {
        let asked = format!("{} gives back {}", self.0, chosen.node);
        self.1.lock().unwrap().asked.push(asked);
    }

    fn permit(&self, _chosen: Chosen<'_>) -> Permit {
        let script = self.1.lock().unwrap();
        script.permits.get(self.0).cloned().unwrap_or(Permit::Allow)
    }

    fn pre_bind(&self, _chosen: Chosen<'_>) -> Result<(), String> {
        let script = self.1.lock().unwrap();
        script
            .too_late
            .get(self.0)
            .map_or(Ok(()), |reason| Err((*reason).to_owned()))
    }
}

/// One node of two cpus, and the plugins `a` and `b` at every point after the choice.
struct Scene {
    scenario: Scenario,
    script: Arc<Mutex<Script>>,
}

impl Deref for Scene {
    type Target = Scenario;

    fn deref(&self) -> &Scenario {
        &self.scenario
    }
}

impl DerefMut for Scene {
    fn deref_mut(&mut self) -> &mut Scenario {
        &mut self.scenario
    }
}

fn pod(name: &str, priority: i32) -> Arc<wire::Pod> {
    scenario::pod(name).priority(priority).cpu("2").read()
}

fn wait(seconds: i64) -> Permit {
    Permit::Wait(SignedDuration::from_secs(seconds))
}

impl Scene {
    fn new() -> Self {
        let script: Arc<Mutex<Script>> = Arc::default();
        let scenario = Scenario::with(|framework| {
            for name in ["a", "b"] {
                let plugin: Arc<dyn Plugin> = Arc::new(Scripted(name, Arc::clone(&script)));
                framework.reserves.push(Arc::clone(&plugin));
                framework.permits.push(Arc::clone(&plugin));
                framework.pre_binds.push(plugin);
            }
        });
        let mut scene = Self { scenario, script };
        scene.touch(1);
        scene
    }

    /// The node comes, or changes.
    fn touch(&mut self, generation: u32) {
        let node = node("one").label("generation", &generation.to_string());
        self.node(node.cpu("2").memory("4Gi"));
    }

    fn reject_waiting(&mut self, uid: &str) -> bool {
        let now = self.now;
        self.scheduler.reject_waiting(now, uid)
    }

    fn says(&self, plugin: &'static str, permit: Permit) {
        self.script.lock().unwrap().permits.insert(plugin, permit);
    }

    fn after(&mut self, seconds: i64) -> Option<Attempt> {
        self.pass(SignedDuration::from_secs(seconds));
        let now = self.now;
        self.scheduler.attempt(now)
    }

    fn rejected(&mut self, seconds: i64) -> Rejected {
        match self.after(seconds).unwrap().outcome {
            Outcome::Unschedulable(rejected) => rejected,
            other => panic!("{other:?}"),
        }
    }

    fn requested(&self) -> i64 {
        self.scheduler.cluster().nodes()[0].requested.cpu
    }

    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.script.lock().unwrap().asked)
    }

    fn waits(&self) -> usize {
        let pools = [Pool::Backoff, Pool::ErrorBackoff, Pool::Unschedulable];
        let queue = self.scheduler.queue();
        pools.into_iter().map(|pool| queue.count(pool)).sum()
    }
}

#[test]
fn s5_058_a_failed_reserve_unreserves_all_plugins_in_reverse_order() {
    let mut scene = Scene::new();
    scene
        .script
        .lock()
        .unwrap()
        .refuses
        .insert("b", "no licence is left");
    scene.change_pod(None, Some(&pod("web", 0)));
    let rejected = scene.rejected(1);
    assert_eq!(
        rejected.message,
        "0/1 nodes are available: 1 no licence is left."
    );
    assert!(rejected.plugins.contains("b"));
    let asked = [
        "a reserves for web",
        "b reserves for web",
        "b gives back one",
        "a gives back one",
    ];
    assert_eq!(scene.asked(), asked);
    assert_eq!((scene.requested(), scene.waits()), (0, 1));
    scene.script.lock().unwrap().refuses.clear();
    assert!(scene.after(30).is_none(), "nothing has happened");
    scene.touch(2);
    let attempt = scene.after(30).unwrap();
    assert!(matches!(attempt.outcome, Outcome::Placed { .. }));
}

#[test]
fn s5_059_a_waiting_pod_stays_assumed_until_all_plugins_have_permitted_it() {
    let mut scene = Scene::new();
    scene.says("a", wait(60));
    scene.says("b", wait(60));
    scene.change_pod(None, Some(&pod("web", 0)));
    let attempt = scene.after(1).unwrap();
    assert!(matches!(attempt.outcome, Outcome::WaitsOnPermit { node } if &*node == "one"));
    assert_eq!(scene.requested(), 2000);
    assert!(scene.after(1).is_none());
    scene.says("a", Permit::Allow);
    scene.touch(2);
    assert!(scene.after(1).is_none(), "b has not permitted it");
    // What has been permitted stays so.
    scene.says("a", Permit::Reject("changed its mind".to_owned()));
    scene.says("b", Permit::Allow);
    scene.touch(3);
    let attempt = scene.after(1).unwrap();
    assert!(matches!(attempt.outcome, Outcome::Placed { node, .. } if &*node == "one"));
    assert_eq!(&*attempt.key, "web");
    assert_eq!(scene.scheduler.queue().in_flight().count(), 0);
}

#[test]
fn s5_060_the_shortest_permit_timeout_rejects_and_none_exceeds_fifteen_minutes() {
    let mut scene = Scene::new();
    scene.says("a", wait(3600));
    scene.says("b", wait(7200));
    scene.change_pod(None, Some(&pod("web", 0)));
    scene.after(1);
    assert!(scene.after(15 * 60 - 1).is_none());
    let rejected = scene.rejected(1);
    assert_eq!(
        rejected.message,
        "0/1 nodes are available: 1 rejected due to timeout after waiting 15m0s at plugin a."
    );
    assert_eq!(scene.asked()[2..], ["b gives back one", "a gives back one"]);
    assert_eq!((scene.requested(), scene.waits()), (0, 1));
    scene.says("b", wait(10));
    scene.touch(2);
    scene.after(30);
    let rejected = scene.rejected(10);
    assert!(
        rejected.message.ends_with("after waiting 10s at plugin b."),
        "{}",
        rejected.message
    );
}

#[test]
fn s5_060_one_rejection_outweighs_all_permits() {
    let mut scene = Scene::new();
    scene.says("b", Permit::Reject("not today".to_owned()));
    scene.change_pod(None, Some(&pod("web", 0)));
    assert_eq!(
        scene.rejected(1).message,
        "0/1 nodes are available: 1 not today."
    );
    assert_eq!(scene.requested(), 0);
    scene.says("a", wait(600));
    scene.says("b", wait(600));
    scene.touch(5);
    assert!(matches!(
        scene.after(30).unwrap().outcome,
        Outcome::WaitsOnPermit { .. }
    ));
    scene.says("a", Permit::Allow);
    scene.says("b", Permit::Reject("not at all".to_owned()));
    scene.touch(2);
    assert_eq!(
        scene.rejected(1).message,
        "0/1 nodes are available: 1 not at all."
    );
    assert_eq!((scene.requested(), scene.waits()), (0, 1));
}

#[test]
fn a_waiting_pod_that_is_deleted_leaves_no_state_behind() {
    let mut scene = Scene::new();
    scene.says("a", wait(600));
    let web = pod("web", 0);
    scene.change_pod(None, Some(&web));
    scene.after(1);
    scene.change_pod(Some(&web), None);
    assert_eq!(scene.asked()[2..], ["b gives back one", "a gives back one"]);
    assert!(scene.after(600).is_none());
    assert_eq!((scene.requested(), scene.scheduler.queue().len()), (0, 0));
    assert_eq!(scene.scheduler.queue().in_flight().count(), 0);
}

#[test]
fn a_pre_bind_failure_is_an_error_and_the_pod_is_tried_again() {
    let mut scene = Scene::new();
    scene
        .script
        .lock()
        .unwrap()
        .too_late
        .insert("b", "the disk is gone");
    scene.change_pod(None, Some(&pod("web", 0)));
    let attempt = scene.after(1).unwrap();
    assert!(
        matches!(&attempt.outcome, Outcome::Error(message) if message == "running PreBind plugin \"b\": the disk is gone"),
        "{:?}",
        attempt.outcome
    );
    assert_eq!(scene.asked()[2..], ["b gives back one", "a gives back one"]);
    assert_eq!((scene.requested(), scene.waits()), (0, 1));
    scene.script.lock().unwrap().too_late.clear();
    let attempt = scene.after(30).unwrap();
    assert!(matches!(attempt.outcome, Outcome::Placed { .. }));
}

#[test]
fn s4_022_a_victim_that_waits_on_permit_returns_to_the_queue() {
    let mut scene = Scene::new();
    scene.says("a", wait(600));
    scene.change_pod(None, Some(&pod("low", 0)));
    scene.after(1);
    scene.change_pod(None, Some(&pod("high", 10)));
    let rejected = scene.rejected(1);
    assert_eq!(rejected.nominated.as_deref(), Some("one"));
    let waiting = rejected.actions.iter().find_map(|action| match action {
        evictd_preemption::Action::RejectWaiting { uid, .. } => Some(uid.clone()),
        _ => None,
    });
    assert!(scene.reject_waiting(&waiting.unwrap()));
    assert_eq!(scene.requested(), 0);
    let told = scene.after(0).unwrap();
    assert_eq!(&*told.key, "low");
    assert!(!scene.reject_waiting("low"), "only once");
}
