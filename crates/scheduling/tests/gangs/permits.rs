//! Pods of a group wait for the permits of plugins: the whole gang is bound, or no pod of it.

use crate::{Scene, group, pod};
use evictd_placement::{Chosen, Permit, Plugin};
use evictd_scheduling::{Attempt, GroupOutcome, Outcome, Pool};
use jiff::SignedDuration;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

/// What a plugin says of each pod, and for which pods it has reserved something.
#[derive(Default)]
pub(crate) struct Script {
    pub(crate) permits: BTreeMap<String, Permit>,
    full: BTreeSet<String>,
    too_late: BTreeSet<String>,
    reserved: BTreeMap<String, String>,
}

#[derive(Clone, Default)]
pub(crate) struct Scripted(pub(crate) Arc<Mutex<Script>>);

impl Plugin for Scripted {
    fn name(&self) -> &'static str {
        "Scripted"
    }

    fn reserve(&self, chosen: Chosen<'_>) -> Result<(), String> {
        let mut script = self.0.lock().unwrap();
        if script.full.contains(chosen.node) {
            return Err("no licence is left".to_owned());
        }
        let (pod, node) = (chosen.pod.metadata.name.clone(), chosen.node.to_owned());
        script.reserved.insert(pod, node);
        Ok(())
    }

    fn unreserve(&self, chosen: Chosen<'_>) {
        let mut script = self.0.lock().unwrap();
        script.reserved.remove(&chosen.pod.metadata.name);
    }

    fn permit(&self, chosen: Chosen<'_>) -> Permit {
        let script = self.0.lock().unwrap();
        let permit = script.permits.get(&chosen.pod.metadata.name).cloned();
        permit.unwrap_or(Permit::Allow)
    }

    fn pre_bind(&self, chosen: Chosen<'_>) -> Result<(), String> {
        let script = self.0.lock().unwrap();
        if script.too_late.contains(&chosen.pod.metadata.name) {
            return Err("the disk is gone".to_owned());
        }
        Ok(())
    }
}

impl Scripted {
    pub(crate) fn says(&self, pod: &str, permit: Permit) {
        let mut script = self.0.lock().unwrap();
        script.permits.insert(pod.to_owned(), permit);
    }

    pub(crate) fn reserved(&self) -> Vec<String> {
        self.0.lock().unwrap().reserved.keys().cloned().collect()
    }
}

pub(crate) fn wait(minutes: i64) -> Permit {
    Permit::Wait(SignedDuration::from_mins(minutes))
}

/// A gang of three on one node, and the plugin.
fn scene() -> (Scene, Scripted) {
    let plugin = Scripted::default();
    let shared_plugin: Arc<dyn Plugin> = Arc::new(plugin.clone());
    let mut scene = Scene::with(|framework| {
        framework.reserves.push(Arc::clone(&shared_plugin));
        framework.permits.push(Arc::clone(&shared_plugin));
        framework.pre_binds.push(shared_plugin);
    });
    scene.node("one", "4", "a");
    scene.group(group("train", 3));
    (scene, plugin)
}

impl Scene {
    /// Something changes that concerns none of them.
    pub(crate) fn touch(&mut self) {
        let name = format!("other-{}", self.now.as_second());
        self.node(&name, "0", "b");
    }

    fn after(&mut self, time: SignedDuration) -> Vec<Attempt> {
        self.now = self.now.checked_add(time).unwrap();
        self.attempts()
    }
}

fn waits(attempts: &[Attempt]) -> usize {
    let waits = |attempt: &&Attempt| matches!(attempt.outcome, Outcome::WaitsOnPermit { .. });
    attempts.iter().filter(waits).count()
}

fn placed(attempts: &[Attempt]) -> usize {
    let placed = |attempt: &&Attempt| matches!(attempt.outcome, Outcome::Placed { .. });
    attempts.iter().filter(placed).count()
}

fn messages(attempts: &[Attempt]) -> BTreeSet<String> {
    let messages = attempts.iter().map(|attempt| match &attempt.outcome {
        Outcome::Unschedulable(rejected) => rejected.message.clone(),
        Outcome::Error(message) => message.clone(),
        other => panic!("{other:?}"),
    });
    messages.collect()
}

/// S5-059: one that has a pod of the gang wait holds all of it.
///
/// S7-047
#[test]
fn s5_059_a_gang_waits_until_its_last_pod_is_permitted() {
    let (mut scene, plugin) = scene();
    plugin.says("train-1", wait(10));
    scene.pods("train", 3, "1");
    assert_eq!(waits(&scene.attempts()), 3);
    assert_eq!(scene.requested("one"), 3000);
    assert!(scene.scheduler.take_group_results().is_empty());
    // Who comes later does not go before the others.
    scene.pod("train-3", Some(pod("train-3", "train", "1")));
    assert_eq!(waits(&scene.attempts()), 1);
    scene.touch();
    assert!(scene.attempts().is_empty());
    plugin.says("train-1", Permit::Allow);
    scene.touch();
    assert_eq!(placed(&scene.attempts()), 4);
    let news = scene.scheduler.take_group_results();
    assert_eq!(news.len(), 1);
    assert!(matches!(news[0].outcome, GroupOutcome::Placed));
    assert_eq!(scene.scheduler.queue().in_flight().count(), 0);
    assert_eq!(plugin.reserved().len(), 4);
}

