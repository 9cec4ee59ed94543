//! Pods of which nothing is known but their cgroups, where they may be chosen.

use crate::cluster::Cluster;
use crate::daemon::Daemon;
use crate::node::Worker;
use serde_json::Value;
use std::fs;

const LOW: [(&str, &str); 1] = [("memory.available", "110Mi")];

impl Cluster {
    /// A pod that nobody lists, in a group of this class.
    fn unlisted(&self, class: &str, uid: &str, arguments: &str) -> Worker {
        let parent = format!("evictd-kubepods-{class}.slice");
        let slice = format!("evictd-kubepods-{class}-pod{}.slice", uid.replace('-', "_"));
        self.node.worker(&format!("{parent}/{slice}"), arguments)
    }

    fn daemon_that_ranks_the_unlisted(&self, more: &str) -> Daemon {
        let lines = format!("{}\nunknownPods: rank\n{more}", self.lines());
        Daemon::start(&self.node, &LOW, &lines)
    }
}

#[test]
fn pods_that_nobody_lists_go_by_their_usage_where_that_is_chosen_but_for_static_and_guaranteed_ones()
 {
    let Some(cluster) = Cluster::new("pods_that_nobody_lists_go_by_their_usage") else {
        return;
    };
    cluster.api.go_away();
    let mut small = cluster.unlisted("burstable", "00000000-small", "--hold 8Mi");
    let mut hog = cluster.unlisted("besteffort", "00000000-hog", "--hold 30Mi");
    // Its UID is a hash.
    let mut fixed = cluster.unlisted("burstable", "0123456789abcdef", "--hold 40Mi");
    // Of no class: what they request is their limit, where they have one.
    let mut guaranteed = cluster.run("00000000-guaranteed", "--hold 8Mi");
    let mut unlimited = cluster.run("00000000-unlimited", "--hold 8Mi");
    let group = cluster
        .node
        .group
        .dir("evictd-pod00000000_guaranteed.slice");
    let files = ["memory.limit_in_bytes", "memory.max"].map(|name| group.join(name));
    let limit = files.iter().find(|file| file.exists()).unwrap();
    fs::write(limit, (64 << 20).to_string()).unwrap();
    let daemon = cluster.daemon_that_ranks_the_unlisted("evict: {method: eviction}");
    let decision = daemon.evicted(1).remove(0);
    assert_eq!(decision["pod"], "(unknown)/00000000-hog");
    assert_eq!(decision["uid"], "00000000-hog");
    assert_eq!(decision["publication"], Value::Null);
    let ranking = decision["ranking"].as_array().unwrap();
    let ranked = ranking.iter().map(|row| (&row["pod"], &row["qos"]));
    let ranked: Vec<_> = ranked.map(|(pod, qos)| format!("{pod} {qos}")).collect();
    assert_eq!(
        ranked,
        [
            "\"(unknown)/00000000-hog\" \"BestEffort\"",
            "\"(unknown)/00000000-small\" \"Burstable\"",
            "\"(unknown)/00000000-guaranteed\" \"Guaranteed\""
        ]
    );
    assert!(!hog.lives());
    assert!(small.lives() && fixed.lives() && guaranteed.lives() && unlimited.lives());
}

#[test]
fn a_pod_that_is_known_to_exceed_its_request_goes_before_any_that_nobody_lists() {
    let Some(cluster) = Cluster::new("a_pod_that_is_known_to_exceed_its_request") else {
        return;
    };
    let mut known = cluster.pod("known", "--hold 30Mi");
    let mut unlisted = cluster.unlisted("besteffort", "00000000-unlisted", "--hold 60Mi");
    let daemon = cluster.daemon_that_ranks_the_unlisted("");
    let decisions = daemon.evicted(1);
    assert_eq!(decisions[0]["pod"], "shop/known");
    assert_eq!(decisions[0]["runnerUp"], "(unknown)/00000000-unlisted");
    assert!(!known.lives());
    assert!(unlisted.lives());
}
