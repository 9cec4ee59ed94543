//! `plan` for a pod of a group: the group preempts as a whole, as in `simulate` and in `run`.

use crate::live_groups::{condition, group, member};
use crate::live_scheduling::Live;
use crate::scheduler;
use evictd_testkit::ApiServer;
use evictd_testkit::program::{self, answer};
use evictd_testkit::testing::wait_until;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use tempfile::NamedTempFile;

fn file(value: &Value) -> NamedTempFile {
    let file = NamedTempFile::new().unwrap();
    fs::write(file.path(), value.to_string()).unwrap();
    file
}

fn list(objects: &[Value]) -> Value {
    json!({ "apiVersion": "v1", "kind": "List", "items": objects })
}

fn node(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": name },
        "status": { "allocatable": { "cpu": "2", "memory": "16Gi", "pods": "20" } } })
}

/// The pod of a group that is to be placed, with a claim of its own if `claim` is given.
fn waiting(name: &str, cpu: &str, claim: Option<&str>) -> Value {
    let mut pod = member(name, "train", cpu, 100);
    pod["apiVersion"] = json!("v1");
    pod["kind"] = json!("Pod");
    pod["metadata"]["uid"] = json!(format!("uid-of-{name}"));
    if let Some(claim) = claim {
        pod["spec"]["resourceClaims"] = json!([{ "name": "c", "resourceClaimName": claim }]);
    }
    pod
}

/// A pod without a group on a node.
fn running(name: &str, node: &str, (cpu, priority): (&str, i32), claim: Option<&str>) -> Value {
    let mut pod = waiting(name, cpu, claim);
    let spec = pod["spec"].as_object_mut().unwrap();
    spec.remove("schedulingGroup");
    spec.insert("nodeName".to_owned(), json!(node));
    spec.insert("priority".to_owned(), json!(priority));
    pod["status"] = json!({ "phase": "Running" });
    pod
}

/// A claim of one device, which the pod of the same name has if a node is given.
fn claim(name: &str, node: Option<&str>) -> Value {
    let mut claim = json!({ "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
        "metadata": { "name": name, "namespace": "default", "uid": format!("claim-{name}") },
        "spec": { "devices": { "requests": [{ "name": "r", "exactly": { "deviceClassName": "gpu" } }] } } });
    if let Some(node) = node {
        claim["status"] = json!({
            "reservedFor": [{ "resource": "pods", "name": name, "uid": format!("uid-of-{name}") }],
            "allocation": { "devices": { "results": [
                { "request": "r", "driver": "gpu.example.com", "pool": node, "device": "card" }] } },
        });
    }
    claim
}

fn devices(nodes: &[&str]) -> Vec<Value> {
    let slice = |node: &&str| {
        json!({ "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice",
            "metadata": { "name": node, "uid": format!("slice-{node}") },
            "spec": { "driver": "gpu.example.com", "nodeName": node, "devices": [{ "name": "card" }],
                "pool": { "name": node, "generation": 1, "resourceSliceCount": 1 } } })
    };
    let class = json!({ "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass",
        "metadata": { "name": "gpu", "uid": "class-gpu" }, "spec": {} });
    nodes.iter().map(slice).chain([class]).collect()
}

/// The answer of `plan` for the first pod.
fn plan(cluster: &[Value], pods: &[Value], flags: &[&str]) -> Value {
    let cluster = file(&list(&[cluster, pods].concat()));
    let mut program = scheduler();
    program.args(["plan", "-o", "json", "--pod", "default/train-0"]);
    program.args(flags).arg("--cluster").arg(cluster.path());
    answer(&program::run(&mut program, ""))
}

fn names(list: &Value) -> BTreeSet<String> {
    let list = list.as_array().into_iter().flatten();
    list.map(|name| name.as_str().unwrap().to_owned()).collect()
}

/// The victims of the first attempts of all pods in `simulate`.
fn simulated(cluster: &[Value], pods: &[Value], frees_devices: bool) -> BTreeSet<String> {
    let (cluster, pods) = (file(&list(cluster)), file(&list(pods)));
    let config = file(&json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
        "profiles": [{ "pluginConfig": [{ "name": "DefaultPreemption",
            "args": { "freesDevices": frees_devices } }] }],
    }));
    let mut program = scheduler();
    program.args(["simulate", "-o", "json", "--cluster"]);
    program.arg(cluster.path()).arg("--pods").arg(pods.path());
    program.arg("--config").arg(config.path());
    let answer = answer(&program::run(&mut program, ""));
    let attempts = answer["attempts"].as_array().into_iter().flatten();
    attempts
        .flat_map(|attempt| names(&attempt["victims"]))
        .collect()
}

