use super::*;

fn names(text: &str) -> Vec<&str> {
    text.lines()
        .filter_map(|line| line.strip_prefix("# TYPE "))
        .map(|line| line.split_once(' ').unwrap().0)
        .collect()
}

#[test]
fn everything_promised_is_rendered_under_its_name() {
    let (mut metrics, exposition) = Metrics::new();
    let observation = Observation {
        available: 50,
        capacity: 200,
        time: None,
    };
    metrics.observed(Signal::MemoryAvailable, Some(&observation));
    let state = ThresholdState {
        value: 100,
        met: true,
    };
    metrics.threshold(Signal::MemoryAvailable, Tier::Hard, Some(state));
    metrics.condition(NodeCondition::PidPressure, true);
    metrics.evicted("memory.available", "hard");
    metrics.eviction_failed("kill");
    metrics.preempted("cpu");
    metrics.reclaimed("images", 4096);
    metrics.stats_age(Signal::MemoryAvailable, Duration::from_millis(2));
    metrics.cycle(Duration::from_micros(50));
    metrics.reaction(Duration::from_millis(120));
    metrics.sample_rejected(Signal::PidAvailable);
    metrics.read_failed(Signal::NodefsAvailable);
    metrics.node_heartbeat().set(jiff::Timestamp::UNIX_EPOCH);
    metrics.pods_age(Duration::from_secs(90));
    metrics.paused(true);
    let now = jiff::Timestamp::UNIX_EPOCH;
    metrics.configuration().taken(now, &["socket"]);
    metrics.configuration().taken(now, &["pods.source"]);
    metrics.configuration().refused();
    let text = exposition.render(Format::Open).unwrap();
    assert!(text.ends_with("# EOF\n"));
    let mut names = names(&text);
    names.sort_unstable();
    // Counters carry `_total`, the build `_info`, on their sample lines.
    let promised = [
        "evictd_admission_findings",
        "evictd_build",
        "evictd_config_last_reload_success_timestamp_seconds",
        "evictd_config_last_reload_successful",
        "evictd_config_restart_required",
        "evictd_cycle_duration_seconds",
        "evictd_eviction_failures",
        "evictd_evictions",
        "evictd_node_condition",
        "evictd_node_heartbeat_timestamp_seconds",
        "evictd_paused",
        "evictd_pods_age_seconds",
        "evictd_preemptions",
        "evictd_publications",
        "evictd_reaction_seconds",
        "evictd_reclaimed_bytes",
        "evictd_restarted_before_told",
        "evictd_samples_rejected",
        "evictd_signal_available",
        "evictd_signal_capacity",
        "evictd_signal_read_errors",
        "evictd_stats_age_seconds",
        "evictd_threshold",
        "evictd_threshold_met",
    ];
    assert_eq!(names, promised);
    for line in [
        r#"evictd_signal_available{signal="memory.available"} 50"#,
        r#"evictd_signal_capacity{signal="memory.available"} 200"#,
        r#"evictd_threshold{signal="memory.available",kind="hard"} 100"#,
        r#"evictd_threshold_met{signal="memory.available",kind="hard"} 1"#,
        r#"evictd_node_condition{condition="PIDPressure"} 1"#,
        r#"evictd_node_condition{condition="MemoryPressure"} 0"#,
        "evictd_node_heartbeat_timestamp_seconds 0",
        "evictd_paused 1",
        "evictd_config_last_reload_successful 0",
        "evictd_config_restart_required{setting=\"pods.source\"} 1",
        "evictd_pods_age_seconds 90",
        r#"evictd_evictions_total{signal="memory.available",kind="hard"} 1"#,
        r#"evictd_eviction_failures_total{stage="kill"} 1"#,
        r#"evictd_preemptions_total{resource="cpu"} 1"#,
        r#"evictd_reclaimed_bytes_total{what="images"} 4096"#,
        r#"evictd_stats_age_seconds_bucket{le="0.003",signal="memory.available"} 1"#,
        r#"evictd_stats_age_seconds_bucket{le="0.001",signal="memory.available"} 0"#,
        "evictd_cycle_duration_seconds_count 1",
        r#"evictd_reaction_seconds_bucket{le="0.15"} 1"#,
        r#"evictd_reaction_seconds_bucket{le="0.1"} 0"#,
        r#"evictd_samples_rejected_total{signal="pid.available"} 1"#,
        r#"evictd_signal_read_errors_total{signal="nodefs.available"} 1"#,
        concat!(
            r#"evictd_build_info{version=""#,
            env!("CARGO_PKG_VERSION"),
            r#""} 1"#
        ),
    ] {
        assert!(
            text.lines().any(|rendered| rendered == line),
            "{line} in\n{text}"
        );
    }
}

#[test]
fn metrics_of_a_removed_signal_disappear() {
    let (mut metrics, exposition) = Metrics::new();
    let observation = Observation {
        available: 50,
        capacity: 200,
        time: None,
    };
    for observation in [Some(&observation), None, Some(&observation)] {
        metrics.observed(Signal::MemoryAvailable, observation);
        let state = observation.map(|_| ThresholdState {
            value: 1,
            met: false,
        });
        metrics.threshold(Signal::MemoryAvailable, Tier::Soft, state);
        let text = exposition.render(Format::Open).unwrap();
        for name in [
            "signal_available{",
            "signal_capacity{",
            "threshold{",
            "threshold_met{",
        ] {
            assert_eq!(
                text.contains(&format!("evictd_{name}")),
                observation.is_some(),
                "{name}"
            );
        }
    }
}

#[test]
fn the_older_text_format_is_the_default() {
    let (metrics, exposition) = Metrics::new();
    metrics.eviction_failed("kill");
    let prometheus = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5";
    assert_eq!(Format::accepted(Some(prometheus)), Format::Open);
    for accept in [None, Some("*/*"), Some("text/plain")] {
        assert_eq!(Format::accepted(accept), Format::Plain);
    }
    let text = exposition.render(Format::Plain).unwrap();
    for line in [
        "# HELP evictd_eviction_failures_total Failed evictions, by the stage that failed.",
        "# TYPE evictd_eviction_failures_total counter",
        r#"evictd_eviction_failures_total{stage="kill"} 1"#,
        "# TYPE evictd_build_info gauge",
        "# TYPE evictd_reaction_seconds histogram",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
    }
    assert!(!text.contains("EOF") && !text.contains("info\n"), "{text}");
}
