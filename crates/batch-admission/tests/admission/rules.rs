//! The rules as the API server evaluates them: what each refuses, and that the webhook decides alike.

use crate::{ask, job, task, task_with};
use cel::common::types::{CelInt, CelString, LIST_TYPE, Type};
use cel::common::value::{CowVal, StaticVal, Val};
use cel::{Context, Env, ExecutionError, Value as Cel};
use evictd_batch_admission::rules::{Policy, policies};
use evictd_batch_admission::{MOST_TASKS, MOST_VOLUMES};
use evictd_pod::Quantity;
use serde_json::{Value, json};
use std::any::Any;
use std::collections::HashMap;
use std::sync::Arc;

static QUANTITY: Type = Type::new_unspecified_type("kubernetes.Quantity");

/// An amount: `quantity('10Gi')`.
#[derive(Debug, Clone)]
struct Amount(Quantity);

impl Val for Amount {
    fn get_type(&self) -> &Type {
        &QUANTITY
    }

    fn cel_type() -> &'static Type {
        &QUANTITY
    }

    fn equals(&self, other: &dyn Val) -> bool {
        let other = other.downcast_ref::<Self>();
        other.is_some_and(|other| self.0 == other.0)
    }

    fn clone_as_boxed<'v>(&self) -> Box<dyn Val + 'v> {
        Box::new(self.clone())
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }
}

impl StaticVal for Amount {}

fn quantity(text: &CelString<'_>) -> Result<Amount, ExecutionError> {
    let amount = text.inner().parse();
    amount
        .map(Amount)
        .map_err(|error| ExecutionError::function_error("quantity", error))
}

fn compare_to(own: &Amount, other: &Amount) -> CelInt {
    CelInt::from(own.0.cmp(&other.0) as i64)
}

fn sum<'b, 'v>(arguments: Vec<CowVal<'b, 'v>>) -> Result<CowVal<'b, 'v>, ExecutionError> {
    let no_list = || ExecutionError::function_error("sum", "a list of numbers is wanted");
    let list = arguments[0].as_ref().as_iterable().ok_or_else(no_list)?;
    let (mut items, mut all) = (list.iter(), 0);
    while let Some(item) = items.next() {
        all += item.downcast_ref::<CelInt>().ok_or_else(no_list)?.inner();
    }
    Ok(CowVal::owned(CelInt::from(all)))
}

