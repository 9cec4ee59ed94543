//! The memory of a session cache stays bounded while objects are added and deleted.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use evictd_batch::conf::Conf;
use evictd_batch::session::{Cache, Setting};
use evictd_batch_objects::{Compat, PodGroup};
use evictd_placement::Cluster;
use serde_json::{from_value, json};

#[test]
fn names_of_tasks_that_come_and_go_take_no_memory() {
    let (mut cluster, mut cache) = (Cluster::new(), Cache::new(Setting::default()));
    let conf = Conf::read("actions: \"allocate\"\ntiers:\n- plugins:\n  - name: gang\n").unwrap();
    let mut come_and_go = |numbers: std::ops::Range<usize>| {
        for number in numbers {
            let members = json!({format!("task-of-a-tenant-{number}"): 1});
            let group = json!({"metadata": {"name": "train", "namespace": "ml"},
                "spec": {"minTaskMember": members}});
            let group: PodGroup = from_value(group).unwrap();
            cache.group(&group);
            if number % 500 == 0 {
                cache.session(&mut cluster, &conf, Compat::EVICTD);
            }
        }
    };
    come_and_go(0..5000);
    let more = allocation_counter::measure(|| come_and_go(5000..55_000));
    assert!(more.bytes_current < 256 << 10, "{}", more.bytes_current);
}
