//! Names, types, labels and buckets of the metrics are those of kube-scheduler.

use super::{Metrics, MetricsRecorder, attempts_label};
use evictd_daemon::metrics::Format;
use evictd_pod::compatibility::Release;
use evictd_scheduling::Recorder as _;
use evictd_scheduling::config::Point;

/// Name, type, level and labels. For a histogram also the first and last bound and their number.
const EXPECTED: &str = "\
authenticated_user_requests counter ALPHA username
authentication_attempts counter ALPHA result
authentication_duration_seconds histogram ALPHA result 0.001..16.384 15
authorization_attempts_total counter ALPHA result
authorization_duration_seconds histogram ALPHA result 0.001..16.384 15
kubernetes_build_info gauge ALPHA build_date,compiler,git_commit,git_tree_state,git_version,go_version,major,minor,platform
kubernetes_feature_enabled gauge BETA name,stage
leader_election_master_status gauge ALPHA name
scheduler_batch_attempts_total counter ALPHA profile,result
scheduler_batch_cache_flushed_total counter ALPHA profile,reason
scheduler_cache_size gauge ALPHA type
scheduler_event_handling_duration_seconds histogram ALPHA event 0.0001..0.2048 12
scheduler_events_dropped_total counter ALPHA -
scheduler_framework_extension_point_duration_seconds histogram STABLE extension_point,profile,status 0.0001..0.2048 12
scheduler_generated_placements_total counter ALPHA profile
scheduler_get_node_hint_duration_seconds histogram ALPHA hinted,profile 0.00001..0.02048 12
scheduler_goroutines gauge BETA operation
scheduler_inflight_events gauge ALPHA event
scheduler_pending_pods gauge STABLE queue
scheduler_permit_wait_duration_seconds histogram BETA result 0.001..16.384 15
scheduler_placement_evaluation_duration_seconds histogram ALPHA profile,result 0.001..16.384 15
scheduler_placement_evaluations_total counter ALPHA profile,result
scheduler_plugin_evaluation_total counter BETA extension_point,plugin,profile
scheduler_plugin_execution_duration_seconds histogram ALPHA extension_point,plugin,status 0.00001..0.02217 20
scheduler_pod_scheduled_after_flush_total counter ALPHA -
scheduler_pod_scheduling_attempts histogram STABLE - 1..16 5
scheduler_pod_scheduling_sli_duration_seconds histogram BETA attempts 0.01..5242.88 20
scheduler_podgroup_schedule_attempts_total counter ALPHA profile,result
scheduler_podgroup_scheduling_algorithm_duration_seconds histogram ALPHA - 0.001..16.384 15
scheduler_podgroup_scheduling_attempt_duration_seconds histogram ALPHA profile,result 0.001..16.384 15
scheduler_preemption_attempts_total counter STABLE -
scheduler_preemption_evaluation_duration_seconds histogram ALPHA preemptor,result 0.001..32.768 16
scheduler_preemption_goroutines_duration_seconds histogram ALPHA result 0.01..5242.88 20
scheduler_preemption_goroutines_execution_total counter ALPHA result
scheduler_preemption_victims histogram STABLE - 1..64 7
scheduler_preemption_workload_disruptions histogram ALPHA preemptor 1..1024 11
scheduler_queue_incoming_entities_total counter ALPHA event,queue,type
scheduler_queue_incoming_pods_total counter STABLE event,queue
scheduler_queued_entities gauge ALPHA queue,type
scheduler_queueing_hint_execution_duration_seconds histogram ALPHA event,hint,plugin 0.00001..0.02217 20
scheduler_resourceclaim_creates_total counter ALPHA status
scheduler_schedule_attempts_total counter STABLE profile,result
scheduler_scheduling_algorithm_duration_seconds histogram ALPHA - 0.001..16.384 15
scheduler_scheduling_attempt_duration_seconds histogram STABLE profile,result 0.001..16.384 15
scheduler_store_schedule_results_duration_seconds histogram ALPHA profile 0.00001..0.02048 12
scheduler_unschedulable_pods gauge BETA plugin,profile
scheduler_workload_preemption_attempts_total counter ALPHA result
scheduler_workload_preemption_victims histogram ALPHA - 1..1024 11
workqueue_adds_total counter BETA name
workqueue_depth gauge BETA name
workqueue_longest_running_processor_seconds gauge BETA name
workqueue_queue_duration_seconds histogram BETA name 0..10 10
workqueue_retries_total counter BETA name
workqueue_unfinished_work_seconds gauge BETA name
workqueue_work_duration_seconds histogram BETA name 0..10 10
";

