//! Claims on devices in answers, and the writes of a binding to them.

use evictd_devices::{Binding, SpecialRequests, binding, needs_binding};
use evictd_placement::DeviceChoice;
use evictd_pod::wire::{self, AllocatedDeviceStatus, Allocation, Consumer, ResourceClaim};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The allocation of a claim, as answers show it: devices in their order, without unset fields.
pub fn allocation(allocation: &Allocation) -> Map<String, Value> {
    let mut answer = Map::new();
    let devices = allocation.devices.results.iter().map(|device| {
        let mut device = json!(device);
        if let Some(share) = device.get_mut("shareID") {
            // It has no meaning but that the device is shared.
            *share = Value::Bool(true);
        }
        let tolerations = device.get_mut("tolerations").and_then(Value::as_array_mut);
        for toleration in tolerations.into_iter().flatten() {
            if let Some(fields) = toleration.as_object_mut() {
                fields.retain(|_, value| !value.is_null() && *value != "");
            }
        }
        device
    });
    answer.insert("devices".to_owned(), devices.collect());
    if !allocation.devices.config.is_empty() {
        answer.insert("config".to_owned(), json!(allocation.devices.config));
    }
    if let Some(selector) = &allocation.node_selector {
        answer.insert("nodeSelector".to_owned(), node_selector(selector));
    }
    answer
}

fn node_selector(selector: &wire::NodeSelector) -> Value {
    let terms = selector.node_selector_terms.iter().map(|term| {
        let lists = [
            ("matchExpressions", &term.match_expressions),
            ("matchFields", &term.match_fields),
        ];
        let lists = lists.into_iter().filter(|(_, list)| !list.is_empty());
        let lists = lists.map(|(name, list)| (name.to_owned(), json!(list)));
        Value::Object(lists.collect())
    });
    json!({ "nodeSelectorTerms": terms.collect::<Vec<_>>() })
}

/// The allocation of a choice. That of a special claim also has its requests.
pub fn choice(choice: &DeviceChoice) -> Option<Value> {
    let mut answer = allocation(choice.allocation.as_ref()?);
    if let Some(special) = &choice.special {
        answer.insert("requests".to_owned(), requests(special));
        answer.insert("requestMappings".to_owned(), mappings(special));
    }
    Some(Value::Object(answer))
}

fn requests(special: &SpecialRequests) -> Value {
    let requests = special.requests.iter();
    requests
        .map(|(name, class, count)| json!({ "name": name, "deviceClassName": class, "count": count }))
        .collect()
}

/// The mappings as they stand in the status of a pod.
pub fn mappings(special: &SpecialRequests) -> Value {
    let mappings = special.mappings.iter().map(|mapping| {
        json!({
            "containerName": mapping.container,
            "resourceName": mapping.resource,
            "requestName": mapping.request,
        })
    });
    mappings.collect()
}

/// A claim at the end of an attempt or of the simulation.
pub(super) fn claim(claim: &ResourceClaim, special: Option<&SpecialRequests>) -> Value {
    let mut answer = Map::new();
    if let Some(known) = &claim.status.allocation {
        answer = allocation(known);
        if known.allocation_timestamp.is_some() {
            answer.insert("allocationTimestamp".to_owned(), Value::Bool(true));
        }
    }
    let reserved = claim.status.reserved_for.iter();
    let reserved: Vec<&str> = reserved.map(|consumer| &*consumer.name).collect();
    answer.insert("reservedFor".to_owned(), json!(reserved));
    if let Some(special) = special {
        let owners = claim.metadata.owner_references.iter().map(|owner| {
            json!({
                "apiVersion": "v1",
                "kind": owner.kind,
                "name": owner.name,
                "uid": owner.uid,
                "controller": owner.controller,
            })
        });
        let name = claim
            .metadata
            .name
            .trim_end_matches(|end: char| end.is_ascii_digit());
        answer.insert("requests".to_owned(), requests(special));
        answer.insert("generateName".to_owned(), json!(name));
        answer.insert("annotations".to_owned(), json!({ SPECIAL: "true" }));
        answer.insert("ownerReferences".to_owned(), owners.collect());
    }
    Value::Object(answer)
}

/// The annotation of a special claim.
pub const SPECIAL: &str = "resource.kubernetes.io/extended-resource-claim";

