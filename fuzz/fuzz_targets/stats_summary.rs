//! Whatever is taken for a stats summary can be simulated on, under both sets of rules.
#![no_main]

use evictd_eviction::{Housekeeper, Rules, simulation::cycle};
use evictd_pod::{Pod, wire};
use evictd_signals::{Signal, ThresholdMaps};
use evictd_usage::Summary;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|json: &[u8]| {
    let Ok(summary) = serde_json::from_slice::<Summary>(json) else {
        return;
    };
    let now = "2026-01-01T00:00:00Z".parse().expect("a timestamp");
    let pods = pods();
    let kubelets = thresholds(|signal| !signal.is_ours()).parse();
    let ours = thresholds(|_| true).parse_with_ours();
    for (rules, thresholds) in [(Rules::kubelet(), kubelets), (Rules::evictd(), ours)] {
        let mut keeper = Housekeeper::new(Rules {
            thresholds: thresholds.expect("thresholds"),
            local_storage_capacity_isolation: true,
            ..rules
        });
        let outcome = cycle(&mut keeper, now, &pods, &summary, Some(&summary));
        serde_json::to_string(&outcome).expect("JSON");
        serde_json::to_string(&outcome.decision).expect("JSON");
    }
});

/// Every such signal, half of capacity or of the time.
fn thresholds(is_known: impl Fn(Signal) -> bool) -> ThresholdMaps {
    let mut maps = ThresholdMaps::default();
    for signal in Signal::ALL.into_iter().filter(|signal| is_known(*signal)) {
        let value = if signal.is_pressure() {
            "full avg10 > 50% for 1s"
        } else {
            "50%"
        };
        let reclaim = maps.minimum_reclaim.entry(signal.as_str().to_owned());
        reclaim.or_insert_with(|| "10%".to_owned());
        maps.hard
            .insert(signal.as_str().to_owned(), value.to_owned());
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
