//! Groups in the queue and in the metrics as Kubernetes 1.37 has them, by the rows of its behaviour.

use crate::placing::{important, important_pods};
use crate::trees::{composite, leaf};
use crate::victim_order::atomic;
use crate::{Scene, group, pod};
use evictd_pod::compatibility::{Compatibility, Release};
use evictd_scheduling::config::Point;
use evictd_scheduling::{Change, Event, Outcome, Pool, Recorder};
use jiff::SignedDuration;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The waiting entities by pool and kind, such as `Gated podgroup`, without the zeros.
fn entities(scene: &Scene) -> BTreeMap<String, usize> {
    let all = scene.scheduler.queue().entities().into_iter();
    let some = all.filter(|(_, _, count)| *count > 0);
    some.map(|(pool, kind, count)| (format!("{pool:?} {kind}"), count))
        .collect()
}

fn counts(list: &[(&str, usize)]) -> BTreeMap<String, usize> {
    let list = list.iter();
    list.map(|(name, count)| ((*name).to_owned(), *count))
        .collect()
}

#[test]
fn s7_020_s7_021_a_group_is_one_entity_and_pods_of_unknown_groups_are_incomplete() {
    let mut scene = Scene::new();
    scene.node("one", "1", "a");
    scene.pods("g", 2, "1");
    assert_eq!(scene.scheduler.queue().incomplete(), 2);
    assert_eq!(entities(&scene), counts(&[]));
    let mut child = group("g", 3);
    child["spec"]["parentCompositePodGroupName"] = json!("root");
    scene.group(child);
    assert_eq!(scene.scheduler.queue().incomplete(), 2, "S7-112");
    scene.group(group("g", 3));
    assert_eq!(scene.scheduler.queue().incomplete(), 0);
    assert_eq!(entities(&scene), counts(&[("Gated podgroup", 1)]));
    scene.pod("g-2", Some(pod("g-2", "g", "1")));
    scene.pod("solo", Some(pod("solo", "", "9")));
    let active = counts(&[("Active pod", 1), ("Active podgroup", 1)]);
    assert_eq!(entities(&scene), active);
    let mut entered = BTreeMap::new();
    for (pool, _, kind, count) in scene.scheduler.take_incoming_entities() {
        *entered.entry(format!("{pool:?} {kind}")).or_insert(0_u64) += count;
    }
    assert_eq!(entered.get("Active podgroup"), Some(&1), "{entered:?}");
    assert_eq!(entered.get("Active pod"), Some(&1), "{entered:?}");
    scene.attempts();
    let rejected = counts(&[("Unschedulable pod", 1), ("Unschedulable podgroup", 1)]);
    assert_eq!(entities(&scene), rejected);
}

#[test]
fn s7_022_a_group_is_tried_by_its_priority() {
    let mut scene = Scene::new();
    scene.node("one", "8", "a");
    scene.pod("early", Some(pod("early", "", "1")));
    let mut urgent = group("g", 2);
    urgent["spec"]["priority"] = json!(10);
    scene.group(urgent);
    for name in ["g-0", "g-1"] {
        let mut member = pod(name, "g", "1");
        member["spec"]["priority"] = json!(10);
        scene.pod(name, Some(member));
    }
    let order: Vec<String> = scene
        .attempts()
        .into_iter()
        .map(|attempt| attempt.key.to_string())
        .collect();
    assert_eq!(order, ["g-0", "g-1", "early"]);
}

/// A node appears without a pause before.
fn node_at_once(scene: &mut Scene, name: &str) {
    let node = crate::node(name).cpu("1").memory("4Gi");
    let node = node.set("/status/allocatable/pods", "10");
    scene.on(&Event::Change(Change::Node(crate::added(node))));
}

/// S7-026: an event that helps one pod wakes all of them. S7-028: the backoff doubles with each attempt of the group.
#[test]
fn s7_026_s7_028_a_group_is_woken_as_a_whole_and_backs_off_longer_each_time() {
    let mut scene = Scene::new();
    scene.node("one", "1", "a");
    scene.group(group("g", 4));
    scene.pods("g", 4, "1");
    for (node, backoff) in [("two", 1000), ("three", 2000)] {
        assert!(scene.placed().is_empty());
        node_at_once(&mut scene, node);
        let queue = |scene: &Scene, pool| scene.scheduler.queue().count(pool);
        assert_eq!(queue(&scene, Pool::Backoff), 4, "{node}");
        scene.pass(SignedDuration::from_millis(backoff - 100));
        assert_eq!(queue(&scene, Pool::Backoff), 4, "{node}");
        scene.pass(SignedDuration::from_millis(1200));
        assert_eq!(queue(&scene, Pool::Active), 4, "{node}");
    }
    node_at_once(&mut scene, "four");
    assert_eq!(scene.placed().len(), 4);
}

