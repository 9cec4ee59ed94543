//! Hard thresholds: at once, one after the other, and not in vain.

use super::bench::Bench;
use evictd_decision::Withheld;
use serde_json::json;
use std::time::Duration;
use tokio::time::sleep;

const HARD: &str = "evictionHard: {memory.available: 100Mi}\nevictionPressureTransitionPeriod: 10s";

const FUTILE: &str = "evictionHard: {memory.available: 100Mi}
futileEvictions: 2
evictWithoutRelief: true";

fn priority(priority: i32) -> serde_json::Value {
    json!({ "priority": priority })
}

#[tokio::test(start_paused = true)]
async fn a_hog_is_killed_at_once_and_no_other_pod() {
    let mut bench = Bench::new();
    bench.pod("hog", 100);
    bench.pod("modest", 50);
    bench.start(HARD);
    bench.pass(5.0).await;
    assert!(bench.told().is_empty());
    bench.grow("hog", 900);
    bench.pass(30.0).await;
    let told = ["evicts shop/hog", "raised", "shop/hog is killed", "cleared"];
    assert_eq!(bench.told(), told);
    // A node that was quiet is looked at after so long that nothing can have filled it.
    let chosen = bench.at("evicts shop/hog");
    assert!((5.0..5.3).contains(&chosen), "{chosen}");
    assert!(bench.at("shop/hog is killed") - chosen < 0.2);
    assert!(bench.lives("modest"));
}

#[tokio::test(start_paused = true)]
async fn s1_058_no_pod_is_evicted_while_the_victim_before_frees_its_memory() {
    let mut bench = Bench::new();
    bench.pod_with("first", 600, priority(0));
    bench.pod_with("second", 399, priority(5));
    bench.never_dies("first");
    bench.start(HARD);
    for given_back in 1..=15 {
        bench.pass(0.9).await;
        bench.grow("first", 600 - 6 * given_back);
    }
    assert!(bench.available() < 100 && bench.lives("second"));
    assert_eq!(
        bench.told(),
        ["evicts shop/first", "raised", "evicts nobody"]
    );
    let why = bench.records().remove(1).withheld.unwrap();
    assert!(matches!(why, Withheld::DyingPodsRelease { .. }), "{why:?}");
}

#[tokio::test(start_paused = true)]
async fn a_killed_pod_that_gives_nothing_back_for_two_seconds_is_not_waited_for() {
    let mut bench = Bench::new();
    bench.pod_with("first", 480, priority(0));
    bench.pod_with("second", 470, priority(5));
    bench.pod_with("third", 10, priority(9));
    bench.never_dies("first");
    bench.start(HARD);
    bench.pass(60.0).await;
    let next = bench.at("evicts shop/second") - bench.at("evicts shop/first");
    assert!((2.0..2.2).contains(&next), "{next}");
    let outlived = bench.at("shop/first lives on");
    assert!((30.0..30.3).contains(&outlived), "{outlived}");
    assert!(bench.lives("third"));
}

#[tokio::test(start_paused = true)]
async fn the_grace_of_a_hard_victim_is_its_own_and_not_cut_by_the_threshold_it_goes_for() {
    let mut bench = Bench::new();
    bench.pod("hog", 950);
    bench.start("evictionHard: {memory.available: 100Mi}\nevictionHardGracePeriod: 20s");
    bench.pass(60.0).await;
    let killed = bench.at("shop/hog is killed") - bench.at("evicts shop/hog");
    assert!((20.0..20.3).contains(&killed), "{killed}");
}

#[tokio::test(start_paused = true)]
async fn evictions_that_do_not_help_stop_and_begin_again_when_the_signal_has_moved() {
    let mut bench = Bench::new();
    for name in ["a", "b", "c", "d"] {
        bench.pod(name, 0);
    }
    bench.take_outside(950);
    bench.start(FUTILE);
    bench.pass(250.0).await;
    let told = [
        "evicts shop/a",
        "raised",
        "shop/a is killed",
        "evicts shop/b",
        "shop/b is killed",
        "evicts nobody",
    ];
    assert_eq!(bench.told(), told);
    let why = bench.records().remove(2).withheld.unwrap();
    assert!(matches!(why, Withheld::Futile { evictions: 2 }), "{why:?}");
    let stop = bench.status()["futileStops"][0].clone();
    assert_eq!(stop["signal"], "memory.available");
    assert!(!bench.lives("b") && bench.lives("c"));
    bench.take_outside(910);
    bench.pass(5.0).await;
    assert!(!bench.lives("c"), "{:#?}", bench.log());
}