/// Gives every metric a sample.
fn touch(metrics: &Metrics) {
    metrics.schedule_attempts.add(["scheduled", "p"], 1);
    metrics
        .scheduling_attempt_duration
        .observe(["scheduled", "p"], 0.1);
    metrics.event_handling_duration.observe(["NodeAdd"], 0.1);
    metrics.inflight_events.set(["NodeAdd"], 1);
    metrics.goroutines.set(["binding"], 1);
    metrics
        .pod_scheduling_sli_duration
        .observe([&attempts_label(1)], 0.1);
    let point = ["Filter", "Success", "p"];
    metrics
        .framework_extension_point_duration
        .observe(point, 0.1);
    metrics
        .plugin_execution_duration
        .observe(["Fit", "Filter", "Success"], 0.1);
    let hint = ["Fit", "NodeAdd", "Queue"];
    metrics.queueing_hint_execution_duration.observe(hint, 0.1);
    metrics.queue_incoming_pods.add(["active", "PodAdd"], 1);
    metrics.feature_enabled.set(["SidecarContainers", ""], 1);
    metrics.authentication_attempts.add(["success"], 1);
    metrics.authentication_duration.observe(["success"], 0.1);
    metrics.authenticated_user_requests.add(["other"], 1);
    metrics.authorization_attempts.add(["allowed"], 1);
    metrics.authorization_duration.observe(["allowed"], 0.1);
    metrics.permit_wait_duration.observe(["Success"], 0.1);
    metrics.unschedulable_pods.set(["Fit", "p"], 1);
    metrics.plugin_evaluation.add(["Fit", "Filter", "p"], 1);
    metrics
        .preemption_goroutines_duration
        .observe(["success"], 0.1);
    metrics.preemption_goroutines_execution.add(["success"], 1);
    metrics.batch_attempts.add(["p", "r"], 1);
    metrics.batch_cache_flushed.add(["p", "r"], 1);
    metrics.get_node_hint_duration.observe(["true", "p"], 0.1);
    metrics.store_schedule_results_duration.observe(["p"], 0.1);
    metrics.work_queues.queue("binding").retried(0);
    metrics.claims_created.add(true);
    let groups = &metrics.groups;
    groups
        .queue_incoming_entities
        .add(["active", "PodAdd", "pod"], 1);
    groups.schedule_attempts.add(["scheduled", "p"], 1);
    groups.attempt_duration.observe(["scheduled", "p"], 0.1);
    groups.generated_placements.add(["p"], 1);
    groups.placement_evaluations.add(["feasible", "p"], 1);
    groups
        .placement_evaluation_duration
        .observe(["feasible", "p"], 0.1);
    groups
        .preemption_evaluation_duration
        .observe(["pod", "Success"], 0.1);
    groups.preemption_attempts.add(["Success"], 1);
    groups.disruptions.observe(["podgroup"], 1.0);
    metrics
        .leader_election_master_status
        .set(["kube-scheduler"], 1);
}

/// A line of [`EXPECTED`] for each family of the text.
fn families(text: &str) -> String {
    let mut lines: Vec<String> = text
        .split("# HELP ")
        .skip(1)
        .map(|family| {
            let mut rows = family.lines();
            let help = rows.next().unwrap();
            let level = help.split(['[', ']']).nth(1).unwrap();
            let kind = rows.next().unwrap().strip_prefix("# TYPE ").unwrap();
            let samples: Vec<&str> = rows.collect();
            let keys = |row: &str| -> Vec<String> {
                let labels = row.split_once('{').map_or("", |(_, rest)| rest);
                let labels = labels.split_once('}').map_or("", |(labels, _)| labels);
                let keys = labels.split(',').filter(|label| !label.is_empty());
                keys.map(|label| label.split('=').next().unwrap().to_owned())
                    .collect()
            };
            let mut labels = keys(samples[0]);
            labels.retain(|label| label != "le");
            labels.sort();
            let labels = if labels.is_empty() {
                "-".to_owned()
            } else {
                labels.join(",")
            };
            format!("{kind} {level} {labels}{}\n", bounds(&samples))
        })
        .collect();
    lines.sort();
    lines.concat()
}

fn bounds(samples: &[&str]) -> String {
    let bounds = samples.iter().filter_map(|row| {
        let bound = row.split("le=\"").nth(1)?.split('"').next()?;
        bound.parse::<f64>().ok().filter(|bound| bound.is_finite())
    });
    let bounds: Vec<f64> = bounds.collect();
    let round = |bound: f64| (bound * 100_000.0).round() / 100_000.0;
    match (bounds.first(), bounds.last()) {
        (Some(first), Some(last)) => {
            format!(" {}..{} {}", round(*first), round(*last), bounds.len())
        }
        _ => String::new(),
    }
}

