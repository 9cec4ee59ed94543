//! What is said of a bad configuration: every mistake at once, each with its place and what to do.

use super::*;
use std::fmt::Write;

/// Mistakes and warnings of one of ours, one a line.
fn said_of_ours(body: &str) -> String {
    said(&format!("{HEADER}{body}"))
}

pub(super) fn said(text: &str) -> String {
    match parse("f.yaml", text) {
        Ok(loaded) => lines("warning ", &loaded.warnings),
        Err(refused) => lines("", &refused.mistakes) + &lines("warning ", &refused.warnings),
    }
}

fn lines(prefix: &str, mistakes: &[Mistake]) -> String {
    let mut text = String::new();
    for mistake in mistakes {
        let _ = writeln!(text, "{prefix}{mistake}");
    }
    text
}

#[test]
fn unknown_keys_name_the_nearest_known_one() {
    let table = [
        (
            "housekeepingIntervall: 1s",
            "f.yaml:3:1: housekeepingIntervall: unknown key; did you mean housekeepingInterval?\n",
        ),
        (
            "evictionhard: {}",
            "f.yaml:3:1: evictionhard: unknown key; did you mean evictionHard?\n",
        ),
        (
            "pods: {sorce: auto}",
            "f.yaml:3:8: pods.sorce: unknown key; did you mean pods.source?\n",
        ),
        (
            "address: 1.2.3.4:5",
            "f.yaml:3:1: address: unknown key; did you mean metrics.address?\n",
        ),
        (
            "pods: {address: x}",
            "f.yaml:3:8: pods.address: unknown key; did you mean metrics.address?\n",
        ),
        (
            "kubeReserved: {}",
            "f.yaml:3:1: kubeReserved: unknown key; the nearest known key is kubernetes\n",
        ),
        (
            "pods.source: auto",
            "f.yaml:3:1: pods.source: unknown key; did you mean pods.source?\n",
        ),
        (
            "mergeDefaultEvictionSettings: true",
            "f.yaml:3:1: mergeDefaultEvictionSettings: unknown key; only a KubeletConfiguration has it\n",
        ),
        (
            "pods: manifests",
            "f.yaml:3:7: pods: \"manifests\" is not a map; the keys below pods are source, manifests, staticPodPath\n",
        ),
    ];
    for (body, expected) in table {
        assert_eq!(said_of_ours(body), expected, "{body}");
    }
}

#[test]
fn other_keys_of_a_kubelet_are_ignored_but_misspelt_ones_are_reported() {
    let body = format!("{KUBELET}podLogsDir: /x\nevictionHrad: {{}}\n");
    assert_eq!(
        said(&body),
        "warning f.yaml: evictionHard: not watched: pid.available (no threshold); a kubelet has no default for it\n\
         warning f.yaml:4:1: evictionHrad: is ignored, as the kubelet ignores keys that it does not know; did you mean evictionHard?\n"
    );
}

#[test]
fn keys_of_evictd_in_a_kubelets_file_are_reported() {
    let body = format!("{KUBELET}dryRun: true\npods: {{source: manifests}}\n");
    let said = said(&body);
    for place in ["3:1: dryRun", "4:1: pods"] {
        let line = format!(
            "warning f.yaml:{place}: is ignored, as the kubelet ignores keys that it does not know; \
             only an EvictionConfiguration has it"
        );
        assert!(said.contains(&line), "{said}");
    }
}

#[test]
fn s1_007_unknown_signals() {
    let table = [
        ("memory.availble", "memory.available"),
        ("memory.free", "memory.available"),
        ("Nodefs.Available", "nodefs.available"),
        ("imagefs.inodefree", "imagefs.inodesFree"),
    ];
    for (signal, meant) in table {
        for map in ["evictionHard", "evictionSoft"] {
            assert_eq!(
                said_of_ours(&format!("{map}:\n  {signal}: 5%\n")),
                format!(
                    "f.yaml:4:3: {map}.{signal}: unsupported eviction signal {signal}; did you mean {meant}?\n"
                )
            );
        }
    }
}

