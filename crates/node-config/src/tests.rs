//! What a configuration means.

mod flags;
mod mistakes;

use super::*;
use evictd_eviction::{
    Rules,
    rules::{Futility, PidRank, UnknownStats},
};
use evictd_signals::{Signal, Threshold};
use jiff::SignedDuration;
use proptest::prelude::*;

const HEADER: &str = "apiVersion: evictd.dev/v1alpha1\nkind: EvictionConfiguration\n";
const KUBELET: &str = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";

fn ours(body: &str) -> Loaded {
    good(&format!("{HEADER}{body}"))
}

fn kubelets(body: &str) -> Loaded {
    good(&format!("{KUBELET}{body}"))
}

fn good(text: &str) -> Loaded {
    parse("f.yaml", text).unwrap_or_else(|refused| panic!("{text}\n{refused}"))
}

fn shown(thresholds: &[Threshold]) -> Vec<String> {
    let mut shown: Vec<String> = thresholds
        .iter()
        .map(|threshold| {
            let grace = threshold.grace_period.as_secs();
            format!("{}<{} {grace}s", threshold.signal, threshold.value)
        })
        .collect();
    shown.sort();
    shown
}

#[test]
fn every_default_of_the_table_can_be_read() {
    for key in keys::KEYS {
        let kubelets = match key.kubelet {
            key::Kubelet::Key { default, .. } | key::Kubelet::Rule(default) => Some(default),
            key::Kubelet::Same => None,
        };
        for default in [key.default, kubelets].into_iter().flatten() {
            let node = evictd_configuration::Node::parse(default).unwrap();
            if let key::Field::One { read, .. } = key.field
                && !node.is_null()
            {
                let mut effective = Effective::blank(Kind::Evictd);
                assert_eq!(read(&mut effective, &node), Ok(()), "{}", key.path);
            }
        }
    }
}

#[test]
fn the_commented_defaults_are_the_defaults() {
    let loaded = parse("evictd.yaml", &commented_defaults()).unwrap();
    assert_eq!(loaded.warnings, []);
    let everywhere = |effective: &Effective| {
        effective
            .settings()
            .into_iter()
            .map(|setting| (setting.key, setting.value))
            .collect::<Vec<_>>()
    };
    assert_eq!(everywhere(&loaded.effective), everywhere(&built_in()));
    assert_eq!(loaded.effective.rules(), built_in().rules());
}

#[test]
fn our_rules_without_a_file() {
    let rules = built_in().rules();
    let expected = Rules {
        thresholds: rules.thresholds.clone(),
        ..Rules::evictd()
    };
    assert_eq!(rules, expected);
}

#[test]
fn s1_015_defaults() {
    let kubelets_own = [
        "allocatableMemory.available<100Mi 0s",
        "imagefs.available<0.15 0s",
        "imagefs.inodesFree<0.05 0s",
        "memory.available<100Mi 0s",
        "nodefs.available<0.1 0s",
        "nodefs.inodesFree<0.05 0s",
    ];
    assert_eq!(shown(&kubelets("").effective.thresholds()), kubelets_own);
    let mut with_pids = kubelets_own.to_vec();
    with_pids.insert(1, "allocatablePid.available<0.1 0s");
    with_pids.push("pid.available<0.1 0s");
    assert_eq!(shown(&built_in().thresholds()), with_pids);
}

#[test]
fn s1_016_a_kubelets_map_replaces_the_defaults_and_ours_merges_over_them() {
    let body = "enforceNodeAllocatable: [none]\nevictionHard:\n  memory.available: 1Gi\n";
    let replaced = kubelets(body);
    assert_eq!(
        shown(&replaced.effective.thresholds()),
        ["memory.available<1Gi 0s"]
    );
    assert!(
        replaced.warnings[0]
            .message
            .starts_with("not watched: nodefs.available (no threshold)")
    );

    let merged = kubelets(&format!("mergeDefaultEvictionSettings: true\n{body}"));
    assert_eq!(merged.effective.thresholds().len(), 5);
    assert_eq!(
        merged.effective.origin("evictionHard.nodefs.available"),
        Some(&Origin::KubeletDefault)
    );
    assert_eq!(ours(body).effective.thresholds().len(), 6);
}