/// S5-060: the first timer rejects all of it.
#[test]
fn s5_060_a_gang_whose_permit_times_out_gives_back_all_its_nodes() {
    let (mut scene, plugin) = scene();
    plugin.says("train-1", wait(10));
    plugin.says("train-2", wait(12));
    scene.pods("train", 3, "1");
    assert_eq!(waits(&scene.attempts()), 3);
    assert!(scene.after(SignedDuration::from_mins(9)).is_empty());
    let told = scene.after(SignedDuration::from_mins(1));
    assert_eq!(told.len(), 3);
    let words = "0/1 nodes are available: 1 rejected due to timeout after waiting 10m0s at plugin Scripted. pod group \
                 \"default/train\": its pods are bound all at once or not at all.";
    assert_eq!(messages(&told), BTreeSet::from([words.to_owned()]));
    assert_eq!((scene.requested("one"), plugin.reserved().len()), (0, 0));
    assert_eq!(scene.scheduler.queue().in_flight().count(), 0);
    assert_eq!(scene.scheduler.queue().len(), 3);
    let news = scene.scheduler.take_group_results();
    assert!(matches!(&news[0].outcome, GroupOutcome::Unschedulable(message) if message == words));
    for name in ["train-1", "train-2"] {
        plugin.says(name, Permit::Allow);
    }
    scene.touch();
    assert_eq!(placed(&scene.attempts()), 3);
}

#[test]
fn s5_060_the_rejection_of_one_waiting_pod_rejects_its_gang() {
    let (mut scene, plugin) = scene();
    plugin.says("train-0", wait(10));
    scene.pods("train", 3, "1");
    assert_eq!(waits(&scene.attempts()), 3);
    plugin.says("train-0", Permit::Reject("not today".to_owned()));
    scene.touch();
    let told = scene.attempts();
    let all = "0/1 nodes are available: 1 not today. pod group \"default/train\": its pods are bound all at once or not at all.";
    assert_eq!(messages(&told[..3]), BTreeSet::from([all.to_owned()]));
    // The node that came while they waited has them tried again at once.
    let again = messages(&told[3..]).pop_first().unwrap();
    assert!(again.ends_with("1 not today."), "{again}");
    assert_eq!(told.len(), 6);
    assert_eq!((scene.requested("one"), plugin.reserved().len()), (0, 0));
}

/// S5-058, S5-059: in the tentative placement, before anybody has a node.
#[test]
fn s5_058_a_rejected_pod_of_a_gang_is_unreserved_and_does_not_fit() {
    let (mut scene, plugin) = scene();
    plugin.says("train-2", Permit::Reject("not today".to_owned()));
    scene.pods("train", 3, "1");
    let told = scene.attempts();
    assert_eq!(told.len(), 3);
    assert_eq!(
        messages(&told).into_iter().collect::<Vec<_>>(),
        [
            "0/1 nodes are available: 1 not today.",
            "minCount (3) cannot be satisfied: 2 scheduled, 0 remaining",
        ]
    );
    assert_eq!((scene.requested("one"), plugin.reserved().len()), (0, 0));
    plugin.says("train-2", Permit::Allow);
    plugin.0.lock().unwrap().full.insert("one".to_owned());
    scene.touch();
    let message = messages(&scene.attempts()).pop_first().unwrap();
    assert!(message.contains("1 no licence is left."), "{message}");
    plugin.0.lock().unwrap().full.clear();
    scene.touch();
    assert_eq!(placed(&scene.attempts()), 3);
    assert_eq!(plugin.reserved().len(), 3);
}

#[test]
fn a_pre_bind_failure_of_one_pod_prevents_the_binding_of_its_gang() {
    let (mut scene, plugin) = scene();
    plugin
        .0
        .lock()
        .unwrap()
        .too_late
        .insert("train-1".to_owned());
    scene.pods("train", 3, "1");
    let told = scene.attempts();
    assert_eq!((told.len(), placed(&told)), (3, 0));
    let words = "pod group \"default/train\": pod \"train-1\": running PreBind plugin \"Scripted\": the disk is gone";
    assert_eq!(messages(&told), BTreeSet::from([words.to_owned()]));
    assert_eq!((scene.requested("one"), plugin.reserved().len()), (0, 0));
    assert_eq!(scene.scheduler.queue().count(Pool::ErrorBackoff), 3);
    plugin.0.lock().unwrap().too_late.clear();
    scene.touch();
    assert_eq!(placed(&scene.attempts()), 3);
}

#[test]
fn a_gang_that_loses_a_pod_while_it_waits_gives_its_nodes_back() {
    let (mut scene, plugin) = scene();
    plugin.says("train-1", wait(15));
    scene.pods("train", 3, "1");
    assert_eq!(waits(&scene.attempts()), 3);
    scene.pod("train-2", None);
    let told = scene.attempts();
    assert_eq!(told.len(), 2);
    let message = messages(&told).pop_first().unwrap();
    assert!(
        message.contains("pod \"train-2\" of its group is gone"),
        "{message}"
    );
    assert_eq!((scene.requested("one"), plugin.reserved().len()), (0, 0));
    assert_eq!(scene.scheduler.queue().in_flight().count(), 0);
}

/// S4-022: a pod of higher priority needs the room of one, and gets that of all.
#[test]
fn s4_022_a_waiting_victim_is_rejected_with_its_gang() {
    let (mut scene, plugin) = scene();
    plugin.says("train-1", wait(15));
    scene.pods("train", 3, "1");
    assert_eq!(waits(&scene.attempts()), 3);
    let mut high = pod("high", "", "2");
    high["spec"]["priority"] = json!(10);
    scene.pod("high", Some(high));
    let told = scene.attempts();
    let Outcome::Unschedulable(rejected) = &told[0].outcome else {
        panic!("{told:?}");
    };
    assert!(!rejected.victims.is_empty());
    let now = scene.now;
    assert!(scene.scheduler.reject_waiting(now, "train-0"));
    assert_eq!((scene.requested("one"), plugin.reserved().len()), (0, 0));
    assert!(
        !scene.scheduler.reject_waiting(now, "train-1"),
        "it is gone with the first"
    );
}