#[test]
fn both_forms_of_duplicate_thresholds() {
    assert_eq!(
        said_of_ours("evictionHard:\n  memory.available: 1Gi\n  memory.available: 2Gi\n"),
        "f.yaml:5:3: evictionHard.memory.available: appears twice, first in line 4; remove one\n"
    );
    assert_eq!(
        said_of_ours("evictionHard: {}\nevictionHard: {}\n"),
        "f.yaml:4:1: evictionHard: appears twice, first in line 3; remove one\n"
    );
    let soft = |hard: &str, soft: &str, grace: &str| {
        format!(
            "evictionHard: {{memory.available: {hard}}}\nevictionSoft: {{memory.available: {soft}}}\n\
             evictionSoftGracePeriod: {{memory.available: {grace}}}\n"
        )
    };
    let below = "is not above the hard threshold of";
    assert!(said_of_ours(&soft("1Gi", "1Gi", "30s")).contains(below));
    assert!(said_of_ours(&soft("10%", "5%", "30s")).starts_with(
        "f.yaml:4:34: evictionSoft.memory.available: 5% is not above the hard threshold of 10% (f.yaml:3)"
    ));
    assert!(
        said_of_ours(&soft("1Gi", "2Gi", "0s"))
            .contains("this is a second hard threshold for the same signal")
    );
    for good in [soft("1Gi", "2Gi", "30s"), soft("5%", "2Gi", "30s")] {
        assert_eq!(said_of_ours(&good), "");
    }
    // The kubelet takes these.
    let kubelets = format!("{KUBELET}{}", soft("1Gi", "1Gi", "30s"));
    assert!(said(&kubelets).contains(&format!(
        "warning f.yaml:4:34: evictionSoft.memory.available: 1Gi {below}"
    )));
}

#[test]
fn s1_008_soft_without_grace() {
    assert_eq!(
        said_of_ours("evictionSoft: {nodefs.available: 20%}"),
        "f.yaml:3:34: evictionSoft.nodefs.available: grace period must be specified for the soft eviction threshold \
         nodefs.available; add evictionSoftGracePeriod: {nodefs.available: 1m30s}, or how long it may last\n"
    );
}

#[test]
fn s1_006_s1_010_values_out_of_range() {
    let table = [
        ("evictionHard", "101%", "must be <= 100%: 101%; 0% turns"),
        ("evictionHard", "-1%", "must be >= 0%: -1%; 0% turns"),
        ("evictionHard", "-1Gi", "must be positive: -1Gi"),
        ("evictionHard", "0", "must be positive: 0"),
        ("evictionHard", "99999Ei", "does not fit into 64 bits"),
        (
            "evictionHard",
            "9223372036854775808",
            "does not fit into 64 bits",
        ),
        ("evictionHard", "1e400", "does not fit into 64 bits"),
        ("evictionHard", "1 Gi", "write an amount such as 100Mi"),
        ("evictionHard", "lots", "write an amount such as 100Mi"),
        ("evictionHard", "x%", "write an amount such as 100Mi"),
        ("evictionHard", "true", "true is not an amount"),
        ("evictionHard", "[1Gi]", "a list is not an amount"),
        (
            "evictionMinimumReclaim",
            "-1",
            "negative eviction minimum reclaim",
        ),
        (
            "evictionMinimumReclaim",
            "0%",
            "must be positive: 0%; leave it out",
        ),
        (
            "evictionMinimumReclaim",
            "101%",
            "101% is more than the capacity",
        ),
        (
            "evictionMinimumReclaim",
            "99999Ei",
            "does not fit into 64 bits",
        ),
    ];
    for (map, value, expected) in table {
        let said = said_of_ours(&format!("{map}:\n  memory.available: {value}\n"));
        let place = format!("f.yaml:4:21: {map}.memory.available: ");
        assert!(
            said.starts_with(&place) && said.contains(expected),
            "{value}: {said}"
        );
        assert_eq!(said.lines().count(), 1, "{said}");
    }
    let kubelets = format!("{KUBELET}evictionHard: {{memory.available: 99999Ei}}\n");
    assert!(said(&kubelets).contains("warning f.yaml:3:34"));
}

