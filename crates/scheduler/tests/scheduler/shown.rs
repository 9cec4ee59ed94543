//! The pages of `evictd-scheduler plan`.

use crate::cluster::{cluster, list, node, pending, pod};
use crate::{plan, run, scheduler};
use evictd_testkit::program::{self, answer, page, stderr, stdout};
use serde_json::{Value, json};
use std::io::Write;

#[test]
fn the_page_shows_the_victims_and_the_reasons() {
    let mut tainted = node("tainted");
    tainted["spec"] = json!({ "taints": [{ "key": "gpu", "effect": "NoSchedule" }] });
    let more = vec![
        node("two"),
        pod("vip", "two", 50),
        pod("vop", "two", 50),
        tainted,
    ];
    let items = [cluster(), more].concat();
    let page = stdout(&plan(
        list(&items),
        &pending(10),
        &["--explain-node", "one"],
    ));
    for line in [
        "shop/pending (priority 10, asks for cpu 2, memory 1Gi) fits on no node as it is.",
        "kube-scheduler v1.36 would preempt 1 pod on one for it, against no PodDisruptionBudget:",
        "  shop/cheap         1  -      -        2026-01-01T00:00:00Z  -",
        "Why one, of 1 candidates:\n  the only candidate",
        "no pod of lower priority is there (No preemption victims found for incoming pod)  two",
        "preemption cannot help: node(s) had untolerated taint(s)",
        "shop/dear is put back and can stay",
        "shop/cheap is put back and must be removed: insufficient cpu by 2",
        "so: a candidate, chosen; 0 of the victims break a PodDisruptionBudget",
    ] {
        assert!(page.contains(line), "{line:?} is not in\n{page}");
    }
}

#[test]
fn the_page_of_many_nodes_is_short() {
    let mut items = Vec::new();
    for index in 0..300 {
        let name = format!("n{index}");
        items.push(node(&name));
        items.extend(["a", "b"].map(|pod| self::pod(&format!("{pod}{index}"), &name, 1)));
    }
    let page = stdout(&plan(list(&items), &pending(10), &[]));
    assert!(page.lines().count() < 20, "{page}");
    assert!(
        page.contains("299  is a candidate, too  n1, n2, n3, ..."),
        "{page}"
    );
}

#[test]
fn the_page_of_a_plan_without_victims() {
    let page = stdout(&plan(
        list(&[cluster(), vec![node("free")]].concat()),
        &pending(10),
        &[],
    ));
    assert!(page.contains("fits without preemption."), "{page}");
    // Only where a preemption was tried, a node may be one that it left out.
    let reason = "no preemption was tried: Insufficient cpu";
    assert!(page.contains(reason), "{page}");
    let mut never = pending(10);
    never["spec"]["preemptionPolicy"] = json!("Never");
    let page = stdout(&plan(list(&cluster()), &never, &[]));
    assert!(page.contains(reason), "{page}");
    let page = stdout(&plan(list(&cluster()), &pending(0), &[]));
    assert!(page.contains("preemption does not help"), "{page}");
    assert!(
        page.contains("0/1 nodes are available: 1 No preemption victims found for incoming pod."),
        "{page}"
    );
}

#[test]
fn json_and_yaml_have_the_same_keys_in_the_documented_order() {
    let output = plan(list(&cluster()), &pending(10), &["-o", "json"]);
    let (json, text) = (answer(&output), stdout(&output));
    let yaml = stdout(&plan(list(&cluster()), &pending(10), &["-o", "yaml"]));
    let mut yaml: Value = serde_saphyr::from_str(&yaml).unwrap();
    yaml["elapsedSeconds"] = json["elapsedSeconds"].clone();
    assert_eq!(yaml, json);
    let keys = [
        "fitsWithoutPreemption",
        "eligible",
        "ineligibleReason",
        "filterStatus",
        "candidates",
        "chosen",
        "clearNominations",
        "actions",
        "why",
        "elapsedSeconds",
    ];
    let places = keys.map(|key| text.find(&format!("\n  \"{key}\":")).unwrap());
    assert!(places.is_sorted(), "{text}");
    assert_eq!(
        json["filterStatus"]["one"],
        json!({ "code": "Unschedulable", "reasons": ["Insufficient cpu"] })
    );
    assert_eq!(
        json["candidates"],
        json!([{ "node": "one", "victims": ["shop/cheap"], "numPDBViolations": 0 }])
    );
    let doings: Vec<&str> = json["actions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|action| action["do"].as_str().unwrap())
        .collect();
    assert_eq!(doings, ["nominate", "patchCondition", "delete", "event"]);
}

#[test]
fn never_violate_pdb_leaves_no_candidate_with_violations() {
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": { "name": "all", "namespace": "shop" },
        "spec": { "selector": { "matchExpressions": [{ "key": "app", "operator": "Exists" }] } },
        "status": { "disruptionsAllowed": 0 },
    });
    let items = list(&[cluster(), vec![budget]].concat());
    let answer_with = |more: &[&str]| {
        answer(&plan(
            &items,
            &pending(10),
            &[&["-o", "json"], more].concat(),
        ))
    };
    assert_eq!(answer_with(&[])["chosen"]["numPDBViolations"], 1);
    let spared = answer_with(&["--budget", "never-violate-pdb"]);
    assert_eq!(spared["chosen"], Value::Null);
    assert_eq!(
        spared["notCandidates"]["one"]["why"],
        "a PodDisruptionBudget would have to be broken"
    );
}

