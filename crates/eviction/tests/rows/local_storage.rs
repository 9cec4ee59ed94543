//! A pod's own limits on node-local disk (S1-069 to S1-073).

use crate::node::{MI, at, dies, disk, fails, files, hard, memory, pod, pod_with};
use evictd_decision::{Cause, Decision, record::Record};
use evictd_eviction::{
    Answer, Housekeeper, Rules, Step,
    rules::{FilesystemLayout, PREFERENCE_ANNOTATION},
};
use evictd_pod::Pod;
use evictd_signals::{Observation, Observations, Signal};
use evictd_usage::{PodUsage, Usage, figure::Figure};
use serde_json::{Value, json};

fn rules() -> [Rules; 2] {
    let kubelet = Rules {
        local_storage_capacity_isolation: true,
        ..Rules::kubelet()
    };
    [kubelet, Rules::evictd()]
}

fn check(rules: &Rules, pods: &[(Pod, Option<PodUsage>)]) -> Vec<Decision> {
    let mut keeper = Housekeeper::new(rules.clone());
    let step = keeper.observe(at(0), &Observations::default());
    assert_eq!(step, Step::LocalStorage);
    let (pods, usage) = pods.iter().cloned().unzip::<_, _, Vec<_>, Vec<_>>();
    keeper.check_local_storage(at(0), &pods, &usage.into_iter().collect())
}

/// The kubelet's words for the one pod with that spec and usage, if it has to go, and the pseudo-signal. Ours begin with
/// the same sentence.
fn words(spec: &Value, usage: Option<PodUsage>) -> Option<(String, &'static str)> {
    let pods = [(pod("a", spec), usage)];
    let [by_the_kubelet, by_ours] = rules().map(|rules| {
        let decision = check(&rules, &pods).pop()?;
        Some((decision.eviction?.message, decision.signal))
    });
    let (kubelets, ours) = (&by_the_kubelet, &by_ours);
    assert_eq!(kubelets.is_some(), ours.is_some());
    if let Some(((kubelets, signal), (ours, ours_for))) = kubelets.as_ref().zip(ours.as_ref()) {
        assert_eq!(signal, ours_for);
        assert!(
            ours.starts_with(&format!("{kubelets}It was using ")),
            "{ours}"
        );
    }
    by_the_kubelet
}

fn empty_dir(limit: &str) -> Value {
    json!({ "volumes": [{ "name": "v", "emptyDir": { "sizeLimit": limit } }] })
}

fn holding(bytes: i64) -> Option<PodUsage> {
    disk(files(0, 0), files(0, 0), files(bytes, 0))
}

#[test]
fn s1_069_an_empty_dir_above_its_limit() {
    let message = "Usage of EmptyDir volume \"v\" exceeds the limit \"1Mi\". ";
    let expected = Some((message.to_owned(), "emptydirfs.limit"));
    assert_eq!(words(&empty_dir("1Mi"), holding(MI + 1)), expected);
    assert_eq!(words(&empty_dir("1Mi"), holding(MI)), None, "at the limit");
    assert_eq!(words(&empty_dir("0"), holding(MI)), None, "no limit");
    assert_eq!(
        words(
            &json!({ "volumes": [{ "name": "v", "emptyDir": {} }] }),
            holding(MI)
        ),
        None
    );
    let in_memory = json!({ "medium": "Memory", "sizeLimit": "1Mi" });
    let spec = json!({ "volumes": [{ "name": "v", "emptyDir": in_memory }] });
    assert_eq!(words(&spec, holding(MI + 1)), expected);
}

#[test]
fn s1_069_an_empty_dir_without_figure_counts_as_empty() {
    let mut usage = holding(0).unwrap();
    usage.volumes[0].usage.bytes = None;
    assert_eq!(words(&empty_dir("1Mi"), Some(usage.clone())), None);
    usage.volumes.clear();
    assert_eq!(words(&empty_dir("1Mi"), Some(usage)), None);
    assert_eq!(words(&empty_dir("1Mi"), None), None);
}

