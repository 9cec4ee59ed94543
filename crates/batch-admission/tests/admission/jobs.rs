//! Jobs.

use crate::{ask, denial, job, of_job, task, task_with};
use serde_json::{Value, json};

fn patch_of(object: Value) -> Value {
    let answer = ask("/jobs/mutate", "CREATE", json!({"object": object}));
    assert!(answer.allowed);
    json!(answer.patch)
}

fn add(path: &str, value: impl Into<Value>) -> Value {
    json!({"op": "add", "path": path, "value": value.into()})
}

#[test]
fn s6_075_a_new_job_gets_queue_scheduler_names_of_tasks_and_a_dns_policy() {
    let with_all = json!({"name": "a", "replicas": 1, "minAvailable": 1, "maxRetry": 3,
        "template": {"spec": {"containers": []}}});
    let object = json!({"spec": {"maxRetry": 1, "minAvailable": 1, "tasks": [with_all]}});
    assert_eq!(
        patch_of(object),
        json!([
            add("/spec/queue", "default"),
            add("/spec/schedulerName", "volcano")
        ])
    );
    let tasks = json!([
        {"replicas": 1, "minAvailable": 1, "maxRetry": 1},
        {"replicas": 1, "minAvailable": 1, "maxRetry": 1,
            "template": {"spec": {"hostNetwork": true, "containers": [{"name": "c"}]}}},
    ]);
    let object = json!({"spec": {"queue": "q", "schedulerName": "s", "maxRetry": 1,
        "minAvailable": 1, "tasks": tasks}});
    let written = json!([
        {"name": "default0", "replicas": 1, "minAvailable": 1, "maxRetry": 1,
            "template": {"metadata": {}, "spec": {"containers": null}}},
        {"name": "default1", "replicas": 1, "minAvailable": 1, "maxRetry": 1,
            "template": {"metadata": {}, "spec": {"hostNetwork": true,
                "dnsPolicy": "ClusterFirstWithHostNet",
                "containers": [{"name": "c", "resources": {}}]}}},
    ]);
    let replaced = json!({"op": "replace", "path": "/spec/tasks", "value": written});
    assert_eq!(patch_of(object), json!([replaced]));
}

#[test]
fn s6_076_retries_minimums_of_tasks_and_of_the_job_and_plugins_that_others_need() {
    let tasks = json!([
        {"name": "a", "replicas": 3},
        {"name": "b", "replicas": 6,
            "partitionPolicy": {"totalPartitions": 3, "partitionSize": 2, "minPartitions": 2}},
        {"name": "c", "replicas": 2, "partitionPolicy": {"totalPartitions": 1, "partitionSize": 2}},
        {"name": "d", "replicas": 2, "minAvailable": 0, "maxRetry": -1},
    ]);
    let object = json!({"spec": {"queue": "q", "schedulerName": "s", "tasks": tasks}});
    let patch = patch_of(object);
    assert_eq!(patch[0], add("/spec/maxRetry", 3));
    let tasks = patch[1]["value"].as_array().unwrap();
    let minimums: Vec<_> = tasks.iter().map(|task| &task["minAvailable"]).collect();
    assert_eq!(minimums, [3, 4, 2, 0]);
    let retries: Vec<_> = tasks.iter().map(|task| &task["maxRetry"]).collect();
    assert_eq!(retries, [3, 3, 3, -1]);
    assert_eq!(patch[2], add("/spec/minAvailable", 9));

    let right = json!({"name": "a", "replicas": 1, "minAvailable": 1, "maxRetry": 3});
    let plugins = |given: Value| {
        patch_of(
            json!({"spec": {"queue": "q", "schedulerName": "s", "maxRetry": 3,
            "minAvailable": 1, "tasks": [right], "plugins": given}}),
        )
    };
    let cases = [
        (json!(null), None),
        (json!({}), Some(json!({}))),
        (json!({"env": ["x"]}), Some(json!({"env": ["x"]}))),
        (json!({"ray": null}), Some(json!({"ray": null, "svc": []}))),
        (
            json!({"mpi": [], "svc": ["x"]}),
            Some(json!({"mpi": [], "ssh": [], "svc": ["x"]})),
        ),
        (
            json!({"pytorch": []}),
            Some(json!({"pytorch": [], "svc": []})),
        ),
        (
            json!({"tensorflow": []}),
            Some(json!({"tensorflow": [], "svc": []})),
        ),
    ];
    for (given, expected) in cases {
        let expected = expected.map_or(
            json!([]),
            |plugins| json!([{"op": "replace", "path": "/spec/plugins", "value": plugins}]),
        );
        assert_eq!(plugins(given), expected);
    }
}

