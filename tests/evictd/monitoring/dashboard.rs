//! The Grafana dashboard: one panel a question.

use serde_json::{Value, json};

/// A panel: its question, the unit, and what is drawn with which legend.
struct Panel(
    &'static str,
    &'static str,
    &'static [(&'static str, &'static str)],
);

/// The row at the top, over all nodes.
const NUMBERS: [Panel; 4] = [
    Panel(
        "Nodes that report",
        "short",
        &[(
            "count by (version) (evictd_build_info)",
            "evictd {{version}}",
        )],
    ),
    Panel(
        "Nodes under pressure",
        "short",
        &[(
            "count(max by (node) (evictd_node_condition) == 1) or vector(0)",
            "",
        )],
    ),
    Panel(
        "Pods evicted",
        "short",
        &[("sum(increase(evictd_evictions_total[$__range]))", "")],
    ),
    Panel(
        "Failed evictions",
        "short",
        &[(
            "sum(increase(evictd_eviction_failures_total[$__range]))",
            "",
        )],
    ),
];

/// Below it, of the chosen nodes.
const LINES: [Panel; 16] = [
    Panel(
        "Available amounts and thresholds",
        "short",
        &[
            (
                "evictd_signal_available{node=~\"$node\",signal=~\"$signal\"}",
                "{{node}} {{signal}} left",
            ),
            (
                "evictd_threshold{node=~\"$node\",signal=~\"$signal\"}",
                "{{node}} {{signal}} {{kind}} threshold",
            ),
        ],
    ),
    Panel(
        "Available share of each signal",
        "percentunit",
        &[(
            "evictd_signal_available{node=~\"$node\"} / evictd_signal_capacity{node=~\"$node\"}",
            "{{node}} {{signal}}",
        )],
    ),
    Panel(
        "Conditions and pauses",
        "short",
        &[
            (
                "evictd_node_condition{node=~\"$node\"}",
                "{{node}} {{condition}}",
            ),
            ("evictd_paused{node=~\"$node\"} == 1", "{{node}} paused"),
        ],
    ),
    Panel(
        "Crossed thresholds",
        "short",
        &[(
            "evictd_threshold_met{node=~\"$node\"} == 1",
            "{{node}} {{signal}} {{kind}}",
        )],
    ),
    Panel(
        "Evictions by signal",
        "short",
        &[(
            "sum by (node, signal, kind) (increase(evictd_evictions_total{node=~\"$node\"}[$__rate_interval]))",
            "{{node}} {{signal}} {{kind}}",
        )],
    ),
    Panel(
        "Failures, and publishing to the API server",
        "short",
        &[
            (
                "sum by (node, stage) (increase(evictd_eviction_failures_total{node=~\"$node\"}[$__rate_interval]))",
                "{{node}} failed: {{stage}}",
            ),
            (
                "sum by (node, result) (increase(evictd_publications_total{node=~\"$node\"}[$__rate_interval]))",
                "{{node}} {{result}}",
            ),
            (
                "sum by (node) (increase(evictd_restarted_before_told_total{node=~\"$node\"}[$__rate_interval]))",
                "{{node}} restarted before the eviction was published",
            ),
        ],
    ),
    Panel(
        "Reaction: from the crossing to the exit of the last process",
        "s",
        &[
            (
                "histogram_quantile(0.5, sum by (le) (increase(evictd_reaction_seconds_bucket{node=~\"$node\"}[1h])))",
                "p50",
            ),
            (
                "histogram_quantile(0.95, sum by (le) (increase(evictd_reaction_seconds_bucket{node=~\"$node\"}[1h])))",
                "p95",
            ),
        ],
    ),
    Panel(
        "Age of the samples that decided",
        "s",
        &[(
            "histogram_quantile(0.95, sum by (signal, le) (increase(evictd_stats_age_seconds_bucket{node=~\"$node\"}[1h])))",
            "{{signal}} p95",
        )],
    ),
    Panel(
        "Duration of a cycle",
        "s",
        &[
            (
                "histogram_quantile(0.5, sum by (le) (rate(evictd_cycle_duration_seconds_bucket{node=~\"$node\"}[$__rate_interval])))",
                "p50",
            ),
            (
                "histogram_quantile(0.99, sum by (le) (rate(evictd_cycle_duration_seconds_bucket{node=~\"$node\"}[$__rate_interval])))",
                "p99",
            ),
        ],
    ),
    Panel(
        "Cycles per second",
        "short",
        &[(
            "rate(evictd_cycle_duration_seconds_count{node=~\"$node\"}[$__rate_interval])",
            "{{node}}",
        )],
    ),
    Panel(
        "Signals that cannot be read",
        "short",
        &[
            (
                "increase(evictd_signal_read_errors_total{node=~\"$node\"}[$__rate_interval]) > 0",
                "{{node}} {{signal}} not read",
            ),
            (
                "increase(evictd_samples_rejected_total{node=~\"$node\"}[$__rate_interval]) > 0",
                "{{node}} {{signal}} rejected",
            ),
        ],
    ),
    Panel(
        "Age of the known pods and of the published conditions",
        "s",
        &[
            ("evictd_pods_age_seconds{node=~\"$node\"}", "{{node}} pods"),
            (
                "time() - evictd_node_heartbeat_timestamp_seconds{node=~\"$node\"}",
                "{{node}} conditions",
            ),
        ],
    ),
    Panel(
        "Configurations that are refused, wait for a restart, or are old",
        "short",
        &[
            (
                "evictd_config_last_reload_successful{node=~\"$node\"} == 0",
                "{{node}} refused (0)",
            ),
            (
                "evictd_config_restart_required{node=~\"$node\"}",
                "{{node}} restart for {{setting}}",
            ),
            (
                "(time() - evictd_config_last_reload_success_timestamp_seconds{node=~\"$node\"}) / 86400",
                "{{node}} days since it was read",
            ),
        ],
    ),
    Panel(
        "New pods that failed admission",
        "short",
        &[(
            "sum by (node, action, reason) (increase(evictd_admission_findings_total{node=~\"$node\"}[$__rate_interval]))",
            "{{node}} {{action}}: {{reason}}",
        )],
    ),
    Panel(
        "Preemptions for critical pods",
        "short",
        &[(
            "sum by (node, resource) (increase(evictd_preemptions_total{node=~\"$node\"}[$__rate_interval]))",
            "{{node}} for {{resource}}",
        )],
    ),
    Panel(
        "Bytes freed without eviction",
        "bytes",
        &[(
            "sum by (node, what) (increase(evictd_reclaimed_bytes_total{node=~\"$node\"}[$__rate_interval]))",
            "{{node}} {{what}}",
        )],
    ),
];

