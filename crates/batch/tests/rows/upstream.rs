//! Kubernetes' own groups, `scheduling.k8s.io`, as jobs of queues.

use crate::scenario::{conf, evicted, short};
use evictd_batch::conf::Conf;
use evictd_batch::session::{
    Cache, ObjectKind, Objects, Outcome, Setting, UpstreamOutcome, simulate, upstream_job,
};
use evictd_batch_objects::{Compat, Workload};
use evictd_placement::Cluster;
use evictd_pod::wire::{Pod, PodGroup};
use evictd_test_objects as objects;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

const ACTIONS: &str = "enqueue, allocate, backfill, preempt, reclaim";
const QUEUE: &str = "scheduling.volcano.sh/queue-name";

pub(crate) fn parse<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

pub(crate) fn gang(name: &str, min: i32, queue: &str) -> Value {
    let group = objects::pod_group(name, min);
    match queue {
        "" => group.json(),
        queue => group.label(QUEUE, queue).json(),
    }
}

pub(crate) fn member(group: &str, index: usize) -> Value {
    let pod = objects::pod(&format!("{group}-{index}")).set("/spec/schedulerName", "volcano");
    pod.member_of(group).cpu("1").phase("Pending").json()
}

/// The same on a node.
pub(crate) fn running(group: &str, index: usize, node: &str) -> Value {
    let mut pod = member(group, index);
    pod["spec"]["nodeName"] = json!(node);
    pod["status"]["phase"] = json!("Running");
    pod
}

pub(crate) fn members(group: &str, count: usize) -> Vec<Value> {
    (0..count).map(|index| member(group, index)).collect()
}

pub(crate) fn queue(name: &str) -> Value {
    objects::queue(name).open().json()
}

fn node(name: &str, cpu: &str) -> Value {
    objects::node(name).cpu(cpu).memory("100Gi").json()
}

pub(crate) fn configuration() -> String {
    let tiers: &[&[&str]] = &[
        &["priority", "gang"],
        &["drf", "predicates", "proportion", "nodeorder"],
    ];
    conf(ACTIONS, tiers)
}

/// The queues `default` and `other`, a node with so many cores, and this.
pub(crate) fn session(cpu: &str, groups: &[Value], pods: &[Value], more: &Value) -> Outcome {
    let mut file = json!({
        "conf": configuration(), "nodes": [node("a", cpu)], "queues": [queue("default"), queue("other")],
        "upstreamPodGroups": groups, "pods": pods,
    });
    for (key, value) in more.as_object().into_iter().flatten() {
        file[key] = value.clone();
    }
    let objects: Objects = parse(file);
    let (outcome, warnings) = simulate(&objects, &Setting::default(), Compat::EVICTD).unwrap();
    assert!(warnings.is_empty(), "{warnings:?}");
    outcome
}

fn job(group: &str) -> String {
    upstream_job(&parse(json!({ "name": group }))).to_string()
}

pub(crate) fn told<'o>(outcome: &'o Outcome, group: &str) -> Option<&'o UpstreamOutcome> {
    outcome.upstream_pod_groups.get(&job(group))
}

pub(crate) fn unschedulable<'o>(outcome: &'o Outcome, group: &str) -> &'o str {
    match told(outcome, group) {
        Some(UpstreamOutcome::Unschedulable(why)) => why,
        other => panic!("{other:?}"),
    }
}

/// The queue in which a group is.
fn queue_of(outcome: &Outcome, group: &str) -> String {
    let queues = outcome.job_order_at_open.iter();
    let mut queues = queues.filter(|(_, jobs)| jobs.contains(&job(group)));
    queues.next().unwrap().0.clone()
}

#[test]
fn a_gang_is_placed_whole_or_not_at_all_and_its_group_has_the_condition() {
    let with = |cpu: &str| session(cpu, &[gang("t", 3, "")], &members("t", 3), &json!({}));
    let placed = with("3");
    assert_eq!(short(&placed.bound), ["t-0", "t-1", "t-2"]);
    assert_eq!(told(&placed, "t"), Some(&UpstreamOutcome::Scheduled));
    let waits = with("2");
    assert!(waits.bound.is_empty());
    let why = unschedulable(&waits, "t");
    let words = "3/3 tasks in gang unschedulable: pod group is not ready";
    assert!(why.starts_with(words), "{why}");
    // It has no phase, so that no object is told of one in an event.
    assert!(
        waits
            .events
            .iter()
            .all(|own| own.object_kind == ObjectKind::Pod)
    );
}

#[test]
fn pods_of_a_basic_group_are_placed_one_by_one() {
    let mut group = gang("t", 3, "");
    group["spec"]["schedulingPolicy"] = json!({"basic": {}});
    let outcome = session("2", &[group], &members("t", 3), &json!({}));
    assert_eq!(outcome.bound.len(), 2);
}

