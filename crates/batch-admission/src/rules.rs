//! The rules that need no other object, as the API server's own admission policies. They hold even where the webhook is
//! not called or does not answer (S6-086). Texts are fixed, without the names that the webhook inserts.
//!
//! The webhook alone checks that names are unique. A policy would have to compare all pairs, and the API server rejects
//! expensive policies (`kubernetes.io/docs/reference/using-api/cel`), even for an honest job of some hundred tasks.
//!
//! Numbers below zero and the form of a task's name are here only: the webhook leaves them to the definition of the resource
//! and to these policies, as Volcano's does (S6-077).

use super::job::policies::{ACTIONS, EVENTS};
use super::job::update::{OTHER_FIELDS, OTHER_TASKS};
use super::job::validate::{NO_TASK, PLUGINS};
use super::queue::validate::{KEPT, STATES};
use evictd_batch_objects::{BUDGET_MAX_UNAVAILABLE, BUDGET_MIN_AVAILABLE};

/// A `ValidatingAdmissionPolicy`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// Its name, also that of its binding.
    pub name: &'static str,
    /// The API group of its resource.
    pub group: &'static str,
    /// The version within the group.
    pub version: &'static str,
    /// The plural: `jobs`.
    pub resource: &'static str,
    /// `CREATE`, `UPDATE`, `DELETE`.
    pub operations: &'static [&'static str],
    /// Conditions under which it applies, by name and CEL.
    pub condition: Option<(&'static str, &'static str)>,
    /// Shared expressions, by name and CEL.
    pub variables: Vec<(&'static str, String)>,
    /// The validations.
    pub rules: Vec<Rule>,
}

/// A validation of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// CEL that is true where it holds.
    pub expression: String,
    /// The message if it fails.
    pub message: String,
}

/// All of them.
pub fn policies() -> [Policy; 8] {
    [
        jobs(),
        job_updates(),
        queues(),
        queue_deletions(),
        pods(),
        pod_groups(),
        cron_jobs(),
        job_flows(),
    ]
}

fn rules<const N: usize>(rules: [(&str, String); N]) -> Vec<Rule> {
    let rules = rules.into_iter();
    rules
        .map(|(message, expression)| Rule {
            expression,
            message: message.to_owned(),
        })
        .collect()
}

/// A list of texts in CEL.
fn cel(texts: &[&str]) -> String {
    let quoted: Vec<_> = texts.iter().map(|text| format!("'{text}'")).collect();
    format!("[{}]", quoted.join(", "))
}

const BATCH: (&str, &str) = ("batch.volcano.sh", "v1alpha1");
const SCHEDULING: (&str, &str) = ("scheduling.volcano.sh", "v1beta1");
/// Changes of labels, or of an object that is being deleted, are never refused.
const ANOTHER_SPEC: (&str, &str) = (
    "another-spec",
    "request.operation == 'CREATE' || object.spec != oldObject.spec",
);

/// The same of queues, whose annotations count, too.
const ANOTHER_QUEUE: (&str, &str) = (
    "another-queue",
    "request.operation == 'CREATE' || object.spec != oldObject.spec || (has(object.metadata.annotations) ? object.metadata.annotations : {}) != (has(oldObject.metadata.annotations) ? oldObject.metadata.annotations : {})",
);

fn jobs() -> Policy {
    let mut all = of_job();
    all.extend(of_tasks());
    all.extend(of_policies());
    all.extend(of_volumes());
    let lists = "(has(object.spec.policies) ? [object.spec.policies] : []) + variables.tasks.filter(task, has(task.policies)).map(task, task.policies)";
    Policy {
        name: "evictd-batch-jobs",
        group: BATCH.0,
        version: BATCH.1,
        resource: "jobs",
        operations: &["CREATE", "UPDATE"],
        condition: Some(ANOTHER_SPEC),
        variables: vec![
            (
                "tasks",
                "has(object.spec.tasks) ? object.spec.tasks : []".to_owned(),
            ),
            (
                "volumes",
                "has(object.spec.volumes) ? object.spec.volumes : []".to_owned(),
            ),
            ("policyLists", lists.to_owned()),
            ("events", cel(&EVENTS)),
            ("actions", cel(&ACTIONS)),
        ],
        rules: all,
    }
}

/// The highest tier is named or numbered, not both, at this place.
fn one_tier(topology: &str) -> String {
    format!(
        "!has({topology}) || !has({topology}.highestTierAllowed) || !has({topology}.highestTierName) || {topology}.highestTierName == ''"
    )
}

const BOTH_TIERS: &str =
    "must not specify 'highestTierAllowed' and 'highestTierName' in networkTopology simultaneously";

