//! Sessions as Volcano ed72c7c8 ran them.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use evictd_batch::conf::Conf;
use evictd_batch::session::{Cache, Objects, Setting, simulate};
use evictd_batch_objects::Compat;
use evictd_placement::Cluster;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};

/// Cuts off the text that depends on an arbitrary choice.
fn cut(text: &str) -> &str {
    let text = text
        .split_once(". Origin reason is")
        .map_or(text, |(before, _)| before);
    // The rest is Go's inner form of quantities.
    let quota = "resource quota insufficient";
    let end = text.find(quota).map(|at| at + quota.len());
    end.filter(|end| text[*end..].starts_with(", "))
        .map_or(text, |end| &text[..end])
}

/// The first difference between an answer and what is wanted, if there is one.
fn difference(own: &Value, wanted: &Value, place: &str) -> Option<String> {
    match (own, wanted) {
        (Value::Object(own), Value::Object(wanted)) => {
            let missing = wanted.keys().find(|key| !own.contains_key(*key));
            let extra = own.keys().find(|key| !wanted.contains_key(*key));
            if let Some(key) = missing.or(extra) {
                let (own, wanted) = (own.get(key), wanted.get(key));
                return Some(format!("{place}.{key}: {own:?}\n    wanted {wanted:?}"));
            }
            let mut entries = own.iter();
            entries.find_map(|(key, own)| difference(own, &wanted[key], &format!("{place}.{key}")))
        }
        (Value::Array(own), Value::Array(wanted)) if own.len() == wanted.len() => {
            let mut pairs = own.iter().zip(wanted).enumerate();
            pairs.find_map(|(at, (own, wanted))| difference(own, wanted, &format!("{place}[{at}]")))
        }
        (Value::String(own), Value::String(wanted)) if cut(own) == cut(wanted) => None,
        (Value::Number(own), Value::Number(wanted)) => {
            let (left, right) = (own.as_f64().unwrap(), wanted.as_f64().unwrap());
            let near = (left - right).abs() <= 1e-6 * left.abs().max(right.abs());
            (!near).then(|| format!("{place}: {own}, wanted {wanted}"))
        }
        _ => (own != wanted).then(|| format!("{place}: {own}\n    wanted {wanted}")),
    }
}

fn answer(input: &Value) -> Value {
    let objects = Objects::deserialize(input).unwrap();
    match simulate(&objects, &Setting::default(), Compat::VOLCANO) {
        Ok((outcome, _)) => serde_json::to_value(outcome).unwrap(),
        Err(error) => json!({ "confError": error.first }),
    }
}

/// Only the keys that are wanted; a set of texts is sorted after what is arbitrary was cut off.
fn wanted_of(own: &Value, wanted: &Map<String, Value>) -> Value {
    let own = wanted
        .keys()
        .filter_map(|key| Some((key.clone(), sorted(own.get(key)?))));
    Value::Object(own.collect())
}

fn sorted(value: &Value) -> Value {
    let Value::Array(list) = value else {
        return value.clone();
    };
    let is_order = list.iter().any(|item| !item.is_string());
    if is_order
        || list
            .iter()
            .all(|item| !item.as_str().unwrap().contains(' '))
    {
        return value.clone();
    }
    let mut list: Vec<&str> = list
        .iter()
        .map(|item| cut(item.as_str().unwrap()))
        .collect();
    list.sort_unstable();
    json!(list)
}

/// What is wrong with the answer to a case.
fn wrong(case: &Value) -> Option<String> {
    let own = answer(&case["input"]);
    let mut wanted = case["expected"].as_object().unwrap().clone();
    let alternatives = wanted.remove("alternatives");
    wanted.remove("free");
    wanted.remove("originReasons");
    // The real scheduler ends its process there, and this one must not.
    if wanted.remove("crash").is_some() {
        return None;
    }
    let judge = |wanted: &Map<String, Value>| {
        let sorted: Map<String, Value> = wanted
            .iter()
            .map(|(key, value)| (key.clone(), sorted(value)))
            .collect();
        difference(&wanted_of(&own, wanted), &Value::Object(sorted), "")
    };
    if let Some(difference) = judge(&wanted) {
        return Some(difference);
    }
    let alternatives = alternatives?;
    let all = alternatives.as_array().unwrap().iter();
    let mut differences = all.map(|own| judge(own.as_object().unwrap()));
    let first = differences.next().unwrap();
    (first.is_some() && differences.all(|own| own.is_some()))
        .then(|| format!("none of the alternatives: {}", first.unwrap()))
}

