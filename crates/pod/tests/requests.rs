//! Requests of a pod during an in-place resize, at container level and at pod level.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use evictd_pod::compatibility::Release;
use evictd_pod::{Counted, Pod, QosClass, Quantity, Requests, requests::ResizeState, wire};
use proptest::prelude::*;
use serde_json::{Value, json};

fn wire(pod: &Value) -> wire::Pod {
    serde_json::from_value(pod.clone()).unwrap()
}

/// Desired, allocated, in use, scheduled.
fn memory(pod: &Value) -> [String; 4] {
    amounts(pod, "memory")
}

fn amounts(pod: &Value, resource: &str) -> [String; 4] {
    let pod = wire(pod);
    [
        Counted::Desired,
        Counted::Allocated,
        Counted::InUse,
        Counted::Scheduled,
    ]
    .map(|counted| Requests::of(&pod, counted).get(resource).to_string())
}

fn pending(reason: &str) -> Value {
    json!([{"type": "PodResizePending", "status": "True", "reason": reason}])
}

#[allow(clippy::needless_pass_by_value, reason = "most are made for the call")]
fn of_container(desired: &str, mut status: Value, conditions: Value) -> Value {
    status["name"] = json!("c");
    json!({
        "metadata": {"name": "a", "uid": "1"},
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"memory": desired}}}]},
        "status": {"containerStatuses": [status], "conditions": conditions},
    })
}

fn of_pod(desired: &str, status: Value, conditions: Value) -> Value {
    let mut status = status;
    status["conditions"] = conditions;
    json!({
        "metadata": {"name": "a", "uid": "1"},
        "spec": {"containers": [{"name": "c"}], "resources": {"requests": {"memory": desired}}},
        "status": status,
    })
}

fn status(allocated: &str, actual: &str) -> Value {
    json!({"allocatedResources": {"memory": allocated}, "resources": {"requests": {"memory": actual}}})
}

#[test]
fn s4_040_both_levels_count_alike_in_every_state_of_a_resize() {
    let none = json!([]);
    let table = [
        // desired, allocated, actual, conditions: desired, allocated, in use, scheduled
        (
            "1Gi",
            "1Gi",
            "1Gi",
            none.clone(),
            ["1Gi", "1Gi", "1Gi", "1Gi"],
        ),
        (
            "64Gi",
            "1Gi",
            "1Gi",
            pending("Infeasible"),
            ["64Gi", "1Gi", "1Gi", "1Gi"],
        ),
        (
            "64Gi",
            "1Gi",
            "1Gi",
            pending("Deferred"),
            ["64Gi", "1Gi", "1Gi", "64Gi"],
        ),
        (
            "64Gi",
            "1Gi",
            "1Gi",
            none.clone(),
            ["64Gi", "1Gi", "1Gi", "64Gi"],
        ),
        // It grows: the node has reserved it already, and the container does not run with it yet.
        (
            "4Gi",
            "4Gi",
            "1Gi",
            none.clone(),
            ["4Gi", "4Gi", "4Gi", "4Gi"],
        ),
        // It shrinks.
        (
            "1Gi",
            "1Gi",
            "4Gi",
            none.clone(),
            ["1Gi", "1Gi", "4Gi", "4Gi"],
        ),
        ("1Gi", "4Gi", "4Gi", none, ["1Gi", "4Gi", "4Gi", "4Gi"]),
        (
            "64Gi",
            "1Gi",
            "4Gi",
            pending("Infeasible"),
            ["64Gi", "1Gi", "4Gi", "4Gi"],
        ),
    ];
    for (desired, allocated, actual, conditions, expected) in table {
        let status = status(allocated, actual);
        let container = of_container(desired, status.clone(), conditions.clone());
        assert_eq!(memory(&container), expected, "{container}");
        let pod = of_pod(desired, status, conditions);
        assert_eq!(memory(&pod), expected, "{pod}");
    }
}