fn of_job() -> Vec<Rule> {
    let at_least_0 = |field: &str| format!("!has(object.spec.{field}) || object.spec.{field} >= 0");
    let plugins = cel(&PLUGINS);
    rules([
        (NO_TASK, "size(variables.tasks) > 0".to_owned()),
        ("job 'minAvailable' must be >= 0", at_least_0("minAvailable")),
        ("'maxRetry' cannot be less than zero", at_least_0("maxRetry")),
        (
            "'ttlSecondsAfterFinished' cannot be less than zero",
            at_least_0("ttlSecondsAfterFinished"),
        ),
        (
            "job 'minAvailable' should not be greater than total replicas in tasks",
            "!has(object.spec.minAvailable) || object.spec.minAvailable <= variables.tasks.map(task, has(task.replicas) ? task.replicas : 0).sum()".to_owned(),
        ),
        (
            "unable to find job plugin",
            format!("!has(object.spec.plugins) || object.spec.plugins.all(name, name in {plugins})"),
        ),
        (BOTH_TIERS, one_tier("object.spec.networkTopology")),
    ])
}

fn of_tasks() -> Vec<Rule> {
    let each = |rule: &str| format!("variables.tasks.all(task, {rule})");
    let replicas = "(has(task.replicas) ? task.replicas : 0)";
    let in_parts = |rule: &str| each(&format!("!has(task.partitionPolicy) || {rule}"));
    let parts = "task.partitionPolicy";
    rules([
        (
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters",
            each(
                "!has(task.name) || (size(task.name) <= 63 && task.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$'))",
            ),
        ),
        ("'replicas' < 0 in task", each(&format!("{replicas} >= 0"))),
        (
            "'minAvailable' < 0 in task",
            each("!has(task.minAvailable) || task.minAvailable >= 0"),
        ),
        (
            "'minAvailable' is greater than 'replicas' in task",
            each(&format!(
                "!has(task.minAvailable) || task.minAvailable <= {replicas}"
            )),
        ),
        (
            "'Replicas' are not equal to TotalPartitions*PartitionSize in task",
            in_parts(&format!(
                "({parts}.totalPartitions > 0 && {parts}.partitionSize > 0 && {replicas} == {parts}.totalPartitions * {parts}.partitionSize)"
            )),
        ),
        (
            "'MinAvailable' is not equal to MinPartitions*PartitionSize in task",
            in_parts(&format!(
                "!has(task.minAvailable) || !has({parts}.minPartitions) || {parts}.minPartitions <= 0 || task.minAvailable == {parts}.minPartitions * {parts}.partitionSize"
            )),
        ),
        (
            "must not specify 'highestTierAllowed' and 'highestTierName' in networkTopology of partitions simultaneously",
            in_parts(&format!(
                "({})",
                one_tier("task.partitionPolicy.networkTopology")
            )),
        ),
    ])
}

fn of_policies() -> Vec<Rule> {
    let each =
        |rule: &str| format!("variables.policyLists.all(policies, policies.all(policy, {rule}))");
    let of_lists = |rule: &str| format!("variables.policyLists.all(policies, {rule})");
    let named = "((has(policy.event) && policy.event != '') || (has(policy.events) && size(policy.events) > 0))";
    rules([
        (
            "must not specify event and exitCode simultaneously",
            each(&format!("!({named} && has(policy.exitCode))")),
        ),
        (
            "either event and exitCode should be specified",
            each(&format!("{named} || has(policy.exitCode)")),
        ),
        (
            "invalid policy event",
            each(
                "(!has(policy.event) || policy.event == '' || policy.event in variables.events) && (!has(policy.events) || policy.events.all(event, event in variables.events))",
            ),
        ),
        (
            "invalid policy action",
            each(&format!(
                "!{named} || (has(policy.action) && policy.action in variables.actions)"
            )),
        ),
        (
            "0 is not a valid error code",
            each("!has(policy.exitCode) || policy.exitCode != 0"),
        ),
        (
            "if there's * here, no other policy should be here",
            of_lists(
                "!policies.exists(policy, (has(policy.event) && policy.event == '*') || (has(policy.events) && '*' in policy.events)) || policies.all(policy, (!has(policy.event) || policy.event in ['', '*']) && (!has(policy.events) || policy.events.all(event, event == '*')))",
            ),
        ),
    ])
}