/// A status that a driver writes for the devices of a claim after one of its allocations.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct DriverStep {
    /// `namespace/name` of the claim.
    pub(super) claim: String,
    /// After which allocation, from 1.
    pub(super) attempt: usize,
    /// The status of its devices.
    pub(super) devices: Vec<AllocatedDeviceStatus>,
}

/// The steps of a binding before its pod was bound.
#[derive(Debug, Default)]
pub(super) struct PreBound {
    pub(super) writes: Vec<String>,
    pub(super) events: Vec<String>,
    pub(super) waited: u64,
    /// Why the pod is not bound.
    pub(super) error: Option<String>,
    /// Whether it has waited too long for its devices.
    pub(super) is_late: bool,
    /// The status of the pod about its special claim.
    pub(super) special: Option<Value>,
    /// The claims that changed, before and after.
    pub(super) changed: Vec<(Option<Arc<ResourceClaim>>, ResourceClaim)>,
}

/// The interval between two looks at the conditions of devices, in seconds.
const LOOK: u64 = 5;

/// The claims of a simulation and the drivers of their devices.
#[derive(Debug, Default)]
pub(super) struct Claims {
    pub(super) all: BTreeMap<String, Arc<ResourceClaim>>,
    /// The requests of special claims.
    pub(super) special: BTreeMap<String, SpecialRequests>,
    pub(super) driver: Vec<DriverStep>,
    /// How long to wait for binding conditions, in seconds.
    pub(super) binding_timeout: u64,
    pub(super) allocated: BTreeMap<String, usize>,
    pub(super) created: usize,
}

impl Claims {
    /// Writes the choices of a pod into its claims and waits for its devices, as `PreBind` does.
    pub(super) fn pre_bind(
        &mut self,
        pod: &wire::Pod,
        node: &str,
        choices: &[DeviceChoice],
        now: &str,
    ) -> PreBound {
        let mut done = PreBound::default();
        let mut names = Vec::new();
        for choice in choices {
            names.push(self.write(pod, choice, now, &mut done));
        }
        let needs = |claim: &Arc<ResourceClaim>| {
            claim.status.allocation.as_ref().is_some_and(needs_binding)
        };
        if names
            .iter()
            .filter_map(|name| self.all.get(name))
            .any(needs)
        {
            done.events.push(format!(
                "Normal BindingConditionsPending Scheduling: waiting for binding conditions for device on node {node}"
            ));
            self.wait(&names, &mut done);
        }
        done.error = done
            .error
            .map(|error| format!("running PreBind plugin \"DynamicResources\": {error}"));
        done
    }

    /// Returns the name of the claim.
    fn write(
        &mut self,
        pod: &wire::Pod,
        choice: &DeviceChoice,
        now: &str,
        done: &mut PreBound,
    ) -> String {
        let namespace = pod.metadata.namespace_or_default();
        let mut old = self
            .all
            .get(&format!("{namespace}/{}", choice.claim))
            .map(Arc::clone);
        let mut claim = old.as_deref().cloned().unwrap_or_default();
        if let Some(special) = &choice.special {
            self.created += 1;
            claim = created(pod, self.created);
            old = None;
            done.writes.push(format!(
                "create resourceclaims {namespace}/{}",
                claim.metadata.name
            ));
            done.special = Some(json!({
                "resourceClaimName": claim.metadata.name,
                "requestMappings": mappings(special),
            }));
            self.special
                .insert(claim.metadata.full_name(), special.clone());
        }
        let name = claim.metadata.full_name();
        if choice.allocation.is_some() && old.as_ref().is_none_or(|old| !is_protected(old)) {
            done.writes.push(format!("update resourceclaims {name}"));
        }
        let status = &mut claim.status;
        if let Some(allocation) = &choice.allocation {
            status.allocation = Some(allocation.clone());
            *self.allocated.entry(name.clone()).or_default() += 1;
        }
        if let Some(allocation) = &mut status.allocation {
            let timestamp = &mut allocation.allocation_timestamp;
            timestamp.get_or_insert_with(|| now.to_owned());
        }
        let uid = &*pod.metadata.uid;
        let mut reserved = status.reserved_for.iter();
        let is_reserved = reserved.any(|consumer| match &choice.group {
            Some(group) => consumer.is_group(&group.name),
            None => consumer.is_pod(&pod.metadata.name, uid),
        });
        if !is_reserved {
            let consumer = choice.group.clone().unwrap_or_else(|| Consumer {
                api_group: String::new(),
                resource: "pods".to_owned(),
                name: pod.metadata.name.clone(),
                uid: uid.to_owned(),
            });
            status.reserved_for.push(consumer);
            done.writes
                .push(format!("update resourceclaims/status {name}"));
        }
        if choice.special.is_some() {
            done.writes
                .push(format!("patch pods/status {}", pod.metadata.full_name()));
        }
        self.put(old, claim, done);
        name
    }