/// The nodes that `plan` nominates, by pod.
fn nominations(plan: &Value) -> BTreeMap<String, String> {
    let actions = plan["actions"].as_array().into_iter().flatten();
    let actions = actions.filter(|action| action["do"] == "nominate");
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    actions
        .map(|action| (text(&action["pod"]), text(&action["node"])))
        .collect()
}

/// The victims and the nominated nodes of `run` in a cluster with these objects, once there are so many of each.
fn ran(
    objects: &[Value],
    frees_devices: bool,
    counts: (usize, usize),
) -> (BTreeSet<String>, BTreeMap<String, String>) {
    let api = ApiServer::start().unwrap();
    let admin = api.actor("author");
    let mut uids: BTreeMap<String, String> = BTreeMap::new();
    for object in objects {
        // The API server gives pods their UIDs, which claims name.
        let mut text = object.to_string();
        for (written, given) in &uids {
            text = text.replace(written, given);
        }
        let made = admin.create(serde_json::from_str(&text).unwrap()).unwrap();
        if let Some(written) = object["metadata"]["uid"].as_str() {
            let given = made["metadata"]["uid"].as_str().unwrap();
            uids.insert(written.to_owned(), given.to_owned());
        }
    }
    let config = file(&json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
        "leaderElection": { "leaderElect": false },
        "profiles": [{ "pluginConfig": [{ "name": "DefaultPreemption",
            "args": { "freesDevices": frees_devices } }] }],
    }));
    let config = config.path().display().to_string();
    let live = Live::with(api, &[], &["--config", &config]);
    let name = |pod: &Value| format!("default/{}", pod["metadata"]["name"].as_str().unwrap());
    condition(
        &live,
        "default/train",
        "PodGroupInitiallyScheduled",
        "False",
    );
    let mut victims = BTreeSet::new();
    let mut nominated = BTreeMap::new();
    wait_until("the preemption is complete", || {
        let pods = live.admin.list("pods");
        let leaves = |pod: &&Value| !pod["metadata"]["deletionTimestamp"].is_null();
        victims = pods.iter().filter(leaves).map(name).collect();
        let with_node = pods.iter().filter_map(|pod| {
            let node = pod["status"]["nominatedNodeName"].as_str()?;
            Some((name(pod), node.to_owned()))
        });
        nominated = with_node.collect();
        (victims.len(), nominated.len()) == counts
    });
    (victims, nominated)
}

/// `plan`, `simulate` and `run` choose the same victims, and `plan` and `run` the same nodes.
fn expect_agreement(cluster: &[Value], pods: &[Value], plan: &Value, frees_devices: bool) {
    let victims = names(&plan["chosen"]["victims"]);
    assert_eq!(victims, simulated(cluster, pods, frees_devices), "{plan}");
    let nodes = nominations(plan);
    let counts = (victims.len(), nodes.len());
    let found = ran(&[cluster, pods].concat(), frees_devices, counts);
    assert_eq!(found, (victims, nodes), "{plan}");
}

#[test]
fn s4_039_plan_shows_the_victims_of_the_whole_group() {
    let cluster = [
        node("one"),
        node("two"),
        running("low-1", "one", ("2", 1), None),
        running("low-2", "two", ("2", 1), None),
        running("spared", "two", ("0", 1), None),
        group("train", 2, 100),
    ];
    let pods = [waiting("train-0", "2", None), waiting("train-1", "2", None)];
    let found = plan(&cluster, &pods, &[]);
    assert_eq!(found["eligible"], true, "{found}");
    let victims = names(&found["chosen"]["victims"]);
    assert_eq!(
        victims,
        BTreeSet::from(["default/low-1", "default/low-2"].map(str::to_owned))
    );
    expect_agreement(&cluster, &pods, &found, false);
    let actions = found["actions"].as_array().unwrap();
    let of = |kind: &str| actions.iter().filter(|action| action["do"] == kind).count();
    assert_eq!((of("delete"), of("nominate")), (2, 2), "{found}");
    // A group that fits with one of them on each node preempts nothing.
    let free = [node("one"), node("two"), group("train", 2, 100)];
    let found = plan(&free, &pods, &[]);
    assert_eq!(found["fitsWithoutPreemption"], true, "{found}");
    assert_eq!(found["chosen"], Value::Null);
}