#[test]
fn a_queue_is_named_by_the_group_else_its_workload_else_its_pods() {
    let with = |group: &str, workload: &str, pod: &str| {
        let mut own = gang("t", 1, group);
        own["spec"]["workloadRef"] = json!({"workloadName": "w", "templateName": "x"});
        let mut pods = members("t", 2);
        pods[1]["metadata"]["annotations"] = json!({ QUEUE: pod });
        let queues = ["default", "g", "w", "p"].map(queue);
        let workload = json!({"metadata": {"name": "w", "annotations": {QUEUE: workload}}});
        let more = json!({"queues": queues, "workloads": [workload]});
        queue_of(&session("1", &[own], &pods, &more), "t")
    };
    assert_eq!(with("g", "w", "p"), "g");
    assert_eq!(with("", "w", "p"), "w");
    assert_eq!(with("", "", "p"), "p");
    assert_eq!(with("", "", ""), "default");
}

#[test]
fn the_priority_is_the_groups_own_else_that_of_its_class_else_that_of_its_pods() {
    let first = |one: Value, other: Value, pod: i32| {
        let groups = [("a", one), ("b", other)].map(|(name, spec)| {
            let mut group = gang(name, 1, "");
            for (key, value) in spec.as_object().unwrap() {
                group["spec"][key] = value.clone();
            }
            group
        });
        let mut pods = vec![member("a", 0), member("b", 0)];
        pods[1]["spec"]["priority"] = json!(pod);
        let classes = json!([{"metadata": {"name": "high"}, "value": 50}]);
        let more = json!({"priorityClasses": classes});
        let outcome = session("1", &groups, &pods, &more);
        outcome.bound[0].trim_start_matches("default/").to_owned()
    };
    let class = json!({"priorityClassName": "high"});
    assert_eq!(first(json!({}), json!({}), 0), "a-0");
    assert_eq!(first(json!({"priority": 60}), class.clone(), 99), "a-0");
    assert_eq!(first(json!({"priority": 40}), class.clone(), 50), "b-0");
    // A class above that of the pods raises nothing.
    assert_eq!(first(json!({"priority": 40}), class.clone(), 0), "a-0");
    assert_eq!(first(json!({"priority": 40}), json!({}), 41), "b-0");
    // What the API server writes into a group that names no class says nothing.
    assert_eq!(first(json!({}), json!({"priority": 0}), 7), "b-0");
}

#[test]
fn queues_share_fairly_what_groups_of_the_two_want() {
    let mut groups = Vec::new();
    let mut pods = Vec::new();
    for index in 0..6 {
        for (name, queue) in [("a", "default"), ("b", "other")] {
            let name = format!("{name}{index}");
            // The queue that comes first wants more than its share.
            groups.push(gang(&name, 2, queue));
            pods.extend(members(&name, 2));
        }
    }
    let outcome = session("8", &groups, &pods, &json!({}));
    let bound = |prefix: &str| {
        let names = short(&outcome.bound).into_iter();
        names.filter(|name| name.starts_with(prefix)).count()
    };
    assert_eq!((bound("a"), bound("b")), (4, 4));
}

#[test]
fn a_queue_below_its_share_reclaims_from_groups_of_another() {
    let groups = vec![gang("old", 1, "default"), gang("new", 1, "other")];
    let mut pods: Vec<Value> = (0..4).map(|index| running("old", index, "a")).collect();
    pods.push(member("new", 0));
    let outcome = session("4", &groups, &pods, &json!({}));
    assert_eq!(evicted(&outcome).len(), 1);
    assert_eq!(outcome.pipelined.len(), 1);
    assert_eq!(told(&outcome, "old"), Some(&UpstreamOutcome::Scheduled));
}

#[test]
fn a_group_with_disruption_mode_all_is_evicted_whole() {
    let mut old = gang("old", 1, "default");
    old["spec"]["disruptionMode"] = json!({"all": {}});
    let groups = vec![old, gang("new", 1, "other")];
    let mut pods: Vec<Value> = (0..4).map(|index| running("old", index, "a")).collect();
    pods.push(member("new", 0));
    let outcome = session("4", &groups, &pods, &json!({}));
    assert_eq!(evicted(&outcome).len(), 4);
    assert_eq!(told(&outcome, "old"), Some(&UpstreamOutcome::Preempted));
}

#[test]
fn pods_with_scheduling_gates_are_left_alone() {
    let gated = |count: usize| {
        let mut pods = members("t", 3);
        for pod in &mut pods[..count] {
            pod["spec"]["schedulingGates"] = json!([{"name": "kueue.x-k8s.io/admission"}]);
        }
        session("9", &[gang("t", 3, "")], &pods, &json!({}))
    };
    let all = gated(3);
    assert!(all.session_jobs.is_empty() && all.events.is_empty());
    assert!(all.upstream_pod_groups.is_empty() && all.pod_conditions.is_empty());
    // Of three that it needs two count.
    let one = gated(1);
    assert!(one.bound.is_empty());
    assert!(!one.pod_conditions.contains_key("default/t-0"));
    assert_eq!(gated(0).bound.len(), 3);
}