#[test]
fn s6_077_tasks_minimums_and_plugins_of_a_new_job() {
    let cases = [
        (json!({}), ""),
        (json!({"tasks": null}), "No task specified in job spec"),
        // Negative numbers are left to the definition of the resource and to policies.
        (
            json!({"maxRetry": -1, "ttlSecondsAfterFinished": -1, "minAvailable": -1}),
            "",
        ),
        (
            json!({"tasks": [task_with(json!({"minAvailable": 2}))]}),
            "'minAvailable' is greater than 'replicas' in task: w, job: job1;",
        ),
        (
            json!({"tasks": [task_with(json!({"minAvailable": -1}))]}),
            "",
        ),
        // The third is not looked at any more, nor do its pods count.
        (
            json!({"minAvailable": 3, "tasks": [task("a"), task("a"), task("B")]}),
            "duplicated task name a; job 'minAvailable' should not be greater than total replicas in tasks;",
        ),
        (
            json!({"plugins": {"nope": [], "svc": [], "hcclrank": [], "no": null}}),
            "unable to find job plugin: no; unable to find job plugin: nope;",
        ),
        (
            json!({"plugins": {"mpi": []}}),
            "The specified mpi master task was not found",
        ),
        (json!({"plugins": {"mpi": ["--master=w"]}}), ""),
        (
            json!({"tasks": [{"name": "w", "replicas": 1, "template": {"spec": {"containers": [{}]}}}]}),
            "spec.task[0].template.spec.containers[0].name: Required value. template.spec.containers[0].image: Required value.",
        ),
    ];
    for (spec, expected) in cases {
        assert_eq!(of_job(spec.clone()), expected, "{spec}");
    }
}

const RIGHT: &str = " valid events are [* JobUpdated PodEvicted PodFailed PodPending TaskCompleted TaskFailed Unknown], valid actions are [AbortJob CompleteJob RestartJob RestartPartition RestartPod RestartTask ResumeJob TerminateJob];";

