//! Input that is wrong: files, names, and what the server refuses.

use crate::cluster::{Cluster, file};
use evictd_testkit::Fault;
use evictd_testkit::program::refusal;

#[test]
fn mistakes_in_a_job_file_are_errors_with_their_places() {
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
        let message = refusal(
            &cluster.run(&format!("job run -f {}", file.path().display())),
            2,
        );
        assert!(
            message.contains(expected) && message.contains(".yaml"),
            "{text:?}: {message}"
        );
    }
    let file = file("metadata: {name: a, namespace: shop}\n");
    let message = refusal(
        &cluster.run(&format!("job run -n default -f {}", file.path().display())),
        2,
    );
    assert!(
        message.contains("the job is in the namespace shop, and -n says default"),
        "{message}"
    );
    assert!(cluster.admin.list("jobs").is_empty());
}

#[test]
fn an_invalid_name_is_refused_before_a_request() {
    let cluster = Cluster::start();
    for arguments in [
        "job view -N ../../nodes/a",
        "job delete -N a?x=1",
        "job list -n a/b",
        "queue delete -n ..",
    ] {
        let message = refusal(&cluster.run(arguments), 2);
        assert!(
            message.contains("cannot be the name of a"),
            "{arguments}: {message}"
        );
    }
    assert_eq!(cluster.api.log().len(), 0);
}

#[test]
fn a_refused_object_exits_with_2_and_a_failing_server_with_1() {
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
    let message = refusal(&cluster.run("job run -N a"), 1);
    assert!(!message.contains("RBAC"), "{message}");
}