/// Width of the page, in Grafana's columns.
const COLUMNS: usize = 24;
const NUMBER_HEIGHT: usize = 4;
const LINES_HEIGHT: usize = 8;

pub(crate) fn dashboard() -> Value {
    let numbers = NUMBERS.iter().enumerate().map(|(index, panel)| {
        let width = COLUMNS / NUMBERS.len();
        let place = json!({"x": index * width, "y": 0, "w": width, "h": NUMBER_HEIGHT});
        panel_of("stat", panel, index, &place)
    });
    let lines = LINES.iter().enumerate().map(|(index, panel)| {
        let (width, row) = (COLUMNS / 2, index / 2);
        let (x, y) = (index % 2 * width, NUMBER_HEIGHT + row * LINES_HEIGHT);
        let place = json!({"x": x, "y": y, "w": width, "h": LINES_HEIGHT});
        panel_of("timeseries", panel, NUMBERS.len() + index, &place)
    });
    json!({
        "uid": "evictd",
        "title": "evictd",
        "description": "Generated by `just generate`.",
        "tags": ["evictd", "kubernetes"],
        "schemaVersion": 38,
        "editable": true,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": [
            {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"},
            chosen("node", "Node", "label_values(evictd_build_info, node)"),
            chosen("signal", "Signal", "label_values(evictd_signal_available, signal)"),
        ]},
        "panels": numbers.chain(lines).collect::<Vec<_>>(),
    })
}

fn chosen(name: &str, label: &str, query: &str) -> Value {
    json!({
        "name": name, "label": label, "type": "query", "query": query, "datasource": source(),
        "refresh": 2, "sort": 1, "multi": true, "includeAll": true,
        "current": {"text": "All", "value": "$__all"},
    })
}

fn source() -> Value {
    json!({"type": "prometheus", "uid": "${datasource}"})
}

fn panel_of(
    kind: &str,
    Panel(question, unit, drawn): &Panel,
    index: usize,
    place: &Value,
) -> Value {
    let targets = drawn.iter().zip('A'..).map(|((expression, legend), name)| {
        json!({
            "refId": name, "datasource": source(), "expr": expression,
            "legendFormat": legend, "instant": kind == "stat",
        })
    });
    json!({
        "id": index + 1,
        "type": kind,
        "title": question,
        "datasource": source(),
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []},
        "targets": targets.collect::<Vec<_>>(),
    })
}