/// The mistakes in the answers to recorded cases of a family.
fn mistakes_in(paths: &[PathBuf]) -> String {
    let mut mistakes = Vec::new();
    for path in paths {
        let case: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        if let Some(wrong) = wrong(&case) {
            let name = path.file_stem().unwrap().to_string_lossy();
            mistakes.push(format!("{name} {}: {wrong}", case["tags"]));
        }
    }
    mistakes.join("\n")
}

fn folder(family: &str) -> PathBuf {
    let all = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/oracle");
    all.join(family)
}

/// Compares the recorded cases of a family; there are at least so many.
fn compare(family: &str, least: usize) {
    let entries = std::fs::read_dir(folder(family)).unwrap();
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort_unstable();
    assert!(paths.len() >= least, "only {} cases found", paths.len());
    let mistakes = mistakes_in(&paths);
    assert!(mistakes.is_empty(), "of {}:\n{mistakes}", paths.len());
}

#[test]
fn s6_171_to_s6_190_sessions_with_network_topologies_are_those_of_volcano() {
    compare("network-topology", 35);
}

#[test]
fn every_session_of_the_real_scheduler() {
    compare("session", 98);
}

#[test]
fn s6_152_to_s6_168_sessions_with_a_hierarchy_of_queues() {
    compare("capacity-hierarchy", 63);
}

/// A test for each family of newer plugins.
macro_rules! families {
    ($($test:ident: $family:literal, $least:literal;)*) => {$(
        #[test]
        fn $test() {
            compare($family, $least);
        }
    )*};
}

families! {
    s6_207_sessions_with_nodegroup: "nodegroup", 26;
    s6_211_sessions_with_resource_strategy_fit: "resource-strategy-fit", 13;
    s6_213_sessions_with_sla: "sla", 13;
    s6_216_sessions_with_tdm: "tdm", 15;
    s6_192_sessions_with_gangpreempt: "gangpreempt", 32;
    s6_192_sessions_with_gangreclaim: "gangreclaim", 32;
    s6_219_sessions_with_pdb: "pdb", 12;
    s6_220_sessions_with_resourcequota: "resourcequota", 11;
    s6_221_sessions_with_cdp: "cdp", 9;
    s6_217_sessions_with_task_topology: "task-topology", 13;
    s6_222_sessions_with_usage: "usage", 12;
    s6_223_sessions_with_numa_aware: "numa-aware", 11;
    s6_206_sessions_with_rescheduling: "rescheduling", 9;
}

/// How many pods our form evicts in a recorded case with a change, and how many were recorded.
fn evicted_by_us(case: &str, change: impl Fn(&mut Value)) -> (usize, usize) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/oracle");
    let text = std::fs::read(folder.join(case)).unwrap();
    let mut case: Value = serde_json::from_slice(&text).unwrap();
    change(&mut case["input"]);
    let objects = Objects::deserialize(&case["input"]).unwrap();
    let (ours, _) = simulate(&objects, &Setting::default(), Compat::EVICTD).unwrap();
    let recorded = case["expected"]["evicted"].as_array().unwrap().len();
    (ours.evicted.len(), recorded)
}

#[test]
fn s6_198_gangs_give_back_victims_that_were_not_needed() {
    for family in ["gangpreempt", "gangreclaim"] {
        let (ours, recorded) = evicted_by_us(&format!("{family}/0002.json"), |_| ());
        assert_eq!((ours, recorded), (1, 4), "{family}");
    }
}