#[test]
fn the_help_has_an_example_and_wrong_flags_are_reported() {
    let output = run("", &["--help"]);
    assert!(
        stdout(&output).contains("evictd-scheduler plan --cluster cluster.json --pod pending.yaml")
    );
    let wrong = |arguments: &[&str]| {
        let output = plan(list(&cluster()), &pending(10), arguments);
        assert_eq!(output.status.code(), Some(2));
        stderr(&output)
    };
    assert!(wrong(&["--form", "v1.20"]).contains("known are v1.18, v1.19, v1.36"));
    assert!(wrong(&["--seed", "1"]).contains("--sample"));
    assert!(
        wrong(&["--explain-node", "zero"]).contains("--explain-node zero: is not in the input")
    );
}

#[test]
fn victims_are_shown_with_the_nodes_that_fit_their_replacements() {
    let mut items = cluster();
    items[1]["metadata"]["ownerReferences"] =
        json!([{ "kind": "ReplicaSet", "name": "cheap-5d4f", "controller": true }]);
    let owned = |items: &[Value]| {
        let output = plan(list(items), &pending(10), &["-o", "json"]);
        answer(&output)["victims"][0].clone()
    };
    let victim = owned(&items);
    assert_eq!(victim["owner"], "ReplicaSet/cheap-5d4f");
    assert_eq!(victim["fitsElsewhere"], 0);
    let mut tainted = node("tainted");
    tainted["spec"] = json!({ "taints": [{ "key": "gpu", "effect": "NoSchedule" }] });
    items[1]["spec"]["tolerations"] = json!([{ "operator": "Exists" }]);
    items.push(tainted);
    assert_eq!(owned(&items)["fitsElsewhere"], 1);
}

#[test]
fn checks_without_their_objects_in_the_input_are_reported() {
    let mut pending = pending(10);
    pending["spec"]["volumes"] =
        json!([{ "name": "data", "persistentVolumeClaim": { "claimName": "data" } }]);
    let page = stdout(&plan(list(&cluster()), &pending, &[]));
    let expected = "no PersistentVolumeClaim is in the input, and the pod has 1";
    assert!(page.contains(expected), "{page}");
    let storage = [
        json!({ "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": { "name": "data", "namespace": "shop" },
                "spec": { "volumeName": "disk", "accessModes": ["ReadWriteOnce"] }, "status": { "phase": "Bound" } }),
        json!({ "apiVersion": "v1", "kind": "PersistentVolume", "metadata": { "name": "disk" },
                "spec": { "claimRef": { "namespace": "shop", "name": "data" }, "capacity": { "storage": "1Gi" },
                          "nodeAffinity": { "required": { "nodeSelectorTerms": [
                              { "matchExpressions": [{ "key": "zone", "operator": "In", "values": ["far"] }] }] } } } }),
        json!({ "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": { "name": "fast" }, "provisioner": "p" }),
        json!({ "apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": { "name": "one" }, "spec": { "drivers": [] } }),
    ];
    let items = list(&[cluster(), storage.to_vec()].concat());
    let answer = answer(&plan(items, &pending, &["-o", "json"]));
    let reasons = answer["notCandidates"]["one"]["reasons"].to_string();
    assert!(reasons.contains("node affinity"), "{answer:#}");
    assert_eq!(answer["unchecked"], json!([]));
    assert_eq!(answer["warnings"], json!([]));
}