#[test]
fn image_collection() {
    let table = [
        (
            "highThresholdPercent: 101",
            "3:33: imageGC.highThresholdPercent: 101 is not a percentage from 0 to 100; write it without %, such as 85",
        ),
        (
            "lowThresholdPercent: 80%",
            "3:32: imageGC.lowThresholdPercent: \"80%\" is not a percentage from 0 to 100; write it without %, such as 85",
        ),
        (
            "lowThresholdPercent: 85",
            "3:32: imageGC.lowThresholdPercent: 85 is not below imageGC.highThresholdPercent, 85; \
             images are removed from the high to the low one",
        ),
        (
            "maximumAge: 2m",
            "3:23: imageGC.maximumAge: it is not longer than imageGC.minimumAge; \
             0s keeps images however long they are unused",
        ),
        (
            "minimumAge: 2",
            "3:23: imageGC.minimumAge: time: missing unit in duration \"2\"; 2s if seconds are meant",
        ),
        (
            "mode: presure",
            "3:17: imageGC.mode: \"presure\" is not one of auto, off, pressure, full; did you mean pressure?",
        ),
        (
            "hihg: 3",
            "3:11: imageGC.hihg: unknown key; the nearest known key is imageGC.mode",
        ),
    ];
    for (line, expected) in table {
        let said = said_of_ours(&format!("imageGC: {{{line}}}\n"));
        assert_eq!(said, format!("f.yaml:{expected}\n"));
    }
    let kubelets = format!("{KUBELET}imageGCHighThresholdPercent: 70\n");
    let expected = "80 is not below imageGCHighThresholdPercent, 70";
    assert!(said(&kubelets).contains(expected), "{}", said(&kubelets));
}

#[test]
fn reclaimed_page_cache_must_move_the_figure() {
    let said = said_of_ours("reclaim:\n  memory: cold\n");
    let expected = "f.yaml:4:11: reclaim.memory: memAvailable counts page cache as available, so reclaiming it would \
                    not move memory.available; write memoryAvailable: workingSet, or reclaim.memory: off\n";
    assert_eq!(said, expected);
    let said = said_of_ours("reclaim:\n  memory: cold\nmemoryAvailable: workingSet\n");
    assert_eq!(said, "");
}

#[test]
fn durations() {
    let table = [
        (
            "housekeepingInterval: 1M",
            "\"1M\" is counted in months; 1m if minutes are meant",
        ),
        (
            "evictionPressureTransitionPeriod: 5M",
            "time: unknown unit \"M\" in duration \"5M\"; 5m if minutes are meant",
        ),
        (
            "evictionHardGracePeriod: 10",
            "time: missing unit in duration \"10\"; 10s if seconds are meant",
        ),
        (
            "evictionHardGracePeriod: 1.5s",
            "a grace period is counted in whole seconds",
        ),
        ("evictionPressureTransitionPeriod: -5m", "-5m is negative"),
        (
            "evictionMaxPodGracePeriod: 99999999999",
            "99999999999 is not a whole number from -2147483648 to 2147483647",
        ),
        (
            "evictionMaxPodGracePeriod: 30s",
            "\"30s\" is not a whole number from -2147483648 to 2147483647",
        ),
    ];
    for (body, expected) in table {
        let said = said_of_ours(body);
        assert!(said.contains(expected), "{body}: {said}");
    }
    let grace =
        "evictionSoft: {memory.available: 20%}\nevictionSoftGracePeriod: {memory.available: 1M}\n";
    assert_eq!(
        said_of_ours(grace),
        "f.yaml:4:45: evictionSoftGracePeriod.memory.available: time: unknown unit \"M\" in duration \"1M\"; \
         1m if minutes are meant\n"
    );
}

