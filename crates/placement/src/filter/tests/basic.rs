//! Tests of cordons, node names, taints, node affinity and host ports.

use super::{answers, cluster, node, obstacles, pod};
use crate::Checks;
use serde_json::{Value, from_value, json};

const NEVER: &str = "UnschedulableAndUnresolvable";

#[test]
fn s3_016_rejections_that_evicting_pods_cannot_change() {
    let mut cordoned = node("a", json!({}));
    cordoned["spec"] = json!({"unschedulable": true});
    let mut tainted = node("a", json!({}));
    tainted["spec"] = json!({"taints": [
        {"key": "soft", "effect": "PreferNoSchedule"},
        {"key": "gpu", "value": "yes", "effect": "NoSchedule"},
    ]});
    let plain = node("a", json!({}));
    let cases = [
        (&cordoned, json!({}), "node(s) were unschedulable", "-"),
        (
            &plain,
            json!({"nodeName": "b"}),
            "node(s) didn't match the requested node name",
            "-",
        ),
        (
            &tainted,
            json!({}),
            "node(s) had untolerated taint(s)",
            "taint gpu=yes:NoSchedule",
        ),
        (
            &plain,
            json!({"nodeSelector": {"disk": "ssd"}}),
            "node(s) didn't match Pod's node affinity/selector",
            "-",
        ),
    ];
    for (node, spec, message, obstacle) in cases {
        let pod = pod("web", "", spec);
        let objects = [node.clone()];
        assert_eq!(answers(&objects, &pod), [format!("{NEVER}: {message}")]);
        assert_eq!(obstacles(&objects, &pod), [obstacle], "{message}");
    }
    let tolerates = |key: &str, effect: &str| {
        let toleration = json!({"key": key, "operator": "Exists", "effect": effect});
        pod("web", "", json!({"tolerations": [toleration]}))
    };
    let cordon = "node.kubernetes.io/unschedulable";
    assert_eq!(
        answers(&[cordoned], &tolerates(cordon, "NoSchedule")),
        ["fits"]
    );
    assert_eq!(answers(&[tainted], &tolerates("gpu", "")), ["fits"]);
}

/// The first filter that rejects determines the message.
#[test]
fn the_first_filter_that_rejects_gives_the_message() {
    let mut node = node("a", json!({}));
    node["spec"] = json!({"unschedulable": true, "taints": [{"key": "k", "effect": "NoExecute"}]});
    let pod = pod(
        "web",
        "",
        json!({"nodeName": "b", "nodeSelector": {"disk": "ssd"}}),
    );
    let message = format!("{NEVER}: node(s) were unschedulable");
    assert_eq!(answers(&[node], &pod), [message]);
}

#[test]
fn s5_084_every_operator_of_node_affinity() {
    let labels = [
        json!({"disk": "ssd", "cores": "8"}),
        json!({"cores": "many"}),
        json!({}),
    ];
    let objects: Vec<Value> = ["a", "b", "c"]
        .into_iter()
        .zip(labels)
        .map(|(name, labels)| node(name, labels))
        .collect();
    let fits = |term: Value| {
        let required = json!({"nodeSelectorTerms": term});
        let affinity = json!({"requiredDuringSchedulingIgnoredDuringExecution": required});
        let pod = pod("web", "", json!({"affinity": {"nodeAffinity": affinity}}));
        let answers = answers(&objects, &pod);
        ["a", "b", "c"]
            .into_iter()
            .zip(answers)
            .filter(|(_, answer)| answer == "fits")
            .map(|(name, _)| name)
            .collect::<String>()
    };
    let label = |key: &str, operator: &str, values: &[&str]| json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]});
    let field = |operator: &str, name: &str| {
        let field = json!({"key": "metadata.name", "operator": operator, "values": [name]});
        json!({"matchFields": [field]})
    };
    let cases = [
        (json!([label("disk", "In", &["hdd", "ssd"])]), "a"),
        (json!([label("disk", "NotIn", &["ssd"])]), "bc"),
        (json!([label("cores", "Exists", &[])]), "ab"),
        (json!([label("cores", "DoesNotExist", &[])]), "c"),
        (json!([label("cores", "Gt", &["7"])]), "a"),
        (json!([label("cores", "Gt", &["8"])]), ""),
        (json!([label("cores", "Lt", &["9"])]), "a"),
        (json!([field("In", "b")]), "b"),
        (json!([field("NotIn", "b")]), "ac"),
        // One matching term is enough, and a term without requirements never matches.
        (
            json!([label("disk", "Exists", &[]), field("In", "c")]),
            "ac",
        ),
        (json!([{}]), ""),
        (json!([]), ""),
    ];
    for (terms, wanted) in cases {
        assert_eq!(fits(terms.clone()), wanted, "{terms}");
    }
}