    fn put(&mut self, old: Option<Arc<ResourceClaim>>, claim: ResourceClaim, done: &mut PreBound) {
        self.all
            .insert(claim.metadata.full_name(), Arc::new(claim.clone()));
        done.changed.push((old, claim));
    }

    /// Waits for the devices of the claims.
    fn wait(&mut self, names: &[String], done: &mut PreBound) {
        loop {
            let states = names.iter().filter_map(|name| {
                let claim = self.all.get(name)?;
                let state = binding(claim.status.allocation.as_ref()?, &claim.status);
                (state != Binding::Ready).then(|| (claim.metadata.name.clone(), state))
            });
            match states.into_iter().next() {
                None => return,
                Some((claim, Binding::Failed(reason, message))) => {
                    done.error = Some(format!(
                        "device binding failed: claim={claim}, reason={reason}, message={message:?}"
                    ));
                    return;
                }
                Some(_) => {}
            }
            if done.waited + LOOK > self.binding_timeout {
                done.waited = self.binding_timeout;
                done.error = Some("device binding timeout: context deadline exceeded".to_owned());
                done.is_late = true;
                return;
            }
            done.waited += LOOK;
            for name in names {
                self.let_driver_write(name, done);
            }
        }
    }

    fn let_driver_write(&mut self, name: &str, done: &mut PreBound) {
        let attempt = self.allocated.get(name).copied().unwrap_or_default();
        let is_next = |step: &DriverStep| step.claim == name && step.attempt == attempt;
        let Some(step) = self.driver.iter().position(is_next) else {
            return;
        };
        let step = self.driver.remove(step);
        if let Some(old) = self.all.get(name).map(Arc::clone) {
            let mut claim = (*old).clone();
            claim.status.devices = step.devices;
            self.put(Some(old), claim, done);
        }
    }

    /// Removes a pod that was not bound from its claims.
    pub(super) fn unreserve(
        &mut self,
        pod: &wire::Pod,
        choices: &[DeviceChoice],
        done: &mut PreBound,
    ) {
        let namespace = pod.metadata.namespace_or_default();
        // Other pods of a group may use its claims.
        for choice in choices.iter().filter(|choice| choice.group.is_none()) {
            let name = format!("{namespace}/{}", choice.claim);
            let Some(old) = self.all.get(&name).map(Arc::clone) else {
                continue;
            };
            let mut claim = (*old).clone();
            let uid = &*pod.metadata.uid;
            claim
                .status
                .reserved_for
                .retain(|consumer| !consumer.is_pod(&pod.metadata.name, uid));
            done.writes
                .push(format!("update resourceclaims/status {name}"));
            self.put(Some(old), claim, done);
        }
    }
}

fn is_protected(claim: &ResourceClaim) -> bool {
    // A claim has the finalizer as long as it has devices.
    claim.status.allocation.is_some()
}

/// A new special claim of a pod.
fn created(pod: &wire::Pod, number: usize) -> ResourceClaim {
    let metadata = &pod.metadata;
    let name = format!("{}-extended-resources-{number}", metadata.name);
    let value = json!({
        "name": name, "namespace": metadata.namespace_or_default(), "uid": format!("extended-{number}"),
        "annotations": { SPECIAL: "true" },
        "ownerReferences": [{
            "apiVersion": "v1", "kind": "Pod", "controller": true,
            "name": metadata.name, "uid": metadata.uid.to_string(),
        }],
    });
    ResourceClaim {
        metadata: wire::Metadata::deserialize(value).unwrap_or_default(),
        ..ResourceClaim::default()
    }
}