#[test]
fn a_node_that_reports_only_one_of_the_lists() {
    let allocated = json!({"allocatedResources": {"memory": "1Gi"}});
    let actual = json!({"resources": {"requests": {"memory": "1Gi"}}});
    let reason = || pending("Infeasible");
    // The scheduler counts the spec until the actual resources of the container are reported.
    let container = of_container("64Gi", allocated.clone(), reason());
    assert_eq!(memory(&container), ["64Gi", "1Gi", "1Gi", "64Gi"]);
    let container = of_container("64Gi", actual.clone(), reason());
    assert_eq!(memory(&container), ["64Gi", "64Gi", "64Gi", "1Gi"]);
    let pod = of_pod("64Gi", allocated, reason());
    assert_eq!(memory(&pod), ["64Gi", "1Gi", "1Gi", "1Gi"]);
    let pod = of_pod("64Gi", actual, reason());
    assert_eq!(memory(&pod), ["64Gi", "64Gi", "64Gi", "1Gi"]);
    let nothing = of_pod("64Gi", json!({}), reason());
    assert_eq!(memory(&nothing), ["64Gi"; 4]);
}

/// The reported amounts include the overhead, which must count once.
#[test]
fn the_overhead_counts_once() {
    let mut pod = of_pod("2Gi", status("3Gi", "3Gi"), json!([]));
    pod["spec"]["overhead"] = json!({"memory": "1Gi"});
    assert_eq!(memory(&pod), ["3Gi"; 4]);
    let mut pod = of_pod("64Gi", status("3Gi", "3Gi"), pending("Infeasible"));
    pod["spec"]["overhead"] = json!({"memory": "1Gi"});
    assert_eq!(memory(&pod), ["65Gi", "3Gi", "3Gi", "3Gi"]);
}

/// The node reports sums for every pod. Where nothing is set at pod level the containers' own lists count.
#[test]
fn sums_over_the_containers_are_no_resources_at_pod_level() {
    let mut pod = of_container("1Gi", status("1Gi", "1Gi"), json!([]));
    pod["status"]["allocatedResources"] = json!({"memory": "5Gi"});
    pod["status"]["resources"] = json!({"requests": {"memory": "5Gi"}});
    assert_eq!(memory(&pod), ["1Gi"; 4]);
    pod["spec"]["resources"] = json!({"requests": {"cpu": "1"}});
    assert_eq!(memory(&pod), ["1Gi", "1Gi", "5Gi", "5Gi"]);
    pod["status"]["allocatedResources"] = json!({"memory": "1Gi", "cpu": "1"});
    pod["status"]["resources"] = json!({"requests": {"memory": "1Gi", "cpu": "1"}});
    assert_eq!(memory(&pod), ["1Gi"; 4]);
    assert_eq!(amounts(&pod, "cpu"), ["1"; 4]);
}

/// A pod of containers, each with its desired, reserved and running memory; `init` is the first one.
fn of_containers(init: Option<[&str; 3]>, containers: &[[&str; 3]], conditions: &Value) -> Value {
    let spec = |name: String, amounts: &[&str; 3]| json!({"name": name, "resources": {"requests": {"memory": amounts[0]}}});
    let report = |name: String, amounts: &[&str; 3]| {
        let mut report = status(amounts[1], amounts[2]);
        report["name"] = json!(name);
        report
    };
    let all = |make: &dyn Fn(String, &[&str; 3]) -> Value| -> Value {
        let containers = containers.iter().enumerate();
        containers
            .map(|(index, amounts)| make(format!("c{index}"), amounts))
            .collect()
    };
    let first = |make: &dyn Fn(String, &[&str; 3]) -> Value| -> Value {
        init.iter()
            .map(|amounts| make("i".to_owned(), amounts))
            .collect()
    };
    json!({
        "metadata": {"name": "a", "uid": "1"},
        "spec": {"containers": all(&spec), "initContainers": first(&spec)},
        "status": {"containerStatuses": all(&report), "initContainerStatuses": first(&report), "conditions": conditions},
    })
}

