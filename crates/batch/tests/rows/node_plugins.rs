//! Plugins that judge nodes.

use crate::scenario::{Scenario, bound, conf};
use evictd_batch_objects::Compat;
use serde_json::json;

#[test]
fn s6_217_tasks_that_work_together_share_a_node_and_others_do_not() {
    let conf = conf(
        "allocate",
        &[
            &["gang", "predicates", "nodeorder"],
            &["{name: task-topology, arguments: {task-topology.weight: 100}}"],
        ],
    );
    for (annotation, nodes) in [
        ("volcano.sh/task-topology-affinity", 1),
        ("volcano.sh/task-topology-anti-affinity", 3),
    ] {
        let cluster = Scenario::new(&conf)
            .node("a", "9")
            .node("b", "9")
            .node("c", "9");
        let cluster = cluster.job("j", 3, "Inqueue").waiting("j", 3, "1");
        let marks = json!({ "metadata": { "annotations": { annotation: "work" } } });
        let cluster = cluster.group_with(&marks);
        for compat in [Compat::EVICTD, Compat::VOLCANO] {
            let outcome = cluster.run_as(compat);
            let mut used: Vec<_> = (0..3)
                .map(|index| bound(&outcome, &format!("j-work-{index}")).unwrap())
                .collect();
            used.sort_unstable();
            used.dedup();
            assert_eq!(used.len(), nodes, "{annotation}: {used:?}");
        }
    }
}