#[test]
fn s6_198_gangs_never_evict_critical_pods_and_keep_budgets() {
    for family in ["gangpreempt", "gangreclaim"] {
        let (ours, recorded) = evicted_by_us(&format!("{family}/0047.json"), |_| ());
        assert!(ours == 0 && recorded > 0, "{family}: {ours} of {recorded}");
        let protect = |input: &mut Value| {
            for pod in input["pods"].as_array_mut().unwrap() {
                pod["metadata"]["labels"] = json!({ "app": "any" });
            }
            input["podDisruptionBudgets"] = json!([{
                "metadata": { "namespace": "default", "name": "all" },
                "spec": { "selector": { "matchLabels": { "app": "any" } } },
                "status": { "disruptionsAllowed": 0 },
            }]);
        };
        let (ours, recorded) = evicted_by_us(&format!("{family}/0001.json"), protect);
        assert!(ours == 0 && recorded > 0, "{family}: {ours} of {recorded}");
    }
}

/// Volcano's actions keep arguments that a reloaded configuration no longer names; here in both forms each session reads its own.
#[test]
fn s6_203_arguments_of_an_earlier_configuration_end_with_it() {
    let text = std::fs::read(folder("gangpreempt").join("0003.json")).unwrap();
    let case: Value = serde_json::from_slice(&text).unwrap();
    let objects = Objects::deserialize(&case["input"]).unwrap();
    let mut cluster = Cluster::new();
    for node in &objects.nodes {
        assert!(cluster.add_node(node));
    }
    for pod in &objects.pods {
        if !pod.spec.node_name.is_empty() {
            cluster.add_pod(pod.clone()).unwrap();
        }
    }
    let mut cache = Cache::of(&mut cluster, &objects, Setting::default());
    let mut evicted = |conf: &str| {
        let conf = Conf::read(conf).unwrap();
        let outcome = cache.session(&mut cluster, &conf, Compat::VOLCANO);
        outcome.evicted.len()
    };
    let conf = &objects.conf;
    let without = format!(
        "{conf}configurations:\n- name: gangpreempt\n  arguments: {{allowWholeBundle: false}}\n"
    );
    assert_eq!(evicted(&without), 0);
    assert!(evicted(conf) > 0);
}

#[test]
fn s6_206_a_node_without_figures_takes_no_pods_of_others() {
    for known in [true, false] {
        let (ours, recorded) = evicted_by_us("rescheduling/0005.json", |input| {
            if !known {
                // The figures of the node with room are too old.
                input["nodeMetrics"]["n0"]["time"] = json!("2026-01-01T23:54:00Z");
            }
        });
        assert!(recorded > 0 && (ours > 0) == known, "{known}: {ours}");
    }
}

/// A test for each row, with recorded cases in which its rule takes part.
macro_rules! rows {
    ($($test:ident: $family:literal, $cases:expr;)*) => {$(
        #[test]
        fn $test() {
            let paths = $cases.map(|case: &str| folder($family).join(case).with_extension("json"));
            let mistakes = mistakes_in(&paths);
            assert!(mistakes.is_empty(), "{mistakes}");
        }
    )*};
}

