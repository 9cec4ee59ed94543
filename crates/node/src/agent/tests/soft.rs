//! Soft thresholds: the grace of the threshold, then that of the pod.

use super::bench::Bench;
use serde_json::json;

const SOFT: &str = "evictionHard: {memory.available: 50Mi}
evictionSoft: {memory.available: 200Mi}
evictionSoftGracePeriod: {memory.available: 1m30s}
evictionMaxPodGracePeriod: 40
evictionPressureTransitionPeriod: 5m";

fn near(found: f64, expected: f64) {
    assert!(
        (found - expected).abs() < 0.3,
        "{found} s, not {expected} s"
    );
}

#[tokio::test(start_paused = true)]
async fn s1_030_s1_048_the_threshold_is_crossed_for_its_grace_before_anybody_is_asked() {
    let mut bench = Bench::new();
    bench.pod_with("hog", 850, json!({ "terminationGracePeriodSeconds": 30 }));
    bench.start(SOFT);
    bench.pass(200.0).await;
    near(bench.at("raised"), 0.0);
    near(bench.at("evicts shop/hog"), 90.0);
    near(bench.at("shop/hog is killed"), 120.0);
    let record = &bench.records()[0];
    assert_eq!(record.grace_period_seconds, Some(30), "its own is shorter");
}

#[tokio::test(start_paused = true)]
async fn s1_048_no_pod_has_more_grace_than_the_configured_most() {
    let mut bench = Bench::new();
    bench.pod_with("hog", 850, json!({ "terminationGracePeriodSeconds": 3600 }));
    bench.start(SOFT);
    bench.pass(200.0).await;
    near(bench.at("shop/hog is killed"), 130.0);
}

#[tokio::test(start_paused = true)]
async fn a_dip_within_the_grace_period_ends_no_pod_and_the_next_one_starts_anew() {
    let mut bench = Bench::new();
    bench.pod("hog", 850);
    bench.start(SOFT);
    for _ in 0..3 {
        bench.grow("hog", 850);
        bench.pass(80.0).await;
        bench.grow("hog", 100);
        bench.pass(20.0).await;
    }
    assert_eq!(bench.told(), ["raised"]);
    bench.grow("hog", 850);
    bench.pass(100.0).await;
    let chosen = bench.at("evicts shop/hog");
    assert!((390.0..402.0).contains(&chosen), "{chosen}");
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_leaves_within_its_grace_is_not_killed() {
    let mut bench = Bench::new();
    bench.pod("hog", 850);
    bench.start(SOFT);
    bench.pass(100.0).await;
    assert!(bench.lives("hog"));
    bench.leave("hog");
    bench.pass(60.0).await;
    assert_eq!(bench.told(), ["raised", "evicts shop/hog", "shop/hog left"]);
    near(bench.at("shop/hog left"), 100.0);
}

#[tokio::test(start_paused = true)]
async fn no_other_pod_is_chosen_during_a_grace_period() {
    let mut bench = Bench::new();
    bench.pod("hog", 600);
    bench.pod("other", 290);
    bench.start(SOFT);
    bench.pass(119.0).await;
    assert_eq!(bench.told(), ["raised", "evicts shop/hog"]);
    bench.pass(120.0).await;
    assert!(!bench.lives("hog") && bench.lives("other"));
    assert_eq!(bench.records().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_hard_threshold_cuts_the_grace_period_and_ends_no_other_pod() {
    let mut bench = Bench::new();
    bench.pod("hog", 700);
    bench.pod("other", 150);
    bench.start(SOFT);
    bench.pass(95.0).await;
    assert!(bench.lives("hog"));
    bench.grow("other", 260);
    bench.pass(5.0).await;
    let killed = bench.at("shop/hog is killed");
    assert!((95.0..97.0).contains(&killed), "{killed}");
    bench.pass(30.0).await;
    assert!(bench.lives("other"));
    assert_eq!(bench.records().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_condition_stays_for_the_transition_period() {
    let mut bench = Bench::new();
    bench.pod("hog", 850);
    bench.start(SOFT);
    bench.pass(50.0).await;
    bench.grow("hog", 100);
    bench.pass(400.0).await;
    let cleared = bench.at("cleared");
    assert!((345.0..361.0).contains(&cleared), "{cleared}");
    assert_eq!(bench.told(), ["raised", "cleared"]);
}

#[tokio::test(start_paused = true)]
async fn a_dip_within_the_transition_period_prolongs_the_condition() {
    let mut bench = Bench::new();
    bench.pod("hog", 850);
    bench.start(SOFT);
    bench.pass(10.0).await;
    bench.grow("hog", 100);
    bench.pass(200.0).await;
    bench.grow("hog", 850);
    bench.pass(30.0).await;
    bench.grow("hog", 100);
    bench.pass(290.0).await;
    assert_eq!(bench.told(), ["raised"]);
    bench.pass(20.0).await;
    assert_eq!(bench.told(), ["raised", "cleared"]);
}