#[test]
fn the_pods_own_process_ids_have_a_threshold_under_our_rules_only() {
    let of_pods = |loaded: &Loaded| {
        let all = loaded.effective.thresholds().into_iter();
        let of_pods = all.filter(|one| one.signal == Signal::AllocatablePidAvailable);
        of_pods.map(|one| one.value.to_string()).collect::<Vec<_>>()
    };
    let table = [
        ("", &["0.1"][..]),
        ("evictionHard: {pid.available: 20%}", &["0.2"]),
        ("evictionHard: {pid.available: 1000}", &["0.1"]),
        ("evictionHard: {pid.available: 0%}", &[]),
        ("evictionHard: {allocatablePid.available: 5%}", &["0.05"]),
        ("evictionHard: {allocatablePid.available: 0%}", &[]),
        ("enforceNodeAllocatable: [none]", &[]),
    ];
    for (body, expected) in table {
        assert_eq!(of_pods(&ours(body)), expected, "{body}");
    }
    let kubelet = kubelets("evictionHard: {memory.available: 1Gi, pid.available: 20%}");
    assert!(of_pods(&kubelet).is_empty());
}

#[test]
fn nothing_or_zero_percent_turns_one_signal_off() {
    for off in ["0%", "null", "\"0%\"", "~"] {
        let loaded = ours(&format!("evictionHard:\n  pid.available: {off}\n"));
        assert_eq!(loaded.effective.thresholds().len(), 6, "{off}");
        assert_eq!(loaded.effective.maps.hard["pid.available"], "0%");
        assert_eq!(
            loaded.warnings[0].message,
            "not watched: pid.available (0%)"
        );
    }
    let nothing_at_all = ours("evictionHard:\nevictionSoft: null\npods:\n");
    assert_eq!(nothing_at_all.effective.rules(), built_in().rules());
}

#[test]
fn s1_017_the_kubelets_other_defaults() {
    let rules = kubelets("").effective.rules();
    let expected = Rules {
        thresholds: rules.thresholds.clone(),
        pressure_transition_period: SignedDuration::from_mins(5),
        local_storage_capacity_isolation: true,
        ..Rules::kubelet()
    };
    assert_eq!(rules, expected);
    assert_eq!(rules.max_pod_grace_period_seconds, Some(0));
    assert_eq!(rules.hard_grace_period_seconds, 1);
}

#[test]
fn s1_073_isolation_can_be_turned_off() {
    for load in [ours, kubelets] {
        let rules = load("localStorageCapacityIsolation: false\n")
            .effective
            .rules();
        assert!(!rules.local_storage_capacity_isolation);
    }
}

#[test]
fn the_soft_grace_cap() {
    let cap = |loaded: Loaded| loaded.effective.rules().max_pod_grace_period_seconds;
    assert_eq!(cap(ours("")), None);
    assert_eq!(cap(ours("evictionMaxPodGracePeriod: null\n")), None);
    assert_eq!(cap(ours("evictionMaxPodGracePeriod: -1\n")), None);
    assert_eq!(cap(ours("evictionMaxPodGracePeriod: 0\n")), Some(0));
    assert_eq!(cap(ours("evictionMaxPodGracePeriod: 60\n")), Some(60));
    assert_eq!(cap(kubelets("evictionMaxPodGracePeriod: -1\n")), Some(-1));
}

#[test]
fn every_switch_reaches_the_rules() {
    let loaded = ours(
        "unknownStats: first\npidRank: kubelet\nreturningPodsLast: false\nsmallGainsLast: false\nfutileEvictions: 5\n\
         returningOwnerBackOff: 2h\n\
         evictionHardGracePeriod: 2s\nevictionPressureTransitionPeriod: 30s\n\
         podPreference: {namespaces: [team-a]}\n\
         protect:\n  namespaces: [kube-system]\n  selectors:\n  - matchLabels: {app: db}\n",
    );
    let rules = loaded.effective.rules();
    assert_eq!(rules.unknown_stats, UnknownStats::First);
    assert_eq!(rules.pid_rank, PidRank::Kubelet);
    assert!(!rules.returning_pods_last && !rules.small_gains_last);
    assert!(ours("").effective.rules().small_gains_last);
    assert!(rules.requires_relief);
    let without = ours("evictWithoutRelief: true\n").effective.rules();
    assert!(!without.requires_relief);
    let five = Futility {
        evictions: 5,
        pause: SignedDuration::from_mins(5),
    };
    assert_eq!(rules.futility, Some(five));
    assert_eq!(
        rules.longest_owner_backoff,
        Some(SignedDuration::from_hours(2))
    );
    let off = ours("returningOwnerBackOff: 0s\n").effective.rules();
    assert_eq!(off.longest_owner_backoff, None);
    assert_eq!(rules.hard_grace_period_seconds, 2);
    assert_eq!(rules.pressure_transition_period.as_secs(), 30);
    assert_eq!(rules.pod_preference_namespaces, ["team-a"]);
    assert_eq!(rules.protect.namespaces, ["kube-system"]);
    assert_eq!(rules.protect.selectors[0].match_labels["app"], "db");
    assert_eq!(
        ours("futileEvictions: 0\n").effective.rules().futility,
        None
    );
}