/// CEL as Kubernetes has it, as far as it is used.
pub(crate) fn environment() -> Env {
    let mut env = Env::stdlib();
    env.add_type(QUANTITY.to_owned()).unwrap();
    env.add_extension(cel::extensions::strings).unwrap();
    cel::add_overload!(env, fn quantity: (CelString<'_>) -> Result<Amount>).unwrap();
    cel::add_member_overload!(env, fn compare_to: (Amount, Amount) -> CelInt).unwrap();
    env.add_member_overload("sum", "list.sum()", LIST_TYPE, vec![], sum)
        .unwrap();
    env
}

/// Numbers are `int`, as in Kubernetes.
fn value(json: &Value) -> Cel {
    match json {
        Value::Number(number) => Cel::Int(number.as_i64().unwrap()),
        Value::Array(items) => items.iter().map(value).collect::<Vec<_>>().into(),
        Value::Object(fields) => {
            let fields = fields
                .iter()
                .map(|(key, field)| (key.clone(), value(field)));
            fields.collect::<HashMap<String, Cel>>().into()
        }
        other => cel::to_value(other).unwrap(),
    }
}

/// What the policy says of a change: the messages of all rules that do not hold.
fn broken(policy: &Policy, operation: &str, object: &Value, old: &Value) -> Vec<String> {
    let env = Arc::new(environment());
    let mut context = Context::with_env(Arc::clone(&env));
    let request = json!({"operation": operation});
    for (name, json) in [
        ("object", object),
        ("oldObject", old),
        ("request", &request),
    ] {
        context.add_variable_from_value(name, value(json));
    }
    let evaluate = |context: &Context<'_, '_>, expression: &str| {
        let program = env.compile(expression);
        let program = program.unwrap_or_else(|error| panic!("{expression}: {error}"));
        let result = program.execute(context);
        result.unwrap_or_else(|error| panic!("{expression}: {error}\n{object}"))
    };
    let mut variables = HashMap::new();
    if let Some((_, condition)) = policy.condition
        && evaluate(&context, condition) == Cel::Bool(false)
    {
        return Vec::new();
    }
    for (name, expression) in &policy.variables {
        variables.insert((*name).to_owned(), evaluate(&context, expression));
        context.add_variable_from_value("variables", variables.clone());
    }
    let broken = policy.rules.iter().filter(|rule| {
        let holds = evaluate(&context, &rule.expression);
        assert!(
            matches!(holds, Cel::Bool(_)),
            "{}: {holds:?}",
            rule.expression
        );
        holds == Cel::Bool(false)
    });
    broken.map(|rule| rule.message.clone()).collect()
}

/// The policy of this name.
fn policy(name: &str) -> Policy {
    let mut all = policies().into_iter();
    all.find(|policy| policy.name == format!("evictd-batch-{name}"))
        .unwrap()
}

/// Whether the webhook lets it in.
fn webhook_allows(path: &str, operation: &str, object: &Value, old: &Value) -> bool {
    let name = &old["metadata"]["name"];
    let fields = json!({"object": object, "oldObject": old, "name": name});
    ask(path, operation, fields).allowed
}

/// What only the policies refuse.
const LEFT_TO_POLICIES: [&str; 6] = [
    "job 'minAvailable' must be >= 0",
    "'maxRetry' cannot be less than zero",
    "'ttlSecondsAfterFinished' cannot be less than zero",
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters",
    "'replicas' < 0 in task",
    "'minAvailable' < 0 in task",
];

/// Checks that a policy says this of a change, and that the webhook decides alike.
pub(crate) fn check(
    name: &str,
    path: &str,
    operation: &str,
    change: (&Value, &Value),
    expected: &[&str],
) {
    let (object, old) = change;
    let found = broken(&policy(name), operation, object, old);
    assert_eq!(found, expected, "{object}");
    let refused = found
        .iter()
        .any(|message| !LEFT_TO_POLICIES.contains(&message.as_str()));
    let allows = webhook_allows(path, operation, object, old);
    assert_eq!(allows, !refused, "{object}: {found:?}");
}

/// New jobs with these fields, and what is said of each.
#[track_caller]
fn check_new_jobs(specs: &[(Value, &[&str])]) {
    for (spec, expected) in specs {
        check(
            "jobs",
            "/jobs/validate",
            "CREATE",
            (&job(spec.clone()), &json!(null)),
            expected,
        );
    }
}

#[test]
fn s6_086_every_rule_of_jobs_refuses_what_the_webhook_refuses() {
    let tasks = |fields: Value| json!({"tasks": [task_with(fields)]});
    let both = json!({"highestTierAllowed": 1, "highestTierName": "a"});
    let abort = |event: &str| json!({"event": event, "action": "AbortJob"});
    let specs: Vec<(Value, &[&str])> = vec![
        (json!({}), &[]),
        (
            json!({"tasks": [task("a"), task("b")], "plugins": {"svc": [], "mpi": ["--master=a"]}}),
            &[],
        ),
        (
            json!({"networkTopology": {"mode": "hard", "highestTierAllowed": 1}}),
            &[],
        ),
        (
            json!({"policies": [{"events": ["PodFailed", "PodEvicted"], "action": "RestartJob"}, {"exitCode": 3, "action": "AbortJob"}]}),
            &[],
        ),
        (
            json!({"policies": [abort("*")], "tasks": [task_with(json!({"policies": [abort("*")]}))]}),
            &[],
        ),
        (
            json!({"volumes": [{"mountPath": "/a", "volumeClaimName": "p"}, {"mountPath": "/b", "volumeClaim": {}}]}),
            &[],
        ),
        (
            tasks(json!({"replicas": 4, "minAvailable": 2,
                "partitionPolicy": {"totalPartitions": 2, "partitionSize": 2, "minPartitions": 1}})),
            &[],
        ),
        (
            json!({"tasks": [], "minAvailable": 0}),
            &["No task specified in job spec"],
        ),
        (
            json!({"minAvailable": -1}),
            &["job 'minAvailable' must be >= 0"],
        ),
        (
            json!({"maxRetry": -1}),
            &["'maxRetry' cannot be less than zero"],
        ),
        (
            json!({"ttlSecondsAfterFinished": -1}),
            &["'ttlSecondsAfterFinished' cannot be less than zero"],
        ),
        (
            json!({"minAvailable": 2}),
            &["job 'minAvailable' should not be greater than total replicas in tasks"],
        ),
        (
            json!({"plugins": {"nope": []}}),
            &["unable to find job plugin"],
        ),
        (
            json!({"networkTopology": both}),
            &[
                "must not specify 'highestTierAllowed' and 'highestTierName' in networkTopology simultaneously",
            ],
        ),
    ];
    check_new_jobs(&specs);
}

#[test]
fn s6_086_every_rule_of_tasks_refuses_what_the_webhook_refuses() {
    let tasks = |fields: Value| json!({"tasks": [task_with(fields)]});
    let both = json!({"highestTierAllowed": 1, "highestTierName": "a"});
    let specs: Vec<(Value, &[&str])> = vec![
        (
            json!({"tasks": [task("a.b")]}),
            &["a lowercase RFC 1123 label must consist of lower case alphanumeric characters"],
        ),
        (
            json!({"minAvailable": 0, "tasks": [task_with(json!({"replicas": -1})), task("x")]}),
            &["'replicas' < 0 in task"],
        ),
        (
            tasks(json!({"minAvailable": -1})),
            &["'minAvailable' < 0 in task"],
        ),
        (
            tasks(json!({"minAvailable": 2})),
            &["'minAvailable' is greater than 'replicas' in task"],
        ),
        (
            tasks(json!({"partitionPolicy": {"totalPartitions": 2, "partitionSize": 2}})),
            &["'Replicas' are not equal to TotalPartitions*PartitionSize in task"],
        ),
        (
            tasks(json!({"partitionPolicy": {"totalPartitions": 0, "partitionSize": 2}})),
            &["'Replicas' are not equal to TotalPartitions*PartitionSize in task"],
        ),
        (
            tasks(json!({"replicas": 4, "minAvailable": 3,
                "partitionPolicy": {"totalPartitions": 2, "partitionSize": 2, "minPartitions": 1}})),
            &["'MinAvailable' is not equal to MinPartitions*PartitionSize in task"],
        ),
        (
            tasks(
                json!({"partitionPolicy": {"totalPartitions": 1, "partitionSize": 1, "networkTopology": both}}),
            ),
            &[
                "must not specify 'highestTierAllowed' and 'highestTierName' in networkTopology of partitions simultaneously",
            ],
        ),
    ];
    check_new_jobs(&specs);
}

#[test]
fn s6_086_every_rule_of_lifecycle_policies_refuses_what_the_webhook_refuses() {
    let abort = |event: &str| json!({"event": event, "action": "AbortJob"});
    let policies: Vec<(Value, &[&str])> = vec![
        (
            json!([{"event": "PodFailed", "exitCode": 1, "action": "AbortJob"}]),
            &["must not specify event and exitCode simultaneously"],
        ),
        (
            json!([{"action": "AbortJob"}]),
            &["either event and exitCode should be specified"],
        ),
        (json!([abort("Nope")]), &["invalid policy event"]),
        (
            json!([{"events": ["OutOfSync"], "action": "AbortJob"}]),
            &["invalid policy event"],
        ),
        (
            json!([{"event": "PodFailed", "action": "SyncJob"}]),
            &["invalid policy action"],
        ),
        (json!([{"event": "PodFailed"}]), &["invalid policy action"]),
        (json!([{"exitCode": 0}]), &["0 is not a valid error code"]),
        (
            json!([abort("PodFailed"), abort("*")]),
            &["if there's * here, no other policy should be here"],
        ),
    ];
    for (policies, expected) in policies {
        let of_job = job(json!({"policies": policies}));
        check(
            "jobs",
            "/jobs/validate",
            "CREATE",
            (&of_job, &json!(null)),
            expected,
        );
        let of_task = job(json!({"tasks": [task_with(json!({"policies": policies}))]}));
        check(
            "jobs",
            "/jobs/validate",
            "CREATE",
            (&of_task, &json!(null)),
            expected,
        );
    }
}

#[test]
fn s6_086_every_rule_of_volumes_refuses_what_the_webhook_refuses() {
    let volumes: Vec<(Value, &[&str])> = vec![
        (json!([{"volumeClaim": {}}]), &["mountPath is required"]),
        (
            json!([{"mountPath": "/a"}]),
            &["either VolumeClaim or VolumeClaimName must be specified"],
        ),
        (
            json!([{"mountPath": "/a", "volumeClaim": {}, "volumeClaimName": "p"}]),
            &["conflict: VolumeClaim and VolumeClaimName must not be specified simultaneously"],
        ),
    ];
    for (volumes, expected) in volumes {
        let object = job(json!({"volumes": volumes}));
        check(
            "jobs",
            "/jobs/validate",
            "CREATE",
            (&object, &json!(null)),
            expected,
        );
    }
}

#[test]
fn s6_086_updates_of_jobs() {
    let before = job(json!({}));
    let updates: [(Value, &[&str]); 4] = [
        (json!({"minAvailable": 0, "priorityClassName": "x"}), &[]),
        (
            json!({"tasks": [task("w"), task("x")]}),
            &["job updates may not add or remove tasks"],
        ),
        (
            json!({"tasks": []}),
            &["job updates may not add or remove tasks"],
        ),
        (
            json!({"queue": "team-a"}),
            &[
                "job updates may not change fields other than `minAvailable`, `tasks[*].replicas under spec` and `PriorityClassName`",
            ],
        ),
    ];
    for (spec, expected) in updates {
        let after = job(spec);
        check(
            "job-updates",
            "/jobs/validate",
            "UPDATE",
            (&after, &before),
            expected,
        );
    }
    // A job that was made before the rules can still lose its finalizers.
    let wrong = job(json!({"maxRetry": -1, "tasks": []}));
    assert!(broken(&policy("jobs"), "UPDATE", &wrong, &wrong).is_empty());
    let changed = job(json!({"maxRetry": -2}));
    let found = broken(&policy("jobs"), "UPDATE", &changed, &wrong);
    assert_eq!(found, ["'maxRetry' cannot be less than zero"]);
}

const LENGTH: &str =
    "volcano.sh/hierarchy must have the same length with volcano.sh/hierarchy-weights";

const WEIGHT: &str = "weights in volcano.sh/hierarchy-weights must be larger than 0";

#[test]
fn s6_086_every_rule_of_queues_refuses_what_the_webhook_refuses() {
    let queue = |spec: Value| json!({"metadata": {"name": "q"}, "spec": spec});
    let annotated = |path: &str, weights: &str| {
        let mut queue = queue(json!({}));
        queue["metadata"]["annotations"] =
            json!({"volcano.sh/hierarchy": path, "volcano.sh/hierarchy-weights": weights});
        queue
    };
    let in_state = |state: &str| {
        let mut queue = queue(json!({}));
        queue["status"] = json!({"state": state});
        queue
    };
    let cases: Vec<(Value, &[&str])> = vec![
        (queue(json!({})), &[]),
        (
            queue(
                json!({"capability": {"cpu": 4}, "deserved": {"cpu": "2000m", "memory": "4Gi"}, "guarantee": {"resource": {"cpu": "1"}}}),
            ),
            &[],
        ),
        (in_state("Closed"), &[]),
        (
            in_state("Closing"),
            &["queue state must be in [Open Closed]"],
        ),
        (
            queue(json!({"capability": {"cpu": -1}})),
            &["amounts must be greater than or equal to 0"],
        ),
        (
            queue(json!({"guarantee": {"resource": {"cpu": "1"}}})),
            &["deserved must be >= guarantee"],
        ),
        (
            queue(json!({"deserved": {"cpu": "1"}, "guarantee": {"resource": {"cpu": "1001m"}}})),
            &["deserved must be >= guarantee"],
        ),
        (
            queue(json!({"deserved": {"cpu": "2"}, "capability": {"cpu": "1"}})),
            &["deserved must be <= capability"],
        ),
        (annotated("root/a", "1/2.5"), &[]),
        (annotated("root/a", "1"), &[LENGTH]),
        (annotated("root/a", "1/0"), &[WEIGHT]),
        (annotated("root/a", "1/-1"), &[WEIGHT]),
        (annotated("root/a", "1/x"), &[WEIGHT]),
        (
            queue(json!({"parent": "q"})),
            &["queue cannot use itself as parent"],
        ),
    ];
    for (object, expected) in cases {
        check(
            "queues",
            "/queues/validate",
            "CREATE",
            (&object, &json!(null)),
            expected,
        );
    }
    // One that is wrong already can still get labels, and lose its finalizers.
    let wrong = annotated("root/a", "1");
    let mut labelled = wrong.clone();
    labelled["metadata"]["labels"] = json!({"a": "b"});
    assert!(broken(&policy("queues"), "UPDATE", &labelled, &wrong).is_empty());
    let changed = annotated("root/b", "1");
    assert_eq!(
        broken(&policy("queues"), "UPDATE", &changed, &wrong),
        [LENGTH]
    );
    let named = |name: &str| json!({"metadata": {"name": name}});
    let deletions: [(&str, &[&str]); 3] = [
        ("team-a", &[]),
        ("default", &["`default` queue can not be deleted"]),
        ("root", &["`root` queue can not be deleted"]),
    ];
    for (name, expected) in deletions {
        let gone = (&json!(null), &named(name));
        check(
            "queue-deletions",
            "/queues/validate",
            "DELETE",
            gone,
            expected,
        );
    }
}

#[test]
fn s6_086_pods_and_pod_groups() {
    let (least, most) = (
        "volcano.sh/jdb-min-available",
        "volcano.sh/jdb-max-unavailable",
    );
    let pod = |scheduler: &str, annotations: Value| json!({"metadata": {"annotations": annotations}, "spec": {"schedulerName": scheduler}});
    let wrong = |key: &str| {
        let key = key.trim_start_matches("volcano.sh/");
        format!("{key} must be a positive integer or a valid percentage which between 1% ~ 99%")
    };
    let null = json!(null);
    for value in ["1", "10", "+3", "1%", "99%", "007"] {
        for key in [least, most] {
            let object = pod("volcano", json!({key: value}));
            check("pods", "/pods/validate", "CREATE", (&object, &null), &[]);
        }
    }
    for value in ["0", "-1", "0%", "100%", "x", "", "1.5%"] {
        for key in [least, most] {
            let object = pod("volcano", json!({key: value}));
            check(
                "pods",
                "/pods/validate",
                "CREATE",
                (&object, &null),
                &[&wrong(key)],
            );
            let of_others = pod("default-scheduler", json!({key: value}));
            check("pods", "/pods/validate", "CREATE", (&of_others, &null), &[]);
        }
    }
    let both = pod("volcano", json!({least: "1", most: "1"}));
    let twice = "not allow configure multiple annotations at same time";
    check("pods", "/pods/validate", "CREATE", (&both, &null), &[twice]);
    let tiers = json!({"highestTierAllowed": 1, "highestTierName": "a"});
    let groups: [(Value, &[&str]); 4] = [
        (json!({}), &[]),
        (
            json!({"networkTopology": {"highestTierAllowed": 1, "highestTierName": ""}}),
            &[],
        ),
        (
            json!({"networkTopology": tiers}),
            &[
                "must not specify 'highestTierAllowed' and 'highestTierName' in networkTopology simultaneously",
            ],
        ),
        (
            json!({"subGroupPolicy": [{"name": "a"}, {"name": "b", "networkTopology": tiers}]}),
            &[
                "must not specify 'highestTierAllowed' and 'highestTierName' in networkTopology of subGroupPolicy simultaneously",
            ],
        ),
    ];
    for (spec, expected) in groups {
        let object = json!({"metadata": {"name": "g"}, "spec": spec});
        check(
            "podgroups",
            "/podgroups/validate",
            "CREATE",
            (&object, &null),
            expected,
        );
    }
}

#[test]
fn an_honest_job_of_500_named_tasks_and_the_largest_job_break_no_rule() {
    let named = |index: usize| {
        let mut task = task(&format!("t{index}"));
        task["policies"] = json!([{"exitCode": 1, "action": "AbortJob"}, {"event": "PodFailed", "action": "RestartJob"}]);
        task
    };
    for count in [500, MOST_TASKS] {
        let tasks: Vec<_> = (0..count).map(named).collect();
        let volumes: Vec<_> = (0..MOST_VOLUMES)
            .map(|index| json!({"mountPath": format!("/v{index}"), "volumeClaimName": "p"}))
            .collect();
        let job = job(json!({"tasks": tasks, "volumes": volumes}));
        check(
            "jobs",
            "/jobs/validate",
            "CREATE",
            (&job, &json!(null)),
            &[],
        );
    }
}