#[test]
fn groups_of_other_schedulers_pods_are_no_jobs() {
    let mut pods = members("t", 2);
    for pod in &mut pods {
        pod["spec"]["schedulerName"] = json!("default-scheduler");
    }
    let outcome = session("9", &[gang("t", 2, "")], &pods, &json!({}));
    assert!(outcome.session_jobs.is_empty() && outcome.upstream_pod_groups.is_empty());
}

#[test]
fn a_pod_of_a_volcano_job_stays_with_it_and_groups_of_one_name_are_two_jobs() {
    let mut pods = members("t", 2);
    pods[1]["metadata"]["annotations"] = json!({"scheduling.k8s.io/group-name": "t"});
    let volcano = json!({"metadata": {"name": "t"}, "spec": {"minMember": 1}, "status": {"phase": "Inqueue"}});
    let more = json!({"podGroups": [volcano]});
    let outcome = session("9", &[gang("t", 2, "")], &pods, &more);
    // The other group has one pod of the two that it needs.
    assert_eq!(short(&outcome.bound), ["t-1"]);
    assert_eq!(outcome.session_jobs, ["default/t", &job("t")]);
}

#[test]
fn a_group_that_cannot_be_a_job_has_a_condition_with_the_reason() {
    let outcome = session("9", &[gang("t", 1, "gold")], &members("t", 1), &json!({}));
    assert_eq!(
        unschedulable(&outcome, "t"),
        "queue \"gold\" does not exist"
    );
}

/// A cache that is told of one change after the other.
struct Told {
    cluster: Cluster,
    cache: Cache,
}

impl Told {
    /// Two cores, and the queues `default` and `other`.
    fn new() -> Self {
        let (mut cluster, mut cache) = (Cluster::new(), Cache::new(Setting::default()));
        let node = parse(node("a", "2"));
        cluster.add_node(&node);
        for name in ["default", "other"] {
            cache.queue(&parse(queue(name)));
        }
        Self { cluster, cache }
    }

    fn pod(&mut self, pod: Value) {
        let pod: Pod = parse(pod);
        if !pod.spec.node_name.is_empty() {
            self.cluster.add_pod(pod.clone()).unwrap();
        }
        self.cache.pod(&mut self.cluster, &pod);
    }

    fn group(&mut self, group: Value) -> PodGroup {
        let group: PodGroup = parse(group);
        self.cache.upstream_group(&group);
        group
    }

    fn session(&mut self) -> Outcome {
        let conf = Conf::read(&configuration()).unwrap();
        self.cache.session(&mut self.cluster, &conf, Compat::EVICTD)
    }
}

#[test]
fn group_workload_and_pods_may_come_in_any_order() {
    let mut late = gang("t", 2, "");
    late["spec"]["workloadRef"] = json!({"workloadName": "w"});
    let workload: Workload = parse(
        json!({"metadata": {"name": "w", "namespace": "default", "labels": {QUEUE: "other"}}}),
    );
    let whole = |told: &mut Told| {
        let outcome = told.session();
        assert_eq!(outcome.bound.len(), 2);
        assert_eq!(queue_of(&outcome, "t"), "other");
    };
    let mut told = Told::new();
    for pod in members("t", 2) {
        told.pod(pod);
    }
    assert!(told.session().session_jobs.is_empty());
    told.group(late.clone());
    assert_eq!(queue_of(&told.session(), "t"), "default");
    told.cache.workload(&workload);
    whole(&mut told);

    let mut told = Told::new();
    told.cache.workload(&workload);
    let group = told.group(late);
    assert!(told.session().session_jobs.is_empty());
    told.pod(member("t", 0));
    assert!(told.session().bound.is_empty());
    told.pod(member("t", 1));
    whole(&mut told);

    // Without its group or a pod it waits again.
    told.cache.remove_upstream_group(&group.metadata);
    assert!(told.session().session_jobs.is_empty());
    told.cache.upstream_group(&group);
    told.cache.remove_workload(&workload.metadata);
    assert_eq!(queue_of(&told.session(), "t"), "default");
    let pod: Pod = parse(member("t", 1));
    told.cache.remove_pod(&mut told.cluster, &pod.metadata);
    assert!(told.session().bound.is_empty());
}

#[test]
fn the_phase_is_kept_from_session_to_session_and_follows_from_bound_pods_otherwise() {
    let mut told = Told::new();
    told.group(gang("t", 3, ""));
    for pod in members("t", 3) {
        told.pod(pod);
    }
    let outcome = told.session();
    let own = &outcome.pod_groups[&job("t")];
    assert_eq!((own.phase.as_str(), own.written), ("Pending", true));
    told.cache.assume_status(&job("t"), own.status.clone());
    // Nothing new is said as long as nothing is new, also when the watch repeats the group.
    told.group(gang("t", 3, ""));
    assert!(!told.session().pod_groups[&job("t")].written);

    let mut restarted = Told::new();
    restarted.pod(running("t", 0, "a"));
    restarted.pod(running("t", 1, "a"));
    restarted.group(gang("t", 2, ""));
    let outcome = restarted.session();
    assert_eq!(outcome.phases[&job("t")], "Running");
    assert_eq!(
        outcome.upstream_pod_groups[&job("t")],
        UpstreamOutcome::Scheduled
    );
}
