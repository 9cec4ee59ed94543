//! The `AdmissionReview` (admission.k8s.io/v1) that the API server sends, and the one that it gets back.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use evictd_batch::admission::{Endpoint, Known, Request, Settings, Verdict, admit, check_text};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// What is read of a review. The objects stay text until they are known to be small enough.
#[derive(Debug, Deserialize)]
struct Review<'a> {
    #[serde(borrow)]
    request: Option<Question<'a>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Question<'a> {
    uid: String,
    operation: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    namespace: String,
    #[serde(borrow)]
    object: Option<&'a RawValue>,
    #[serde(borrow)]
    old_object: Option<&'a RawValue>,
}

impl Question<'_> {
    fn decide(
        &self,
        endpoint: Endpoint,
        known: &Known,
        settings: &Settings,
    ) -> Result<Verdict, String> {
        let objects = [self.object, self.old_object].into_iter().flatten();
        let mut excess = objects.filter_map(|object| check_text(endpoint, object.get()).err());
        if let Some(excess) = excess.next() {
            // One that was made before there was a limit can still be labelled, and deleted.
            return Ok(if self.has_same_spec() {
                Verdict::default()
            } else {
                excess.into()
            });
        }
        let (object, old_object) = (read(self.object)?, read(self.old_object)?);
        let request = Request {
            endpoint,
            operation: &self.operation,
            name: &self.name,
            namespace: &self.namespace,
            object: &object,
            old_object: Some(&old_object),
        };
        Ok(admit(&request, known, settings))
    }

    /// Whether the change leaves `spec` as it is, to the letter: the API server writes both with the same hand.
    fn has_same_spec(&self) -> bool {
        let new = self.object.and_then(spec);
        new.is_some() && new == self.old_object.and_then(spec)
    }
}

fn spec(object: &RawValue) -> Option<&str> {
    #[derive(Deserialize)]
    struct Object<'a> {
        #[serde(borrow)]
        spec: Option<&'a RawValue>,
    }
    let object = serde_json::from_str::<Object<'_>>(object.get()).ok()?;
    object.spec.map(RawValue::get)
}

fn read(object: Option<&RawValue>) -> Result<Value, String> {
    let object = object.map(|object| serde_json::from_str(object.get()));
    let object = object.transpose().map_err(|error| error.to_string())?;
    Ok(object.unwrap_or_default())
}

/// An answer: the review as text, and what is worth telling.
#[derive(Debug)]
pub struct Answer {
    /// The review, JSON.
    pub text: String,
    /// What was refused, and why.
    pub denied: Option<String>,
}

/// Decides on a review; an error says what is wrong with its text. It never takes more than some tens of megabytes.
pub fn answer(
    endpoint: Endpoint,
    body: &[u8],
    known: &Known,
    settings: &Settings,
) -> Result<Answer, String> {
    let review: Review<'_> = serde_json::from_slice(body)
        .map_err(|error| format!("the body is no AdmissionReview: {error}"))?;
    let question = review.request.ok_or("the AdmissionReview has no request")?;
    let verdict = question.decide(endpoint, known, settings)?;
    let text = response(&question.uid, &verdict).to_string();
    let denied = verdict.denied.map(|message| {
        let Question {
            operation,
            namespace,
            name,
            ..
        } = &question;
        format!(
            "{} {operation} {namespace}/{name}: {message}",
            endpoint.path()
        )
    });
    Ok(Answer { text, denied })
}

fn response(uid: &str, verdict: &Verdict) -> Value {
    let mut response = json!({"uid": uid, "allowed": verdict.denied.is_none()});
    if let Some(message) = &verdict.denied {
        response["status"] = json!({"message": message});
    }
    if !verdict.patch.is_empty() {
        let patch = json!(verdict.patch).to_string();
        response["patchType"] = "JSONPatch".into();
        response["patch"] = BASE64_STANDARD.encode(patch).into();
    }
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(endpoint: Endpoint, body: &Value) -> Result<Value, String> {
        let answer = answer(
            endpoint,
            body.to_string().as_bytes(),
            &Known::default(),
            &Settings::default(),
        );
        answer.map(|answer| serde_json::from_str(&answer.text).unwrap())
    }

    #[test]
    fn s6_074_a_review_is_answered_with_its_uid_and_a_patch_in_base64() {
        let queue = json!({"metadata": {"name": "q"}, "spec": {"weight": 2}});
        let request = json!({"uid": "u1", "operation": "CREATE", "name": "q", "object": queue, "oldObject": null});
        let answer = ask(Endpoint::QueuesMutate, &json!({"request": request})).unwrap();
        let patch =
            BASE64_STANDARD.encode(r#"[{"op":"add","path":"/spec/reclaimable","value":true}]"#);
        assert_eq!(
            answer,
            json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
                "response": {"uid": "u1", "allowed": true, "patchType": "JSONPatch", "patch": patch}})
        );
        let request = json!({"uid": "u2", "operation": "DELETE", "name": "root", "object": null});
        let answer = ask(Endpoint::QueuesValidate, &json!({"request": request})).unwrap();
        let status = json!({"message": "`root` queue can not be deleted"});
        assert_eq!(
            answer["response"],
            json!({"uid": "u2", "allowed": false, "status": status})
        );
    }

    #[test]
    fn what_is_no_review_is_told() {
        for (body, told) in [
            (json!({}), "the AdmissionReview has no request"),
            (
                json!([]),
                "the body is no AdmissionReview: invalid length 0",
            ),
            (
                json!({"request": {"uid": "u"}}),
                "the body is no AdmissionReview: missing field `operation`",
            ),
        ] {
            let error = ask(Endpoint::JobsValidate, &body).unwrap_err();
            assert!(error.starts_with(told), "{error}");
        }
    }
}
