//! Makes what was proposed, in objects of its own, and plays sessions until the job starts.

use evictd_batch::session::{Objects, Outcome, Setting, simulate};
use evictd_batch::why::{Answer, Change, State};
use evictd_batch_objects::Compat;
use evictd_pod::wire::{Pod, PodPhase};
use evictd_what_if::Suggestion;

/// Each proposal starts the job; and where there is none to make, nothing has to be changed.
pub(crate) fn check(objects: &Objects, answer: &Answer) {
    assert_eq!(starts(objects), answer.state == State::Starts, "{answer:?}");
    for proposal in &answer.soonest {
        let changes: Vec<&Change> = proposal.changes.iter().collect();
        assert!(starts_with(objects, &changes), "{}", proposal.words);
    }
}

/// Whether changes start the job. The order of names decides between equal nodes, so new ones get names at the beginning,
/// beside their model and at the end.
pub(crate) fn starts_with(objects: &Objects, changes: &[&Change]) -> bool {
    let names: [fn(&str) -> String; 3] = [
        |_| "a-new".to_owned(),
        |like| format!("{like}-new"),
        |_| "new".to_owned(),
    ];
    names.into_iter().all(|new_node| {
        let mut cluster = objects.clone();
        for change in changes {
            apply(change, &mut cluster, new_node);
        }
        starts(&cluster)
    })
}

fn key(pod: &Pod) -> String {
    format!(
        "{}/{}",
        pod.metadata.namespace_or_default(),
        pod.metadata.name
    )
}

fn is_own(pod: &Pod) -> bool {
    let group = pod.metadata.annotations.get("scheduling.k8s.io/group-name");
    group.is_some_and(|group| group == "train")
}

/// Makes a change. The function names new nodes by their model.
fn apply(change: &Change, objects: &mut Objects, new_node: fn(&str) -> String) {
    let Objects {
        nodes,
        pods,
        pod_groups,
        queues,
        priority_classes,
        ..
    } = objects;
    let mut queue = |name: &str| queues.iter_mut().position(|own| own.metadata.name == name);
    match change {
        Change::JobsEnd {
            jobs, pods: gone, ..
        } => {
            pods.retain(|pod| !gone.contains(&key(pod)));
            pod_groups.retain(|group| !jobs.contains(&format!("default/{}", group.metadata.name)));
        }
        Change::PodsEnd { pods: ended } => {
            for pod in pods.iter_mut().filter(|pod| ended.contains(&key(pod))) {
                pod.status.phase = PodPhase::Succeeded;
            }
        }
        Change::OpenQueue { queue: name } => {
            let at = queue(name).unwrap();
            queues[at].status.state = evictd_batch_objects::QueueState::Open.into();
        }
        Change::MakeQueue { queue } => {
            let made = serde_json::json!({"metadata": {"name": queue}, "spec": {"weight": 1}, "status": {"state": "Open"}});
            queues.push(serde_json::from_value(made).unwrap());
        }
        Change::Capability {
            queue: name,
            resource,
            to,
            ..
        } => {
            let at = queue(name).unwrap();
            queues[at].spec.capability.insert(resource.as_str(), *to);
        }
        Change::Weight {
            queue: name, to, ..
        } => {
            let at = queue(name).unwrap();
            queues[at].spec.weight = *to;
        }
        Change::Node {
            node, suggestion, ..
        } => {
            let node = nodes
                .iter_mut()
                .find(|own| own.metadata.name == *node)
                .unwrap();
            if let Suggestion::RemovePods(_) = suggestion {
                panic!("nobody is sent away");
            }
            for pod in pods.iter_mut().filter(|pod| is_own(pod)) {
                suggestion.apply(&mut node.clone(), pod);
            }
            suggestion.apply(node, &mut Pod::default());
        }
        Change::MoreNodes { like, count } => {
            let like = nodes
                .iter()
                .find(|own| own.metadata.name == *like)
                .unwrap()
                .clone();
            for index in 0..*count {
                let mut node = like.clone();
                node.metadata.name = format!("{}-{index}", new_node(&like.metadata.name));
                let hostname = "kubernetes.io/hostname".to_owned();
                node.metadata
                    .labels
                    .insert(hostname, node.metadata.name.clone());
                nodes.push(node);
            }
        }
        Change::RemoveGates { .. } => {
            for pod in pods.iter_mut().filter(|pod| is_own(pod)) {
                pod.spec.scheduling_gates.clear();
            }
        }
        Change::MinMember { to, .. } => {
            let mut groups = pod_groups.iter_mut();
            let group = groups.find(|own| own.metadata.name == "train").unwrap();
            group.spec.min_member = *to;
            group.spec.min_task_member.clear();
        }
        Change::Priority { to, .. } => {
            let class = serde_json::json!({"metadata": {"name": "first"}, "value": to});
            priority_classes.push(serde_json::from_value(class).unwrap());
            let mut groups = pod_groups.iter_mut();
            let group = groups.find(|own| own.metadata.name == "train").unwrap();
            "first".clone_into(&mut group.spec.priority_class_name);
            for pod in pods.iter_mut().filter(|pod| is_own(pod)) {
                pod.spec.priority = Some(*to);
            }
        }
    }
}

/// Whether sessions start the job, if what each decides is carried out.
pub(crate) fn starts(objects: &Objects) -> bool {
    let mut objects = objects.clone();
    for _ in 0..4 {
        let (outcome, _) = simulate(&objects, &Setting::default(), Compat::EVICTD).unwrap();
        if is_started(&objects, &outcome) {
            return true;
        }
        carry_out(&mut objects, &outcome);
    }
    false
}

fn is_started(objects: &Objects, outcome: &Outcome) -> bool {
    let mut groups = objects.pod_groups.iter();
    let Some(group) = groups.find(|own| own.metadata.name == "train") else {
        return false;
    };
    let Some(own) = outcome.pod_groups.get("default/train") else {
        return false;
    };
    let count = |status: &str| own.tasks.get(status).copied().unwrap_or(0);
    let there: i32 = ["Binding", "Bound", "Running", "Succeeded"]
        .map(count)
        .iter()
        .sum();
    count("Binding") > 0 && there >= group.spec.min_member
}

fn carry_out(objects: &mut Objects, outcome: &Outcome) {
    objects
        .pods
        .retain(|pod| pod.metadata.deletion_timestamp.is_none());
    for pod in &mut objects.pods {
        let key = key(pod);
        if let Some(node) = outcome.binds.get(&key) {
            pod.spec.node_name.clone_from(node);
            pod.status.phase = PodPhase::Running;
        }
        if outcome.evicted.iter().any(|own| own.pod == key) {
            pod.spec.node_name.clear();
            pod.status.phase = PodPhase::Pending;
            pod.metadata.uid = format!("{}+", pod.metadata.uid).into();
        }
    }
    for group in &mut objects.pod_groups {
        let key = format!(
            "{}/{}",
            group.metadata.namespace_or_default(),
            group.metadata.name
        );
        if let Some(own) = outcome.pod_groups.get(&key).filter(|own| own.written) {
            group.status = own.status.clone();
        }
    }
}