#[test]
fn other_values() {
    let table = [
        ("dryRun: yes", "\"yes\" is not true or false"),
        ("pods: {source: manifest}", "did you mean manifests?"),
        ("unknownStats: middle", "is not one of first, last"),
        (
            "metrics: {address: localhost}",
            "is not an address such as 127.0.0.1:20261 or $(POD_IP):20261",
        ),
        ("socket: evictd.sock", "is not an absolute path"),
        (
            "nodeCgroup: a/../..",
            "is not a cgroup's path below the root",
        ),
        (
            "cgroupRoots: [/]",
            "cgroupRoots[0]: \"/\" is not a cgroup's path",
        ),
        ("futileEvictions: -1", "-1 is not a whole number from 0"),
        (
            "evictedPods: {keepPerOwner: -1}",
            "-1 is not a whole number from 0",
        ),
        ("evictedPods: {ttl: 1d}", "the units are"),
        (
            "priorityClasses: {a: 9999999999}",
            "priorityClasses.a: 9999999999 is not",
        ),
        (
            "protect: {selectors: [{matchLabel: {}}]}",
            "protect.selectors[0]",
        ),
        (
            "enforceNodeAllocatable: pods",
            "is not a list; write [a, b]",
        ),
        ("evictionHard: 100Mi", "\"100Mi\" is not a map"),
    ];
    for (body, expected) in table {
        let said = said_of_ours(body);
        assert!(said.contains(expected), "{body}: {said}");
        assert!(said.starts_with("f.yaml:3:"), "{said}");
    }
}

#[test]
fn every_mistake_is_reported_in_the_order_of_the_file() {
    let said = said_of_ours(
        "dryRun: yes\nhousekeepingInterval: 1M\nevictionHard:\n  memory.free: 1Gi\n  pid.available: 200%\n\
         evictionSoft: {nodefs.available: 20%}\nsoket: /x\npods: {source: kubernets}\n",
    );
    let places: Vec<&str> = said
        .lines()
        .map(|line| line.split(": ").nth(1).unwrap())
        .collect();
    let expected = [
        "dryRun",
        "housekeepingInterval",
        "evictionHard.memory.free",
        "evictionHard.pid.available",
        "evictionSoft.nodefs.available",
        "soket",
        "pods.source",
    ];
    assert_eq!(places, expected);
}

#[test]
fn kinds_and_versions() {
    assert_eq!(
        said("kind: EvictionConfig\n"),
        "f.yaml:1:7: kind: \"EvictionConfig\" is not a kind of configuration; did you mean EvictionConfiguration?\n"
    );
    assert_eq!(
        said("apiVersion: evictd.dev/v1\nkind: EvictionConfiguration\n"),
        "f.yaml:1:13: apiVersion: \"evictd.dev/v1\" is not an apiVersion that is known here; write evictd.dev/v1alpha1\n"
    );
    assert!(said("dryRun: true\n").starts_with("warning f.yaml:1:1: kind: is missing"));
    for nothing in [
        "",
        " \n",
        "# nothing\n",
        "---\n",
        "---\n# nothing\n...\n",
        "null\n",
        "~",
    ] {
        let said = said(nothing);
        assert!(
            said.starts_with("f.yaml: the file is empty"),
            "{nothing:?}: {said}"
        );
    }
    assert!(said("[]").starts_with("f.yaml:1:1: a list is not a configuration"));
    assert!(said("a: [1").starts_with("f.yaml:"));
}