#[tokio::test(start_paused = true)]
async fn evictions_that_do_not_help_are_tried_again_after_five_minutes() {
    let mut bench = Bench::new();
    for name in ["a", "b", "c", "d"] {
        bench.pod(name, 0);
    }
    bench.take_outside(950);
    bench.start(FUTILE);
    bench.pass(400.0).await;
    let again = bench.at("evicts shop/c") - bench.at("evicts nobody");
    assert!((300.0..301.1).contains(&again), "{again}");
}

#[tokio::test(start_paused = true)]
async fn no_pod_is_evicted_in_vain_and_the_holders_of_the_missing_amount_are_named() {
    let mut bench = Bench::new();
    for name in ["a", "b", "c"] {
        bench.pod(name, 1);
    }
    bench.take_outside(950);
    bench.start(HARD);
    bench.pass(300.0).await;
    assert_eq!(bench.told(), ["evicts nobody", "raised"]);
    assert!(["a", "b", "c"].iter().all(|name| bench.lives(name)));
    let why = bench.records().remove(0).withheld.unwrap();
    let Withheld::NoRelief { shares, .. } = why else {
        panic!("{why:?}");
    };
    assert_eq!(shares.in_no_pod.value() >> 20, 950, "{shares:?}");
}

#[tokio::test(start_paused = true)]
async fn no_pod_is_evicted_for_a_growing_static_pod_until_it_stops() {
    let mut bench = Bench::new();
    for name in ["api", "cron", "mail"] {
        bench.pod(name, 45);
    }
    let from_file = json!({ "annotations": { "kubernetes.io/config.source": "file" } });
    bench.pod_of("agent", 300, json!({ "metadata": from_file }));
    bench.start(HARD);
    bench.pass(5.0).await;
    for held in (300..=825).step_by(25) {
        bench.grow("agent", held);
        bench.pass(0.05).await;
    }
    assert_eq!(bench.available(), 40);
    assert_eq!(bench.told(), ["evicts nobody", "raised"]);
    let why = bench.records().remove(0).withheld.unwrap();
    let Withheld::NoRelief { growth, .. } = why else {
        panic!("{why:?}");
    };
    assert_eq!(growth.unwrap().pod.as_deref(), Some("shop/agent"));
    bench.pass(2.0).await;
    assert_eq!(bench.told()[2], "evicts shop/api", "{:#?}", bench.log());
}

#[tokio::test(start_paused = true)]
async fn decoys_of_low_priority_protect_no_hog() {
    let mut bench = Bench::new();
    // Nothing that ends gives back as much as is missing, or a hundredth of it.
    for name in ["decoy-0", "decoy-1", "decoy-2", "decoy-3", "decoy-4"] {
        bench.pod_with(name, 1, priority(-1));
    }
    bench.pod("hog", 940);
    bench.pod_with("neighbour", 10, priority(1000));
    bench.start(HARD);
    bench.pass(300.0).await;
    let decided = bench.records().into_iter().filter_map(|record| record.pod);
    let decided: Vec<_> = decided.collect();
    let gone = ["shop/decoy-0", "shop/decoy-1", "shop/decoy-2", "shop/hog"];
    assert_eq!(decided, gone, "{:#?}", bench.log());
    assert!(bench.lives("neighbour"));
}

#[tokio::test(start_paused = true)]
async fn a_hog_that_was_deleted_by_force_is_killed_and_no_other_pod() {
    let mut bench = Bench::new();
    bench.pod("hog", 20);
    for name in ["a", "b", "c"] {
        bench.pod(name, 40);
    }
    bench.start(HARD);
    bench.pass(5.0).await;
    bench.delete_by_force("hog");
    bench.pass(5.0).await;
    bench.grow("hog", 850);
    bench.pass(300.0).await;
    assert!(!bench.lives("hog"), "{:#?}", bench.log());
    assert_eq!(bench.records().len(), 1, "{:#?}", bench.log());
    assert!(["a", "b", "c"].iter().all(|name| bench.lives(name)));
}