#[test]
fn s6_078_policies_of_a_job_and_of_its_tasks() {
    let cases: [(Value, &[&str]); 16] = [
        (json!([{"event": "PodFailed", "action": "RestartJob"}]), &[]),
        (
            json!([{"event": "PodFailed", "exitCode": 1}]),
            &["must not specify event and exitCode simultaneously"],
        ),
        (
            json!([{"events": ["PodFailed"], "exitCode": 1}]),
            &["must not specify event and exitCode simultaneously"],
        ),
        (
            json!([{"action": "AbortJob"}]),
            &["either event and exitCode should be specified"],
        ),
        (json!([{"exitCode": 0}]), &["0 is not a valid error code"]),
        (
            json!([{"exitCode": 3}, {"exitCode": 3}]),
            &["duplicate exitCode 3"],
        ),
        // The action counts only with an event.
        (json!([{"exitCode": 3, "action": "Nope"}]), &[]),
        (
            json!([{"event": "PodFailed", "action": "Nope"}]),
            &["PATH: Invalid value: \"Nope\": invalid policy action"],
        ),
        (
            json!([{"event": "PodFailed"}]),
            &["PATH: Invalid value: \"\": invalid policy action"],
        ),
        (
            json!([{"event": "PodFailed", "action": "SyncJob"}]),
            &["PATH: Invalid value: \"SyncJob\": invalid policy action"],
        ),
        (
            json!([{"event": "Nope", "action": "Nope"}]),
            &["PATH: Invalid value: \"Nope\": invalid policy event"],
        ),
        (
            json!([{"event": "PodRunning", "action": "AbortJob"}]),
            &["PATH: Invalid value: \"PodRunning\": invalid policy event"],
        ),
        (
            json!([{"event": "OutOfSync", "action": "AbortJob"}]),
            &["PATH: Invalid value: \"OutOfSync\": invalid policy event"],
        ),
        // Twice in one policy is once.
        (
            json!([{"events": ["PodFailed", "PodFailed"], "event": "PodFailed", "action": "AbortJob"}]),
            &[],
        ),
        (
            json!([{"event": "PodFailed", "action": "AbortJob"}, {"events": ["Unknown", "PodFailed"], "action": "AbortJob"}]),
            &["duplicate event PodFailed  across different policy"],
        ),
        (
            json!([{"events": ["*", "PodFailed"], "action": "AbortJob"}, {}]),
            &[
                "either event and exitCode should be specified",
                "if there's * here, no other policy should be here",
            ],
        ),
    ];
    for (policies, mistakes) in cases {
        let expected = |path: &str| {
            let heading = match mistakes.len() {
                0 => return String::new(),
                1 => "1 error occurred:".to_owned(),
                many => format!("{many} errors occurred:"),
            };
            let mistakes = mistakes
                .iter()
                .map(|one| format!("\n\t* {}", one.replace("PATH", path)));
            format!("{heading}{}\n\n{RIGHT}", mistakes.collect::<String>())
        };
        let of_all = of_job(json!({"policies": policies}));
        assert_eq!(of_all, expected("spec.policies"));
        let of_task = of_job(json!({"tasks": [task_with(json!({"policies": policies}))]}));
        assert_eq!(of_task, expected("spec.tasks.policies"));
    }
}

#[test]
fn s6_079_the_first_mistake_in_volumes() {
    let cases = [
        (
            json!([{"mountPath": "/a", "volumeClaimName": "p"}, {"mountPath": "/b", "volumeClaim": {}}]),
            "",
        ),
        (json!([{}, {"mountPath": "/a"}]), "mountPath is required;"),
        (
            json!([{"mountPath": "/a", "volumeClaim": {}}, {"mountPath": "/a"}]),
            "duplicated mountPath: /a;",
        ),
        (
            json!([{"mountPath": "/a"}]),
            "either VolumeClaim or VolumeClaimName must be specified;",
        ),
        (
            json!([{"mountPath": "/a", "volumeClaimName": "p", "volumeClaim": {}}]),
            "conflict: If you want to use an existing PVC, just specify VolumeClaimName.If you want to create a new PVC, you do not need to specify VolumeClaimName",
        ),
        (
            json!([{"mountPath": "/a", "volumeClaimName": "P"}]),
            r"invalid VolumeClaimName P : [a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')]",
        ),
    ];
    for (volumes, expected) in cases {
        assert_eq!(of_job(json!({"volumes": volumes})), expected);
    }
}

#[test]
fn s6_080_the_queue_exists_is_open_and_a_leaf() {
    let not_open = |queue: &str, state: &str| {
        format!(
            "can only submit job to queue with state `Open`, queue `{queue}` status is `{state}`;"
        )
    };
    let cases = [
        ("team-a", String::new()),
        (
            "nope",
            "unable to find job queue: queue.scheduling.volcano.sh \"nope\" not found;".to_owned(),
        ),
        (
            "",
            "unable to find job queue: queue.scheduling.volcano.sh \"\" not found;".to_owned(),
        ),
        ("is-closed", not_open("is-closed", "Closed")),
        ("is-closing", not_open("is-closing", "Closing")),
        ("is-", not_open("is-", "")),
        ("root", "can not submit job to root queue;".to_owned()),
        (
            "team",
            "can only submit job to leaf queue, queue `team` has 1 child queues;".to_owned(),
        ),
    ];
    for (queue, expected) in cases {
        assert_eq!(of_job(json!({"queue": queue})), expected);
    }
}

fn of_update(old: Value, new: Value) -> String {
    let fields = json!({"object": job(new), "oldObject": job(old)});
    denial(ask("/jobs/validate", "UPDATE", fields))
}