#[test]
fn doubtful_settings_are_warned_of() {
    let table = [
        (
            "evictionSoftGracePeriod: {memory.available: 30s}",
            "there is no soft threshold for it",
        ),
        (
            "evictionMinimumReclaim: {containerfs.available: 1Gi}",
            "there is no threshold for it",
        ),
        (
            "evictionHard: {containerfs.available: 1Gi}",
            "has no effect: containerfs takes the thresholds of nodefs or imagefs",
        ),
        (
            "evictionHard: {memory.available: 100%}",
            "100% turns the threshold off, as 0% does",
        ),
        (
            "evictionHard: {memory.available: 500}",
            "500 is 500 bytes, which is almost nothing; write a unit, such as 500Mi",
        ),
        (
            "evictionSoft: {allocatableMemory.available: 1Gi}\nevictionSoftGracePeriod: {allocatableMemory.available: 0s}",
            "with a grace period of 0s this is a hard threshold",
        ),
        (
            "evictionMaxPodGracePeriod: 0\nevictionSoft: {memory.available: 1Gi}\nevictionSoftGracePeriod: {memory.available: 1m}",
            "0 kills pods at once under soft thresholds too",
        ),
        (
            "evictionHard: {memory.available: 0%, nodefs.available: 0%, nodefs.inodesFree: 0%, imagefs.available: 0%, \
             imagefs.inodesFree: 0%, pid.available: 0%}",
            "eviction is off: every threshold is 0% or missing",
        ),
        (
            "protect: {selectors: [{}]}",
            "an empty selector matches every pod",
        ),
    ];
    for (body, expected) in table {
        let said = said_of_ours(body);
        assert!(said.contains(expected), "{body}: {said}");
        assert!(
            said.lines().all(|line| line.starts_with("warning ")),
            "{said}"
        );
    }
}

#[test]
fn the_real_kubelets_configuration_with_and_without_its_wrapper() {
    let wrapped = include_str!("../../../../tests/fixtures/kubelet-configz.json");
    let off = "warning f.yaml:75:19: evictionHard: this kubelet's own eviction is off: every threshold is 0% or missing; \
               when a resource runs out, the kernel's OOM killer or a full disk decides\n";
    assert_eq!(said(wrapped), off);
    let document: serde_json::Value = serde_json::from_str(wrapped).unwrap();
    let mut bare = document["kubeletconfig"].clone();
    assert!(said(&bare.to_string()).contains("this kubelet's own eviction is off"));
    assert_eq!(good(&bare.to_string()).effective.kind, Kind::Kubelet);
    // Older kubelets leave the kind out of /configz.
    bare.as_object_mut().unwrap().remove("kind");
    let wrapped = serde_json::json!({"kubeletconfig": bare});
    assert_eq!(good(&wrapped.to_string()).effective.kind, Kind::Kubelet);
}