#[test]
fn evicted_pods_stay_unless_it_is_said_for_how_long() {
    let kept = |loaded: Loaded| loaded.effective.evicted_pods;
    assert!(!kept(ours("")).is_limited());
    assert!(!kept(ours("evictedPods: {ttl: null, keepPerOwner: null}\n")).is_limited());
    assert!(!kept(kubelets("")).is_limited());
    let said = kept(ours("evictedPods: {ttl: 24h, keepPerOwner: 0}\n"));
    assert_eq!(said.ttl, Some(SignedDuration::from_hours(24)));
    assert_eq!(said.keep_per_owner, Some(0));
}

#[test]
fn every_setting_knows_where_it_came_from() {
    let effective =
        ours("pods:\n  manifests: /m\nevictionHard:\n  memory.available: 1Gi\n").effective;
    let origin = |key| effective.origin(key).map(ToString::to_string);
    assert_eq!(origin("pods.manifests").as_deref(), Some("f.yaml:4"));
    assert_eq!(origin("pods.source").as_deref(), Some("default"));
    assert_eq!(
        origin("evictionHard.memory.available").as_deref(),
        Some("f.yaml:6")
    );
    assert_eq!(
        origin("evictionHard.pid.available").as_deref(),
        Some("default")
    );
    let effective = kubelets("staticPodPath: /etc/kubernetes/manifests\n").effective;
    let origin = |key| effective.origin(key).map(ToString::to_string);
    assert_eq!(origin("pods.staticPodPath").as_deref(), Some("f.yaml:3"));
    assert_eq!(
        origin("evictionMaxPodGracePeriod").as_deref(),
        Some("kubelet default")
    );
    assert_eq!(origin("unknownStats").as_deref(), Some("kubelet rule"));
    assert_eq!(origin("socket").as_deref(), Some("default"));
    for setting in effective.settings() {
        assert!(setting.origin.is_some(), "{}", setting.key);
    }
}

#[test]
fn a_written_configuration_is_read_as_the_same_one() {
    let everything = "nodeName: \"on\"\nevictionHard: {memory.available: 5%, pid.available: null}\n\
         evictionSoft: {memory.available: 10%}\nevictionSoftGracePeriod: {memory.available: 1m30s}\n\
         evictionMinimumReclaim: {memory.available: 1e9}\nevictionMaxPodGracePeriod: 60\n\
         evictedPods: {ttl: 24h, keepPerOwner: 3}\nreturningOwnerBackOff: 30m\n\
         priorityClasses: {batch: -5}\nmetrics: {address: \"\"}\nnodeCgroup: /demo/node\n\
         protect: {namespaces: [kube-system], selectors: [{matchLabels: {a: \"1\"}, matchExpressions: [{key: b, operator: Exists}]}]}\n";
    let of_a_kubelet = "evictionHard: {memory.available: 5%}\nmergeDefaultEvictionSettings: true\nstaticPodPath: /m\n";
    for first in [ours(everything), kubelets(of_a_kubelet), kubelets("")] {
        let yaml = first.effective.to_yaml();
        let again = good(&yaml);
        assert_eq!(
            again.effective.to_json(),
            first.effective.to_json(),
            "{yaml}"
        );
        assert_eq!(again.effective.rules(), first.effective.rules());
    }
}

