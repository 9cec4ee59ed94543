//! Lists that take several pages.

use crate::cluster::Cluster;
use evictd_testkit::program::answer;
use serde_json::json;

#[test]
fn s6_146_jobs_of_several_pages_are_all_listed() {
    let cluster = Cluster::start();
    for number in 0..501 {
        cluster.job("default", &format!("job-{number:03}"), json!({}));
    }
    let listed = answer(&cluster.run("job list -o json"));
    assert_eq!(listed.as_array().unwrap().len(), 501);
    let log = cluster.api.log();
    assert_eq!(log.iter().filter(|entry| entry.verb == "list").count(), 2);
}