const OTHER: &str = "job updates may not change fields other than `minAvailable`, `tasks[*].replicas under spec` and `PriorityClassName`";

#[test]
fn s6_081_what_of_a_job_may_change() {
    let with = |fields: Value| json!({"tasks": [task_with(fields)]});
    let cases = [
        (json!({"priorityClassName": "high", "minAvailable": 0}), ""),
        (with(json!({"replicas": 5, "minAvailable": 2})), ""),
        (
            with(json!({"replicas": -1})),
            "'replicas' must be >= 0 in task: w",
        ),
        (
            with(json!({"minAvailable": -1})),
            "'minAvailable' must be >= 0 in task: w",
        ),
        (
            with(json!({"minAvailable": 2})),
            "'minAvailable' must be <= 'replicas' in task: w",
        ),
        (
            json!({"minAvailable": 2}),
            "job 'minAvailable' must not be greater than total replicas",
        ),
        (
            json!({"minAvailable": -1}),
            "job 'minAvailable' must be >= 0",
        ),
        (
            json!({"tasks": [task("w"), task("x")]}),
            "job updates may not add or remove tasks",
        ),
        (
            with(json!({"partitionPolicy": {"totalPartitions": 0}})),
            "'TotalPartitions' must be greater than 0 in task: w, job: job1",
        ),
        (
            json!({"networkTopology": {"highestTierAllowed": 1, "highestTierName": "a"}}),
            "must not specify 'highestTierAllowed' and 'highestTierName' in networkTopology simultaneously",
        ),
        (json!({"queue": "team-a"}), OTHER),
        (json!({"maxRetry": 5}), OTHER),
        (json!({"plugins": {"env": []}}), OTHER),
        (with(json!({"name": "x"})), OTHER),
        (with(json!({"maxRetry": 1})), OTHER),
    ];
    for (new, expected) in cases {
        assert_eq!(of_update(json!({}), new.clone()), expected, "{new}");
    }
}

#[test]
fn s6_081_what_means_the_same_is_no_change() {
    let with = |requests: Value| {
        let container = json!({"name": "c", "image": "i", "resources": {"requests": requests}});
        json!({"tasks": [task_with(json!({"template": {"spec": {"containers": [container]}}}))]})
    };
    let (one, same) = (json!({"cpu": "1000m"}), json!({"cpu": 1}));
    assert_eq!(of_update(with(one.clone()), with(same)), "");
    assert_eq!(of_update(with(one), with(json!({"cpu": 2}))), OTHER);
    let claim = |name: &str| json!({"volumes": [{"mountPath": "/a", "volumeClaimName": name, "volumeClaim": {"storageClassName": "x"}}]});
    // The controller fills in the name of a claim that it makes.
    assert_eq!(of_update(claim(""), claim("job1-pvc-1")), "");
    let existing = |name: &str| json!({"volumes": [{"mountPath": "/a", "volumeClaimName": name}]});
    assert_eq!(of_update(existing("a"), existing("b")), OTHER);
    let after = |length: &str| {
        let policy = json!({"exitCode": 1, "action": "AbortJob", "timeout": length});
        json!({"runningEstimate": length, "policies": [policy], "tasks": [task_with(json!({"policies": [policy]}))]})
    };
    assert_eq!(of_update(after("90m"), after("1h30m0s")), "");
    assert_eq!(of_update(after("90m"), after("91m")), OTHER);
    let plugins = |arguments: Value| json!({"plugins": {"env": arguments}});
    assert_eq!(of_update(plugins(json!(null)), plugins(json!([]))), "");
}

