//! A threshold that was nearly met is kept, with the pods that held most then.

use super::bench::Bench;
use serde_json::Value;

const HARD: &str = "evictionHard: {memory.available: 100Mi}";

/// The pods that a near miss names.
fn holders(miss: &Value) -> Vec<&str> {
    let holders = miss["holders"].as_array().unwrap().iter();
    holders.map(|one| one["pod"].as_str().unwrap()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_threshold_that_is_nearly_met_is_kept_with_the_pods_that_held_most() {
    let mut bench = Bench::new();
    bench.pod("hog", 500);
    bench.pod("small", 50);
    bench.start(HARD);
    bench.pass(20.0).await;
    let near = bench.near_misses().await;
    assert!(near["ongoing"].as_array().unwrap().is_empty(), "{near}");
    bench.grow("hog", 835);
    bench.pass(20.0).await;
    let near = bench.near_misses().await;
    let ongoing = &near["ongoing"][0];
    assert_eq!(ongoing["signal"], "memory.available");
    assert_eq!(holders(ongoing), ["shop/hog", "shop/small"], "{near}");
    bench.grow("hog", 500);
    bench.pass(90.0).await;
    let near = bench.near_misses().await;
    let ended = &near["nearMisses"][0];
    let left = ended["leastAvailable"].as_i64().unwrap() >> 20;
    assert!((100..125).contains(&left), "{near}");
    assert_eq!(near["days"][0]["nearMisses"]["memory.available"], 1);
    assert!(near["ongoing"].as_array().unwrap().is_empty(), "{near}");
    assert!(bench.told().is_empty(), "{:?}", bench.told());
}

#[tokio::test(start_paused = true)]
async fn an_eviction_is_no_near_miss_and_its_condition_is_timed() {
    let mut bench = Bench::new();
    bench.pod("hog", 950);
    bench.start(HARD);
    bench.pass(400.0).await;
    assert!(!bench.lives("hog"));
    let near = bench.near_misses().await;
    assert!(near["nearMisses"].as_array().unwrap().is_empty(), "{near}");
    let raised = near["days"][0]["raisedSeconds"]["MemoryPressure"].as_f64();
    assert!((290.0..330.0).contains(&raised.unwrap()), "{near}");
}
