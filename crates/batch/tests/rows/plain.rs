//! Pods of no group: for Volcano nobody places them, with us each is a job of its own.

use crate::scenario::{Scenario, bound, conf, evicted};
use evictd_batch::conf::Conf;
use evictd_batch::session::{Cache, ObjectKind, Setting, simulate};
use evictd_batch_objects::{Compat, Difference};
use evictd_placement::Cluster;
use evictd_pod::wire::{Pod, Workload};
use serde_json::{Value, json};

fn plain_pods() -> Compat {
    Compat::VOLCANO.with(Difference::BarePods)
}

fn scenario() -> Scenario {
    Scenario::new(&conf(
        "enqueue, allocate, preempt, reclaim",
        &[
            &["priority", "gang", "conformance"],
            &["overcommit", "predicates", "proportion", "nodeorder"],
        ],
    ))
    .queue("default", &json!({}))
    .node("a", "4")
}

/// A change that leaves a pod of the scenario in no group.
fn alone(with: &Value) -> Value {
    let mut own = json!({"metadata": {"annotations": {"scheduling.k8s.io/group-name": ""}}});
    own.as_object_mut()
        .unwrap()
        .extend(with.as_object().unwrap().clone());
    own
}

#[test]
fn s6_059_s6_089_a_pod_of_no_group_waits_for_one_with_volcano_and_is_placed_with_us() {
    let scenario = scenario().pod("web", "", "2", &alone(&json!({})));
    assert!(scenario.run().binds.is_empty());
    let outcome = scenario.run_as(plain_pods());
    assert_eq!(bound(&outcome, "web"), Some("a"));
    assert_eq!(outcome.phases["default/web@pod"], "Inqueue");
    assert_eq!(outcome.queue_allocated["default"]["cpu"], "2");
    assert!(
        outcome
            .events
            .iter()
            .all(|event| event.object_kind == ObjectKind::Pod)
    );
}

#[test]
fn a_bare_pod_counts_in_its_queue_and_has_a_condition_while_it_waits() {
    let queue = json!({"metadata": {"annotations": {
        "scheduling.k8s.io/group-name": "", "scheduling.volcano.sh/queue-name": "small"}}});
    let scenario = scenario()
        .queue("small", &json!({"capability": {"cpu": "1"}}))
        .pod("large", "", "2", &queue)
        .pod("web", "", "1", &queue);
    let outcome = scenario.run_as(plain_pods());
    assert_eq!(bound(&outcome, "large"), None);
    assert_eq!(bound(&outcome, "web"), Some("a"));
    let told = &outcome.pod_conditions["default/large"];
    assert_eq!(
        (told.reason.as_str(), told.status.as_str()),
        ("Unschedulable", "False")
    );
}

#[test]
fn a_bare_pod_is_evicted_for_a_higher_priority_and_not_for_an_equal_one() {
    let web = alone(
        &json!({"spec": {"nodeName": "a", "schedulerName": "volcano"}, "status": {"phase": "Running"}}),
    );
    let with = |class: &str| {
        scenario()
            .class("high", 10)
            .pod("web", "", "4", &web)
            .job_with(
                "new",
                1,
                "Inqueue",
                &json!({"queue": "default", "priorityClassName": class}),
            )
            .waiting("new", 1, "2")
            .run_as(Compat::EVICTD)
    };
    assert_eq!(evicted(&with("high")), ["web"]);
    assert!(evicted(&with("")).is_empty());
}

#[test]
fn the_status_of_a_bare_pod_is_kept_while_it_changes_and_forgotten_when_it_is_deleted() {
    let objects = scenario().pod("web", "", "8", &alone(&json!({}))).objects();
    let mut cluster = Cluster::new();
    for node in &objects.nodes {
        assert!(cluster.add_node(node));
    }
    let setting = Setting {
        plain_pods: true,
        ..Setting::default()
    };
    let mut cache = Cache::of(&mut cluster, &objects, setting);
    let conf = Conf::read(&objects.conf).unwrap();
    let job = "default/web@pod";
    let session =
        |cache: &mut Cache, cluster: &mut Cluster| cache.session(cluster, &conf, Compat::VOLCANO);
    let outcome = session(&mut cache, &mut cluster);
    let own = &outcome.pod_groups[job];
    assert!(own.written);
    cache.assume_status(job, own.status.clone());
    let mut pod: Pod = objects.pods[0].clone();
    cache.pod(&mut cluster, &pod);
    assert!(!session(&mut cache, &mut cluster).pod_groups[job].written);
    // Another pod of the same name begins anew.
    cache.remove_pod(&mut cluster, &pod.metadata);
    pod.metadata.uid = "other".into();
    cache.pod(&mut cluster, &pod);
    assert!(session(&mut cache, &mut cluster).pod_groups[job].written);
    cache.remove_pod(&mut cluster, &pod.metadata);
    assert!(session(&mut cache, &mut cluster).pod_groups.is_empty());
}