#[test]
fn a_group_frees_devices_in_plan_as_in_simulate() {
    for (priority, expected) in [(1, 2), (500, 0)] {
        let cluster: Vec<Value> = [node("one"), node("two"), group("train", 2, 100)]
            .into_iter()
            .chain(devices(&["one", "two"]))
            .chain(["one", "two"].into_iter().flat_map(|node| {
                let holder = running(node, node, ("0", priority), Some(node));
                [holder, claim(node, Some(node))]
            }))
            .chain([claim("new-0", None), claim("new-1", None)])
            .collect();
        let pods = ["train-0", "train-1"].map(|name| {
            let claim = name.replace("train", "new");
            waiting(name, "1", Some(&claim))
        });
        let found = plan(&cluster, &pods, &["--free-devices"]);
        let victims = names(&found["chosen"]["victims"]);
        assert_eq!(victims.len(), expected, "{found}");
        expect_agreement(&cluster, &pods, &found, true);
        // Without the flag nothing helps, as at kube-scheduler.
        let found = plan(&cluster, &pods, &[]);
        assert_eq!(found["eligible"], false, "{found}");
        assert!(!found["ineligibleReason"].as_str().unwrap().is_empty());
        expect_agreement(&cluster, &pods, &found, false);
    }
}

/// Each of the nodes would do.
#[test]
fn plan_and_run_choose_the_same_nodes_among_several() {
    let mut cluster = vec![group("train", 2, 100)];
    for (index, name) in ["one", "two", "three", "four"].into_iter().enumerate() {
        let priority = [30, 10, 20, 10][index];
        cluster.push(node(name));
        cluster.push(running(
            &format!("low-{name}"),
            name,
            ("1500m", priority),
            None,
        ));
    }
    let pods = ["train-0", "train-1"].map(|name| waiting(name, "1500m", None));
    let found = plan(&cluster, &pods, &[]);
    assert_eq!(names(&found["chosen"]["victims"]).len(), 2, "{found}");
    expect_agreement(&cluster, &pods, &found, false);
}

fn budget(name: &str, app: &str, allowed: i32) -> Value {
    json!({ "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": { "name": name, "namespace": "default" },
        "spec": { "selector": { "matchLabels": { "app": app } } },
        "status": { "disruptionsAllowed": allowed } })
}

#[test]
fn never_violate_pdb_holds_for_the_victims_of_a_group() {
    let of = |name: &str, node: &str, priority: i32| {
        let mut pod = running(name, node, ("2", priority), None);
        pod["metadata"]["labels"] = json!({ "app": "guarded" });
        pod
    };
    let pods = [waiting("train-0", "2", None), waiting("train-1", "2", None)];
    let cluster = |allowed: i32| {
        vec![
            node("one"),
            node("two"),
            node("three"),
            group("train", 2, 100),
            of("guarded-1", "one", 1),
            of("guarded-2", "two", 2),
            running("free", "three", ("2", 3), None),
            budget("guards", "guarded", allowed),
        ]
    };
    let never = ["--budget", "never-violate-pdb"];
    let victims = |allowed: i32, flags: &[&str]| {
        let found = plan(&cluster(allowed), &pods, flags);
        names(&found["chosen"]["victims"])
            .into_iter()
            .collect::<Vec<_>>()
    };
    // Only a preference: one of the guarded pods leaves although no disruption is allowed.
    assert_eq!(victims(0, &[]), ["default/free", "default/guarded-1"]);
    assert_eq!(victims(1, &never), ["default/free", "default/guarded-1"]);
    // The least important pod frees nothing, so the budget is left to the other one.
    let scene = [
        node("one"),
        node("two"),
        group("train", 1, 100),
        running("important", "one", ("2", 500), None),
        {
            let mut small = of("small", "one", 1);
            small["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("0");
            small
        },
        of("big", "two", 2),
        budget("guards", "guarded", 1),
    ];
    let found = plan(&scene, &pods[..1], &never);
    assert_eq!(
        names(&found["chosen"]["victims"]),
        BTreeSet::from(["default/big".to_owned()])
    );
    let refused = plan(&cluster(0), &pods, &never);
    assert_eq!(refused["eligible"], false, "{refused}");
    assert_eq!(
        refused["ineligibleReason"],
        "pod group preemption: a PodDisruptionBudget would have to be broken"
    );
    // A group that is evicted as a whole stays if the budget keeps one of its pods.
    let mut atomic = cluster(1);
    let mut guarded = group("guarded", 2, 1);
    guarded["spec"]["disruptionMode"] = json!({ "all": {} });
    atomic.push(guarded);
    for pod in &mut atomic {
        if pod["metadata"]["labels"]["app"] == "guarded" {
            pod["spec"]["schedulingGroup"] = json!({ "podGroupName": "guarded" });
        }
    }
    let refused = plan(&atomic, &pods, &never);
    assert_eq!(refused["chosen"], Value::Null, "{refused}");
}
