//! Input that is wrong: files, names, and what the server refuses.

use crate::cluster::{Cluster, file};
use evictd_testkit::Fault;
use evictd_testkit::program::refusal;

#[test]
fn mistakes_in_the_file_of_a_job_are_told_with_their_place() {
    let cluster = Cluster::start();
    for (text, expected) in [
        ("spec:\n  minAvailable: many\n", ":2:17: "),
        ("apiVersion: batch/v1\nkind: Job\n", ":1:13: "),
        ("kind: CronJob\n", ":1:7: "),
        ("a: 1\n---\nb: 2\n", "several documents"),
        ("- a\n", "expected"),
        ("\n", "empty"),
        ("{", "yaml"),
    ] {
        let file = file(text);
        let told = refusal(
            &cluster.run(&format!("job run -f {}", file.path().display())),
            2,
        );
        assert!(
            told.contains(expected) && told.contains(".yaml"),
            "{text:?}: {told}"
        );
    }
    let file = file("metadata: {name: a, namespace: shop}\n");
    let told = refusal(
        &cluster.run(&format!("job run -n default -f {}", file.path().display())),
        2,
    );
    assert!(
        told.contains("the job is in the namespace shop, and -n says default"),
        "{told}"
    );
    assert!(cluster.admin.list("jobs").is_empty());
}

#[test]
fn what_cannot_be_a_name_reaches_no_path() {
    let cluster = Cluster::start();
    for arguments in [
        "job view -N ../../nodes/a",
        "job delete -N a?x=1",
        "job list -n a/b",
        "queue delete -n ..",
    ] {
        let told = refusal(&cluster.run(arguments), 2);
        assert!(
            told.contains("cannot be the name of a"),
            "{arguments}: {told}"
        );
    }
    assert_eq!(cluster.api.log().len(), 0);
}

#[test]
fn a_refused_object_is_bad_input_and_a_server_that_fails_is_not() {
    let cluster = Cluster::start();
    for (code, exit) in [(422, 2), (400, 2), (409, 1), (503, 1)] {
        cluster
            .api
            .fault(Fault::answer(code).on("create", "jobs").times(1));
        refusal(&cluster.run("job run -N a"), exit);
    }
    // Also a quota or a policy answers 403.
    cluster
        .api
        .fault(Fault::answer(403).on("create", "jobs").times(1));
    let told = refusal(&cluster.run("job run -N a"), 1);
    assert!(!told.contains("RBAC"), "{told}");
}