#[test]
fn s6_082_names_of_tasks_jobs_and_pods() {
    assert_eq!(of_job(json!({"tasks": [task("a.b"), task("1a")]})), "");
    let subdomain = r"a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
    assert_eq!(
        of_job(json!({"tasks": [task("A")]})),
        format!("spec.task[0].metadata.name: Invalid value: \"A\": {subdomain}.")
    );
    let nameless = of_job(json!({"tasks": [task_with(json!({"name": ""}))]}));
    assert_eq!(
        nameless,
        "spec.task[0].metadata.name: Required value: name or generateName is required."
    );
    // 63 bytes with the index of the task.
    let name = "x".repeat(56);
    assert_eq!(of_job(json!({"tasks": [task(&name)]})), "");
    let long = format!("{name}x");
    assert_eq!(
        of_job(json!({"tasks": [task(&long)]})),
        format!(
            "create pod with name job1-{long}-0 validate failed [name part must be no more than 63 bytes];"
        )
    );
    let mut named = job(json!({"queue": "nope"}));
    named["metadata"]["name"] = "-".into();
    let said = denial(ask("/jobs/validate", "CREATE", json!({"object": named})));
    let form = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
    assert_eq!(
        said,
        format!(
            "create pod with name --w-0 validate failed [{form}];create job with name - validate failed [{form}] unable to find job queue: queue.scheduling.volcano.sh \"nope\" not found;"
        )
    );
}

#[test]
fn s6_082_dependencies_partitions_and_topology() {
    let graph =
        "job has dependencies between tasks, but doesn't form a directed acyclic graph(DAG);";
    let on = |name: &str, others: Value| {
        let mut task = task(name);
        task["dependsOn"] = json!({"name": others});
        task
    };
    for (tasks, expected) in [
        (json!([task("a"), on("b", json!(["a"]))]), ""),
        (json!([on("a", json!(["b"])), on("b", json!(["a"]))]), graph),
        (json!([on("a", json!(["x"]))]), graph),
        (json!([on("a", json!(null))]), ""),
    ] {
        assert_eq!(of_job(json!({"tasks": tasks})), expected, "{tasks}");
    }
    let partitions = |fields: Value, policy: Value| {
        let mut task = task_with(fields);
        task["partitionPolicy"] = policy;
        of_job(json!({"tasks": [task]}))
    };
    let of = |what: &str| format!("{what} in task: w, job: job1");
    let four = json!({"replicas": 4});
    for (fields, policy, expected) in [
        (four.clone(), json!({"totalPartitions": 2, "partitionSize": 2}), String::new()),
        (four.clone(), json!({"partitionSize": 2}), of("'TotalPartitions' must be greater than 0")),
        (four.clone(), json!({"totalPartitions": 2}), of("'PartitionSize' must be greater than 0")),
        (four.clone(), json!({"totalPartitions": 2, "partitionSize": 3}), of("'Replicas' are not equal to TotalPartitions*PartitionSize")),
        (
            json!({"replicas": 4, "minAvailable": 3}),
            json!({"totalPartitions": 2, "partitionSize": 2, "minPartitions": 1}),
            of("'MinAvailable' is not equal to MinPartitions*PartitionSize"),
        ),
        (json!({"replicas": 4, "minAvailable": 3}), json!({"totalPartitions": 2, "partitionSize": 2}), String::new()),
        (
            four,
            json!({"totalPartitions": 2, "partitionSize": 2, "networkTopology": {"highestTierAllowed": 1, "highestTierName": "a"}}),
            "must not specify 'highestTierAllowed' and 'highestTierName' in networkTopology simultaneously".to_owned(),
        ),
    ] {
        assert_eq!(partitions(fields, policy.clone()), expected, "{policy}");
    }
    let numa = |policy: &str, resources: Value| {
        let containers = json!([
            {"name": "c", "image": "i", "resources": {"limits": {"cpu": 2}}},
            {"name": "d", "image": "i", "resources": resources},
        ]);
        let template = json!({"spec": {"containers": containers}});
        of_job(
            json!({"tasks": [task_with(json!({"topologyPolicy": policy, "template": template}))]}),
        )
    };
    let not_whole = "the cpu request isn't an integer in spec.task[0] container[1].";
    for (policy, resources, expected) in [
        ("none", json!({}), ""),
        ("best-effort", json!({}), not_whole),
        (
            "restricted",
            json!({"requests": {"cpu": "1500m"}}),
            not_whole,
        ),
        (
            "restricted",
            json!({"requests": {"memory": "1Gi"}, "limits": {"cpu": 1}}),
            not_whole,
        ),
        (
            "single-numa-node",
            json!({"requests": {"cpu": "3000m"}}),
            "",
        ),
    ] {
        assert_eq!(numa(policy, resources), expected, "{policy}");
    }
}