#[tokio::test(start_paused = true)]
async fn a_deleted_hog_that_grows_goes_before_its_kubelets_time_and_one_that_grows_slowly_after_it()
{
    for (grows, mut holds, from, to) in [(100, 500, 0.1, 0.9), (2, 836, 1.9, 2.5)] {
        let mut bench = Bench::new();
        bench.pod("hog", holds);
        bench.pod("modest", 50);
        bench.start(HARD);
        bench.pass(30.0).await;
        bench.delete_by_force("hog");
        // The threshold is crossed after half a second. At 1 GB a second the rest lasts for 0.1 s, at 20 MB for 5 s.
        for _ in 0..40 {
            bench.grow("hog", holds);
            bench.pass(0.1).await;
            if !bench.lives("hog") {
                break;
            }
            holds = (holds + grows).min(940);
        }
        let log = bench.log();
        assert!(!bench.lives("hog") && bench.lives("modest"), "{log:#?}");
        let killed = bench.at("shop/hog is killed") - 30.0;
        assert!((from..to).contains(&killed), "{grows}: {killed}");
        let records = bench.records();
        let evictions = records.iter().filter(|record| record.withheld.is_none());
        assert_eq!(evictions.count(), 1, "{log:#?}");
        let is_at_once = grows == 100;
        assert!(!is_at_once || records.len() == 1, "{log:#?}");
    }
}

