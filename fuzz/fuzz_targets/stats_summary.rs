//! Whatever is taken for a stats summary can be simulated on, under both sets of rules.
#![no_main]

use evictd_eviction::{Housekeeper, Rules, Summary, ThresholdMaps, simulation::cycle};
use evictd_pod::{Pod, wire};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|json: &[u8]| {
    let Ok(summary) = serde_json::from_slice::<Summary>(json) else {
        return;
    };
    let now = "2026-01-01T00:00:00Z".parse().expect("a timestamp");
    let pods = pods();
    for rules in [Rules::kubelet(), Rules::evictd()] {
        let mut keeper = Housekeeper::new(Rules {
            thresholds: thresholds().parse().expect("thresholds"),
            local_storage_capacity_isolation: true,
            ..rules
        });
        let outcome = cycle(&mut keeper, now, &pods, &summary, Some(&summary));
        serde_json::to_string(&outcome).expect("JSON");
        serde_json::to_string(&outcome.decision).expect("JSON");
    }
});

/// Every signal, half of capacity.
fn thresholds() -> ThresholdMaps {
    let mut maps = ThresholdMaps::default();
    for signal in evictd_eviction::Signal::ALL {
        let reclaim = maps.minimum_reclaim.entry(signal.as_str().to_owned());
        reclaim.or_insert_with(|| "10%".to_owned());
        maps.hard
            .insert(signal.as_str().to_owned(), "50%".to_owned());
    }
    maps
}

/// Two pods that a summary may speak of, as `a` and `b`.
fn pods() -> Vec<Pod> {
    let of = |uid: &str| {
        let limits = r#""limits":{"ephemeral-storage":"1Mi"}"#;
        let json = format!(
            r#"{{"metadata":{{"name":"{uid}","uid":"{uid}"}},"spec":{{
                "containers":[{{"name":"c","resources":{{{limits}}}}}],
                "volumes":[{{"name":"v","emptyDir":{{"sizeLimit":"1Gi"}}}}]}}}}"#
        );
        Pod::from_wire(serde_json::from_str::<wire::Pod>(&json).expect("a pod"))
    };
    vec![of("a"), of("b")]
}