fn limited(containers: &[(&str, &str)]) -> Value {
    let container = |(name, limit): &(&str, &str)| json!({ "name": name, "resources": { "limits": { "ephemeral-storage": limit } } });
    let containers: Vec<_> = containers.iter().map(container).collect();
    json!({ "containers": containers })
}

#[test]
fn s1_070_a_pod_above_the_sum_of_its_limits() {
    let uses = |bytes| {
        Some(PodUsage {
            ephemeral_storage: Some(Figure::bytes(bytes)),
            ..PodUsage::default()
        })
    };
    let message = "Pod ephemeral local storage usage exceeds the total limit of containers 3Mi. ";
    let expected = Some((message.to_owned(), "ephemeralpodfs.limit"));
    let spec = limited(&[("a", "1Mi"), ("b", "2Mi")]);
    assert_eq!(words(&spec, uses(3 * MI + 1)), expected);
    assert_eq!(words(&spec, uses(3 * MI)), None);
    assert_eq!(words(&spec, Some(PodUsage::default())), None);
    assert_eq!(
        words(&json!({ "containers": [{ "name": "a" }] }), uses(i64::MAX)),
        None
    );
}

#[test]
fn s1_071_a_container_above_its_own_limit() {
    let message = "Container c exceeded its local ephemeral storage limit \"2Mi\". ";
    let expected = Some((message.to_owned(), "ephemeralcontainerfs.limit"));
    let spec = limited(&[("c", "2Mi"), ("d", "1Gi")]);
    let uses = |rootfs, logs| disk(files(rootfs, 0), files(logs, 0), files(0, 0));
    assert_eq!(words(&spec, uses(MI, MI + 1)), expected);
    assert_eq!(words(&spec, uses(MI, MI)), None);
    assert_eq!(
        words(&limited(&[("c", "0")]), uses(MI, MI)),
        None,
        "no limit"
    );
}

#[test]
fn s1_071_on_a_dedicated_image_filesystem_the_writable_layer_counts_with_ours_only() {
    let pods = [(
        pod("a", &limited(&[("c", "2Mi")])),
        disk(files(9 * MI, 0), files(MI, 0), files(0, 0)),
    )];
    for (ours, rules) in [false, true].into_iter().zip(rules()) {
        for (dedicated, split, goes) in [
            (false, false, true),
            (true, false, ours),
            (true, true, ours),
        ] {
            let layout = FilesystemLayout {
                dedicated_image_fs: dedicated,
                split_container_fs: split,
            };
            let rules = Rules {
                layout,
                ..rules.clone()
            };
            assert_eq!(check(&rules, &pods).len() == 1, goes);
        }
    }
}

#[test]
fn s7_282_t119_a_sidecar_above_its_own_limit_is_evicted_with_ours_and_an_init_container_stays() {
    let evicted = |restart: &str| {
        let limits = json!({ "limits": { "ephemeral-storage": "10Mi" } });
        let mut init = json!({ "name": "c", "resources": limits });
        init["restartPolicy"] = json!(restart);
        let main =
            json!({ "name": "main", "resources": { "limits": { "ephemeral-storage": "1Gi" } } });
        let spec = json!({ "initContainers": [init], "containers": [main] });
        let pods = [(
            pod("a", &spec),
            disk(files(0, 0), files(45 * MI, 1), files(0, 0)),
        )];
        move |version| {
            rules().map(|mut rules| {
                rules.follow_kubelet(version);
                check(&rules, &pods).pop().map(|decision| decision.signal)
            })
        }
    };
    let own = Some("ephemeralcontainerfs.limit");
    assert_eq!(
        evicted("Always")((1, 36)),
        [None, own],
        "it looks at containers only"
    );
    assert_eq!(evicted("Always")((1, 37)), [own, own]);
    assert_eq!(evicted("")((1, 37)), [None, None]);
}

