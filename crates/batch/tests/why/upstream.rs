//! Kubernetes' own pod groups, `scheduling.k8s.io`.

use crate::scenario::Scenario;
use crate::{ALL, ask, why, words};
use evictd_batch::session::Objects;
use evictd_batch::why::{Answer, State};
use evictd_test_objects as objects;
use serde_json::{Value, json};

/// Jobs are not asked for a place before they are let in.
const CONF: &str = "actions: \"allocate\"\ntiers:\n- plugins:\n  - name: priority\n  - name: gang\n- plugins:\n  - name: predicates\n  - name: nodeorder\n";

fn node(name: &str, cpu: &str) -> Value {
    let node = objects::node(name).label("rack", &name[..1]);
    node.cpu(cpu).memory("64Gi").resource("pods", "9").json()
}

fn pod(index: usize, node: Value) -> Value {
    let pod = objects::pod(&format!("train-{index}")).uid(&index.to_string());
    let pod = pod.set("/spec/schedulerName", "volcano").member_of("train");
    pod.cpu("1").runs_on(node.as_str()).json()
}

/// The gang `train` of three pods in the queue `q`, which have to be on nodes with the same rack, and these nodes.
fn objects(nodes: &[Value], pods: &[Value]) -> Value {
    json!({
        "conf": CONF, "nodes": nodes, "pods": pods,
        "queues": [objects::queue("q").open().json()],
        "upstreamPodGroups": [{
            "metadata": {"name": "train", "namespace": "default", "labels": {"scheduling.volcano.sh/queue-name": "q"}},
            "spec": {"schedulingPolicy": {"gang": {"minCount": 3}},
                "schedulingConstraints": {"topology": [{"key": "rack"}]}},
        }],
    })
}

fn waiting() -> Vec<Value> {
    (0..3).map(|index| pod(index, Value::Null)).collect()
}

fn read(objects: Value) -> Objects {
    serde_json::from_value(objects).unwrap()
}

fn of(objects: Value) -> Answer {
    why(&read(objects), &[])
}

#[test]
fn a_gang_that_has_to_be_in_one_domain_is_told_what_the_best_one_lacks() {
    let nodes = [
        node("a1", "1"),
        node("a2", "1"),
        node("b1", "1"),
        node("b2", "1"),
        node("b3", "0"),
    ];
    let answer = of(objects(&nodes, &waiting()));
    assert_eq!(answer.state, State::Waits);
    assert_eq!(
        answer.headline,
        "train waits: 1 of its 3 pods fits on no node with rack=a (too little cpu on all 2 nodes)"
    );
    let more = "All its pods have to be in one domain: most room for them is on nodes with rack=a.";
    assert!(
        answer.more.iter().any(|own| own == more),
        "{:?}",
        answer.more
    );
    assert!(
        words(&answer).contains(&"node a1 has 1 more cpu"),
        "{:?}",
        answer.soonest
    );
    // The built-in configuration asks for a place before it lets a job in.
    let mut asked = objects(&nodes, &waiting());
    asked["conf"] = json!("");
    let answer = of(asked);
    assert_eq!(
        answer.headline,
        "train is not let in: there is no room now for 3 pods that ask for cpu 1 each. All its pods have to be on nodes with \
         the same rack: at best there is room for 2 of 3, on those with rack=a"
    );
    // With a third node like one of them it starts.
    let answer = of(objects(
        &[node("a1", "1"), node("b1", "2"), node("b2", "1")],
        &waiting(),
    ));
    assert_eq!(answer.state, State::Starts);
}

#[test]
fn pods_of_it_that_run_tie_the_others_to_their_domain() {
    let mut pods = waiting();
    pods[0] = pod(0, json!("b1"));
    let answer = of(objects(&[node("a1", "9"), node("b1", "2")], &pods));
    let headline = "train runs with 1 of the 3 pods that it needs; the others wait: 1 of its 2 pods fits on no node with rack=b \
                    (too little cpu on the only node)";
    assert_eq!(answer.headline, headline);
}

#[test]
fn the_answer_says_that_no_node_has_the_label() {
    let mut nodes = [node("a1", "9")];
    nodes[0]["metadata"]["labels"] = json!({});
    let answer = of(objects(&nodes, &waiting()));
    assert_eq!(
        answer.headline,
        "train waits: none of its 3 pods fits on a node (no node has the label rack)"
    );
}

#[test]
fn a_group_is_found_by_its_name_and_by_a_pod_of_it_and_its_queue_is_known() {
    let nodes = [node("a1", "2")];
    let asked = read(objects(&nodes, &waiting()));
    let by_name = ask(&asked, &[], "train").unwrap();
    let by_pod = ask(&asked, &[], "train-1").unwrap();
    assert_eq!(by_name.diagnosis.unwrap().min_member, 3);
    assert_eq!(by_pod.diagnosis.unwrap().queue.name, "q");

    let mut lost = objects(&nodes, &waiting());
    lost["queues"] = json!([]);
    assert_eq!(of(lost).headline, "train waits: its queue q does not exist");
    let alone = objects(&nodes, &[]);
    assert_eq!(
        of(alone).headline,
        "train waits: no pod with schedulerName volcano is of it"
    );
}

#[test]
fn b11_a_group_of_coscheduling_is_told_apart_from_those_that_sessions_read() {
    for label in [
        "scheduling.x-k8s.io/pod-group",
        "pod-group.scheduling.sigs.k8s.io",
    ] {
        let mark = |group: &str| {
            json!({"metadata": {"labels": {label: "g"},
                "annotations": {"scheduling.k8s.io/group-name": group}}})
        };
        let remark = |scenario: Scenario| {
            let more = why(&scenario.objects(), &[]).more.into_iter();
            more.filter(|more| more.contains(&format!("{label}=g")))
                .count()
        };
        let bare = Scenario::new(ALL).node("a", "1");
        assert_eq!(remark(bare.pod("train", "", "4", &mark(""))), 1);
        let member = Scenario::new(ALL).node("a", "1").job("train", 1, "Inqueue");
        assert_eq!(
            remark(member.pod("train-0", "train", "4", &mark("train"))),
            0
        );
        // Of another scheduler, by the name of the group.
        let mut other = mark("");
        other["spec"] = json!({"schedulerName": "scheduler-plugins-scheduler"});
        let other = Scenario::new(ALL)
            .node("a", "1")
            .pod("g-0", "", "4", &other);
        let answer = ask(&other.objects(), &[], "g").unwrap();
        assert!(
            answer.headline.contains("scheduler-plugins-scheduler"),
            "{}",
            answer.headline
        );
        assert!(
            answer.more.join(" ").contains("leave them alone"),
            "{:?}",
            answer.more
        );
    }
}