#[test]
fn s7_030_a_deleted_pod_leaves_its_group_and_an_empty_group_the_queue() {
    let mut scene = Scene::new();
    scene.node("one", "1", "a");
    scene.group(group("g", 2));
    scene.pods("g", 3, "9");
    scene.attempts();
    scene.pod("g-0", None);
    assert_eq!(scene.scheduler.queue().len(), 2);
    scene.pod("g-1", None);
    scene.pod("g-2", None);
    assert!(scene.scheduler.queue().is_empty());
    assert_eq!(entities(&scene), counts(&[]));
}

#[test]
fn s7_014_a_group_that_waits_for_its_pods_to_be_deleted_still_works() {
    let mut scene = Scene::new();
    scene.node("one", "8", "a");
    let mut deleted = group("g", 2);
    deleted["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    deleted["metadata"]["finalizers"] = json!(["scheduling.k8s.io/podgroup-protection"]);
    scene.group(deleted);
    scene.pods("g", 2, "1");
    assert_eq!(scene.placed().len(), 2);
}

/// S7-228: the affinity between the pods of a group counts while they are only assumed.
#[test]
fn s7_228_pods_of_a_group_see_where_the_others_are() {
    let placed = |racks: [&str; 2], kind: &str| {
        let mut scene = Scene::new();
        for (node, rack) in ["one", "two"].iter().zip(racks) {
            scene.node(node, "1", rack);
        }
        scene.group(group("g", 2));
        for name in ["g-0", "g-1"] {
            let mut member = pod(name, "g", "1");
            member["metadata"]["labels"] = json!({ "app": "g" });
            let term = json!({ "labelSelector": { "matchLabels": { "app": "g" } }, "topologyKey": "rack" });
            member["spec"]["affinity"] =
                json!({ kind: { "requiredDuringSchedulingIgnoredDuringExecution": [term] } });
            scene.pod(name, Some(member));
        }
        scene.placed().len()
    };
    assert_eq!(placed(["a", "b"], "podAntiAffinity"), 2);
    assert_eq!(placed(["a", "a"], "podAntiAffinity"), 0);
    assert_eq!(placed(["a", "b"], "podAffinity"), 0);
    assert_eq!(placed(["a", "a"], "podAffinity"), 2);
}

/// Notes what is measured of groups.
#[derive(Default)]
struct Notes(Mutex<Vec<String>>);

impl Notes {
    fn note(&self, note: String) {
        self.0.lock().unwrap().push(note);
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

impl Recorder for Notes {
    fn on_group_attempt(&self, profile: &str, result: &'static str, _: Duration) {
        self.note(format!("{profile}: {result}"));
    }

    fn on_preemption(&self, preemptor: &'static str, status: &'static str, _: Duration) {
        self.note(format!("preemption of a {preemptor}: {status}"));
    }

    fn on_group_preemption(&self, status: &'static str) {
        self.note(format!("plugins: {status}"));
    }

    fn on_group_victims(&self, pods: usize, disruptions: usize) {
        self.note(format!("{pods} victims, {disruptions} disruptions"));
    }

    fn on_placements(&self, _: &str, count: usize) {
        self.note(format!("{count} domains"));
    }

    fn on_placement(&self, _: &str, is_feasible: bool, _: Duration) {
        self.note(format!("feasible: {is_feasible}"));
    }
}

fn measured() -> (Scene, Arc<Notes>) {
    let notes = Arc::new(Notes::default());
    let recorder = Arc::clone(&notes);
    let scene = Scene::with(move |framework| framework.recorder = recorder);
    (scene, notes)
}

#[test]
fn s7_054_attempts_and_preemptions_of_groups_are_measured() {
    let (mut scene, notes) = measured();
    scene.node("one", "2", "a");
    scene.group(group("fits", 2));
    scene.pods("fits", 2, "1");
    assert_eq!(scene.placed().len(), 2);
    let placed = [
        "1 domains",
        "feasible: true",
        "default-scheduler: scheduled",
    ];
    assert_eq!(notes.take(), placed);

    scene.group(group("full", 1));
    scene.pods("full", 1, "1");
    scene.attempts();
    let rejected = [
        "1 domains",
        "feasible: false",
        "plugins: UnschedulableAndUnresolvable",
        "preemption of a podgroup: UnschedulableAndUnresolvable",
        "default-scheduler: unschedulable",
    ];
    assert_eq!(notes.take(), rejected);

    // Only 1.37 compares the priorities of a group and its pods.
    let release = Compatibility::of(Release::V1_37);
    scene.scheduler.set_compatibility(release);
    let mut wrong = group("wrong", 1);
    wrong["spec"]["priority"] = json!(5);
    scene.group(wrong);
    scene.pods("wrong", 1, "1");
    scene.attempts();
    assert_eq!(notes.take(), ["default-scheduler: error"]);
}

#[test]
fn s7_054_pods_that_are_only_evicted_together_are_one_disruption() {
    let (mut scene, notes) = measured();
    scene.node("one", "4", "a");
    atomic(&mut scene, "old", "2", &[("one", 0), ("one", 0)]);
    scene.group(important("g", 1));
    important_pods(&mut scene, "g", 1, "2");
    scene.attempts();
    let notes = notes.take();
    let expected = "2 victims, 1 disruptions".to_owned();
    assert!(notes.contains(&expected), "{notes:?}");
}

/// S7-070, S7-071: all pods that fit on the emptied nodes count, and get nominations.
#[test]
fn s7_054_s7_070_s7_071_a_group_that_preempts_waits_for_all_its_victims() {
    let (mut scene, notes) = measured();
    scene.node("one", "2", "a");
    scene.running("a", "one", "1", 0);
    scene.running("b", "one", "1", 0);
    scene.group(important("g", 1));
    important_pods(&mut scene, "g", 2, "1");
    let nominated = scene.attempts().into_iter().filter(|attempt| {
        matches!(&attempt.outcome, Outcome::Unschedulable(rejected) if rejected.nominated.is_some())
    });
    assert_eq!(nominated.count(), 2);
    let notes = notes.take();
    for expected in [
        "plugins: Success",
        "preemption of a podgroup: Success",
        "2 victims, 2 disruptions",
        "default-scheduler: waiting_on_preemption",
    ] {
        assert!(
            notes.iter().any(|note| note == expected),
            "{expected}: {notes:?}"
        );
    }
}

/// The plugins for groups have an extension point of their own in 1.37. In 1.36 they are those for single pods.
#[test]
fn s7_060_s7_260_a_profile_may_preempt_nothing_for_groups() {
    let nothing = json!({ "disabled": [{ "name": "*" }] });
    let points_of_1_36: Map<String, Value> = Point::ALL
        .into_iter()
        .filter(|point| {
            !matches!(
                point,
                Point::PodGroupPostFilter | Point::QueueSort | Point::Bind | Point::Filter
            )
        })
        .map(|point| (point.as_str().to_owned(), nothing.clone()))
        .collect();
    let cases = [
        ("the defaults", json!({}), [true, true]),
        (
            "every point that 1.36 knows",
            Value::Object(points_of_1_36),
            [false, true],
        ),
        (
            "the point of 1.37",
            json!({ "podGroupPostFilter": nothing }),
            [true, false],
        ),
        (
            "the plugin everywhere",
            json!({ "multiPoint": { "disabled": [{ "name": "DefaultPreemption" }] } }),
            [false, false],
        ),
        (
            "only for groups",
            json!({ "postFilter": nothing, "podGroupPostFilter": { "enabled": [{ "name": "DefaultPreemption" }] } }),
            [false, true],
        ),
    ];
    for (case, plugins, expected) in cases {
        for (release, preempts) in Release::ALL.into_iter().zip(expected) {
            let mut scene = Scene::of_plugins(&plugins);
            scene
                .scheduler
                .set_compatibility(Compatibility::of(release));
            scene.node("one", "1", "a");
            scene.running("a", "one", "1", 0);
            scene.group(important("g", 1));
            important_pods(&mut scene, "g", 1, "1");
            assert_eq!(
                scene.preempted().0.len(),
                usize::from(preempts),
                "{case}, {release:?}"
            );
        }
    }
}

#[test]
fn s7_095_each_domain_that_a_group_is_tried_in_is_measured() {
    let (mut scene, notes) = measured();
    scene.node("one", "1", "a");
    scene.node("two", "2", "b");
    let mut in_rack = group("g", 2);
    in_rack["spec"]["schedulingConstraints"] = json!({ "topology": [{ "key": "rack" }] });
    scene.group(in_rack);
    scene.pods("g", 2, "1");
    assert_eq!(scene.placed().len(), 2);
    let expected = [
        "2 domains",
        "feasible: false",
        "feasible: true",
        "default-scheduler: scheduled",
    ];
    assert_eq!(notes.take(), expected);
}

/// The results of preemptions for groups are the codes of their status, also where no victims were looked for.
#[test]
fn s7_054_the_result_of_a_preemption_is_its_status() {
    let cases: [(&str, i32, &str, bool, &[&str]); 4] = [
        (
            "victims",
            0,
            "",
            false,
            &[
                "plugins: Success",
                "preemption of a podgroup: Success",
                "1 victims, 1 disruptions",
            ],
        ),
        (
            "no victims",
            100,
            "",
            false,
            &[
                "plugins: UnschedulableAndUnresolvable",
                "preemption of a podgroup: UnschedulableAndUnresolvable",
            ],
        ),
        ("never", 0, "Never", false, &["plugins: Unschedulable"]),
        (
            "too large",
            0,
            "",
            true,
            &[
                "plugins: Unschedulable",
                "preemption of a podgroup: Unschedulable",
            ],
        ),
    ];
    for (case, priority, policy, is_too_large, expected) in cases {
        let (mut scene, notes) = measured();
        scene.node("one", "2", "a");
        scene.running("runs", "one", "2", priority);
        scene.group(important("g", 1));
        let mut member = pod("g-0", "g", if is_too_large { "9" } else { "1" });
        member["spec"]["priority"] = json!(100);
        member["spec"]["preemptionPolicy"] = json!(policy);
        scene.pod("g-0", Some(member));
        scene.attempts();
        let notes = notes.take().into_iter();
        let notes = notes.filter(|note| {
            !note.contains("domains") && !note.contains("feasible") && !note.contains(':')
                || note.starts_with("plugins")
                || note.starts_with("preemption")
        });
        assert_eq!(notes.collect::<Vec<_>>(), expected, "{case}");
    }
}

/// What was measured of the domains, in order.
fn domains(notes: &Notes) -> Vec<String> {
    let notes = notes.take().into_iter();
    notes
        .filter(|note| note.ends_with("domains") || note.starts_with("feasible"))
        .collect()
}

/// S7-095: a tree is tried in two zones and then placed in the better one, which is not measured again.
#[test]
fn s7_095_the_groups_of_a_tree_are_measured_once_in_each_domain() {
    let (mut scene, notes) = measured();
    for (name, cpu, zone) in [("one", "1", "x"), ("two", "2", "y")] {
        let node = crate::node(name).cpu(cpu).memory("4Gi").label("zone", zone);
        scene.tell(&Event::Change(Change::Node(crate::added(node))));
    }
    let mut root = composite("r", 1, "");
    root["spec"]["schedulingConstraints"] = json!({ "topology": [{ "key": "zone" }] });
    scene.composite(root);
    scene.group(leaf("l", 2, "r"));
    scene.pods("l", 2, "1");
    assert_eq!(scene.placed().len(), 2);
    let of_root = ["2 domains"];
    let in_x = ["1 domains", "feasible: false", "feasible: false"];
    let in_y = ["1 domains", "feasible: true", "feasible: true"];
    assert_eq!(domains(&notes), [&of_root[..], &in_x, &in_y].concat());

    // Without a constraint there is one domain of each group.
    let (mut scene, notes) = measured();
    scene.node("one", "2", "a");
    scene.composite(composite("r", 1, ""));
    scene.group(leaf("l", 2, "r"));
    scene.pods("l", 2, "1");
    assert_eq!(scene.placed().len(), 2);
    let expected = ["1 domains", "1 domains", "feasible: true", "feasible: true"];
    assert_eq!(domains(&notes), expected);
}
