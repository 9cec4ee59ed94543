//! Reads an `AdmissionReview` (admission.k8s.io/v1), decides, and writes the response.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use evictd_batch_admission::{Endpoint, Known, Request, Settings, Verdict, admit, check_text};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// The objects stay text until their size is checked: a parsed object takes many times the memory of its text.
#[derive(Debug, Deserialize)]
struct AdmissionReview<'a> {
    #[serde(borrow)]
    request: Option<AdmissionRequest<'a>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct AdmissionRequest<'a> {
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

impl AdmissionRequest<'_> {
    fn decide(
        &self,
        endpoint: Endpoint,
        cache: &Known,
        settings: &Settings,
    ) -> Result<Verdict, String> {
        // The text is counted before it is parsed.
        let objects = [self.object, self.old_object].into_iter().flatten();
        let mut excess = objects.filter_map(|object| check_text(endpoint, object.get()).err());
        if let Some(excess) = excess.next() {
            // A large object from before the limit can still be labelled and deleted.
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
        Ok(admit(&request, cache, settings))
    }

    /// Whether the update leaves the text of `spec` unchanged. The API server writes both objects in the same form.
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
    object.map_or(Ok(Value::Null), |object| {
        serde_json::from_str(object.get()).map_err(|error| error.to_string())
    })
}

/// The result of a review.
#[derive(Debug)]
pub struct Reviewed {
    /// The `AdmissionReview` with the response, JSON.
    pub text: String,
    /// For the log: the request that was denied, and why.
    pub denied: Option<String>,
}

/// Decides on an `AdmissionReview`. An error says how its text is malformed. A review takes at most some tens of megabytes.
pub fn review(
    endpoint: Endpoint,
    body: &[u8],
    cache: &Known,
    settings: &Settings,
) -> Result<Reviewed, String> {
    let review: AdmissionReview<'_> = serde_json::from_slice(body)
        .map_err(|error| format!("the body is no AdmissionReview: {error}"))?;
    let request = review.request.ok_or("the AdmissionReview has no request")?;
    let verdict = request.decide(endpoint, cache, settings)?;
    let text = response(&request.uid, &verdict).to_string();
    let denied = verdict.denied.map(|message| {
        let AdmissionRequest {
            operation,
            namespace,
            name,
            ..
        } = &request;
        format!(
            "{} {operation} {namespace}/{name}: {message}",
            endpoint.path()
        )
    });
    Ok(Reviewed { text, denied })
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

    fn response_to(endpoint: Endpoint, body: &Value) -> Result<Value, String> {
        let reviewed = review(
            endpoint,
            body.to_string().as_bytes(),
            &Known::default(),
            &Settings::default(),
        );
        reviewed.map(|reviewed| serde_json::from_str(&reviewed.text).unwrap())
    }

    #[test]
    fn s6_074_the_response_has_the_uid_of_the_request_and_a_patch_in_base64() {
        let queue = json!({"metadata": {"name": "q"}, "spec": {"weight": 2}});
        let request = json!({"uid": "u1", "operation": "CREATE", "name": "q", "object": queue, "oldObject": null});
        let answer = response_to(Endpoint::QueuesMutate, &json!({"request": request})).unwrap();
        let patch =
            BASE64_STANDARD.encode(r#"[{"op":"add","path":"/spec/reclaimable","value":true}]"#);
        assert_eq!(
            answer,
            json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
                "response": {"uid": "u1", "allowed": true, "patchType": "JSONPatch", "patch": patch}})
        );
        let request = json!({"uid": "u2", "operation": "DELETE", "name": "root", "object": null});
        let answer = response_to(Endpoint::QueuesValidate, &json!({"request": request})).unwrap();
        let status = json!({"message": "`root` queue can not be deleted"});
        assert_eq!(
            answer["response"],
            json!({"uid": "u2", "allowed": false, "status": status})
        );
    }

    #[test]
    fn a_malformed_review_is_an_error_that_names_the_mistake() {
        for (body, expected) in [
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
            let error = response_to(Endpoint::JobsValidate, &body).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