fn of_volumes() -> Vec<Rule> {
    let each = |rule: &str| format!("variables.volumes.all(volume, {rule})");
    let claim = "(has(volume.volumeClaimName) && volume.volumeClaimName != '')";
    rules([
        (
            "mountPath is required",
            each("has(volume.mountPath) && volume.mountPath != ''"),
        ),
        (
            "either VolumeClaim or VolumeClaimName must be specified",
            each(&format!("{claim} || has(volume.volumeClaim)")),
        ),
        // The controller fills in the name of a claim that it makes, so that both are there later.
        (
            "conflict: VolumeClaim and VolumeClaimName must not be specified simultaneously",
            format!(
                "request.operation != 'CREATE' || {}",
                each(&format!("!({claim} && has(volume.volumeClaim))"))
            ),
        ),
    ])
}

fn job_updates() -> Policy {
    Policy {
        name: "evictd-batch-job-updates",
        operations: &["UPDATE"],
        variables: Vec::new(),
        rules: rules([
            (
                OTHER_TASKS,
                "(has(object.spec.tasks) ? size(object.spec.tasks) : 0) == (has(oldObject.spec.tasks) ? size(oldObject.spec.tasks) : 0)".to_owned(),
            ),
            (
                OTHER_FIELDS,
                "(has(object.spec.queue) ? object.spec.queue : '') == (has(oldObject.spec.queue) ? oldObject.spec.queue : '')".to_owned(),
            ),
        ]),
        ..jobs()
    }
}

fn queues() -> Policy {
    let states = cel(&STATES);
    let amounts = |of: &str| format!("(has({of}) ? {of} : {{}})");
    let guarantee = "(has(object.spec.guarantee) && has(object.spec.guarantee.resource) ? object.spec.guarantee.resource : {})";
    let annotation = |key: &str| {
        format!(
            "has(object.metadata.annotations) && '{key}' in object.metadata.annotations ? object.metadata.annotations['{key}'] : ''"
        )
    };
    Policy {
        name: "evictd-batch-queues",
        group: SCHEDULING.0,
        version: SCHEDULING.1,
        resource: "queues",
        operations: &["CREATE", "UPDATE"],
        condition: Some(ANOTHER_QUEUE),
        variables: vec![
            ("capability", amounts("object.spec.capability")),
            ("deserved", amounts("object.spec.deserved")),
            ("guarantee", guarantee.to_owned()),
            ("path", annotation("volcano.sh/hierarchy")),
            ("weights", annotation("volcano.sh/hierarchy-weights")),
        ],
        rules: rules([
            (
                "queue state must be in [Open Closed]",
                // A queue that is closing can still be changed.
                format!("request.operation != 'CREATE' || !has(object.status) || !has(object.status.state) || object.status.state == '' || object.status.state in {states}"),
            ),
            (
                "amounts must be greater than or equal to 0",
                "[variables.capability, variables.deserved, variables.guarantee].all(amounts, amounts.all(name, quantity(string(amounts[name])).compareTo(quantity('0')) >= 0))".to_owned(),
            ),
            (
                "deserved must be >= guarantee",
                "variables.guarantee.all(name, name in variables.deserved && quantity(string(variables.deserved[name])).compareTo(quantity(string(variables.guarantee[name]))) >= 0)".to_owned(),
            ),
            (
                "deserved must be <= capability",
                "variables.deserved.all(name, !(name in variables.capability) || quantity(string(variables.deserved[name])).compareTo(quantity(string(variables.capability[name]))) <= 0)".to_owned(),
            ),
            (
                "volcano.sh/hierarchy must have the same length with volcano.sh/hierarchy-weights",
                "size(variables.path.split('/')) == size(variables.weights.split('/'))".to_owned(),
            ),
            (
                "weights in volcano.sh/hierarchy-weights must be larger than 0",
                "variables.weights == '' || variables.weights.split('/').all(weight, weight.matches('^[+]?[0-9]*[.]?[0-9]+([eE][-+]?[0-9]+)?$') && double(weight) > 0.0)".to_owned(),
            ),
            (
                "queue cannot use itself as parent",
                "!has(object.spec.parent) || object.spec.parent != object.metadata.name || object.metadata.name == 'root'".to_owned(),
            ),
        ]),
    }
}

fn queue_deletions() -> Policy {
    let kept = KEPT.map(|name| Rule {
        expression: format!("oldObject.metadata.name != '{name}'"),
        message: format!("`{name}` queue can not be deleted"),
    });
    Policy {
        name: "evictd-batch-queue-deletions",
        operations: &["DELETE"],
        condition: None,
        variables: Vec::new(),
        rules: kept.into(),
        ..queues()
    }
}

