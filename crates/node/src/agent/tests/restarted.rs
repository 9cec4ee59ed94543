//! An agent that follows one which has left something to be finished.

use super::bench::Bench;

const SLOW: &str = "evictionHard: {memory.available: 100Mi}\nevictionHardGracePeriod: 40s";

/// A hog that was chosen, whose agent was killed before it went, and so many seconds without any.
async fn away_for(seconds: f64) -> Bench {
    let mut bench = Bench::new();
    bench.pod("hog", 950);
    bench.start(SLOW);
    bench.pass(10.0).await;
    bench.kill_agent();
    bench.pass(seconds).await;
    assert!(bench.lives("hog"));
    bench
}

#[tokio::test(start_paused = true)]
async fn after_a_restart_the_rest_of_the_grace_period_is_waited_for() {
    let mut bench = away_for(10.0).await;
    bench.start_with(SLOW, &bench.records());
    bench.pass(60.0).await;
    let killed = bench.at("shop/hog is killed");
    assert!((40.0..41.5).contains(&killed), "{killed}");
    assert_eq!(bench.records().len(), 1, "nothing is decided twice");
}

#[tokio::test(start_paused = true)]
async fn where_the_grace_is_over_the_pod_is_killed_at_once() {
    let mut bench = away_for(50.0).await;
    bench.start_with(SLOW, &bench.records());
    bench.pass(60.0).await;
    let killed = bench.at("shop/hog is killed");
    assert!((60.0..61.5).contains(&killed), "{killed}");
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_ended_during_the_restart_is_recorded_as_ended() {
    let mut bench = away_for(10.0).await;
    bench.leave("hog");
    bench.start_with(SLOW, &bench.records());
    bench.pass(60.0).await;
    assert!(bench.told().contains(&"shop/hog is found gone".to_owned()));
    assert_eq!(bench.records().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn after_a_boot_no_pod_is_ended_by_an_earlier_decision() {
    let mut bench = away_for(10.0).await;
    bench.grow("hog", 100);
    bench.reboot();
    bench.start_with(SLOW, &bench.records());
    bench.pass(120.0).await;
    assert!(bench.lives("hog"), "{:?}", bench.told());
    bench.at("shop/hog is found gone");
}

#[tokio::test(start_paused = true)]
async fn after_a_boot_a_hog_is_decided_on_anew_and_has_its_whole_grace() {
    let mut bench = away_for(10.0).await;
    bench.reboot();
    bench.start_with(SLOW, &bench.records());
    bench.pass(60.0).await;
    bench.at("shop/hog is found gone");
    assert_eq!(bench.records().len(), 2, "{:#?}", bench.log());
    let killed = bench.at("shop/hog is killed");
    assert!((60.0..61.5).contains(&killed), "{killed}");
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_leaves_by_itself_in_what_is_left_of_its_grace_is_not_killed() {
    let mut bench = away_for(10.0).await;
    bench.start_with(SLOW, &bench.records());
    bench.pass(5.0).await;
    bench.leave("hog");
    bench.pass(60.0).await;
    bench.at("shop/hog left");
    assert_eq!(bench.records().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_is_killed_again_and_again_decides_once() {
    let mut bench = away_for(1.0).await;
    for _ in 0..5 {
        bench.start_with(SLOW, &bench.records());
        bench.pass(3.0).await;
        bench.kill_agent();
        bench.pass(1.0).await;
    }
    bench.start_with(SLOW, &bench.records());
    bench.pass(30.0).await;
    assert_eq!(bench.records().len(), 1, "{:#?}", bench.log());
    let killed = bench.at("shop/hog is killed");
    assert!((40.0..41.5).contains(&killed), "{killed}");
}

#[tokio::test(start_paused = true)]
async fn without_a_record_the_next_run_decides_anew() {
    let mut bench = away_for(10.0).await;
    bench.start(SLOW);
    bench.pass(60.0).await;
    assert_eq!(bench.records().len(), 2);
    assert!(!bench.lives("hog"));
}

#[tokio::test(start_paused = true)]
async fn a_soft_threshold_begins_its_grace_anew_after_a_restart() {
    let soft = "evictionHard: {memory.available: 1Mi}\nevictionSoft: {memory.available: 100Mi}\n\
                evictionSoftGracePeriod: {memory.available: 60s}";
    let mut bench = Bench::new();
    bench.pod("hog", 950);
    bench.start(soft);
    bench.pass(50.0).await;
    bench.kill_agent();
    bench.start(soft);
    bench.pass(55.0).await;
    assert_eq!(bench.records().len(), 0);
    bench.pass(10.0).await;
    let chosen = bench.at("evicts shop/hog");
    assert!((110.0..110.3).contains(&chosen), "{chosen}");
}

const REJECT: &str = "evictionHard: {memory.available: 100Mi}\nevictionPressureTransitionPeriod: 60s\n\
                      admission: reject";

/// A node on which a hog was killed 10 s ago, and a pod that came after it was rejected.
async fn rejecting() -> Bench {
    let mut bench = Bench::new();
    bench.pod("hog", 950);
    bench.start(REJECT);
    bench.pass(5.0).await;
    bench.pod("late", 1);
    bench.pass(5.0).await;
    assert!(bench.is_rejected("late"), "{:#?}", bench.log());
    assert!(!bench.lives("late"));
    bench
}

#[tokio::test(start_paused = true)]
async fn a_restart_keeps_a_condition_and_its_rejections_for_the_rest_of_the_transition_period() {
    let mut bench = rejecting().await;
    for _ in 0..3 {
        bench.kill_agent();
        bench.pass(3.0).await;
        bench.start(REJECT);
        bench.pass(3.0).await;
        assert!(bench.is_rejected("late"), "{:#?}", bench.status());
        assert!(bench.holds_memory_pressure());
    }
    bench.pod("later", 1);
    bench.pass(5.0).await;
    assert!(bench.is_rejected("later") && bench.is_rejected("late"));
    bench.pass(25.0).await;
    assert!(bench.is_rejected("late"), "{:#?}", bench.status());
    bench.pass(10.0).await;
    assert!(!bench.holds_memory_pressure());
    assert!(!bench.is_rejected("late") && !bench.is_rejected("later"));
    assert!(bench.records().len() == 1, "{:#?}", bench.log());
}

#[tokio::test(start_paused = true)]
async fn a_restart_after_the_transition_period_or_a_reboot_begins_anew() {
    for reboots in [false, true] {
        let mut bench = rejecting().await;
        bench.kill_agent();
        bench.pass(if reboots { 1.0 } else { 60.0 }).await;
        if reboots {
            bench.reboot();
        }
        bench.start(REJECT);
        bench.pass(1.0).await;
        let seen = || (bench.log(), bench.status()["conditions"].clone());
        assert!(!bench.holds_memory_pressure(), "{reboots}: {:#?}", seen());
        assert!(!bench.is_rejected("late"), "reboots: {reboots}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_older_versions_conditions_are_kept_and_those_of_a_newer_one_or_damaged_ones_are_not() {
    for (version, holds) in [("absent", true), ("newer", false), ("damaged", false)] {
        let mut bench = rejecting().await;
        bench.kill_agent();
        bench.edit_kept(|kept| match version {
            "absent" => {
                let kept = kept.as_object_mut().unwrap();
                kept.remove("version");
                kept.remove("rejections");
            }
            "newer" => kept["version"] = 2.into(),
            _ => kept["conditions"] = 7.into(),
        });
        bench.start(REJECT);
        bench.pass(1.0).await;
        assert_eq!(bench.holds_memory_pressure(), holds, "{version}");
        bench.pod("later", 1);
        bench.pass(1.0).await;
        assert_eq!(bench.is_rejected("later"), holds, "{version}");
        // What this version writes replaces it.
        bench.pass(2.0).await;
        bench.edit_kept(|kept| assert_eq!(kept["version"], 1, "{version}"));
    }
}