/// The amounts of kube-scheduler 1.36, which takes the largest of each container, and of 1.37.
#[test]
fn s7_225_the_largest_of_three_sums_counts() {
    type Case<'c> = (
        &'c str,
        Option<[&'c str; 3]>,
        &'c [[&'c str; 3]],
        Value,
        [&'c str; 2],
    );
    let none = json!([]);
    let table: [Case<'_>; 8] = [
        (
            "no resize",
            None,
            &[["1Gi"; 3], ["2Gi"; 3]],
            none.clone(),
            ["3Gi", "3Gi"],
        ),
        (
            "one grows, one shrinks",
            None,
            &[["4Gi", "1Gi", "1Gi"], ["1Gi", "4Gi", "4Gi"]],
            none.clone(),
            ["8Gi", "5Gi"],
        ),
        (
            "both grow",
            None,
            &[["4Gi", "1Gi", "1Gi"], ["3Gi", "1Gi", "1Gi"]],
            none.clone(),
            ["7Gi", "7Gi"],
        ),
        (
            "reserved, not running yet",
            None,
            &[["4Gi", "4Gi", "1Gi"], ["1Gi", "1Gi", "3Gi"]],
            none.clone(),
            ["7Gi", "5Gi"],
        ),
        (
            "infeasible: the desired amounts do not count",
            None,
            &[["64Gi", "1Gi", "2Gi"], ["1Gi", "2Gi", "1Gi"]],
            pending("Infeasible"),
            ["4Gi", "3Gi"],
        ),
        (
            "deferred",
            None,
            &[["64Gi", "1Gi", "1Gi"], ["1Gi", "2Gi", "2Gi"]],
            pending("Deferred"),
            ["66Gi", "65Gi"],
        ),
        // The init container that ends counts by its status, too, which 1.36 does not read.
        (
            "init container",
            Some(["1Gi", "6Gi", "6Gi"]),
            &[["2Gi"; 3]],
            none.clone(),
            ["2Gi", "6Gi"],
        ),
        // It counts beside no other container, so the reserved amounts have the largest sum.
        (
            "init container beside one that grew",
            Some(["3Gi", "1Gi", "1Gi"]),
            &[["3Gi", "4Gi", "4Gi"]],
            none,
            ["4Gi", "4Gi"],
        ),
    ];
    for (case, init, containers, conditions, expected) in table {
        let pod = wire(&of_containers(init, containers, &conditions));
        let counted = [Counted::Scheduled, Counted::ScheduledSums];
        let counted = counted.map(|counted| Requests::of(&pod, counted).get("memory").to_string());
        assert_eq!(counted, expected, "{case}");
    }
    // A sidecar counts beside the others, so the desired amounts have the largest sum.
    let mut pod = of_containers(
        Some(["3Gi", "1Gi", "1Gi"]),
        &[["3Gi", "4Gi", "4Gi"]],
        &json!([]),
    );
    pod["spec"]["initContainers"][0]["restartPolicy"] = json!("Always");
    let sum = Requests::of(&wire(&pod), Counted::ScheduledSums).get("memory");
    assert_eq!(sum.to_string(), "6Gi");
    let releases = Release::ALL.map(Counted::scheduled);
    assert_eq!(releases, [Counted::Scheduled, Counted::ScheduledSums]);
}

/// A resource that only some containers name, with the defaults of scores, and one that the node does not report.
#[test]
fn s7_225_each_resource_has_its_own_list() {
    let mut pod = of_containers(
        None,
        &[["4Gi", "1Gi", "1Gi"], ["1Gi", "4Gi", "4Gi"]],
        &json!([]),
    );
    pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("2");
    pod["spec"]["containers"][0]["resources"]["requests"]["example.com/gpu"] = json!("1");
    let pod = wire(&pod);
    let requests = Requests::of(&pod, Counted::ScheduledSums);
    let amounts = ["memory", "cpu", "example.com/gpu"].map(|name| requests.get(name).to_string());
    assert_eq!(amounts, ["5Gi", "2", "1"]);
    assert_eq!(requests.for_scoring("cpu").to_string(), "2100m");
}

#[test]
fn of_init_containers_only_sidecars_are_resized() {
    let status = status("2Gi", "3Gi");
    let mut init = json!({"name": "c", "resources": {"requests": {"memory": "1Gi"}}});
    let pod = |init: &Value| {
        let mut status = status.clone();
        status["name"] = json!("c");
        json!({"metadata": {"uid": "1"}, "spec": {"initContainers": [init]},
            "status": {"initContainerStatuses": [status]}})
    };
    assert_eq!(memory(&pod(&init)), ["1Gi", "2Gi", "1Gi", "1Gi"]);
    init["restartPolicy"] = json!("Always");
    assert_eq!(memory(&pod(&init)), ["1Gi", "2Gi", "3Gi", "3Gi"]);
}