#[test]
fn s6_077_several_mistakes_are_told_one_after_the_other() {
    let said = of_job(json!({"minAvailable": 9, "queue": "is-closed", "tasks": [
        task_with(json!({"minAvailable": 3, "template": {"spec": {"containers": []}}})), task("w")]}));
    assert_eq!(
        said,
        "'minAvailable' is greater than 'replicas' in task: w, job: job1;spec.task[0].template.spec.containers: Required value.  duplicated task name w; job 'minAvailable' should not be greater than total replicas in tasks; can only submit job to queue with state `Open`, queue `is-closed` status is `Closed`;"
    );
}

#[test]
fn s6_077_what_cannot_be_read_is_refused_and_nothing_panics() {
    let shapes = [
        json!("x"),
        json!(3),
        json!([]),
        json!([["a"]]),
        json!({}),
        json!(null),
        json!([null]),
        json!([{"template": "x"}]),
        json!([{"template": {"spec": []}}]),
        json!([{"template": {"metadata": 1}}]),
        json!([{"template": {"spec": {"containers": [1]}}}]),
        json!([{"template": {"spec": {"containers": {}}}}]),
        json!([{"template": {"spec": {"containers": [{"resources": {"limits": {"cpu": "many"}}}]}}}]),
        json!([{"replicas": "1"}]),
        json!([{"replicas": 2_147_483_647}, {"name": "b", "replicas": 2_147_483_647}]),
        json!([{"partitionPolicy": {"totalPartitions": 2_147_483_647, "partitionSize": 2_147_483_647}}]),
    ];
    for tasks in shapes {
        let object = job(json!({"tasks": tasks}));
        for (path, operation) in [
            ("/jobs/mutate", "CREATE"),
            ("/jobs/validate", "CREATE"),
            ("/jobs/validate", "UPDATE"),
        ] {
            let fields = json!({"object": object, "oldObject": object});
            let answer = ask(path, operation, fields);
            assert_eq!(answer.allowed, answer.message.is_none());
        }
    }
    let nothing = denial(ask("/jobs/validate", "CREATE", json!({"object": null})));
    assert_eq!(
        nothing,
        "the request has no object of the kind that it is about"
    );
}

/// What is said of a policy with this event and action.
fn of_policy(event: &str, action: &str) -> String {
    of_job(json!({"policies": [{"event": event, "action": action}]}))
}

#[test]
fn s6_007_actions_that_a_user_may_name() {
    for action in [
        "AbortJob",
        "RestartJob",
        "RestartTask",
        "RestartPod",
        "RestartPartition",
        "TerminateJob",
        "CompleteJob",
        "ResumeJob",
    ] {
        assert_eq!(of_policy("PodFailed", action), "", "{action}");
    }
    for action in [
        "SyncJob",
        "EnqueueJob",
        "SyncQueue",
        "OpenQueue",
        "CloseQueue",
    ] {
        assert!(
            of_policy("PodFailed", action).contains("invalid policy action"),
            "{action}"
        );
    }
}

#[test]
fn s6_008_events_that_a_user_may_name() {
    for event in [
        "*",
        "PodFailed",
        "PodEvicted",
        "PodPending",
        "Unknown",
        "TaskCompleted",
        "TaskFailed",
        "JobUpdated",
    ] {
        assert_eq!(of_policy(event, "AbortJob"), "", "{event}");
    }
    for event in ["OutOfSync", "CommandIssued", "PodRunning"] {
        assert!(
            of_policy(event, "AbortJob").contains("invalid policy event"),
            "{event}"
        );
    }
}

#[test]
fn s6_004_events_that_are_a_text_are_refused_with_their_path() {
    let said = of_job(json!({"policies": [{"action": "RestartJob", "events": "PodEvicted"}]}));
    let expected = "cannot read the object: spec.policies[0].events: invalid type: string \"PodEvicted\", expected a sequence";
    assert_eq!(said, expected);
}