#[test]
fn s5_097_s5_098_names_types_labels_and_buckets_are_kube_schedulers() {
    let (metrics, exposition) = Metrics::new(false);
    touch(&metrics);
    let text = exposition.render(Format::Plain).unwrap();
    // Those of batch sessions are absent where none run.
    assert_eq!(families(&text), EXPECTED);
    let (_, with_batch) = Metrics::new(true);
    assert!(
        with_batch
            .render(Format::Plain)
            .unwrap()
            .contains("# TYPE volcano_")
    );
    assert!(text.contains("# TYPE scheduler_schedule_attempts_total counter"));
    assert!(text.contains("\nauthentication_attempts{result=\"success\"} 1\n"));
    let open = exposition.render(Format::Open).unwrap();
    assert!(open.contains("\nauthentication_attempts_total{result=\"success\"} 1\n"));
    assert!(open.ends_with("# EOF\n"));
}

/// S7-178, S7-257.
#[test]
fn s7_178_s7_257_names_and_levels_of_1_37() {
    let of = |release: Release| {
        let (metrics, exposition) = Metrics::new(false);
        metrics.release.set(release);
        touch(&metrics);
        metrics.claims_created.add(false);
        exposition.render(Format::Plain).unwrap()
    };
    let (old, new) = (of(Release::V1_36), of(Release::V1_37));
    let only_in = |lines: &str, other: &str| {
        let other = families(other);
        let lines = families(lines);
        let lines = lines
            .lines()
            .filter(|line| !other.lines().any(|known| known == *line));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let of_1_36 = [
        "scheduler_plugin_execution_duration_seconds histogram ALPHA extension_point,plugin,status 0.00001..0.02217 20",
        "scheduler_resourceclaim_creates_total counter ALPHA status",
        "scheduler_scheduling_algorithm_duration_seconds histogram ALPHA - 0.001..16.384 15",
    ];
    let of_1_37 = [
        "dynamic_resource_allocation_resourceclaim_creates_total counter ALPHA admin_access,status",
        "scheduler_plugin_execution_duration_seconds histogram BETA extension_point,plugin,status 0.00001..0.02217 20",
        "scheduler_scheduling_algorithm_duration_seconds histogram BETA - 0.001..16.384 15",
    ];
    assert_eq!(only_in(&old, &new), of_1_36);
    assert_eq!(only_in(&new, &old), of_1_37);
    let failed = "dynamic_resource_allocation_resourceclaim_creates_total{status=\"failure\",admin_access=\"false\"} 1";
    assert!(new.contains(failed), "{new}");
}

#[test]
fn metrics_that_alerts_use_are_zero_at_the_start() {
    let (_, exposition) = Metrics::new(false);
    let text = exposition.render(Format::Plain).unwrap();
    for line in [
        "scheduler_pending_pods{queue=\"active\"} 0",
        "scheduler_pending_pods{queue=\"gated\"} 0",
        "scheduler_preemption_attempts_total 0",
        "scheduler_pod_scheduled_after_flush_total 0",
        "scheduler_cache_size{type=\"assumed_pods\"} 0",
    ] {
        assert!(
            text.contains(&format!("\n{line}\n")),
            "{line} not in\n{text}"
        );
    }
}

#[test]
fn s5_099_attempts_are_counted_to_fifteen() {
    assert_eq!(attempts_label(1), "1");
    assert_eq!(attempts_label(14), "14");
    assert_eq!(attempts_label(15), "15+");
    assert_eq!(attempts_label(400), "15+");
}

#[test]
fn a_tenth_of_the_attempts_and_a_thousand_hints_a_second_are_measured() {
    let (metrics, exposition) = Metrics::new(false);
    let recorder = MetricsRecorder::new(metrics);
    let sampled = (0..1000).filter(|_| {
        recorder.on_attempt();
        recorder.samples_plugins()
    });
    assert_eq!(sampled.count(), 100);
    for _ in 0..2 {
        let sampled = (0..5000).filter(|_| recorder.samples_hints());
        assert_eq!(sampled.count(), 1000);
        recorder.next_second();
    }
    for _ in 0..3 {
        recorder.on_evaluated("p", "NodeName", Point::Filter, 7);
    }
    let text = exposition.render(Format::Plain).unwrap();
    let line = "scheduler_plugin_evaluation_total{plugin=\"NodeName\",extension_point=\"Filter\",profile=\"p\"} 21";
    assert!(text.contains(line), "{text}");
}