#[test]
fn s6_061_bare_pods_of_one_owner_start_together_where_they_ask_for_it() {
    let owned = |count: &str| {
        let marks = json!({"scheduling.k8s.io/group-name": "", "scheduling.volcano.sh/group-min-member": count});
        let owner = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": true});
        json!({"metadata": {"annotations": marks, "ownerReferences": [owner]}})
    };
    let pods = |count: &str, cpu: &str| {
        let names = ["web-a", "web-b", "web-c"].into_iter();
        names.fold(scenario(), |scenario, name| {
            scenario.pod(name, "", cpu, &owned(count))
        })
    };
    // Two of three fit.
    for (count, bound) in [("3", 0), ("2", 2), ("1", 2), ("none", 2), ("-3", 2)] {
        let outcome = pods(count, "2").run_as(Compat::EVICTD);
        assert_eq!(outcome.bound.len(), bound, "{count}");
    }
    let outcome = pods("3", "1").run_as(Compat::EVICTD);
    assert_eq!(outcome.bound.len(), 3);
    assert_eq!(outcome.phases["default/web@replicaset"], "Inqueue");
    // In Volcano's form the controllers make a group of them first.
    assert!(pods("3", "1").run().bound.is_empty());
}

#[test]
fn a_gang_of_an_owner_ends_with_its_last_pod() {
    let owner = json!({"kind": "Job", "name": "sum", "uid": "u", "controller": true});
    let marks =
        json!({"scheduling.k8s.io/group-name": "", "scheduling.volcano.sh/group-min-member": "2"});
    let with = json!({"metadata": {"annotations": marks, "ownerReferences": [owner]}});
    let scenario = scenario()
        .pod("sum-a", "", "3", &with)
        .pod("sum-b", "", "3", &with);
    let objects = scenario.objects();
    let mut cluster = Cluster::new();
    for node in &objects.nodes {
        assert!(cluster.add_node(node));
    }
    let setting = Setting {
        plain_pods: true,
        ..Setting::default()
    };
    let mut cache = Cache::of(&mut cluster, &objects, setting);
    let conf = Conf::read(&objects.conf).unwrap();
    let phases = |cache: &mut Cache, cluster: &mut Cluster| {
        let outcome = cache.session(cluster, &conf, Compat::EVICTD);
        outcome.phases.into_keys().collect::<Vec<_>>()
    };
    assert_eq!(phases(&mut cache, &mut cluster), ["default/sum@job"]);
    cache.remove_pod(&mut cluster, &objects.pods[0].metadata);
    assert_eq!(phases(&mut cache, &mut cluster), ["default/sum@job"]);
    cache.remove_pod(&mut cluster, &objects.pods[1].metadata);
    assert!(phases(&mut cache, &mut cluster).is_empty());
}

#[test]
fn s6_061_the_owner_of_bare_pods_says_how_many_start_together() {
    let owner = |count: &str| {
        let marks = json!({"scheduling.volcano.sh/group-min-member": count});
        let owner = json!({"metadata": {"name": "web", "namespace": "default", "uid": "u", "annotations": marks}});
        serde_json::from_value::<Workload>(owner).unwrap()
    };
    let pods = |marks: &Value| {
        let reference = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": true});
        let mut with = json!({"metadata": {"annotations": marks, "ownerReferences": [reference]}});
        with["metadata"]["annotations"]["scheduling.k8s.io/group-name"] = json!("");
        let names = ["web-a", "web-b", "web-c"].into_iter();
        names.fold(scenario(), |scenario, name| {
            scenario.pod(name, "", "2", &with)
        })
    };
    let bound_by = |compat: Compat, count: &str, marks: &Value| {
        let mut objects = pods(marks).objects();
        objects.owners = vec![owner(count)];
        let (outcome, _) = simulate(&objects, &Setting::default(), compat).unwrap();
        outcome.bound.len()
    };
    // Two of three fit.
    let none = json!({});
    for (count, bound) in [("3", 0), ("2", 2), ("1", 2), ("many", 2)] {
        assert_eq!(bound_by(Compat::EVICTD, count, &none), bound, "{count}");
    }
    // The pod template says it for these pods alone.
    let two = json!({"scheduling.volcano.sh/group-min-member": "2"});
    assert_eq!(bound_by(Compat::EVICTD, "3", &two), 2);
    // The number of the owner counts from now on, also for pods that were there before.
    let objects = pods(&none).objects();
    let mut cluster = Cluster::new();
    for node in &objects.nodes {
        assert!(cluster.add_node(node));
    }
    let setting = Setting {
        plain_pods: true,
        ..Setting::default()
    };
    let mut cache = Cache::of(&mut cluster, &objects, setting);
    let conf = Conf::read(&objects.conf).unwrap();
    let mut bound = |change: &dyn Fn(&mut Cache) -> bool| {
        if change(&mut cache) {
            for pod in &objects.pods {
                cache.pod(&mut cluster, pod);
            }
        }
        let outcome = cache.session(&mut cluster, &conf, Compat::EVICTD);
        outcome.bound.len()
    };
    assert_eq!(bound(&|_| false), 2);
    assert_eq!(bound(&|cache| cache.owner(&owner("3").metadata)), 0);
    // Without a change nothing is added again.
    assert_eq!(bound(&|cache| cache.owner(&owner("3").metadata)), 0);
    assert_eq!(bound(&|cache| cache.remove_owner(&owner("3").metadata)), 2);
}
