//! Pods from a task's template (S6-044).

use super::claims;
use super::names::{
    COOLDOWN_TIME, JOB_NAME, JOB_NAMESPACE, JOB_RETRY_COUNT, JOB_VERSION, NUMA_POLICY, PARTITION,
    PREEMPTABLE, QUEUE_NAME, REVOCABLE_ZONE, TASK_INDEX, TEMPLATE_UID,
};
use super::object::{Spec, group_name, list_at, map_at, metadata, namespace, pod_name};
use evictd_batch_objects::{
    BUDGET_MAX_UNAVAILABLE, BUDGET_MIN_AVAILABLE, GROUP_NAME, Job, TASK_SPEC, TaskSpec,
};
use serde_json::{Map, Value, json};

/// The pod of the task with this index, before plugins add to it. Other fields of the template stay as they are.
pub(super) fn pod(job: &Job, task: &TaskSpec, index: i32) -> Map<String, Value> {
    let template = task.template.as_object();
    let given = template
        .and_then(|template| template.get("metadata"))
        .cloned();
    let mut given = given.unwrap_or_default();
    let mut texts = |key: &str| {
        let texts = given.as_object_mut().and_then(|given| given.remove(key));
        match texts {
            Some(Value::Object(texts)) => texts,
            _ => Map::new(),
        }
    };
    let (mut labels, mut annotations) = (texts("labels"), texts("annotations"));
    annotate(&mut annotations, job, task, index);
    label(&mut labels, job, task, index);
    let name = pod_name(&job.metadata.name, &task.name, index);
    let spec = template.and_then(|template| template.get("spec")).cloned();
    let mut pod = Map::new();
    pod.insert("apiVersion".to_owned(), "v1".into());
    pod.insert("kind".to_owned(), "Pod".into());
    pod.insert("metadata".to_owned(), metadata(job, &name));
    pod.insert("spec".to_owned(), spec.unwrap_or_default());
    let metadata = map_at(&mut pod, "metadata");
    metadata.insert("labels".to_owned(), Value::Object(labels));
    metadata.insert("annotations".to_owned(), Value::Object(annotations));
    let mut spec = Spec::of(&mut pod);
    spec.default_text("schedulerName", &job.spec.scheduler_name);
    spec.default_text("priorityClassName", &job.spec.priority_class_name);
    mount(&mut spec, job);
    pod
}

/// The name of a task as pods say it.
fn spec_name(task: &TaskSpec) -> &str {
    if task.name.is_empty() {
        "default"
    } else {
        &task.name
    }
}

fn annotate(annotations: &mut Map<String, Value>, job: &Job, task: &TaskSpec, index: i32) {
    let name = &job.metadata.name;
    let mut set = |key: &str, value: String| {
        annotations.insert(key.to_owned(), value.into());
    };
    set(TASK_INDEX, index.to_string());
    set(TASK_SPEC, spec_name(task).to_owned());
    set(GROUP_NAME, group_name(job));
    set(JOB_NAME, name.clone());
    set(QUEUE_NAME, job.spec.queue.clone());
    set(JOB_VERSION, job.status.version.to_string());
    set(TEMPLATE_UID, format!("{name}-{}", task.name));
    set(JOB_RETRY_COUNT, job.status.retry_count.to_string());
    if !task.topology_policy.is_empty() {
        set(NUMA_POLICY, task.topology_policy.clone());
    }
    let of_job = &job.metadata.annotations;
    for key in [PREEMPTABLE, COOLDOWN_TIME, REVOCABLE_ZONE] {
        if let Some(value) = of_job.get(key) {
            set(key, value.to_owned());
        }
    }
    let budget = [BUDGET_MIN_AVAILABLE, BUDGET_MAX_UNAVAILABLE];
    let mut budget = budget
        .into_iter()
        .filter_map(|key| of_job.get(key).map(|value| (key, value)));
    // A pod may have one budget only; the webhook refuses both.
    if let Some((key, value)) = budget.next() {
        set(key, value.to_owned());
    }
}

fn label(labels: &mut Map<String, Value>, job: &Job, task: &TaskSpec, index: i32) {
    let mut set = |key: &str, value: String| {
        labels.insert(key.to_owned(), value.into());
    };
    set(TASK_INDEX, index.to_string());
    set(JOB_NAME, job.metadata.name.clone());
    set(TASK_SPEC, spec_name(task).to_owned());
    set(JOB_NAMESPACE, namespace(job).to_owned());
    set(QUEUE_NAME, job.spec.queue.clone());
    for key in [PREEMPTABLE, COOLDOWN_TIME] {
        if let Some(value) = job.metadata.labels.get(key) {
            set(key, value.to_owned());
        }
    }
    if let Some(policy) = &task.partition_policy {
        // An invalid size must not divide by zero.
        let partition = if policy.partition_size > 0 {
            index / policy.partition_size
        } else {
            0
        };
        set(PARTITION, partition.to_string());
    }
}

/// Mounts the job's volumes in every container; a claim that is there twice, once.
fn mount(spec: &mut Spec<'_>, job: &Job) {
    let mut mounted = Vec::new();
    for (index, volume) in job.spec.volumes.iter().enumerate() {
        let claim = claims::name(job, index);
        if mounted.contains(&claim) {
            continue;
        }
        let name = format!("{}-volume-{index}", job.metadata.name);
        spec.push_volume(json!({"name": name, "persistentVolumeClaim": {"claimName": claim}}));
        for container in spec.containers() {
            let mounts = list_at(container, "volumeMounts");
            mounts.push(json!({"name": name, "mountPath": volume.mount_path}));
        }
        mounted.push(claim);
    }
}
