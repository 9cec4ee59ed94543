//! A pre-kill hook that hangs: no kill is later than its budget, and none waits for it where there is no time.

use super::bench::Bench;
use evictd_decision::record::HookOutcome;
use std::os::unix::net::UnixListener;
use tempfile::TempDir;

const SOFT: &str = "evictionHard: {memory.available: 50Mi}
evictionSoft: {memory.available: 200Mi}
evictionSoftGracePeriod: {memory.available: 1m30s}
evictionMaxPodGracePeriod: 30";

const HARD: &str = "evictionHard: {memory.available: 100Mi}\nevictionPressureTransitionPeriod: 10s";

/// With time: 200 MiB are left at the threshold.
const EARLY: &str =
    "evictionHard: {memory.available: 200Mi}\nevictionPressureTransitionPeriod: 10s";

/// A service that never answers, for as long as the value lives.
struct Deaf {
    folder: TempDir,
    _listener: UnixListener,
}

impl Deaf {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join("hook")).unwrap();
        Self {
            folder,
            _listener: listener,
        }
    }

    fn with(&self, lines: &str, budget: &str) -> String {
        let path = self.folder.path().join("hook");
        format!(
            "{lines}\npreKillHook: {{socket: {}, budget: {budget}}}",
            path.display()
        )
    }
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_hangs_delays_a_soft_eviction_by_its_budget_and_no_longer() {
    let (mut bench, deaf) = (Bench::new(), Deaf::new());
    bench.pod("hog", 850);
    bench.start(&deaf.with(SOFT, "5s"));
    bench.pass(200.0).await;
    let killed = bench.at("shop/hog is killed") - bench.at("evicts shop/hog");
    assert!((35.0..35.3).contains(&killed), "{killed}");
    let hooks = bench.hooks();
    assert_eq!(hooks.len(), 1, "it runs once: {hooks:?}");
    assert_eq!(
        (hooks[0].outcome, hooks[0].milliseconds),
        (HookOutcome::TimedOut, 5000)
    );
}

#[tokio::test(start_paused = true)]
async fn a_hard_threshold_ends_a_hook_at_once() {
    let (mut bench, deaf) = (Bench::new(), Deaf::new());
    bench.pod("hog", 700);
    bench.pod("other", 150);
    bench.start(&deaf.with(SOFT, "40s"));
    bench.pass(95.0).await;
    assert!(bench.lives("hog"));
    bench.grow("other", 260);
    bench.pass(5.0).await;
    let killed = bench.at("shop/hog is killed");
    assert!((95.0..97.0).contains(&killed), "{killed}");
    assert_eq!(bench.hooks()[0].outcome, HookOutcome::Cut);
    bench.pass(30.0).await;
    assert!(bench.lives("other"));
}

#[tokio::test(start_paused = true)]
async fn a_hard_eviction_whose_forecast_leaves_no_time_runs_no_hook() {
    let (mut bench, deaf) = (Bench::new(), Deaf::new());
    bench.pod("hog", 100);
    bench.start(&deaf.with(HARD, "1s"));
    bench.pass(5.0).await;
    bench.grow("hog", 960);
    bench.pass(30.0).await;
    assert!(bench.at("shop/hog is killed") - bench.at("evicts shop/hog") < 0.2);
    assert!(bench.hooks().is_empty(), "{:?}", bench.hooks());
}

/// Grows by 20 MiB a second until the hog is chosen. Returns its size.
async fn leak(bench: &mut Bench) -> u64 {
    let mut size = 700;
    while !bench.told().iter().any(|told| told == "evicts shop/hog") {
        size += 1;
        assert!(size < 950, "{:?}", bench.told());
        bench.grow("hog", size);
        bench.pass(0.05).await;
    }
    size
}

#[tokio::test(start_paused = true)]
async fn before_a_hard_eviction_that_is_far_from_the_end_a_hook_runs() {
    let (mut bench, deaf) = (Bench::new(), Deaf::new());
    bench.pod("hog", 700);
    bench.start(&deaf.with(EARLY, "1s"));
    leak(&mut bench).await;
    bench.pass(10.0).await;
    let killed = bench.at("shop/hog is killed") - bench.at("evicts shop/hog");
    assert!((1.0..1.3).contains(&killed), "{killed}");
    assert_eq!(bench.hooks()[0].outcome, HookOutcome::TimedOut);
}

#[tokio::test(start_paused = true)]
async fn no_hook_runs_while_a_hard_threshold_of_another_resource_is_met() {
    let (mut bench, deaf) = (Bench::new(), Deaf::new());
    let disk = tempfile::tempdir().unwrap();
    bench.nodefs = Some(disk.path().to_owned());
    bench.pod("hog", 700);
    let both = EARLY.replace("200Mi", "200Mi, nodefs.available: 99.9%");
    // 100% would be off, as for a kubelet. Without a runtime disk evictions are off, unless nothing is to be reclaimed first.
    let both = format!("{both}\nimageGC: {{mode: off}}");
    bench.start(&deaf.with(&both, "1s"));
    leak(&mut bench).await;
    bench.pass(10.0).await;
    let killed = bench.at("shop/hog is killed") - bench.at("evicts shop/hog");
    assert!(killed < 0.5, "{killed}");
    assert!(bench.hooks().is_empty(), "{:?}", bench.hooks());
}

#[tokio::test(start_paused = true)]
async fn a_jump_ends_the_hook_of_a_hard_eviction() {
    let (mut bench, deaf) = (Bench::new(), Deaf::new());
    bench.pod("hog", 700);
    bench.start(&deaf.with(EARLY, "1s"));
    let size = leak(&mut bench).await;
    bench.grow("hog", size + 100);
    bench.pass(10.0).await;
    let killed = bench.at("shop/hog is killed") - bench.at("evicts shop/hog");
    assert!(killed < 0.5, "{killed}");
    assert_eq!(bench.hooks()[0].outcome, HookOutcome::Cut);
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_is_stopped_ends_the_hook_and_kills_the_pod_first() {
    let (mut bench, deaf) = (Bench::new(), Deaf::new());
    bench.pod("hog", 700);
    bench.start(&deaf.with(EARLY, "5s"));
    leak(&mut bench).await;
    bench.stop(10).await;
    // The kernel of the test carries a kill out only now.
    bench.pass(0.1).await;
    assert!(!bench.lives("hog"));
}
