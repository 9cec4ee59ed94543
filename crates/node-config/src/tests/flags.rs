//! Percentages that were meant the other way round, and flags of a kubelet pasted as configuration.

use super::{mistakes::said, *};

#[test]
fn percentages_meant_as_what_may_be_used_are_warned_of_and_never_refused() {
    let warned = |header: &str, body: &str, written: &str, used: &str| {
        let said = said(&format!("{header}{body}"));
        let expected = format!(
            "acts while more than {used} is in use, because {written} is what must be left; write {used} if {written} may \
             be in use"
        );
        assert!(said.contains(&expected), "{body}: {said}");
        assert!(
            said.lines().all(|line| line.starts_with("warning ")),
            "{said}"
        );
    };
    for header in [HEADER, KUBELET] {
        warned(
            header,
            "evictionHard: {memory.available: 90%}",
            "90%",
            "10%",
        );
        warned(
            header,
            "evictionHard: {nodefs.inodesFree: 87.5%}",
            "87.5%",
            "12.5%",
        );
        let soft = "evictionSoft: {nodefs.available: 85%}\nevictionSoftGracePeriod: {nodefs.available: 1m}";
        warned(header, soft, "85%", "15%");
        let plausible = format!("{header}evictionHard: {{memory.available: 50%}}");
        assert!(!said(&plausible).contains("acts while"));
    }
}

#[test]
fn a_threshold_flag_as_a_value_is_answered_with_the_map_to_write() {
    let expected = "evictionHard: {memory.available: 500Mi, nodefs.available: 5%}";
    let forms = [
        "evictionHard: \"memory.available<500Mi,nodefs.available<5%\"",
        "evictionHard: memory.available<500Mi, nodefs.available<5%",
        "evictionHard: [memory.available<500Mi, nodefs.available<5%]",
        "eviction-hard: memory.available<500Mi,nodefs.available<5%",
        "--eviction-hard: memory.available<500Mi,nodefs.available<5%",
    ];
    for header in [HEADER, KUBELET, ""] {
        for form in forms {
            let said = said(&format!("{header}{form}"));
            assert!(
                said.contains(&format!("; write {expected}\n")),
                "{header}{form}\n{said}"
            );
            let refused = !said.starts_with("warning ") || header == KUBELET;
            assert!(refused || header.is_empty(), "{said}");
        }
    }
    // Nothing of the map was read, so that nothing is known to be missing.
    let said = said(&format!("{KUBELET}{}", forms[0]));
    assert!(!said.contains("not watched"), "{said}");
}

#[test]
fn every_flag_of_a_distribution_is_answered_with_its_setting() {
    let flags = [
        (
            "eviction-hard=imagefs.available<5%,nodefs.available<5%",
            "evictionHard: {imagefs.available: 5%, nodefs.available: 5%}",
        ),
        (
            "eviction-soft=memory.available<1Gi",
            "evictionSoft: {memory.available: 1Gi}",
        ),
        (
            "eviction-soft-grace-period=memory.available=1m30s",
            "evictionSoftGracePeriod: {memory.available: 1m30s}",
        ),
        (
            "eviction-minimum-reclaim=nodefs.available=10%",
            "evictionMinimumReclaim: {nodefs.available: 10%}",
        ),
        (
            "eviction-max-pod-grace-period=60",
            "evictionMaxPodGracePeriod: 60",
        ),
        (
            "eviction-pressure-transition-period=5m0s",
            "evictionPressureTransitionPeriod: 5m0s",
        ),
        (
            "enforce-node-allocatable=pods",
            "enforceNodeAllocatable: [pods]",
        ),
        (
            "image-gc-high-threshold=85",
            "imageGC: {highThresholdPercent: 85}",
        ),
        (
            "image-gc-low-threshold=80",
            "imageGC: {lowThresholdPercent: 80}",
        ),
        (
            "minimum-image-ttl-duration=2m0s",
            "imageGC: {minimumAge: 2m0s}",
        ),
    ];
    let mut whole = HEADER.to_owned();
    for (flag, setting) in flags {
        let (name, value) = flag.split_once('=').unwrap();
        let files = [
            format!("kubelet-arg:\n  - {flag}\n"),
            format!("kubelet-arg+:\n  - \"--{flag}\"\n"),
            format!("machine: {{kubelet: {{extraArgs: {{{name}: \"{value}\"}}}}}}"),
            format!(
                "nodeRegistration:\n  kubeletExtraArgs:\n  - {{name: {name}, value: \"{value}\"}}\n"
            ),
            format!("--{flag}\n"),
            format!("KUBELET_EXTRA_ARGS=\"--v=2 --{flag}\"\n"),
        ];
        for file in files {
            let said = said(&file);
            assert!(
                said.contains(&format!("; write {setting}\n")),
                "{file}\n{said}"
            );
        }
        whole.push_str(setting);
        whole.push('\n');
    }
    // Several settings of images are one map.
    let (plain, images): (Vec<&str>, Vec<&str>) =
        whole.lines().partition(|line| !line.starts_with("imageGC"));
    good(&plain.join("\n"));
    for line in images {
        good(&format!("{HEADER}{line}"));
    }
}

#[test]
fn other_flags_of_a_distribution_are_not_compared_with_settings() {
    let said = said(
        "write-kubeconfig-mode: \"0644\"\nkubelet-arg:\n  - max-pods=200\n  - eviction-hard=memory.available<100Mi\n",
    );
    for line in [
        "f.yaml:1:1: write-kubeconfig-mode: unknown key; a setting of the distribution, which evictd does not read; leave it out\n",
        "f.yaml:3:5: kubelet-arg[0]: --max-pods is a flag of the kubelet, and not read from here; evictd has no such setting; leave it out\n",
        "f.yaml:4:5: kubelet-arg[1]: --eviction-hard is a flag of the kubelet, and not read from here; write evictionHard: {memory.available: 100Mi}\n",
    ] {
        assert!(said.contains(line), "{said}");
    }
}

#[test]
fn an_amount_with_the_sign_of_a_flag_is_answered_without_it() {
    let table = [
        (
            "evictionHard: {memory.available: \"<500Mi\"}",
            "; write memory.available: 500Mi\n",
        ),
        (
            "evictionHard: {memory.available<500Mi: null}",
            "; write memory.available: 500Mi\n",
        ),
    ];
    for (body, advice) in table {
        let said = said(&format!("{HEADER}{body}"));
        assert!(said.ends_with(advice), "{body}: {said}");
    }
}

proptest! {
    #[test]
    fn any_text_in_place_of_settings_is_answered(text in "[a-z<=,.%0-9 '-]{0,40}") {
        for file in [format!("kubelet-arg: [\"{text}\"]"), format!("{HEADER}evictionHard: \"{text}\"")] {
            prop_assert!(parse("f.yaml", &file).is_err());
        }
    }
}
