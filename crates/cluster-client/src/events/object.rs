//! The requests that write an event, and the event as the API has it.

use super::{Event, Group, LONGEST_NAME, LONGEST_NOTE, Reporter, Series, Subject};
use jiff::Timestamp;
use kube::{
    api::{Patch, PatchParams, PostParams},
    core::Request,
};
use serde_json::{Value, json};

/// A request to the server.
#[derive(Clone)]
pub(super) enum Call {
    Create {
        group: Group,
        namespace: String,
        body: Vec<u8>,
    },
    Repeat {
        group: Group,
        namespace: String,
        name: String,
        patch: Value,
    },
}

pub(super) fn create(series: &Series, reporter: &Reporter) -> Call {
    let mut body = object(&series.event, reporter, (&series.namespace, &series.name));
    // The new group takes no series of one.
    if series.count > 1 {
        add(&mut body, repeats(series, reporter.group));
    }
    Call::Create {
        group: reporter.group,
        namespace: series.namespace.clone(),
        body: body.to_string().into_bytes(),
    }
}

pub(super) fn repeat(series: &Series, group: Group) -> Call {
    Call::Repeat {
        group,
        namespace: series.namespace.clone(),
        name: series.name.clone(),
        patch: repeats(series, group),
    }
}

fn repeats(series: &Series, group: Group) -> Value {
    let Series { count, last, .. } = series;
    match group {
        Group::Events => {
            json!({ "series": { "count": count, "lastObservedTime": precise(*last) } })
        }
        Group::Core => json!({ "count": count, "lastTimestamp": coarse(*last) }),
    }
}

pub(super) fn request(call: Call) -> Result<http::Request<Vec<u8>>, kube::core::request::Error> {
    let of = |group, namespace: &str| {
        let root = match group {
            Group::Events => "/apis/events.k8s.io/v1",
            Group::Core => "/api/v1",
        };
        Request::new(format!("{root}/namespaces/{namespace}/events"))
    };
    match call {
        Call::Create {
            group,
            namespace,
            body,
        } => of(group, &namespace).create(&PostParams::default(), body),
        Call::Repeat {
            group,
            namespace,
            name,
            patch,
        } => of(group, &namespace).patch(&name, &PatchParams::default(), &Patch::Merge(patch)),
    }
}

/// Namespace and name of the event.
pub(super) fn name_of(subject: &Subject, node: &str, now: Timestamp) -> (String, String) {
    let (namespace, name) = match subject {
        Subject::Node | Subject::NodeAnd(_) => ("default", node),
        Subject::Pod { name, .. } | Subject::PodAnd { name, .. } => {
            name.split_once('/').unwrap_or(("default", name))
        }
        Subject::Object(object) if object.namespace.is_empty() => ("default", &*object.name),
        Subject::Object(object) => (&*object.namespace, &*object.name),
    };
    let name = &name[..name.len().min(LONGEST_NAME)];
    (
        namespace.to_owned(),
        format!("{name}.{:x}", now.as_nanosecond()),
    )
}

pub(super) fn object(event: &Event, reporter: &Reporter, (namespace, name): (&str, &str)) -> Value {
    let node = &reporter.instance;
    let regarding = match &event.subject {
        // The reference that a kubelet uses for its own node.
        Subject::Node | Subject::NodeAnd(_) => {
            json!({ "apiVersion": "v1", "kind": "Node", "name": node, "uid": node })
        }
        Subject::Pod { name, uid } | Subject::PodAnd { name, uid, .. } => {
            let (namespace, name) = name.split_once('/').unwrap_or(("default", name));
            json!({ "apiVersion": "v1", "kind": "Pod", "namespace": namespace, "name": name, "uid": uid })
        }
        Subject::Object(object) => serde_json::to_value(object).unwrap_or_default(),
    };
    let mut end = event.note.len().min(LONGEST_NOTE);
    while !event.note.is_char_boundary(end) {
        end -= 1;
    }
    let mut object = json!({
        "kind": "Event",
        "metadata": { "namespace": namespace, "name": name, "annotations": event.annotations },
        "type": if event.warning { "Warning" } else { "Normal" },
        "reason": event.reason,
        "action": event.action,
        "reportingInstance": node,
    });
    let (text, time) = (&event.note[..end], event.time);
    let fields = match reporter.group {
        Group::Events => json!({
            "apiVersion": "events.k8s.io/v1",
            "eventTime": precise(time),
            "note": text,
            "regarding": regarding,
            "reportingController": reporter.controller,
        }),
        Group::Core => json!({
            "apiVersion": "v1",
            "firstTimestamp": coarse(time),
            "lastTimestamp": coarse(time),
            "count": 1,
            "message": text,
            "involvedObject": regarding,
            "source": { "component": reporter.controller },
            "reportingComponent": reporter.controller,
        }),
    };
    add(&mut object, fields);
    if let Subject::NodeAnd(related) | Subject::PodAnd { related, .. } = &event.subject {
        object["related"] = serde_json::to_value(related).unwrap_or_default();
    }
    object
}

/// Sets these fields of an object.
fn add(object: &mut Value, fields: Value) {
    if let (Some(object), Value::Object(fields)) = (object.as_object_mut(), fields) {
        object.extend(fields);
    }
}

/// The API's format with whole seconds.
fn coarse(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// The API's format with six digits of the second.
fn precise(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}