#[test]
fn a_plan_fits_the_terminal_and_a_pipe_has_all_of_it() {
    let long = |index: usize| {
        format!("checkout-payments-worker-asynchronous-production-7d9f8c6b{index:02}-x2k9z")
    };
    let mut items = vec![node(
        "ip-10-0-113-27.eu-west-1.compute.internal-with-a-long-name",
    )];
    let on = items[0]["metadata"]["name"].as_str().unwrap().to_owned();
    items.extend([0, 1].map(|index| pod(&long(index), &on, 1)));
    let mut wants = pending(10);
    wants["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("4");
    let shown = |columns: Option<&str>, arguments: &[&str]| {
        let mut pod = tempfile::NamedTempFile::new().unwrap();
        write!(pod, "{wants}").unwrap();
        let mut cluster = tempfile::NamedTempFile::new().unwrap();
        write!(cluster, "{}", list(&items)).unwrap();
        let mut command = scheduler();
        command.arg("plan").arg("--cluster").arg(cluster.path());
        command.arg("--pod").arg(pod.path()).args(arguments);
        command.env_remove("COLUMNS");
        command.envs(columns.map(|columns| ("COLUMNS", columns)));
        page(&program::run(&mut command, ""))
    };
    for columns in [80, 100] {
        let page = shown(Some(&columns.to_string()), &[]);
        let widest = page.lines().map(|line| line.chars().count()).max();
        assert!(widest.unwrap() <= columns, "{columns}\n{page}");
        for kept in ["would preempt 2 pods", "00-x2k9z", "01-x2k9z"] {
            assert!(page.contains(kept), "{kept}\n{page}");
        }
    }
    for page in [shown(None, &[]), shown(Some("80"), &["-o", "wide"])] {
        assert!(
            page.contains(&long(0)) && page.contains("STARTED"),
            "{page}"
        );
    }
}

/// The steps on a node of `plan --free-devices` are those of the pass that decided.
#[test]
fn the_steps_of_a_plan_that_frees_devices_agree_with_it() {
    let api = "resource.k8s.io/v1";
    let object = |kind: &str, name: &str, rest: Value| {
        let mut object = json!({ "apiVersion": api, "kind": kind, "metadata": { "name": name, "uid": format!("{kind}-{name}") } });
        for (key, value) in rest.as_object().unwrap() {
            object[key] = value.clone();
        }
        object
    };
    let slice = |node: &str| {
        object(
            "ResourceSlice",
            node,
            json!({ "spec": { "driver": "gpu.example.com", "nodeName": node, "devices": [{ "name": "card" }],
            "pool": { "name": node, "generation": 1, "resourceSliceCount": 1 } } }),
        )
    };
    let claim = |name: &str, on: &str| {
        let mut claim = object(
            "ResourceClaim",
            name,
            json!({ "spec": { "devices": { "requests": [
            { "name": "r", "exactly": { "deviceClassName": "gpu" } }] } } }),
        );
        claim["metadata"]["namespace"] = json!("shop");
        if !on.is_empty() {
            claim["status"] = json!({ "reservedFor": [{ "resource": "pods", "name": name, "uid": format!("uid-of-{name}") }],
                "allocation": { "devices": { "results": [{ "request": "r", "driver": "gpu.example.com", "pool": on, "device": "card" }] } } });
        }
        claim
    };
    let wants = |mut pod: Value, claim: &str| {
        pod["spec"]["resourceClaims"] = json!([{ "name": "c", "resourceClaimName": claim }]);
        pod
    };
    let class = || object("DeviceClass", "gpu", json!({ "spec": {} }));
    let steps = |items: &[Value], node: &str| {
        let arguments = ["--free-devices", "--explain-node", node, "-o", "json"];
        let answer = answer(&plan(list(items), &wants(pending(10), "new"), &arguments));
        let explained = &answer["explanation"];
        let result = explained["result"].as_str().unwrap().to_owned();
        (explained["steps"].as_array().unwrap().len(), result)
    };
    // Only its devices are missing, and a pod of lower priority has them.
    let busy = |node: &str, priority: i32| {
        let name = format!("busy-{node}");
        [
            self::node(node),
            slice(node),
            claim(&name, node),
            wants(pod(&name, node, priority), &name),
        ]
    };
    let frees = [&busy("one", 1)[..], &[class(), claim("new", "")]].concat();
    let (count, result) = steps(&frees, "one");
    assert!(
        count > 1 && result.starts_with("a candidate, chosen"),
        "{result}"
    );
    // It would not help either.
    let dear = pod("cheap", "one", 1);
    let helpless = [&busy("one", 20)[..], &[dear, class(), claim("new", "")]].concat();
    let (_, result) = steps(&helpless, "one");
    let why = "no candidate: it would not fit without all pods of lower priority either (cannot allocate all claims)";
    assert_eq!(result, why);
    // Another node has a device, so no device is freed. The node `full` lacks cores, too.
    let others = [
        node("free"),
        slice("free"),
        pod("a", "free", 1),
        pod("b", "free", 1),
        pod("c", "full", 1),
        class(),
        claim("new", ""),
    ];
    let usual = [&busy("one", 1)[..], &busy("full", 1), &others].concat();
    assert!(steps(&usual, "free").1.starts_with("a candidate, chosen"));
    assert_eq!(
        steps(&usual, "one"),
        (0, "no pod that leaves can change this".to_owned())
    );
    assert_eq!(steps(&usual, "full").1, why);
}