#[test]
fn a_termination_log_counts_for_the_limit_of_the_pod_with_ours() {
    let usage = |held| PodUsage {
        kubelet_files: files(held, 1),
        ephemeral_storage: Some(Figure::bytes(MI)),
        ..PodUsage::default()
    };
    let pods = |held| [(pod("a", &limited(&[("c", "10Mi")])), Some(usage(held)))];
    let evicted = |held| rules().map(|rules| !check(&rules, &pods(held)).is_empty());
    assert_eq!(evicted(60 * MI), [false, true]);
    assert_eq!(evicted(9 * MI), [false, false]);
}

#[test]
fn s1_072_empty_dirs_then_the_pod_then_containers_and_once_a_pod() {
    let mut spec = limited(&[("c", "1Mi")]);
    spec["volumes"] = empty_dir("1Mi")["volumes"].clone();
    let mut usage = disk(files(9 * MI, 0), files(0, 0), files(9 * MI, 0)).unwrap();
    usage.ephemeral_storage = Some(Figure::bytes(9 * MI));
    let signal = |usage: &PodUsage| words(&spec, Some(usage.clone())).unwrap().1;
    assert_eq!(signal(&usage), "emptydirfs.limit");
    usage.volumes.clear();
    assert_eq!(signal(&usage), "ephemeralpodfs.limit");
    usage.ephemeral_storage = None;
    assert_eq!(signal(&usage), "ephemeralcontainerfs.limit");
}

#[test]
fn s1_072_one_cycle_evicts_every_pod_over_its_limit_but_critical_ones() {
    let mut critical = empty_dir("1Mi");
    critical["priority"] = json!(2_000_000_000);
    let pods = [
        (pod("a", &empty_dir("1Mi")), holding(2 * MI)),
        (pod("critical", &critical), holding(2 * MI)),
        (pod("b", &empty_dir("1Mi")), holding(2 * MI)),
        (pod("within", &empty_dir("3Mi")), holding(2 * MI)),
    ];
    for (rules, grace) in rules().into_iter().zip([1, 0]) {
        let mut decisions = check(&rules, &pods);
        let passed_over: Vec<_> = decisions
            .extract_if(.., |decision| decision.eviction.is_none())
            .filter_map(|decision| decision.passed_over)
            .map(|one| (one.pod, one.because))
            .collect();
        let critical = (
            "default/critical".to_owned(),
            "critical priority".to_owned(),
        );
        assert_eq!(passed_over, [critical]);
        let evictions: Vec<_> = decisions
            .iter()
            .map(|decision| decision.eviction.clone().unwrap())
            .collect();
        assert_eq!(
            evictions
                .iter()
                .map(|eviction| eviction.index)
                .collect::<Vec<_>>(),
            [0, 2]
        );
        for (decision, eviction) in decisions.iter().zip(evictions) {
            assert_eq!(decision.kind, Cause::LocalStorage);
            assert_eq!(eviction.grace_period_seconds, grace);
            // S1-053: neither condition nor annotations.
            assert!(eviction.annotations.is_empty() && !eviction.disruption_target);
        }
    }
}

#[test]
fn a_spared_pod_is_not_evicted_for_its_own_limit_either() {
    let annotations = json!({ PREFERENCE_ANNOTATION: "never" });
    let never = pod_with(
        "never",
        &json!({ "annotations": annotations }),
        &empty_dir("1Mi"),
    );
    let elsewhere = pod_with(
        "protected",
        &json!({ "namespace": "vault" }),
        &empty_dir("1Mi"),
    );
    let pods = [(never, holding(2 * MI)), (elsewhere, holding(2 * MI))];
    let [kubelet, ours] = rules();
    let mut strict = ours.clone();
    strict.pod_preference_namespaces.push("default".to_owned());
    strict.protect.namespaces.push("vault".to_owned());
    let going = |rules: &Rules| {
        let decisions = check(rules, &pods);
        let going = decisions.iter().filter(|one| one.eviction.is_some());
        (going.count(), decisions.len())
    };
    assert_eq!(going(&strict), (0, 2));
    assert_eq!(going(&ours), (2, 2));
    assert_eq!(going(&kubelet), (2, 2));
}