/// Only cpu and memory can be resized: a list of the node without disk or devices does not take those away.
#[test]
fn resources_without_resize_keep_the_request_of_the_spec() {
    let mut pod = of_container("1Gi", status("2Gi", "2Gi"), json!([]));
    let requests = &mut pod["spec"]["containers"][0]["resources"]["requests"];
    requests["ephemeral-storage"] = json!("9Gi");
    requests["example.com/gpu"] = json!("1");
    requests["cpu"] = json!("1");
    assert_eq!(amounts(&pod, "ephemeral-storage"), ["9Gi"; 4]);
    assert_eq!(amounts(&pod, "example.com/gpu"), ["1"; 4]);
    assert_eq!(amounts(&pod, "cpu"), ["1", "0", "0", "1"]);
}

#[test]
fn a_pod_ranks_by_allocated_fits_by_actual_and_reports_its_pending_resize() {
    let greedy = of_pod("64Gi", status("1Gi", "1Gi"), pending("Infeasible"));
    let pod = Pod::from_wire(wire(&greedy));
    let gi = |count: i64| Quantity::bytes(count << 30);
    assert_eq!(pod.memory_request, gi(1));
    assert_eq!(pod.pod_level_memory_request, Some(gi(1)));
    assert_eq!(pod.reserved("memory"), gi(1));
    assert_eq!(pod.fit_request("memory"), gi(1));
    let resize = pod.pending_resize("memory");
    assert_eq!(resize, Some((ResizeState::Infeasible, gi(64))));
    assert_eq!(pod.pending_resize("cpu"), None);
    let shrinking = of_container("1Gi", status("1Gi", "4Gi"), json!([]));
    let pod = Pod::from_wire(wire(&shrinking));
    assert_eq!(
        (pod.memory_request, pod.fit_request("memory")),
        (gi(1), gi(4))
    );
    assert_eq!(pod.pending_resize("memory"), None);
}

/// Requests equal limits before a resize and after it, not while one is infeasible.
#[test]
fn a_resize_does_not_change_the_class() {
    let amounts = json!({"cpu": "1", "memory": "64Gi"});
    let mut pod = of_container("64Gi", json!({}), pending("Infeasible"));
    pod["spec"]["containers"][0]["resources"] = json!({"requests": amounts, "limits": amounts});
    pod["status"]["containerStatuses"][0]["allocatedResources"] =
        json!({"cpu": "1", "memory": "1Gi"});
    assert_eq!(Pod::from_wire(wire(&pod)).qos, QosClass::Guaranteed);
}

#[test]
fn s1_068_the_kubelet_does_not_look_at_containers_beside_resources_at_pod_level() {
    let pod = Pod::from_wire(wire(&json!({
        "metadata": {"uid": "1"},
        "spec": {
            "containers": [{"resources": {"requests": {"ephemeral-storage": "40Gi", "memory": "1Gi"}}}],
            "resources": {"requests": {"cpu": "300m"}},
        },
    })));
    for resource in ["memory", "ephemeral-storage"] {
        assert!(pod.request(resource).is_zero());
    }
    assert_eq!(pod.reserved("ephemeral-storage").to_string(), "40Gi");
    assert_eq!(pod.reserved("memory").to_string(), "1Gi");
}

fn list() -> impl Strategy<Value = Value> {
    let names = prop::sample::subsequence(vec!["cpu", "memory", "ephemeral-storage"], 0..=3);
    (names, prop::collection::vec(0..9_u8, 3)).prop_map(|(names, amounts)| {
        let entries = names.into_iter().zip(amounts);
        entries
            .map(|(name, amount)| (name.to_owned(), json!(amount)))
            .collect()
    })
}

prop_compose! {
    fn pods()(
        lists in prop::collection::vec((list(), any::<bool>()), 1..4),
        init in prop::collection::vec((list(), any::<bool>()), 0..3),
        pod_level in prop::option::of(list()),
        overhead in list(),
    ) -> Value {
        let container = |prefix: &str, (index, (requests, sidecar)): (usize, (Value, bool))| json!({
            "name": format!("{prefix}{index}"), "resources": {"requests": requests},
            "restartPolicy": if prefix == "i" && sidecar { "Always" } else { "" },
        });
        let each = |prefix: &'static str, lists: Vec<(Value, bool)>| {
            let lists = lists.into_iter().enumerate();
            lists.map(|one| container(prefix, one)).collect::<Vec<_>>()
        };
        let pod_level = pod_level.map(|mut list| {
            list.as_object_mut().unwrap().remove("ephemeral-storage");
            list
        });
        json!({
            "metadata": {"name": "a", "uid": "1"},
            "spec": {
                "containers": each("c", lists), "initContainers": each("i", init), "overhead": overhead,
                "resources": pod_level.map(|requests| json!({"requests": requests})),
            },
        })
    }
}