#[test]
fn an_unknown_operator_is_reported_with_its_field() {
    let term = json!({"matchExpressions": [{"key": "k", "operator": "Near", "values": ["v"]}]});
    let required = json!({"nodeSelectorTerms": [term]});
    let affinity = json!({"requiredDuringSchedulingIgnoredDuringExecution": required});
    let pod = pod("web", "", json!({"affinity": {"nodeAffinity": affinity}}));
    let error = cluster(&[]).pod(from_value(pod).unwrap()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "spec.affinity.nodeAffinity: \"k\": operator \"Near\" is not known here; \
         say In, NotIn, Exists or DoesNotExist, Gt or Lt"
    );
}

#[test]
fn ports_of_the_host_conflict_by_address_and_protocol() {
    let ports = |ports: Value| json!({"containers": [{"ports": ports}]});
    let taken =
        json!([{"hostPort": 80}, {"hostPort": 81, "hostIP": "10.0.0.1", "protocol": "UDP"}]);
    let mut holder = pod("holder", "a", ports(taken));
    holder["spec"]["priority"] = json!(7);
    let objects = [node("a", json!({})), holder];
    let cases = [
        (json!([{"hostPort": 80}]), false),
        (json!([{"hostPort": 80, "hostIP": "10.0.0.9"}]), false),
        (json!([{"hostPort": 80, "protocol": "SCTP"}]), true),
        (json!([{"hostPort": 81}]), true),
        (json!([{"hostPort": 81, "protocol": "UDP"}]), false),
        (
            json!([{"hostPort": 81, "protocol": "UDP", "hostIP": "10.0.0.1"}]),
            false,
        ),
        (
            json!([{"hostPort": 81, "protocol": "UDP", "hostIP": "10.0.0.2"}]),
            true,
        ),
        (json!([{"containerPort": 80}]), true),
    ];
    for (wanted, fits) in cases {
        let pod = pod("web", "", ports(wanted.clone()));
        let message = "Unschedulable: node(s) didn't have free ports for the requested pod ports";
        assert_eq!(
            answers(&objects, &pod),
            [if fits { "fits" } else { message }],
            "{wanted}"
        );
        let obstacle = "host port taken by default/holder (priority 7)";
        assert_eq!(
            obstacles(&objects, &pod),
            [if fits { "-" } else { obstacle }]
        );
    }
}

/// The pod must fit with and without the nominated pod.
#[test]
fn s3_019_a_nominated_pod_counts_unless_its_priority_is_lower() {
    let asks = |cpu: &str| json!([{"resources": {"requests": {"cpu": cpu}}}]);
    let coming = |priority: i32| {
        let spec = json!({"priority": priority, "containers": asks("3")});
        let mut coming = pod("coming", "", spec);
        coming["status"] = json!({"nominatedNodeName": "a"});
        coming
    };
    let web = pod("web", "", json!({"priority": 5, "containers": asks("2")}));
    let short = "Unschedulable: Insufficient cpu";
    for (priority, message) in [(6, short), (5, short), (4, "fits")] {
        let coming = coming(priority);
        let objects = [node("a", json!({})), coming.clone()];
        assert_eq!(answers(&objects, &web), [message], "{priority}");
        // The pod does not compete with its own nomination.
        assert_eq!(answers(&objects, &coming), ["fits"]);
    }
}

