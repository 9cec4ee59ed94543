//! One admission without a cluster: the request with the other objects that it needs, and the answer.

use super::{Endpoint, Excess, Known, PatchOperation, Request, Settings, admit, bounds, patched};
use evictd_batch_objects::{QUEUE_NAME, Queue};
use evictd_pod::wire::{Metadata, null_is_default};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// An admission request with the objects that it depends on.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Question {
    /// The path of the webhook: `/jobs/validate`.
    pub path: String,
    /// `CREATE`, `UPDATE`, `DELETE`.
    pub operation: String,
    /// Name of the object, where its own is not enough.
    #[serde(deserialize_with = "null_is_default")]
    pub name: String,
    /// Namespace of the object, where its own is not enough.
    #[serde(deserialize_with = "null_is_default")]
    pub namespace: String,
    /// The object as it would be.
    pub object: Value,
    /// The object as it is.
    pub old_object: Value,
    /// All queues.
    #[serde(deserialize_with = "null_is_default")]
    pub queues: Vec<Queue>,
    /// Namespaces with their annotations.
    #[serde(deserialize_with = "null_is_default")]
    pub namespaces: Vec<Namespace>,
    /// Flags of the server, by name or as they are written on its command line.
    pub flags: Value,
}

/// A namespace.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Namespace {
    /// Its name and its annotations.
    #[serde(deserialize_with = "null_is_default")]
    pub metadata: Metadata,
}

impl Namespace {
    /// The queue that it names.
    pub fn queue(&self) -> Option<String> {
        let queue = self.metadata.annotations.get(QUEUE_NAME);
        queue.map(str::to_owned)
    }
}

/// The decision.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Answer {
    /// Whether it is let in.
    pub allowed: bool,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The patch.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub patch: Vec<PatchOperation>,
    /// The object with the changes, if there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub patched: Option<Value>,
}

/// An invalid request: the field and the error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct QuestionError {
    /// The key: `path`.
    pub field: &'static str,
    /// The error, and the valid values.
    pub problem: String,
}

impl Question {
    /// The answer of our webhook.
    pub fn answer(&self) -> Result<Answer, QuestionError> {
        self.answer_with(&settings(&self.flags)?, |endpoint| {
            bounds::check_value(endpoint, &self.object).err()
        })
    }

    /// The answer of Volcano's, which writes all tasks of a job back and takes jobs of any size.
    pub fn answer_of_volcano(&self) -> Result<Answer, QuestionError> {
        let settings = Settings {
            writes_whole_tasks: true,
            ..settings(&self.flags)?
        };
        self.answer_with(&settings, |_| None)
    }

    fn answer_with(
        &self,
        settings: &Settings,
        excess: impl Fn(Endpoint) -> Option<Excess>,
    ) -> Result<Answer, QuestionError> {
        let Some(endpoint) = Endpoint::at(&self.path) else {
            let paths = Endpoint::ALL.map(Endpoint::path).join(", ");
            let problem = format!("there is nothing at {:?}; the paths are {paths}", self.path);
            let field = "path";
            return Err(QuestionError { field, problem });
        };
        let mut known = Known::default();
        for queue in &self.queues {
            known.set_queue(queue.clone());
        }
        for namespace in &self.namespaces {
            known.set_namespace(&namespace.metadata.name, namespace.queue());
        }
        let request = Request {
            endpoint,
            operation: &self.operation,
            name: self.name(),
            namespace: &self.namespace,
            object: &self.object,
            old_object: Some(&self.old_object),
        };
        let verdict = match excess(endpoint) {
            None => admit(&request, &known, settings),
            Some(excess) => excess.into(),
        };
        let changes = !verdict.patch.is_empty();
        let patched = changes.then(|| patched(&self.object, &verdict.patch));
        Ok(Answer {
            allowed: verdict.denied.is_none(),
            message: verdict.denied,
            patch: verdict.patch,
            patched: patched.flatten(),
        })
    }

    fn name(&self) -> &str {
        // A deletion has only the old object.
        let mut names = [&self.object, &self.old_object]
            .into_iter()
            .map(|object| object["metadata"]["name"].as_str().unwrap_or_default());
        match self.name.as_str() {
            "" => names.find(|name| !name.is_empty()).unwrap_or_default(),
            name => name,
        }
    }
}