/// The pod as a node reports it when nothing is being resized.
fn settled(mut pod: Value) -> Value {
    for (containers, statuses) in [
        ("containers", "containerStatuses"),
        ("initContainers", "initContainerStatuses"),
    ] {
        let containers = pod["spec"][containers].as_array().unwrap();
        let reported = containers.iter().map(|container| {
            let requests = &container["resources"]["requests"];
            json!({"name": container["name"], "allocatedResources": requests, "resources": {"requests": requests}})
        });
        let reported: Value = reported.collect();
        pod["status"][statuses] = reported;
    }
    let all = serde_json::to_value(Requests::of(&wire(&pod), Counted::Desired).list()).unwrap();
    pod["status"]["allocatedResources"] = all.clone();
    pod["status"]["resources"] = json!({"requests": all});
    pod
}

proptest! {
    #[test]
    fn without_a_resize_every_count_is_the_specs(pod in pods()) {
        let known = Pod::from_wire(wire(&pod));
        let desired = Requests::of_spec(&wire(&pod).spec).list();
        let told = settled(pod.clone());
        for pod in [&pod, &told] {
            let wire = wire(pod);
            for counted in [Counted::Desired, Counted::Allocated, Counted::InUse, Counted::Scheduled, Counted::ScheduledSums] {
                prop_assert_eq!(&Requests::of(&wire, counted).list(), &desired, "{:?} {}", counted, pod);
            }
            let read = Pod::from_wire(wire);
            prop_assert_eq!(read.memory_request, known.memory_request);
            prop_assert_eq!(read.requested_resources(), known.requested_resources());
            for resource in ["cpu", "memory", "ephemeral-storage"] {
                prop_assert_eq!(read.pending_resize(resource), None);
                prop_assert_eq!(read.request(resource), known.request(resource));
                prop_assert_eq!(read.reserved(resource), read.fit_request(resource));
                // The kubelet counts the same or nothing.
                let request = read.request(resource);
                prop_assert!(request.is_zero() || request == read.reserved(resource));
            }
        }
    }

    /// The list is made in one pass, and single amounts are asked for one by one.
    #[test]
    fn the_list_holds_the_request_of_each_resource(pod in pods()) {
        let wire = wire(&pod);
        let requests = Requests::of(&wire, Counted::Desired);
        for requests in [requests.clone(), requests.without_pod_level()] {
            let list = requests.list();
            for name in ["cpu", "memory", "ephemeral-storage", "example.com/none"] {
                let listed = list.get(name).copied().unwrap_or_default();
                prop_assert_eq!(listed.to_string(), requests.get(name).to_string(), "{} of {}", name, pod);
            }
        }
    }

    /// Every count includes at least the allocated amounts, and an infeasible resize changes no count.
    #[test]
    fn the_counts_are_ordered(pod in pods(), desired in pods(), reason in "(Infeasible|Deferred|)") {
        let mut resized = settled(pod);
        let before = wire(&resized);
        for (index, container) in resized["spec"]["containers"].as_array_mut().unwrap().iter_mut().enumerate() {
            if let Some(other) = desired["spec"]["containers"].get(index) {
                for name in ["cpu", "memory"] {
                    let own = &mut container["resources"]["requests"];
                    if let (true, Some(new)) = (own[name].is_number(), other["resources"]["requests"].get(name)) {
                        own[name] = new.clone();
                    }
                    if own[name].is_null() {
                        own.as_object_mut().unwrap().remove(name);
                    }
                }
            }
        }
        resized["status"]["conditions"] = pending(&reason);
        let wire = wire(&resized);
        for name in ["cpu", "memory", "ephemeral-storage"] {
            let of = |counted| Requests::of(&wire, counted).get(name);
            prop_assert!(of(Counted::Allocated) <= of(Counted::InUse));
            prop_assert!(of(Counted::InUse) <= of(Counted::Scheduled));
            // The sum of the largest amounts is never less than the largest sum.
            prop_assert!(of(Counted::ScheduledSums) <= of(Counted::Scheduled));
            prop_assert_eq!(of(Counted::Allocated), Requests::of(&before, Counted::Desired).get(name));
            if reason == "Infeasible" {
                prop_assert_eq!(of(Counted::Scheduled), of(Counted::Allocated));
            }
        }
    }
}
