//! Who goes first (S1-060 to S1-068), and where ours differ on purpose.

use crate::node::{
    MI, at, dies, disk, evictd, fails, files, kubelet, memory, of_daemon_set, pod, priority,
    processes, ranked, ranking, requesting, requests, terminating,
};
use evictd_decision::{Excess, RankedPod, Spared, Unreachable, why};
use evictd_departures::{Ending, Event};
use evictd_eviction::{
    Housekeeper, Rules,
    rank::DiskParts,
    rules::{FilesystemLayout, PidRank},
};
use evictd_pod::{Pod, Quantity};
use evictd_signals::{Signal, StarvedResource};
use evictd_usage::{Extent, FsUsage, PodUsage, Usage, figure::Figure};
use jiff::SignedDuration;
use serde_json::{Value, json};

const MEMORY: Signal = Signal::MemoryAvailable;
const PID: Signal = Signal::PidAvailable;
const NODEFS: Signal = Signal::NodefsAvailable;

pub(crate) fn both() -> [(&'static str, Rules); 2] {
    [
        ("kubelet", kubelet(Vec::new())),
        ("evictd", evictd(Vec::new())),
    ]
}

fn prioritized(name: &str, priority: i32, memory: &str) -> Pod {
    let mut spec = requests(&json!({ "memory": memory }));
    spec["priority"] = json!(priority);
    pod(name, &spec)
}

#[test]
fn s1_060_above_the_request_then_low_priority_then_the_most_above() {
    let pods = [
        (prioritized("within", -5, "100Mi"), memory(100 * MI)),
        (prioritized("above-important", 10, "1Mi"), memory(900 * MI)),
        (prioritized("above-by-20", 0, "100Mi"), memory(120 * MI)),
        (prioritized("above-by-50", 0, "10Mi"), memory(60 * MI)),
        (prioritized("within-by-40", -5, "100Mi"), memory(60 * MI)),
    ];
    let expected = [
        "above-by-50",
        "above-by-20",
        "above-important",
        "within",
        "within-by-40",
    ];
    for (name, rules) in both() {
        assert_eq!(ranked(&rules, MEMORY, &pods), expected, "{name}");
        assert_eq!(
            ranked(&rules, Signal::AllocatableMemoryAvailable, &pods),
            expected
        );
    }
}

#[test]
fn s1_060_missing_stats_go_first_by_the_kubelet_and_last_by_ours() {
    let pods = [
        (priority("above", -100), memory(500 * MI)),
        (priority("unknown-important", 1000), None),
        (requesting("within", "1Gi"), memory(MI)),
        (priority("unknown", 0), None),
    ];
    let [(_, kubelets), (_, ours)] = both();
    let expected = ["unknown", "unknown-important", "above", "within"];
    assert_eq!(ranked(&kubelets, MEMORY, &pods), expected);
    let expected = ["above", "within", "unknown", "unknown-important"];
    assert_eq!(ranked(&ours, MEMORY, &pods), expected);
}

#[test]
fn s1_060_stats_without_the_figure_are_nothing_to_the_kubelet_and_unknown_to_ours() {
    let pods = [
        (priority("above", 0), memory(MI)),
        (priority("no-figure", -1), Some(PodUsage::default())),
    ];
    let [(_, kubelets), (_, ours)] = both();
    let row = |rules| ranking(rules, MEMORY, &pods).pop().unwrap();
    assert_eq!(
        (row(&kubelets).index, row(&kubelets).excess),
        (1, Excess::Within)
    );
    assert_eq!(
        (row(&ours).index, row(&ours).excess),
        (1, Excess::UnknownLast)
    );
}

#[test]
fn s1_060_the_pods_own_working_set_counts_and_not_the_sum_of_its_containers() {
    let mut usage = disk(files(0, 0), files(0, 0), files(0, 0)).unwrap();
    usage.working_set = Some(Figure::bytes(5 * MI));
    usage.containers[0].working_set = Some(Figure::bytes(900 * MI));
    let pods = [
        (priority("a", 0), memory(6 * MI)),
        (priority("b", 0), Some(usage)),
    ];
    for (name, rules) in both() {
        assert_eq!(ranked(&rules, MEMORY, &pods), ["a", "b"], "{name}");
    }
}

#[test]
fn s1_061_the_kubelet_ranks_process_ids_by_priority_then_count() {
    let pods = [
        (priority("few-unimportant", -1), processes(2)),
        (priority("bomb", 0), processes(90)),
        (priority("unknown", 0), None),
        (priority("some", 0), processes(5)),
    ];
    let [(_, kubelets), (_, ours)] = both();
    let expected = ["few-unimportant", "unknown", "bomb", "some"];
    assert_eq!(ranked(&kubelets, PID, &pods), expected);
    // An even share of 100 ids among the three counted pods is 33.
    let expected = ["bomb", "few-unimportant", "some", "unknown"];
    assert_eq!(ranked(&ours, PID, &pods), expected);
    let by_the_switch = Rules {
        pid_rank: PidRank::Kubelet,
        ..ours
    };
    let expected = ["few-unimportant", "bomb", "some", "unknown"];
    assert_eq!(ranked(&by_the_switch, PID, &pods), expected);
}

#[test]
fn pods_above_an_even_share_of_process_ids_go_by_priority_then_count() {
    let pods = [
        (priority("much-important", 5), processes(60)),
        (priority("much", 0), processes(40)),
        (priority("more", 0), processes(50)),
        (priority("share", -5), processes(25)),
    ];
    let [_, (_, ours)] = both();
    assert_eq!(
        ranked(&ours, PID, &pods),
        ["more", "much", "much-important", "share"]
    );
}

#[test]
fn s1_062_disk_above_the_request_then_low_priority_then_the_most_above() {
    let of = |name: &str, priority: i32, request: &str| {
        let mut spec = requests(&json!({ "ephemeral-storage": request }));
        spec["priority"] = json!(priority);
        pod(name, &spec)
    };
    let uses = |bytes| disk(files(bytes, 1), files(0, 0), files(0, 0));
    let pods = [
        (of("within", -9, "1Gi"), uses(MI)),
        (of("above-important", 1, "1Mi"), uses(900 * MI)),
        (of("above-by-1", 0, "9Mi"), uses(10 * MI)),
        (of("above-by-8", 0, "1Mi"), uses(9 * MI)),
    ];
    let expected = ["above-by-8", "above-by-1", "above-important", "within"];
    for (name, rules) in both() {
        assert_eq!(ranked(&rules, NODEFS, &pods), expected, "{name}");
    }
}

#[test]
fn s1_062_the_kubelet_subtracts_bytes_from_inodes_and_ours_do_not() {
    let of = |name: &str, bytes: i64| {
        pod(
            name,
            &requests(&json!({ "ephemeral-storage": bytes.to_string() })),
        )
    };
    let uses = |inodes| disk(files(0, inodes), files(0, 0), files(0, 0));
    let pods = [
        (of("none", 0), uses(0)),
        (of("many-but-requested", 1000), uses(900)),
        (of("few", 0), uses(10)),
    ];
    let [(_, kubelets), (_, ours)] = both();
    let order = |rules| ranked(rules, Signal::NodefsInodesFree, &pods);
    assert_eq!(order(&kubelets), ["few", "many-but-requested", "none"]);
    assert_eq!(order(&ours), ["many-but-requested", "few", "none"]);
}

#[test]
fn s1_067_files_in_a_host_path_are_no_gain_with_ours() {
    let of = |name: &str, volume: Value| {
        let mut volume = volume;
        volume["name"] = json!("v");
        let spec = json!({ "priority": -5, "volumes": [volume] });
        pod(name, &spec)
    };
    let host = json!({ "hostPath": { "path": "/" } });
    let all = || disk(files(0, 0), files(0, 0), files(900 * MI, 9000));
    let pods = [
        (of("mounts-the-host", host), all()),
        (
            priority("writes", 0),
            disk(files(MI, 1), files(0, 0), files(0, 0)),
        ),
    ];
    let [(_, kubelets), (_, ours)] = both();
    for signal in [NODEFS, Signal::NodefsInodesFree] {
        assert_eq!(
            ranked(&kubelets, signal, &pods),
            ["mounts-the-host", "writes"]
        );
        assert_eq!(ranked(&ours, signal, &pods), ["writes", "mounts-the-host"]);
        let row = ranking(&ours, signal, &pods).pop().unwrap();
        assert!(row.gain.is_none_or(|gain| gain.is_zero()), "{signal}");
    }
}

#[test]
fn files_on_another_filesystem_are_no_gain_and_deleted_files_are_with_ours() {
    let volume = json!({ "volumes": [{ "name": "v", "emptyDir": {} }] });
    let mut elsewhere = disk(files(0, 0), files(0, 0), files(900 * MI, 9)).unwrap();
    elsewhere.volumes[0].usage.extent = Extent::Elsewhere;
    let mut deleted = disk(files(0, 0), files(0, 0), files(0, 0)).unwrap();
    deleted.deleted.on_disk = files(40 * MI, 1);
    deleted.deleted.in_layers = files(2 * MI, 1);
    let pods = [
        (pod("elsewhere", &volume), Some(elsewhere)),
        (pod("deleted", &volume), Some(deleted)),
    ];
    let [_, (_, ours)] = both();
    let rows = ranking(&ours, NODEFS, &pods);
    let gains: Vec<_> = rows.iter().map(|row| (&*row.pod, row.gain)).collect();
    assert_eq!(
        gains,
        [
            ("default/deleted", Some(Quantity::bytes(42 * MI))),
            ("default/elsewhere", Some(Quantity::ZERO)),
        ]
    );
}

#[test]
fn a_pod_without_a_gain_ranks_after_all_others_with_ours() {
    let pods = [
        (priority("nothing", -9), processes(0)),
        (priority("unknown", 0), None),
        (priority("some", 9), processes(3)),
    ];
    let [_, (_, ours)] = both();
    assert_eq!(ranked(&ours, PID, &pods), ["some", "unknown", "nothing"]);
    let rows = ranking(&ours, PID, &pods);
    let because = rows[1].because(&rows[2], PID.resource());
    assert_eq!(because, "the next would give nothing back");
}

#[test]
fn a_part_that_is_not_known_yet_is_no_proven_gain() {
    let mut young = disk(files(0, 0), files(MI, 1), files(0, 0)).unwrap();
    young.containers[0].rootfs = FsUsage {
        extent: Extent::Unknown,
        ..FsUsage::default()
    };
    let [_, (_, ours)] = both();
    let row = ranking(&ours, NODEFS, &[(priority("young", 0), Some(young))]).remove(0);
    assert_eq!(row.gain, Some(Quantity::bytes(MI)));
    assert!(row.partly_unknown && !row.at_least);
}

#[test]
fn s1_062_a_pod_that_was_not_walked_is_empty_to_the_kubelet_and_unknown_to_ours() {
    let not_walked = || memory(MI);
    let only_logs = disk(files(0, 0), files(MI, 1), files(0, 0)).map(|mut usage| {
        usage.containers[0].rootfs = FsUsage::default();
        usage.volumes.clear();
        usage
    });
    let requests = requests(&json!({ "ephemeral-storage": "1Gi" }));
    let pods = [
        (priority("not-walked", -9), not_walked()),
        (pod("layers-unknown", &requests), only_logs),
    ];
    let [(_, kubelets), (_, ours)] = both();
    for signal in [NODEFS, Signal::NodefsInodesFree] {
        let row = |rules| {
            let rows = ranking(rules, signal, &pods);
            rows.into_iter().find(|row| row.index == 0).unwrap()
        };
        assert_eq!(row(&kubelets).usage, Some(Quantity::ZERO), "{signal}");
        assert_eq!(row(&kubelets).excess, Excess::Within, "{signal}");
        assert_eq!(row(&ours).usage, None, "{signal}");
        assert_eq!(row(&ours).excess, Excess::UnknownLast, "{signal}");
        let order = ranked(&ours, signal, &pods);
        assert_eq!(order, ["layers-unknown", "not-walked"], "{signal}");
    }
    assert_eq!(
        ranked(&kubelets, NODEFS, &pods),
        ["not-walked", "layers-unknown"]
    );
    let split = Rules {
        layout: FilesystemLayout {
            dedicated_image_fs: true,
            split_container_fs: true,
        },
        ..ours
    };
    let images = ranking(&split, Signal::ImagefsAvailable, &pods);
    let nothing = |row: &RankedPod| row.usage == Some(Quantity::ZERO);
    assert!(images.iter().all(nothing), "images are nobody's");
}

#[test]
fn s1_063_qos_is_never_consulted_and_an_unset_priority_is_zero() {
    let guaranteed = json!({ "containers": [{ "name": "c", "resources": {
        "requests": { "cpu": "1", "memory": "10Mi" }, "limits": { "cpu": "1", "memory": "10Mi" },
    } }] });
    let pods = [
        (priority("best-effort", 0), memory(9 * MI)),
        (pod("guaranteed", &guaranteed), memory(20 * MI)),
        (priority("below-zero", -1), memory(1)),
        (priority("above-zero", 1), memory(90 * MI)),
    ];
    let expected = ["below-zero", "guaranteed", "best-effort", "above-zero"];
    for (name, rules) in both() {
        assert_eq!(ranked(&rules, MEMORY, &pods), expected, "{name}");
    }
}

/// What a pod uses for that signal: 1 of writable layer, 10 of logs, 100 of volumes, in bytes; seven times in inodes.
fn used(signal: &str, dedicated: bool, split: bool) -> i64 {
    let rules = Rules {
        layout: FilesystemLayout {
            dedicated_image_fs: dedicated,
            split_container_fs: split,
        },
        ..Rules::kubelet()
    };
    let pod = pod(
        "a",
        &json!({ "volumes": [{ "name": "v", "emptyDir": {} }] }),
    );
    let usage = disk(files(1, 7), files(10, 70), files(100, 700));
    let signal = Signal::parse(signal).unwrap();
    let rows = ranking(&rules, signal, &[(pod, usage)]);
    rows[0].usage.unwrap().value()
}

#[test]
fn s1_064_single_filesystem_counts_everything_for_every_signal() {
    for name in ["nodefs", "imagefs", "containerfs"] {
        assert_eq!(used(&format!("{name}.available"), false, false), 111);
        assert_eq!(used(&format!("{name}.inodesFree"), false, false), 777);
    }
}

#[test]
fn s1_065_dedicated_image_filesystem() {
    for (name, parts) in [("nodefs", 110), ("imagefs", 1), ("containerfs", 1)] {
        assert_eq!(used(&format!("{name}.available"), true, false), parts);
        assert_eq!(used(&format!("{name}.inodesFree"), true, false), 7 * parts);
    }
}

#[test]
fn s1_066_split_image_and_container_filesystem() {
    for (name, parts) in [("nodefs", 111), ("imagefs", 0), ("containerfs", 111)] {
        assert_eq!(used(&format!("{name}.available"), true, true), parts);
        assert_eq!(used(&format!("{name}.inodesFree"), true, true), 7 * parts);
    }
    let split = FilesystemLayout {
        dedicated_image_fs: true,
        split_container_fs: true,
    };
    let nothing = DiskParts::of(Signal::ImagefsAvailable, split);
    assert!(!nothing.rootfs && !nothing.logs && !nothing.volumes);
}

#[test]
fn s1_067_only_these_volumes_are_local() {
    let kinds = [
        (json!({ "hostPath": { "path": "/x" } }), true),
        (json!({ "emptyDir": {} }), true),
        (json!({ "emptyDir": { "medium": "" } }), true),
        (json!({ "configMap": { "name": "x" } }), true),
        (json!({ "gitRepo": { "repository": "x" } }), true),
        (json!({ "emptyDir": { "medium": "Memory" } }), false),
        (json!({ "secret": { "secretName": "x" } }), false),
        (
            json!({ "persistentVolumeClaim": { "claimName": "x" } }),
            false,
        ),
        (json!({ "projected": { "sources": [] } }), false),
    ];
    for (mut volume, local) in kinds {
        volume["name"] = json!("v");
        let pod = pod("a", &json!({ "volumes": [volume] }));
        let usage = disk(files(0, 0), files(0, 0), files(100, 1));
        let row = ranking(&Rules::kubelet(), NODEFS, &[(pod, usage)]).remove(0);
        assert_eq!(row.usage.unwrap().value() == 100, local, "{volume}");
    }
}

#[test]
fn s1_068_the_request_that_counts() {
    let container = |memory: &str| json!({ "name": memory, "resources": { "requests": { "memory": memory, "ephemeral-storage": "1Gi" } } });
    let sidecar = |memory: &str| {
        let mut container = container(memory);
        container["restartPolicy"] = json!("Always");
        container
    };
    let table: [(Value, &str); 7] = [
        (
            json!({ "containers": [container("1Mi"), container("2Mi")] }),
            "3Mi",
        ),
        (
            json!({ "containers": [container("1Mi")], "initContainers": [container("9Mi")] }),
            "9Mi",
        ),
        (
            json!({ "containers": [container("1Mi")], "initContainers": [container("2Mi"), sidecar("2Mi")] }),
            "3Mi",
        ),
        (
            // A sidecar that is up already counts beside the init container that starts after it.
            json!({ "containers": [container("1Mi")], "initContainers": [sidecar("2Mi"), container("2Mi")] }),
            "4Mi",
        ),
        (
            json!({ "containers": [container("1Mi")], "overhead": { "memory": "4Mi" } }),
            "5Mi",
        ),
        (
            json!({ "containers": [{ "name": "c" }], "overhead": { "memory": "4Mi" } }),
            "0",
        ),
        (
            json!({ "containers": [container("1Mi")], "resources": { "limits": { "cpu": "1" } } }),
            "0",
        ),
    ];
    for (spec, request) in table {
        let row = ranking(&Rules::kubelet(), MEMORY, &[(pod("a", &spec), memory(1))]).remove(0);
        assert_eq!(row.request.to_string(), request, "{spec}");
    }
    let pod_level = json!({ "containers": [container("1Mi")], "resources": { "requests": { "memory": "7Mi" } } });
    let pods = [(pod("a", &pod_level), memory(1))];
    assert_eq!(
        ranking(&Rules::kubelet(), MEMORY, &pods)[0]
            .request
            .to_string(),
        "7Mi"
    );
    assert!(
        ranking(&Rules::kubelet(), NODEFS, &pods)[0]
            .request
            .is_zero()
    );
}

#[test]
fn a_pod_that_would_come_straight_back_ranks_after_its_equals_with_ours() {
    let pods = [
        (of_daemon_set("returning", &json!({})), memory(900 * MI)),
        (priority("above", 0), memory(MI)),
        (requesting("within", "1Gi"), memory(MI)),
    ];
    let [(_, kubelets), (_, ours)] = both();
    assert_eq!(
        ranked(&kubelets, MEMORY, &pods),
        ["returning", "above", "within"]
    );
    assert_eq!(
        ranked(&ours, MEMORY, &pods),
        ["above", "returning", "within"]
    );
    let switched = Rules {
        returning_pods_last: false,
        ..ours
    };
    assert_eq!(
        ranked(&switched, MEMORY, &pods),
        ["returning", "above", "within"]
    );
}

#[test]
fn a_terminating_pod_ranks_before_its_equals_with_ours() {
    let nothing = json!({});
    let pods = [
        (priority("running", 0), memory(9 * MI)),
        (terminating("ending", &nothing), memory(MI)),
        (priority("less-important", -1), memory(MI)),
    ];
    let [(_, kubelets), (_, ours)] = both();
    assert_eq!(
        ranked(&kubelets, MEMORY, &pods),
        ["less-important", "running", "ending"]
    );
    assert_eq!(
        ranked(&ours, MEMORY, &pods),
        ["less-important", "ending", "running"]
    );
}

#[test]
fn pods_under_way_or_out_of_reach_are_ranked_and_passed_over() {
    let names = ["a", "b", "c", "d", "e"];
    let pods = names.map(|name| priority(name, 0));
    let usage: Usage = [5, 4, 3, 2, 1].into_iter().map(memory).collect();
    let reasons = [
        (
            Unreachable::NoCgroup,
            "never evicted: no cgroup of its own that may be touched",
        ),
        (
            Unreachable::Budget,
            "passed over for now: its disruption budget does not allow it",
        ),
        (
            Unreachable::Failed,
            "passed over for now: its termination has just failed",
        ),
    ];
    let mut keeper = Housekeeper::new(evictd(Vec::new()));
    dies(&mut keeper, "uid-a", 0, 0);
    keeper.set_without_cgroup(["uid-b".to_owned()].into());
    dies(&mut keeper, "uid-c", 0, 0);
    let (uid, again) = ("uid-c".to_owned(), SignedDuration::from_secs(9));
    let ending = Ending::Blocked { again };
    keeper.on_event(at(0), Event::Ended { uid, ending });
    dies(&mut keeper, "uid-d", 0, 0);
    fails(&mut keeper, "uid-d", 0);
    let ranked = keeper.rank(at(0), MEMORY, &pods, &usage);
    assert_eq!(ranked[0].spared, Some(Spared::Dying));
    let rows: Vec<_> = why::rows(&ranked, StarvedResource::Memory).collect();
    for (row, (why, words)) in rows[1..4].iter().zip(reasons) {
        assert_eq!(row.pod.spared, Some(Spared::Unreachable(why)));
        assert_eq!(row.because, words);
        let record = serde_json::to_value(row.pod).unwrap();
        assert_eq!(record["unreachable"], json!(why));
    }
    assert_eq!(rows[4].pod.spared, None);
}