/// `{"enable-queue-allocated-pods-check": true}` or `["--enable-queue-allocated-pods-check"]`. Case and dashes do not
/// matter, and a name may be shortened to an unambiguous prefix.
fn settings(flags: &Value) -> Result<Settings, QuestionError> {
    let mut settings = Settings::default();
    match flags {
        Value::Null => {}
        Value::Object(flags) => {
            for (name, value) in flags {
                set(&mut settings, name, value)?;
            }
        }
        Value::Array(flags) => {
            for flag in flags {
                let flag = flag.as_str().unwrap_or_default();
                let (name, value) = flag.split_once('=').unwrap_or((flag, "true"));
                let value = serde_json::from_str(value).unwrap_or_else(|_| value.into());
                set(&mut settings, name, &value)?;
            }
        }
        _ => return Err(wrong_flag("has to be a map or a list of flags")),
    }
    Ok(settings)
}

fn set(settings: &mut Settings, flag: &str, value: &Value) -> Result<(), QuestionError> {
    let letters = flag.chars().filter(char::is_ascii_alphanumeric);
    let name = letters.collect::<String>().to_ascii_lowercase();
    let no_value = || wrong_flag(&format!("{flag} cannot be {value}"));
    match name.as_str() {
        name if name.contains("allocatedpods") => {
            settings.check_allocated_pods = value.as_bool().ok_or_else(no_value)?;
        }
        name if name.contains("root") => {
            settings.protect_root = value.as_bool().ok_or_else(no_value)?;
        }
        name if name.contains("depth") => {
            let depth = value.as_u64().and_then(|depth| depth.try_into().ok());
            settings.max_queue_depth = depth.ok_or_else(no_value)?;
        }
        name if name.contains("schedulername") => {
            let one = value.as_str().map(|name| vec![name.to_owned()]);
            let names = one.or_else(|| Vec::deserialize(value).ok());
            settings.scheduler_names = names.ok_or_else(no_value)?;
        }
        _ => return Err(wrong_flag(&format!("there is no flag {flag}"))),
    }
    Ok(())
}

fn wrong_flag(problem: &str) -> QuestionError {
    QuestionError {
        field: "flags",
        problem: problem.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{from_value, json};

    fn ask(question: Value) -> Result<Answer, String> {
        let question: Question = from_value(question).unwrap();
        question.answer().map_err(|error| error.to_string())
    }

    #[test]
    fn flags_are_read_in_either_form_and_wrong_ones_are_told() {
        let busy = json!({"metadata": {"name": "busy"}, "status": {"allocated": {"pods": "3"}}});
        let deleted = |flags: Value| {
            ask(
                json!({"path": "/queues/validate", "operation": "DELETE", "name": "busy",
                "object": null, "queues": [busy], "flags": flags}),
            )
        };
        for on in [
            json!({"enable-queue-allocated-pods-check": true}),
            json!({"enableQueueAllocatedPodsCheck": true}),
            json!(["--enable-queue-allocated-pods-check"]),
            json!(["--enable-queue-allocated-pods-check=true"]),
        ] {
            let message = deleted(on).unwrap().message;
            let expected = "queue busy cannot be deleted because it has allocated Pods: 3";
            assert_eq!(message.as_deref(), Some(expected));
        }
        for off in [
            json!(null),
            json!({}),
            json!(["--max-queue-depth=3", "--scheduler-name=x"]),
        ] {
            assert!(deleted(off).unwrap().allowed);
        }
        for (wrong, reported) in [
            (
                json!({"max-queue-depth": -1}),
                "flags: max-queue-depth cannot be -1",
            ),
            (json!(["--other"]), "flags: there is no flag --other"),
            (json!(3), "flags: has to be a map or a list of flags"),
        ] {
            assert_eq!(deleted(wrong).unwrap_err(), reported);
        }
    }

    #[test]
    fn a_path_that_is_not_there_is_told_with_those_that_are() {
        let error = ask(json!({"path": "/jobs", "operation": "CREATE"})).unwrap_err();
        assert!(
            error.starts_with("path: there is nothing at \"/jobs\"; the paths are /jobs/mutate,")
        );
    }
}