/// The form of a schedule, a time zone and a name. The webhook alone knows which times and zones there are.
fn cron_jobs() -> Policy {
    let zone = "object.spec.timeZone";
    let of_zone = |rule: &str| format!("!has({zone}) || {zone} == '' || {rule}");
    let field = "[0-9A-Za-z*?/,-]+";
    let descriptor = "@(yearly|annually|monthly|weekly|daily|midnight|hourly|every .+)";
    Policy {
        name: "evictd-batch-cronjobs",
        group: BATCH.0,
        version: BATCH.1,
        resource: "cronjobs",
        operations: &["CREATE", "UPDATE"],
        condition: Some(ANOTHER_SPEC),
        variables: Vec::new(),
        rules: rules([
            (
                "schedule should not contain TZ or CRON_TZ, TZ should only be set in the timeZone field",
                "!object.spec.schedule.contains('TZ')".to_owned(),
            ),
            (
                "schedule is not a valid cron expression",
                format!(
                    "object.spec.schedule.contains('TZ') || object.spec.schedule.matches('^(\\\\s*{field}(\\\\s+{field}){{4}}\\\\s*|{descriptor})$')"
                ),
            ),
            (
                "timeZone must be nil or non-empty string, got empty string",
                format!("!has({zone}) || {zone} != ''"),
            ),
            (
                "timeZone can't be Local, and must be defined in https://www.iana.org/time-zones",
                of_zone(&format!("!{zone}.matches('^[Ll][Oo][Cc][Aa][Ll]$')")),
            ),
            (
                "unknown timeZone",
                of_zone(&format!(
                    "{zone}.matches('^[0-9A-Za-z._+][-0-9A-Za-z._+]*(/[0-9A-Za-z._+][-0-9A-Za-z._+]*)*$')"
                )),
            ),
            (
                "cronJob name must be no more than 52 characters to accommodate job name suffix (max 63 total)",
                "!has(object.metadata.name) || size(object.metadata.name) <= 52".to_owned(),
            ),
        ]),
    }
}

/// The webhook alone looks for missing targets and circles: a policy would have to compare all pairs.
fn job_flows() -> Policy {
    Policy {
        name: "evictd-batch-jobflows",
        group: "flow.volcano.sh",
        version: "v1alpha1",
        resource: "jobflows",
        operations: &["CREATE", "UPDATE"],
        condition: Some(ANOTHER_SPEC),
        variables: vec![(
            "flows",
            "has(object.spec.flows) ? object.spec.flows : []".to_owned(),
        )],
        rules: rules([(
            "jobflow Flow is not DAG",
            "variables.flows.all(flow, !has(flow.dependsOn) || !has(flow.dependsOn.targets) || !(flow.name in flow.dependsOn.targets))".to_owned(),
        )]),
    }
}

fn pods() -> Policy {
    let (least, most) = (BUDGET_MIN_AVAILABLE, BUDGET_MAX_UNAVAILABLE);
    let given = |key: &str| format!("'{key}' in variables.annotations");
    let value = |key: &str| {
        format!(
            "!({}) || variables.annotations['{key}'].matches('^([+]?0*[1-9][0-9]*|[+]?0*[1-9][0-9]?%)$')",
            given(key)
        )
    };
    Policy {
        name: "evictd-batch-pods",
        group: "",
        version: "v1",
        resource: "pods",
        operations: &["CREATE"],
        condition: Some((
            "own-scheduler",
            "has(object.spec.schedulerName) && object.spec.schedulerName == 'volcano'",
        )),
        variables: vec![(
            "annotations",
            "has(object.metadata.annotations) ? object.metadata.annotations : {}".to_owned(),
        )],
        rules: rules([
            (
                "not allow configure multiple annotations at same time",
                format!("!({} && {})", given(least), given(most)),
            ),
            (
                "jdb-min-available must be a positive integer or a valid percentage which between 1% ~ 99%",
                value(least),
            ),
            (
                "jdb-max-unavailable must be a positive integer or a valid percentage which between 1% ~ 99%",
                value(most),
            ),
        ]),
    }
}

fn pod_groups() -> Policy {
    let of_parts = one_tier("part.networkTopology");
    Policy {
        name: "evictd-batch-podgroups",
        group: SCHEDULING.0,
        version: SCHEDULING.1,
        resource: "podgroups",
        operations: &["CREATE"],
        condition: None,
        variables: Vec::new(),
        rules: rules([
            (BOTH_TIERS, one_tier("object.spec.networkTopology")),
            (
                "must not specify 'highestTierAllowed' and 'highestTierName' in networkTopology of subGroupPolicy simultaneously",
                format!(
                    "!has(object.spec.subGroupPolicy) || object.spec.subGroupPolicy.all(part, {of_parts})"
                ),
            ),
        ]),
    }
}