#[test]
fn pressure_and_swap_are_ours_and_said_in_one_form() {
    let table = [
        (
            "evictionHard: {memory.psi: 20%}",
            "f.yaml:3:28: evictionHard.memory.psi: eviction threshold memory.psi must be {some|full} avg{10|60|300} > X% [for D]: 20%; write it as \"full avg10 > 20%\"; 0% turns the threshold off\n",
        ),
        (
            "evictionHard: {memory.psi: some 60s > 7% for 30s}",
            "f.yaml:3:28: evictionHard.memory.psi: eviction threshold memory.psi must be {some|full} avg{10|60|300} > X% [for D]: some 60s > 7% for 30s; write it as \"some avg60 > 7% for 30s\"; 0% turns the threshold off\n",
        ),
        (
            "evictionHard: {cpu.psi: full avg10 > 20%}",
            "f.yaml:3:16: evictionHard.cpu.psi: unsupported eviction signal cpu.psi; evictd shows pressure on the CPU and never evicts for it\n",
        ),
        (
            "evictionHard: {io.psi: full avg10 > 20%}",
            "f.yaml:3:24: evictionHard.io.psi: full avg10 > 20% has too short a duration to tell which pod reads and writes; write at least \"for 1s\"\n",
        ),
        (
            "evictionSoft: {memory.psi: some avg10 > 9% for 1m}\nevictionSoftGracePeriod: {memory.psi: 1m}",
            "f.yaml:3:28: evictionSoft.memory.psi: grace period is specified twice for the soft eviction threshold memory.psi; leave out the \"for\", or evictionSoftGracePeriod.memory.psi\n",
        ),
        (
            "evictionHard: {memory.psi: full avg10 > 20%}\nevictionSoft: {memory.psi: full avg10 > 30% for 1m}",
            "f.yaml:4:28: evictionSoft.memory.psi: full avg10 > 30% for 1m is not below the hard threshold of full avg10 > 20% (f.yaml:3), which acts at once, so that this one never acts first; lower it, or raise evictionHard.memory.psi\n",
        ),
        (
            "evictionHard: {memory.psi: full avg10 > 20%}\nevictionMinimumReclaim: {memory.psi: 1Gi}",
            "f.yaml:4:38: evictionMinimumReclaim.memory.psi: eviction minimum reclaim memory.psi must be a percentage: 1Gi; write how much less pressure, such as 5%\n",
        ),
        (
            "memoryAndSwap: both",
            "warning f.yaml:3:16: memoryAndSwap: both has no effect: no map has memory.available and swap.available; add swap.available to evictionHard\n",
        ),
        (
            "evictionHard: {memory.psi: full avg10 > 20% for 5s, swap.available: 10%, io.psi: 0%}\nmemoryAndSwap: both",
            "",
        ),
    ];
    let mut wrong = String::new();
    for (body, expected) in table {
        let said = said_of_ours(body);
        if said != expected {
            let _ = writeln!(wrong, "{body}\n{said}{expected}");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    let kubelet = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";
    let refused = said(&format!(
        "{kubelet}evictionHard: {{memory.psi: full avg10 > 20%}}"
    ));
    assert!(
        refused.contains("unsupported eviction signal memory.psi; a kubelet has no such signal; kind: EvictionConfiguration has"),
        "{refused}"
    );
}

#[test]
fn an_endpoint_that_is_no_socket_is_a_mistake_with_its_place() {
    for endpoint in [
        "containerd.sock",
        "tcp://127.0.0.1:5000",
        "unix://run/x.sock",
    ] {
        let said = said_of_ours(&format!("containerRuntimeEndpoint: {endpoint}"));
        let expected = format!(
            "f.yaml:3:27: containerRuntimeEndpoint: \"{endpoint}\" is not the absolute path of a unix socket; \
             write it as unix:///run/containerd/containerd.sock\n"
        );
        assert_eq!(said, expected);
    }
    for endpoint in ["/run/crio/crio.sock", "unix:///run/crio/crio.sock", "\"\""] {
        assert_eq!(
            said_of_ours(&format!("containerRuntimeEndpoint: {endpoint}")),
            ""
        );
    }
}

#[test]
fn a_minimum_reclaim_that_is_never_reached_is_refused_and_a_kubelets_is_warned_of() {
    let lines = |value: &str, more: &str| {
        format!(
            "evictionHard: {{nodefs.available: {value}}}\nevictionMinimumReclaim: {{nodefs.available: {more}}}\n"
        )
    };
    let told =
        "90% above evictionHard.nodefs.available, which is 15%, is all of the capacity or more";
    let ours = said_of_ours(&lines("15%", "90%"));
    assert!(ours.contains(told) && !ours.contains("warning"), "{ours}");
    let kubelets = said(&format!("{KUBELET}{}", lines("15%", "90%")));
    assert!(
        kubelets.contains(told) && kubelets.contains("warning"),
        "{kubelets}"
    );
    assert!(said_of_ours(&lines("25%", "75%")).contains("act for ever"));
    assert!(!said_of_ours(&lines("5%", "10%")).contains("act for ever"));
}
