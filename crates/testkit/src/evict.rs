//! `pods/eviction`: deletion that asks the pod's budget first.

use crate::call::Call;
use crate::resource::Resource;
use crate::select::selects;
use crate::status::Status;
use crate::store::{Key, Store};
use crate::time::time;
use crate::write::existing;
use crate::{delete, write};
use jiff::Timestamp;
use serde_json::{Value, json};

/// The budget's controller will have looked at it in this many seconds.
const STILL_PROCESSED: u32 = 10;

pub(crate) fn evict(
    store: &mut Store,
    call: &Call,
    eviction: &Value,
    now: Timestamp,
) -> Result<Value, Status> {
    let pod = existing(store, call)?;
    if eviction["metadata"]["name"]
        .as_str()
        .is_some_and(|name| name != call.name)
    {
        let message = "name in URL does not match name in Eviction object";
        return Err(Status::bad_request(message));
    }
    let options = &eviction["deleteOptions"];
    delete::check_preconditions(call, options, &pod)?;
    let mut call = call.clone();
    if delete::is_dry(&call, options) {
        call.options.insert("dryRun".to_owned(), "All".to_owned());
    }
    if !needs_no_budget(&pod) {
        charge(store, &call, &pod, now)?;
    }
    let done = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201,
    });
    if call.asks("dryRun") {
        return Ok(done);
    }
    mark(store, &call, &pod, now)?;
    let mut options = options.clone();
    if let Some(preconditions) = options
        .pointer_mut("/preconditions")
        .and_then(Value::as_object_mut)
    {
        // The mark has just changed it.
        preconditions.remove("resourceVersion");
    }
    call.subresource.clear();
    delete::delete(store, &call, &options, now)?;
    Ok(done)
}

/// Whether it has ended, has not started, or is being deleted already.
fn needs_no_budget(pod: &Value) -> bool {
    let phase = pod["status"]["phase"].as_str();
    matches!(phase, Some("Succeeded" | "Failed" | "Pending"))
        || !pod["metadata"]["deletionTimestamp"].is_null()
}

/// Takes one disruption off the pod's budget, if it has one.
fn charge(store: &mut Store, call: &Call, pod: &Value, now: Timestamp) -> Result<(), Status> {
    let labels = &pod["metadata"]["labels"];
    let mut matching: Vec<(Key, Value)> = store
        .list("poddisruptionbudgets", &call.namespace)
        .filter(|(_, budget)| selects(&budget["spec"]["selector"], labels))
        .map(|(key, budget)| (key.clone(), Value::clone(budget)))
        .collect();
    if matching.len() > 1 {
        let message = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
        return Err(Status::new(500, "", message));
    }
    let Some((key, mut budget)) = matching.pop() else {
        return Ok(());
    };
    let status = &budget["status"];
    let number = |field: &str| status[field].as_i64().unwrap_or(0);
    let (healthy, desired) = (number("currentHealthy"), number("desiredHealthy"));
    let ready = crate::conditions::is_true(pod, "Ready");
    let unready_may_go = match budget["spec"]["unhealthyPodEvictionPolicy"].as_str() {
        Some("AlwaysAllow") => true,
        _ => healthy >= desired && desired > 0,
    };
    if !ready && unready_may_go {
        return Ok(());
    }
    let name = &key.name;
    // Until its controller has seen the budget, its figures may belong to an older spec.
    if number("observedGeneration") < budget["metadata"]["generation"].as_i64().unwrap_or(0) {
        let cause = format!("The disruption budget {name} is still being processed by the server.");
        return Err(refused(&cause, Some(STILL_PROCESSED)));
    }
    let allowed = number("disruptionsAllowed");
    if allowed <= 0 {
        let cause = format!(
            "The disruption budget {name} needs {desired} healthy pods and has {healthy} currently"
        );
        return Err(refused(&cause, None));
    }
    budget["status"]["disruptionsAllowed"] = (allowed - 1).into();
    budget["status"]["disruptedPods"][&call.name] = time(now);
    if !call.asks("dryRun") {
        store.commit(key, Some(budget));
    }
    Ok(())
}

fn refused(cause: &str, retry_after: Option<u32>) -> Status {
    let message = "Cannot evict pod as it would violate the pod's disruption budget.";
    Status {
        details: json!({"causes": [{"reason": "DisruptionBudget", "message": cause}]}),
        retry_after,
        ..Status::new(429, "TooManyRequests", message)
    }
}

/// Adds the condition with the reason of the eviction.
fn mark(store: &mut Store, call: &Call, pod: &Value, now: Timestamp) -> Result<(), Status> {
    let mut marked = pod.clone();
    let reason = ("EvictionByEvictionAPI", "Eviction API: evicting");
    crate::conditions::set(&mut marked, "DisruptionTarget", true, reason, &time(now));
    let status = Call {
        resource: Resource::find("", "v1", "pods").unwrap_or(call.resource),
        subresource: "status".to_owned(),
        ..call.clone()
    };
    write::put(store, &status, pod, marked, now).map(drop)
}