#[test]
fn settings_that_need_a_restart_are_named() {
    let waits = |next: Loaded| next.effective.waits_for_restart(&built_in());
    assert_eq!(waits(ours("")), Vec::<&str>::new());
    let at_a_reload = "dryRun: true\nadmission: reject\nprotect: {namespaces: [kube-system]}\n\
         evictionHard: {memory.available: 1Gi}\nfutileEvictions: 5\n";
    assert_eq!(waits(ours(at_a_reload)), Vec::<&str>::new());
    let changed = "socket: /run/other.sock\nkubelet: {rootDir: /k}\npods: {source: kubelet}\n";
    let named = ["pods.source", "kubelet.rootDir", "socket"];
    assert_eq!(waits(ours(changed)), named);
    let named = waits(kubelets("staticPodPath: /m\n"));
    assert!(named.contains(&"staticPodPath"), "{named:?}");
}

#[test]
fn a_simulations_layout_is_true_or_false() {
    let refused = parse_simulated(&serde_json::json!({
        "apiVersion": "evictd.dev/v1alpha1", "kind": "EvictionConfiguration",
        "dedicatedImageFs": "yes", "splitContainerFs": null,
    }));
    let told = refused.unwrap_err().to_string();
    assert_eq!(
        told,
        "config: dedicatedImageFs: \"yes\" is not true or false"
    );
    // It is no key of a daemon's file.
    let refused = parse("f.yaml", &format!("{HEADER}dedicatedImageFs: true\n")).unwrap_err();
    assert!(
        refused
            .to_string()
            .contains("dedicatedImageFs: unknown key"),
        "{refused}"
    );
}

#[test]
fn a_simulation_may_say_a_kind_and_the_layout() {
    let ours = parse_simulated(&serde_json::json!({
        "apiVersion": "evictd.dev/v1alpha1", "kind": "EvictionConfiguration", "dedicatedImageFs": true,
    }));
    let rules = ours.unwrap().rules;
    assert_eq!(rules.unknown_stats, UnknownStats::Last);
    assert_eq!(rules.thresholds.len(), 8);
    assert!(rules.layout.dedicated_image_fs);
}

#[test]
fn a_simulations_refusal_is_the_kubelets_first_error() {
    let refused = parse_simulated(&serde_json::json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
        "evictionHard": {"memory.free": "1Gi"}, "evictionSoft": {"pid.available": "10%"},
        "clusterDomain": "cluster.local",
    }))
    .unwrap_err();
    assert_eq!(
        refused.kubelet_first_error,
        "unsupported eviction signal memory.free"
    );
    assert_eq!(refused.mistakes.len(), 2);
}

proptest! {
    #[test]
    fn nothing_panics(
        keys in prop::collection::vec("(kind|evictionHard|evictionSoft|pods|protect|[a-z.]{0,9})", 0..6),
        values in prop::collection::vec("[ -~\n]{0,24}", 6),
    ) {
        let lines = keys.iter().zip(&values).map(|(key, value)| format!("{key}: {value}\n"));
        for head in ["", HEADER, KUBELET] {
            let text: String = std::iter::once(head.to_owned()).chain(lines.clone()).collect();
            let _ = parse("f.yaml", &text);
        }
    }
}

#[test]
fn the_preset_for_parity_holds_the_kubelets_rules() {
    let ours = good(include_str!("../../../config/presets/kubelet-parity.yaml")).effective;
    let kubelets = kubelets("").effective;
    let ours = Rules {
        // There is no switch for these: the kubelet's own file has to be read for them.
        condition_holds_while_met: kubelets.rules().condition_holds_while_met,
        generated_thresholds_wait: kubelets.rules().generated_thresholds_wait,
        terminating_pods_first: kubelets.rules().terminating_pods_first,
        credit_terminating_pods: kubelets.rules().credit_terminating_pods,
        samples_follow_actions: kubelets.rules().samples_follow_actions,
        waits_for_enough_only: kubelets.rules().waits_for_enough_only,
        spares_pods_of_read_only: kubelets.rules().spares_pods_of_read_only,
        figures: kubelets.rules().figures,
        messages_name_what_counted: kubelets.rules().messages_name_what_counted,
        zero_capacity_counts: kubelets.rules().zero_capacity_counts,
        limits_sidecars: kubelets.rules().limits_sidecars,
        swap_counts: kubelets.rules().swap_counts,
        hard_thresholds_first: kubelets.rules().hard_thresholds_first,
        ..ours.rules()
    };
    assert_eq!(ours, kubelets.rules());
}