/// While the victims of a preemptor terminate, it does not take the room that another one has made.
#[test]
fn a_nominated_pod_of_lower_priority_counts_while_the_victims_of_a_preemptor_terminate() {
    let asks = |cpu: &str| json!([{"resources": {"requests": {"cpu": cpu}}}]);
    let preemptor = |name: &str, node: &str, priority: i32| {
        let spec = json!({"priority": priority, "containers": asks("3")});
        let mut preemptor = pod(name, "", spec);
        preemptor["status"] = json!({"nominatedNodeName": node});
        preemptor
    };
    let (high, low) = (preemptor("high", "a", 9), preemptor("low", "b", 5));
    let victim = |terminates: bool| {
        let spec = json!({"priority": 0, "containers": asks("2")});
        let mut victim = pod("victim", "a", spec);
        if terminates {
            victim["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
            victim["status"] = json!({"conditions": [
                {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]});
        }
        victim
    };
    let short = "Unschedulable: Insufficient cpu";
    for (terminates, message) in [(true, short), (false, "fits")] {
        let nodes = ["a", "b"].map(|name| node(name, json!({})));
        let [a, b] = nodes;
        let objects = [a, b, victim(terminates), high.clone(), low.clone()];
        assert_eq!(answers(&objects, &high), [short, message], "{terminates}");
        // For the other one nothing changes.
        assert_eq!(answers(&objects, &low), [short, "fits"]);
    }
}

#[test]
fn s3_018_a_trial_filters_a_node_without_some_of_its_pods() {
    let asks = |cpu: &str| json!({"containers": [{"resources": {"requests": {"cpu": cpu}}}]});
    let mut cluster = cluster(&[
        node("a", json!({})),
        pod("one", "a", asks("2")),
        pod("two", "a", asks("2")),
    ]);
    let pod = cluster
        .pod(from_value(pod("web", "", asks("3"))).unwrap())
        .unwrap();
    let mut checks = Checks::new(&cluster, &pod);
    let id = cluster.find_node("a").unwrap();
    let mut trial = checks.on(id);
    assert!(trial.fits().is_err());
    trial.remove(0);
    assert_eq!(trial.obstacle().as_deref(), Some("insufficient cpu by 1"));
    trial.remove(1);
    assert!(trial.fits().is_ok() && trial.still_fits());
    trial.put_back(0);
    assert!(!trial.still_fits());
    drop(trial);
    assert_eq!(
        checks.on(id).obstacle().as_deref(),
        Some("insufficient cpu by 3")
    );
}

#[test]
fn a_pod_fits_only_on_nodes_that_declare_its_features() {
    let declaring = |name: &str, features: Value| {
        let mut node = node(name, json!({}));
        node["status"]["declaredFeatures"] = features;
        node
    };
    let (users, restart) = (
        "UserNamespacesHostNetworkSupport",
        "RestartAllContainersOnContainerExits",
    );
    let nodes = [
        declaring("none", Value::Null),
        declaring("users", json!([users, "Other"])),
        declaring("both", json!([restart, users])),
    ];
    let no = format!("{NEVER}: node(s) didn't match Pod's required features");
    let restarts =
        json!([{ "name": "c", "restartPolicyRules": [{ "action": "RestartAllContainers" }] }]);
    let cases = [
        (json!({ "hostNetwork": true }), ["fits", "fits", "fits"]),
        (json!({ "hostUsers": false }), ["fits", "fits", "fits"]),
        (
            json!({ "hostNetwork": true, "hostUsers": true }),
            ["fits", "fits", "fits"],
        ),
        (
            json!({ "hostNetwork": true, "hostUsers": false }),
            [&no, "fits", "fits"],
        ),
        (
            json!({ "hostNetwork": true, "hostUsers": false, "initContainers": restarts }),
            [&no, &no, "fits"],
        ),
        (json!({ "containers": restarts }), [&no, &no, "fits"]),
        (
            json!({ "containers": [{ "name": "c", "restartPolicyRules": [{ "action": "Restart" }] }] }),
            ["fits", "fits", "fits"],
        ),
    ];
    for (spec, expected) in cases {
        assert_eq!(
            answers(&nodes, &pod("web", "", spec.clone())),
            expected,
            "{spec}"
        );
    }
}