#[test]
fn a_pod_that_is_never_evicted_is_named_for_its_own_limit_and_hides_no_pressure() {
    let mut critical = empty_dir("1Mi");
    critical["priority"] = json!(2_000_000_000);
    let pods = [pod("agent", &critical), pod("hog", &json!({}))];
    let usage: Usage = [holding(2 * MI), memory(900 * MI)].into_iter().collect();
    for rules in rules() {
        let rules = Rules {
            thresholds: hard(&[("memory.available", "100Mi")]),
            ..rules
        };
        let mut keeper = Housekeeper::new(rules);
        let low = Observation {
            available: 50 * MI,
            capacity: 1000 * MI,
            time: None,
        };
        let step = keeper.begin(
            at(0),
            &[(Signal::MemoryAvailable, low)].into_iter().collect(),
        );
        assert_eq!(step, Step::LocalStorage);
        let (next, decisions) = keeper.answer(at(0), Answer::LocalStorage(Some((&pods, &usage))));
        assert!(matches!(next, Step::Rank(_)), "{next:?}");
        let why: Vec<&str> = decisions.iter().map(|one| one.why.as_str()).collect();
        let sentence = "default/agent exceeds a limit of its own and is never evicted (critical priority): Usage of \
                        EmptyDir volume \"v\" exceeds the limit \"1Mi\"";
        assert!(why.len() == 1 && why[0].starts_with(sentence), "{why:?}");
        let named: Vec<&str> = keeper
            .over_own_limit()
            .iter()
            .map(|one| one.pod.as_str())
            .collect();
        assert_eq!(named, ["default/agent"]);
        let record = Record::of_decision("1".to_owned(), &decisions[0]);
        // Its UID is no victim's: what collects evicted pods must not take it for one.
        assert_eq!((&decisions[0].uid, &record.uid), (&None, &None));
        assert!(!record.is_departure() && !record.is_eviction());
        assert_eq!(record.passed_over, decisions[0].passed_over);
        // It is over as soon as the pod holds less.
        keeper.check_local_storage(
            at(10),
            &pods,
            &[holding(0), None].into_iter().collect::<Usage>(),
        );
        assert!(keeper.over_own_limit().is_empty());
    }
}

#[test]
fn a_pod_that_is_terminating_or_unreachable_is_not_evicted_again_for_its_limit() {
    let [_, ours] = rules();
    let pods = [pod("a", &empty_dir("1Mi")), pod("b", &empty_dir("1Mi"))];
    let usage: Usage = [holding(2 * MI), holding(2 * MI)].into_iter().collect();
    let mut keeper = Housekeeper::new(ours);
    keeper.observe(at(0), &Observations::default());
    dies(&mut keeper, "uid-a", 0, 0);
    keeper.set_without_cgroup(["uid-b".to_owned()].into());
    assert!(keeper.check_local_storage(at(0), &pods, &usage).is_empty());
    fails(&mut keeper, "uid-a", 0);
    assert!(keeper.check_local_storage(at(0), &pods, &usage).is_empty());
    keeper.set_without_cgroup([].into());
    assert_eq!(keeper.check_local_storage(at(0), &pods, &usage).len(), 1);
}

#[test]
fn s1_073_without_isolation_limits_are_not_enforced() {
    let mut keeper = Housekeeper::new(Rules {
        local_storage_capacity_isolation: false,
        ..Rules::evictd()
    });
    assert_eq!(keeper.observe(at(0), &Observations::default()), Step::Rest);
}