rows! {
    s6_152_the_tree_holds_every_queue_of_the_session: "capacity-hierarchy", ["0001", "0049"];
    s6_156_a_queue_deserves_its_guarantee_and_the_root_the_sum_of_its_children: "capacity-hierarchy", ["0049", "0050", "0052"];
    s6_158_a_child_may_have_what_the_guarantees_of_its_siblings_leave: "capacity-hierarchy", ["0037", "0044", "0049"];
    s6_159_shares_are_those_of_leaves_and_inner_queues: "capacity-hierarchy", ["0077", "0086"];
    s6_160_queues_are_ordered_below_their_common_ancestor: "capacity-hierarchy", ["0077"];
    s6_163_a_queue_reclaims_below_its_share_or_that_of_an_ancestor: "capacity-hierarchy", ["0001", "0019", "0020"];
    s6_164_victims_are_above_their_deserved_share_and_guarantee: "capacity-hierarchy", ["0001", "0004", "0050"];
    s6_165_ancestors_of_victims_are_above_their_shares_at_each_level: "capacity-hierarchy", ["0013", "0025", "0028", "0291", "0300"];
    s6_169_gangreclaim_asks_capacity_in_the_order_of_bundles: "gangreclaim", ["0001", "0005", "0047"];
    s6_173_the_top_of_near_nodes_is_above_all_of_them: "network-topology", ["0001", "0046"];
    s6_174_jobs_with_a_topology_wait_while_the_tree_is_wrong: "network-topology", ["0046", "0052", "0057"];
    s6_176_a_soft_topology_is_bounded_by_the_top: "network-topology", ["0005", "0092"];
    s6_177_jobs_without_a_topology_take_the_plain_path: "network-topology", ["0008", "0036", "0044"];
    s6_178_the_lowest_tier_with_enough_room_is_taken: "network-topology", ["0001", "0004", "0012"];
    s6_179_pods_that_run_bound_the_search: "network-topology", ["0105"];
    s6_180_the_best_of_the_first_tier_with_a_solution_is_taken: "network-topology", ["0020", "0028"];
    s6_181_each_sub_group_has_its_search: "network-topology", ["0066", "0156", "0172"];
    s6_182_the_fullest_near_nodes_score_most: "network-topology", ["0012", "0076"];
    s6_183_nodes_near_to_placed_tasks_score_most: "network-topology", ["0092", "0100", "0116"];
    s6_184_other_pods_fill_near_nodes_in_use: "network-topology", ["0078"];
    s6_185_without_the_plugin_or_its_gradient_a_hard_job_is_placed_anywhere: "network-topology", ["0060", "0064"];
    s6_186_errors_name_the_near_nodes: "network-topology", ["0132", "0188"];
    s6_187_the_allocated_near_nodes_are_found_again: "network-topology", ["0105"];
    s6_189_a_gang_needs_its_least_number_of_sub_groups: "network-topology", ["0068", "0098"];
    s6_190_sub_groups_that_the_job_needs_come_first: "network-topology", ["0156", "0188"];
    s6_192_preemptors_lack_pods_that_they_need: "gangpreempt", ["0041", "0043"];
    s6_193_a_job_asks_for_all_its_pending_tasks: "gangpreempt", ["0002", "0040", "0041"];
    s6_194_evictions_stay_within_one_domain: "gangpreempt", ["0052"];
    s6_195_candidates_of_gangpreempt: "gangpreempt", ["0031", "0036", "0043", "0044"];
    s6_195_candidates_of_gangreclaim: "gangreclaim", ["0031", "0036", "0044", "0046"];
    s6_196_what_a_gang_can_spare_is_a_safe_bundle: "gangpreempt", ["0001", "0007", "0025", "0028"];
    s6_197_bundles_are_ordered_by_safety_job_and_gain: "gangpreempt", ["0005", "0006", "0008"];
    s6_197_bundles_are_ordered_by_safety_queue_and_gain: "gangreclaim", ["0005", "0006", "0008"];
    s6_199_bundles_are_taken_until_the_gang_fits: "gangpreempt", ["0002", "0003", "0012", "0020", "0045"];
    s6_200_every_task_of_the_demand_finds_a_place: "gangreclaim", ["0045", "0052", "0108"];
    s6_202_without_victims_nothing_happens: "gangpreempt", ["0042"];
    s6_204_shuffle_evicts_what_the_first_tier_with_victims_names: "tdm", ["0006", "0020"];
    s6_205_pdb_names_every_pod_that_breaks_no_budget: "pdb", ["0002", "0004", "0020"];
    s6_208_preferred_groups_of_nodes_score: "nodegroup", ["0012", "0036", "0084"];
    s6_209_a_queue_is_limited_in_groups_of_nodes: "nodegroup", ["0042", "0044", "0052"];
    s6_210_a_queue_inherits_the_affinity_of_its_nearest_ancestor: "nodegroup", ["0053", "0060", "0065"];
    s6_212_scarce_resources_and_proportions: "resource-strategy-fit", ["0001", "0002", "0003", "0012"];
    s6_214_nodes_of_a_zone_take_pods_that_may_use_it_at_some_hours: "tdm", ["0002", "0004", "0036"];
    s6_215_tdm_limits_the_victims_of_each_job: "tdm", ["0001", "0003", "0028"];
    s6_218_tasks_of_a_bucket_share_a_node: "task-topology", ["0001", "0004", "0020"];
}
