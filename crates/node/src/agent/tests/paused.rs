//! While a pause holds, what is decided is only told.

use super::bench::Bench;
use crate::pause::Pause;
use jiff::Timestamp;

const HARD: &str = "evictionHard: {memory.available: 100Mi}";

#[tokio::test(start_paused = true)]
async fn a_pause_ends_by_itself_and_then_the_hog_is_evicted() {
    let mut bench = Bench::new();
    bench.pod("hog", 100);
    bench.start(HARD);
    bench.pause(Some(600)).await;
    bench.grow("hog", 950);
    bench.pass(599.0).await;
    // Both are of one cycle and go ways of their own, so that either may come first.
    let mut told = bench.told();
    told.sort_unstable();
    assert_eq!(told, ["paused shop/hog", "raised"]);
    assert!(bench.lives("hog"));
    bench.pass(3.0).await;
    let chosen = bench.at("evicts shop/hog");
    assert!((600.0..601.1).contains(&chosen), "{chosen}");
    assert!(!bench.lives("hog"));
}

#[tokio::test(start_paused = true)]
async fn a_pause_without_an_end_holds_until_it_is_taken_back_and_through_a_restart() {
    let mut bench = Bench::new();
    bench.pod("hog", 100);
    bench.start(HARD);
    bench.pause(None).await;
    bench.kill_agent();
    bench.grow("hog", 950);
    bench.start(HARD);
    bench.pass(3600.0).await;
    assert!(bench.lives("hog"));
    bench.resume().await;
    bench.pass(2.0).await;
    assert!(!bench.lives("hog"));
}

#[tokio::test(start_paused = true)]
async fn a_termination_that_has_begun_is_finished_during_a_pause() {
    let mut bench = Bench::new();
    bench.pod("hog", 950);
    bench.start("evictionHard: {memory.available: 100Mi}\nevictionHardGracePeriod: 20s");
    bench.pass(5.0).await;
    assert!(bench.lives("hog"), "it has its grace");
    bench.pause(None).await;
    bench.pass(30.0).await;
    assert!(!bench.lives("hog"));
    let killed = bench.at("shop/hog is killed");
    assert!((20.0..20.3).contains(&killed), "{killed}");
}

#[tokio::test(start_paused = true)]
async fn a_terminating_soft_victim_is_finished_under_a_pause_and_no_other_pod_follows() {
    let soft = "evictionHard: {memory.available: 1Mi}\nevictionSoft: {memory.available: 600Mi}\n\
                evictionSoftGracePeriod: {memory.available: 60s}\nevictionMaxPodGracePeriod: 30";
    let mut bench = Bench::new();
    bench.pod("hog", 480);
    bench.pod("other", 470);
    bench.start(soft);
    bench.pass(70.0).await;
    bench.pause(None).await;
    bench.pass(600.0).await;
    let told = [
        "raised",
        "evicts shop/hog",
        "shop/hog is killed",
        "paused shop/other",
    ];
    assert_eq!(bench.told(), told);
    let killed = bench.at("shop/hog is killed");
    assert!((90.0..90.3).contains(&killed), "{killed}");
    assert!(bench.lives("other"));
}

#[tokio::test(start_paused = true)]
async fn an_annotation_pauses_as_long_as_it_is_there_and_the_command_does_not_take_it_back() {
    let mut bench = Bench::new();
    bench.pod("hog", 100);
    bench.start(HARD);
    let annotated = Pause::of_annotation(Some("maintenance"), Timestamp::UNIX_EPOCH);
    bench.annotation.send_replace(annotated);
    bench.pass(1.0).await;
    bench.grow("hog", 950);
    bench.pass(300.0).await;
    bench.resume().await;
    bench.pass(300.0).await;
    assert!(bench.lives("hog"));
    bench.annotation.send_replace(None);
    bench.pass(2.0).await;
    assert!(!bench.lives("hog"));
}
