//! Whatever is taken for a v1 Pod is a pod that can be ranked.
#![no_main]

use evictd_departures::Departures;
use evictd_eviction::{Rules, rank::Ranking};
use evictd_pod::{Pod, wire};
use evictd_signals::Signal;
use evictd_usage::{PodUsage, Usage};
use libfuzzer_sys::fuzz_target;
use std::collections::BTreeSet;

fuzz_target!(|json: &[u8]| {
    let Ok(pod) = serde_json::from_slice::<wire::Pod>(json) else {
        return;
    };
    let pod = Pod::from_wire(pod);
    assert_eq!(pod.full_name(), format!("{}/{}", pod.namespace, pod.name));
    for resource in pod.requested_resources() {
        let _ = pod.request(resource).to_string();
    }
    let rules = Rules::evictd();
    let usage = Usage {
        pods: vec![Some(PodUsage::default())],
        ..Usage::default()
    };
    for signal in Signal::ALL {
        let rows = Ranking {
            now: jiff::Timestamp::UNIX_EPOCH,
            signal,
            capacity: i64::MAX,
            rules: &rules,
            departures: &Departures::default(),
            without_cgroup: &BTreeSet::new(),
        }
        .of(std::slice::from_ref(&pod), &usage);
        serde_json::to_string(&rows).expect("JSON");
    }
});