#[tokio::test(start_paused = true)]
async fn s1_044_s1_059_of_two_hogs_the_second_goes_when_the_first_is_gone_and_it_is_still_low() {
    let mut bench = Bench::new();
    bench.pod_with("modest", 40, priority(9));
    bench.pod("hog-a", 600);
    bench.pod("hog-b", 350);
    bench.start("evictionHard: {memory.available: 700Mi}");
    bench.pass(300.0).await;
    let told = [
        "evicts shop/hog-a",
        "raised",
        "shop/hog-a is killed",
        "evicts shop/hog-b",
        "shop/hog-b is killed",
    ];
    assert_eq!(bench.told()[..5], told);
    // No pause of ten seconds in between (S1-023).
    let apart = bench.at("evicts shop/hog-b") - bench.at("shop/hog-a is killed");
    assert!(apart < 1.1, "{apart} s");
    assert!(bench.lives("modest"));
    assert_eq!(bench.records().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_pod_of_a_daemon_set_is_evicted_after_its_equals() {
    let mut bench = Bench::new();
    let owner = json!({ "apiVersion": "apps/v1", "kind": "DaemonSet", "name": "logs", "uid": "u", "controller": true });
    let returning = json!({ "metadata": { "ownerReferences": [owner] } });
    bench.pod_of("returning", 600, returning);
    bench.pod("other", 350);
    bench.start(HARD);
    bench.pass(300.0).await;
    assert!(bench.lives("returning") && !bench.lives("other"));
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_decides_and_ends_no_pod() {
    let mut bench = Bench::new();
    bench.pod("hog", 950);
    bench.start(&format!("{HARD}\ndryRun: true"));
    bench.pass(300.5).await;
    assert_eq!(bench.told(), ["would evict shop/hog", "raised"]);
    assert!(bench.lives("hog"));
    bench.reload(HARD).await;
    bench.pass(1.0).await;
    assert!(!bench.lives("hog"), "{:#?}", bench.log());
}

#[tokio::test(start_paused = true)]
async fn a_pod_over_its_limit_goes_although_it_was_known_before_it_had_a_cgroup() {
    let mut bench = Bench::new();
    let volume = json!({ "name": "scratch", "emptyDir": { "sizeLimit": "64Ki" } });
    bench.pod_with("limited", 10, json!({ "volumes": [volume] }));
    bench.has_cgroup("limited", false);
    bench.start(HARD);
    bench.pass(5.0).await;
    bench.has_cgroup("limited", true);
    bench.fill_volume("limited", "scratch", 100);
    let gone = bench.pass_until_gone("limited", 3600.0).await;
    assert!(gone, "{:#?}", bench.log());
}

#[tokio::test(start_paused = true)]
async fn a_critical_pod_over_its_limit_is_told_once_and_shown_as_long_as_it_is() {
    let mut bench = Bench::new();
    let volume = json!({ "name": "scratch", "emptyDir": { "sizeLimit": "64Ki" } });
    let spec = json!({ "volumes": [volume], "priority": 2_000_000_000 });
    bench.pod_with("agent", 10, spec);
    bench.start(HARD);
    let shown = |bench: &Bench| {
        let warnings = bench.status()["warnings"].to_string();
        warnings.contains(
            "shop/agent exceeds a limit of its own and is never evicted (critical priority)",
        )
    };
    bench.pass(5.0).await;
    assert!(!shown(&bench), "{:#}", bench.status());
    bench.fill_volume("agent", "scratch", 100);
    let mut passed = 0;
    while !shown(&bench) && passed < 3600 {
        bench.pass(1.0).await;
        passed += 1;
    }
    assert!(shown(&bench), "{:#}", bench.status());
    bench.pass(120.0).await;
    assert_eq!(bench.told(), ["evicts nobody"]);
    let records = bench.records();
    assert_eq!(
        records[0].uid, None,
        "it is not collected as an evicted pod"
    );
    assert!(
        records[0]
            .why
            .as_ref()
            .unwrap()
            .contains("exceeds the limit"),
        "{records:#?}"
    );
    assert!(bench.lives("agent"));
}

#[tokio::test(start_paused = true)]
async fn a_threshold_above_half_of_the_node_is_a_warning_of_the_status_page() {
    let mut bench = Bench::new();
    bench.pod("pod", 10);
    bench.start("evictionHard: {memory.available: 900Mi, pid.available: 0%}");
    bench.pass(1.0).await;
    let warnings = bench.status()["warnings"].to_string();
    let expected = "memory.available<900Mi acts while more than 100Mi of 1000Mi is in use";
    assert!(warnings.contains(expected), "{warnings}");
    bench
        .reload("evictionHard: {memory.available: 100Mi, pid.available: 0%}")
        .await;
    bench.pass(10.0).await;
    let warnings = bench.status()["warnings"].to_string();
    assert!(!warnings.contains("acts while"), "{warnings}");
}

#[tokio::test(start_paused = true)]
async fn new_rules_hold_from_the_next_look() {
    let mut bench = Bench::new();
    bench.pod("hog", 800);
    bench.start(HARD);
    bench.pass(30.0).await;
    assert!(bench.told().is_empty());
    // Between two looks, which are 25 ms apart: a second one at the same moment would have no figure that is new.
    sleep(Duration::from_millis(10)).await;
    bench
        .reload("evictionHard: {memory.available: 300Mi}")
        .await;
    bench.pass(1.0).await;
    assert!(!bench.lives("hog"), "{:#?}", bench.log());
}

#[tokio::test(start_paused = true)]
async fn a_quiet_node_is_looked_at_seldom_and_one_near_its_threshold_often() {
    let mut bench = Bench::new();
    bench.pod("pod", 0);
    bench.start("evictionHard: {memory.available: 1Mi}");
    bench.pass(20.0).await;
    let quiet = bench.looks().len();
    bench.grow("pod", 990);
    bench.pass(20.0).await;
    let near = bench.looks().len() - quiet;
    assert!(near > 5 * quiet, "{quiet} and {near} looks");
    assert!(bench.told().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_crossed_threshold_is_looked_at_every_second() {
    let mut bench = Bench::new();
    bench.take_outside(950);
    bench.start(HARD);
    bench.pass(60.0).await;
    let looks = bench.looks();
    let apart = looks.windows(2).map(|two| two[1] - two[0]);
    let longest = apart.fold(0.0, f64::max);
    assert!(longest <= 1.1, "{longest} s");
    assert!(looks.len() < 100, "{} looks", looks.len());
}

#[tokio::test(start_paused = true)]
async fn a_kill_at_the_end_of_the_daemon_is_waited_for_two_seconds_at_most() {
    let mut bench = Bench::new();
    bench.pod("hog", 950);
    bench.never_dies("hog");
    bench.start(HARD);
    bench.pass(1.0).await;
    let began = tokio::time::Instant::now();
    assert!(bench.stop(10).await);
    let took = began.elapsed().as_secs_f64();
    assert!((2.0..2.2).contains(&took), "{took}");
}

#[tokio::test(start_paused = true)]
async fn the_condition_of_a_hard_threshold_is_raised_at_once_and_cleared_after_the_transition_period()
 {
    let mut bench = Bench::new();
    bench.pod("hog", 950);
    bench.start(HARD);
    bench.pass(30.0).await;
    let held = bench.at("cleared") - bench.at("shop/hog is killed");
    assert!((10.0..11.1).contains(&held), "{held}");
}

#[tokio::test(start_paused = true)]
async fn after_an_eviction_the_freed_memory_is_seen_before_anybody_else_is_chosen() {
    let mut bench = Bench::new();
    bench.pod_with("first", 90, priority(0));
    bench.pod_with("second", 90, priority(5));
    bench.take_outside(770);
    bench.start(HARD);
    bench.pass(60.0).await;
    assert_eq!(bench.records().len(), 1, "{:#?}", bench.log());
    assert!(bench.lives("second"));
}

#[tokio::test(start_paused = true)]
async fn s1_051_a_minimum_reclaim_keeps_evicting_until_it_is_reached() {
    let mut bench = Bench::new();
    bench.pod_with("first", 60, priority(0));
    bench.pod_with("second", 60, priority(5));
    bench.pod_with("third", 60, priority(9));
    bench.take_outside(730);
    bench.start(&format!(
        "{HARD}\nevictionMinimumReclaim: {{memory.available: 100Mi}}"
    ));
    bench.pass(60.0).await;
    assert!(
        !bench.lives("first") && !bench.lives("second") && bench.lives("third"),
        "{:#?}",
        bench.log()
    );
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_comes_to_a_node_under_pressure_is_seen_at_once() {
    let mut bench = Bench::new();
    bench.take_outside(890);
    // Critical.
    bench.pod_with("first", 20, priority(2_000_000_000));
    bench.start(&format!("{HARD}\nevictWithoutRelief: true"));
    // Between two looks, which are a second apart.
    bench.pass(60.5).await;
    assert_eq!(bench.told(), ["evicts nobody", "raised"]);
    bench.pod("hog", 40);
    bench.pass(1.0).await;
    let chosen = bench.at("evicts shop/hog");
    assert!((60.4..60.8).contains(&chosen), "{:#?}", bench.looks());
    assert!(bench.lives("first"));
}

#[tokio::test(start_paused = true)]
async fn the_longest_sleep_is_the_housekeeping_interval() {
    let mut bench = Bench::new();
    bench.start("evictionHard: {memory.available: 1Mi}\nmemoryAvailable: memAvailable");
    bench.pass(300.0).await;
    let looks = bench.looks();
    let apart = looks.windows(2).map(|two| two[1] - two[0]);
    assert!(apart.fold(0.0, f64::max) <= 10.01, "{looks:?}");
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_figure_ends_no_pod_and_is_read_again() {
    let mut bench = Bench::new();
    bench.pod("hog", 100);
    bench.start(HARD);
    bench.pass(5.0).await;
    bench.spoil_meminfo();
    bench.pass(60.0).await;
    assert!(bench.told().is_empty(), "{:#?}", bench.log());
    bench.grow("hog", 950);
    bench.pass(11.0).await;
    assert!(!bench.lives("hog"), "{:#?}", bench.log());
}

#[tokio::test(start_paused = true)]
async fn a_calm_day_reports_nothing() {
    let mut bench = Bench::new();
    bench.pod("pod", 100);
    bench.start(HARD);
    bench.pass(3600.0).await;
    assert!(bench.told().is_empty());
    assert!(bench.stop(1).await);
}
