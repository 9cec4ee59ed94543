//! Schedules pods one after the other onto a cluster. A placed pod is bound at once, and the victims of a preemption are deleted
//! at once.

mod notes;
mod retries;

use self::retries::{Retries, back_off, give_up};
use super::claims::{Claims, DriverStep, claim};
use super::created::created;
use super::sequence_outcome::{AttemptOutcome, NodeUse, SequenceOutcome};
use super::volumes::Volumes;
use crate::change::{Change, Delta};
use crate::config::{Configuration, InvalidField, KubeSchedulerConfiguration};
use crate::framework::Framework;
use crate::queue::{Pool, Settings};
use crate::scheduler::{Attempt, Event, Outcome as Ended, Scheduler};
use evictd_manifests::{Admission, Kind, Object};
use evictd_placement::DeviceChoice;
use evictd_pod::compatibility::Compatibility;
use evictd_pod::resource_claims::claims_of;
use evictd_pod::wire::{self, null_is_default};
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A file of `simulate` with `pending`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SequenceFile {
    /// The start, with which the times of objects are compared; the present without it.
    now: Option<Timestamp>,
    /// The statuses that drivers of devices write.
    #[serde(default, deserialize_with = "null_is_default")]
    driver: Vec<DriverStep>,
    /// How often a pod that failed is tried again at once. Without it pods wait in the queue.
    retries: Option<usize>,
    config: Option<KubeSchedulerConfiguration>,
    #[serde(default, deserialize_with = "null_is_default")]
    objects: Vec<Value>,
    #[serde(default, deserialize_with = "null_is_default")]
    pending: Vec<Value>,
}

impl SequenceFile {
    /// Reads its objects, and completes pods that no API server has stored. It begins at `present` unless it says when.
    ///
    /// # Errors
    /// Every error of the file, with its field.
    pub fn read(self, present: Timestamp) -> Result<Sequence, Vec<InvalidField>> {
        let mut errors = Vec::new();
        let mut read = |list: &[Value], name: &str| -> Vec<Object> {
            list.iter()
                .enumerate()
                .filter_map(|(index, object)| {
                    object_of(object)
                        .map_err(|error| errors.push(invalid(format!("{name}[{index}]"), error)))
                        .ok()
                })
                .flatten()
                .collect()
        };
        let (objects, pending) = (
            read(&self.objects, "objects"),
            read(&self.pending, "pending"),
        );
        let mut admission = Admission::default();
        for object in objects.iter().chain(&pending) {
            admission.learn(object);
        }
        let mut admit = |objects: Vec<Object>| -> Vec<Object> {
            objects
                .into_iter()
                .map(|object| admission.complete(object))
                .filter_map(|result| {
                    result
                        .map_err(|refusal| errors.push(invalid(refusal.pod, refusal.message)))
                        .ok()
                })
                .flat_map(|completed| completed.objects)
                .collect()
        };
        let (objects, pending) = (admit(objects), admit(pending));
        if !errors.is_empty() {
            return Err(errors);
        }
        Ok(Sequence {
            now: self.now.unwrap_or(present),
            config: self.config,
            objects,
            pending,
            driver: self.driver,
            retries: self.retries,
            counted: Vec::new(),
            compatibility: Compatibility::default(),
        })
    }
}

/// Pods that are added one after the other to a cluster.
#[derive(Debug)]
pub struct Sequence {
    /// The start.
    pub now: Timestamp,
    /// The configuration; absent means the default of kube-scheduler.
    pub config: Option<KubeSchedulerConfiguration>,
    /// The objects that exist at the start.
    pub objects: Vec<Object>,
    /// The pods that are created then, one after the other.
    pub pending: Vec<Object>,
    /// The statuses that drivers of devices write.
    pub driver: Vec<DriverStep>,
    /// How often a pod that failed is tried again at once.
    pub retries: Option<usize>,
    /// `namespace/name` of the pods of which more could be wanted: it is counted how many more like them fit.
    pub counted: Vec<String>,
    /// The release of Kubernetes to behave as.
    pub compatibility: Compatibility,
}

/// The interval between two added pods.
const ARRIVAL_INTERVAL: SignedDuration = SignedDuration::from_millis(1);
/// The interval between two attempts.
const ATTEMPT_INTERVAL: SignedDuration = SignedDuration::from_millis(10);

/// Schedules the pods. `report` gets the number of decided pods and of all pods after each attempt.
///
/// # Errors
/// Every error of the input, with its field.
pub fn run_sequence(
    sequence: &Sequence,
    report: &mut dyn FnMut(usize, usize),
) -> Result<SequenceOutcome, Vec<InvalidField>> {
    let config = match &sequence.config {
        None => Configuration::default(),
        Some(wire) => Configuration::new(wire, &[]).map_err(|errors| {
            let errors = errors.into_iter();
            let within =
                |error: InvalidField| invalid(format!("config.{}", error.field), error.message);
            errors.map(within).collect::<Vec<_>>()
        })?,
    };
    let settings = Settings {
        as_kube_scheduler: true,
        initial_backoff: config.pod_initial_backoff,
        max_backoff: config.pod_max_backoff,
        ..Settings::default()
    };
    let scheduler = Scheduler::new(settings, !config.extenders.is_empty(), |cluster| {
        cluster.set_compatibility(sequence.compatibility);
        config
            .profiles
            .iter()
            .map(|profile| Framework::new(cluster, profile, &[]))
            .collect()
    });
    let mut run = Run {
        scheduler: scheduler.map_err(|error| vec![invalid("config".to_owned(), error)])?,
        now: sequence.now,
        profiles: config
            .profiles
            .iter()
            .map(|profile| profile.scheduler_name.clone())
            .collect(),
        pods: BTreeMap::new(),
        claims: Claims {
            driver: sequence.driver.clone(),
            binding_timeout: config
                .profiles
                .first()
                .and_then(|profile| u64::try_from(profile.args.binding_timeout.as_secs()).ok())
                .unwrap_or_default(),
            ..Claims::default()
        },
        volumes: Volumes::default(),
        frees_devices: config
            .profiles
            .iter()
            .any(|profile| profile.args.frees_devices),
        has_devices: sequence.objects.iter().any(|object| {
            matches!(
                object,
                Object::DeviceClass(_) | Object::ResourceSlice(_) | Object::ResourceClaim(_)
            )
        }),
        is_direct: sequence.retries.is_some() || !sequence.driver.is_empty(),
        counted: sequence.counted.clone(),
        retries: Retries::default(),
        outcome: SequenceOutcome {
            extenders: config
                .extenders
                .iter()
                .map(|extender| extender.url_prefix.clone())
                .collect(),
            ..SequenceOutcome::default()
        },
    };
    for event in sequence.objects.iter().filter_map(created) {
        run.report(&event);
    }
    let pending = sequence.pending.iter().filter_map(created);
    if run.is_direct {
        run.try_directly(pending, sequence.retries.unwrap_or_default());
        return Ok(run.finish());
    }
    for event in pending {
        run.wait(ARRIVAL_INTERVAL);
        run.report(&event);
    }
    Ok(run.run(report))
}

const fn invalid(field: String, message: String) -> InvalidField {
    InvalidField { field, message }
}

/// The object of a kind that is read; `None` for another kind.
fn object_of(value: &Value) -> Result<Option<Object>, String> {
    let text = |key: &str| value.get(key).and_then(Value::as_str);
    let name = text("kind").ok_or("kind is missing")?;
    let kind = Kind::of(name, text("apiVersion").unwrap_or_default());
    kind.map(|kind| kind.read_value(value))
        .transpose()
        .map_err(|error| error.to_string())
}

struct Run {
    scheduler: Scheduler,
    now: Timestamp,
    /// The names of the profiles.
    profiles: Vec<String>,
    /// The existing pods.
    pods: BTreeMap<String, Arc<wire::Pod>>,
    /// The existing claims of devices.
    claims: Claims,
    /// The existing claims of volumes, and the volumes.
    volumes: Volumes,
    /// Whether pods are tried at once, without waiting in the queue.
    is_direct: bool,
    /// Whether victims give back their devices.
    frees_devices: bool,
    /// Whether there are devices. Then attempts show claims instead of scores and plugins.
    has_devices: bool,
    counted: Vec<String>,
    retries: Retries,
    outcome: SequenceOutcome,
}

fn name(pod: &wire::Pod) -> String {
    pod.metadata.full_name()
}

impl Run {
    fn wait(&mut self, time: SignedDuration) {
        // Beyond the last timestamp the time stands still.
        self.now = self.now.checked_add(time).unwrap_or(self.now);
        self.scheduler.give_up_late_devices(self.now);
    }

    fn report(&mut self, event: &Event) {
        if let Event::Change(Change::Pod(Delta { new: Some(pod), .. })) = event {
            self.pods.insert(name(pod), Arc::clone(pod));
        }
        if let Event::Change(Change::ResourceClaim(Delta {
            new: Some(claim), ..
        })) = event
        {
            let name = claim.metadata.full_name();
            self.claims.all.insert(name, Arc::clone(claim));
        }
        self.volumes.observe(event);
        self.scheduler.on(self.now, event);
        self.outcome
            .warnings
            .extend(self.scheduler.take_invalid_objects());
    }

    /// Updates a pod, or deletes it.
    fn change(&mut self, named: &str, new: Option<wire::Pod>) {
        let Some(old) = self.pods.remove(named) else {
            return;
        };
        self.report(&Event::Change(Change::Pod(Delta {
            old: Some(old),
            new: new.map(Arc::new),
        })));
    }

    /// Tries one pod after the other, each again up to `retries` times.
    fn try_directly(&mut self, pods: impl Iterator<Item = Event>, retries: usize) {
        for event in pods {
            let Event::Change(Change::Pod(Delta { new: Some(pod), .. })) = &event else {
                continue;
            };
            let named = name(pod);
            for _ in 0..=retries {
                // It is queued anew, so that it need not wait for an event or for its backoff.
                self.change(&named, None);
                self.wait(SignedDuration::from_secs(1));
                self.report(&event);
                self.wait(ATTEMPT_INTERVAL);
                if let Some(attempt) = self.scheduler.attempt(self.now) {
                    self.carry_out(attempt);
                }
                if self.outcome.placed.contains_key(&named) {
                    break;
                }
            }
        }
    }

    fn run(mut self, report: &mut dyn FnMut(usize, usize)) -> SequenceOutcome {
        let all = self.scheduler.queue().len();
        loop {
            self.wait(ATTEMPT_INTERVAL);
            let Some(attempt) = self.scheduler.attempt(self.now) else {
                if back_off(&mut self) {
                    continue;
                }
                break;
            };
            self.carry_out(attempt);
            report(
                self.outcome.placed.len() + self.outcome.unschedulable.len(),
                all,
            );
        }
        self.finish()
    }

    fn finish(mut self) -> SequenceOutcome {
        let claims = self.claims.all.iter();
        self.outcome.claims = claims
            .map(|(name, known)| (name.clone(), claim(known, self.claims.special.get(name))))
            .collect();
        let queue = self.scheduler.queue();
        let keys = queue.pods_in(Pool::Gated);
        let pods = keys.iter().filter_map(|key| queue.pod(key));
        self.outcome.gated = pods.map(|pod| (name(pod), queue.gate(pod))).collect();
        self.note_not_tried();
        self.note_blockers();
        self.count_more();
        let cluster = self.scheduler.cluster();
        let nodes = cluster
            .node_ids()
            .zip(cluster.nodes())
            .map(|(id, node)| NodeUse {
                name: cluster.node_name(id).to_owned(),
                pods: node.pods.len(),
                cpu: (node.requested.cpu, node.allocatable.cpu),
                memory: (node.requested.memory, node.allocatable.memory),
            });
        self.outcome.nodes = nodes.collect();
        self.outcome
    }

    /// Carries out the outcome of an attempt.
    fn carry_out(&mut self, attempt: Attempt) {
        let named = name(&attempt.pod);
        let mut outcome = AttemptOutcome {
            pod: named.clone(),
            feasible_count: (!self.has_devices).then_some(0),
            ..AttemptOutcome::default()
        };
        match attempt.outcome {
            Ended::Placed {
                node,
                result,
                pre_bind,
            } => {
                let cluster = self.scheduler.cluster();
                let top = result
                    .top
                    .iter()
                    .map(|id| cluster.node_name(*id).to_owned());
                outcome.top = top.collect();
                outcome.top.sort();
                outcome.feasible_count = Some(result.feasible);
                outcome.top_score = result.score.filter(|_| !self.has_devices);
                outcome.chosen = Some(node.to_string());
                let feasible = result.nodes.iter().filter(|_| self.has_devices);
                outcome.feasible = feasible
                    .map(|id| cluster.node_name(*id).to_owned())
                    .collect();
                outcome.feasible.sort();
                let pod = (&attempt.pod, &attempt.key);
                if !self.pre_bind(pod, &node, &pre_bind.devices, &mut outcome) {
                    self.outcome.attempts.push(outcome);
                    if !self.is_direct && self.retries.failure(&named) {
                        give_up(self, named);
                    }
                    return;
                }
                for event in self.volumes.bind(&attempt.pod, &node, &pre_bind.volumes) {
                    self.report(&event);
                }
                // The answer of the API server comes before the watch event, as in the common case.
                self.scheduler.bound(self.now, &attempt.key);
                let mut bound = (*attempt.pod).clone();
                bound.spec.node_name = node.to_string();
                self.outcome.unschedulable.remove(&named);
                self.outcome.placed.insert(named.clone(), node.to_string());
                self.outcome.attempts.push(outcome);
                self.change(&named, Some(bound));
            }
            Ended::Unschedulable(rejected) => {
                self.outcome
                    .unschedulable
                    .insert(named.clone(), rejected.message.clone());
                outcome.message = Some(rejected.message);
                if !self.has_devices {
                    outcome.plugins = rejected.plugins.into_iter().collect();
                }
                outcome.nominated.clone_from(&rejected.nominated);
                outcome.victims = rejected.victims.into_iter().map(|(name, _)| name).collect();
                outcome.victims.sort();
                outcome.nominations_cleared = rejected.nominations_cleared;
                let (victims, cleared) =
                    (outcome.victims.clone(), outcome.nominations_cleared.clone());
                self.outcome.attempts.push(outcome);
                self.note_preempted(&named, &victims);
                for victim in victims {
                    if self.frees_devices {
                        self.give_back_devices(&victim);
                    }
                    self.change(&victim, None);
                }
                if let Some(node) = rejected.nominated {
                    self.nominate(&named, &node);
                }
                for pod in cleared {
                    self.nominate(&pod, "");
                }
                if let Some(claim) = rejected.deallocates {
                    let named = format!("{}/{}", claim.namespace, claim.name);
                    self.deallocate(&named, claim.is_special);
                }
            }
            Ended::Error(message) => {
                let last = self.has_devices && !self.is_direct && self.retries.error(&named);
                self.outcome
                    .unschedulable
                    .insert(named.clone(), message.clone());
                outcome.message = Some(message);
                self.outcome.attempts.push(outcome);
                if last {
                    give_up(self, named);
                }
            }
            // A pod that was put off is tried in its turn. There are no extenders and no custom plugins here.
            Ended::PutOff(_)
            | Ended::AskExtenders(_)
            | Ended::WaitsOnPermit { .. }
            | Ended::Deleting
            | Ended::NoProfile => {}
        }
    }

    /// Writes the claims of a pod and waits for its devices. Returns whether it can be bound.
    fn pre_bind(
        &mut self,
        (pod, key): (&Arc<wire::Pod>, &Arc<str>),
        node: &str,
        choices: &[DeviceChoice],
        outcome: &mut AttemptOutcome,
    ) -> bool {
        let now = self.now.to_string();
        let mut done = self.claims.pre_bind(pod, node, choices, &now);
        if done.error.is_some() {
            self.claims.unreserve(pod, choices, &mut done);
        }
        for (old, new) in done.changed {
            self.report(&Event::Change(Change::ResourceClaim(Delta {
                old,
                new: Some(Arc::new(new)),
            })));
        }
        self.wait(SignedDuration::from_secs(
            i64::try_from(done.waited).unwrap_or_default(),
        ));
        let named = name(pod);
        if let Some(status) = done.special {
            self.outcome
                .extended_resource_claim_status
                .insert(named.clone(), status);
        }
        outcome.claims = self.claims_of(pod);
        if self.is_direct {
            outcome.events = done.events;
            outcome.waited_seconds = done.waited;
            outcome.writes = done.writes;
        }
        outcome.bind_error.clone_from(&done.error);
        if let Some(error) = done.error {
            self.outcome.unschedulable.insert(named, error);
            self.scheduler.bind_failed(self.now, key);
            if done.is_late {
                self.scheduler.devices_are_late(pod);
            }
            return false;
        }
        if self.is_direct {
            outcome.writes.push(format!("create pods/binding {named}"));
        }
        true
    }

    /// As the controller of claims: a pod that ends no longer uses its claims, and claims without pods lose their devices.
    fn give_back_devices(&mut self, victim: &str) {
        let Some(pod) = self.pods.get(victim).map(Arc::clone) else {
            return;
        };
        let metadata = &pod.metadata;
        let claims = self.claims.all.values();
        let used = claims.filter(|claim| {
            let mut reserved = claim.status.reserved_for.iter();
            reserved.any(|consumer| consumer.is_pod(&metadata.name, &metadata.uid))
        });
        let used: Vec<Arc<wire::ResourceClaim>> = used.map(Arc::clone).collect();
        for old in used {
            let mut new = (*old).clone();
            new.status
                .reserved_for
                .retain(|consumer| !consumer.is_pod(&metadata.name, &metadata.uid));
            if new.status.reserved_for.is_empty() {
                new.status = wire::ResourceClaimState::default();
            }
            self.report(&Event::Change(Change::ResourceClaim(Delta {
                old: Some(old),
                new: Some(Arc::new(new)),
            })));
        }
    }

    /// The claims of a pod, by name.
    fn claims_of(&self, pod: &wire::Pod) -> BTreeMap<String, Value> {
        let namespace = pod.metadata.namespace_or_default();
        let is_special = |known: &&Arc<wire::ResourceClaim>| {
            let mut owners = known.metadata.owner_references.iter();
            self.claims
                .special
                .contains_key(&known.metadata.full_name())
                && owners.any(|owner| owner.uid == *pod.metadata.uid)
        };
        let named = claims_of(pod).filter_map(|claim| {
            self.claims
                .all
                .get(&format!("{namespace}/{}", claim.name()?))
        });
        let special = self.claims.all.values().filter(is_special);
        named
            .chain(special)
            .map(|known| {
                let requests = self.claims.special.get(&known.metadata.full_name());
                (known.metadata.name.clone(), claim(known, requests))
            })
            .collect()
    }

    /// Deletes a special claim, or takes the devices of a claim back, which no pod uses where they are.
    fn deallocate(&mut self, named: &str, is_special: bool) {
        let Some(old) = self.claims.all.get(named).map(Arc::clone) else {
            return;
        };
        let new = (!is_special).then(|| {
            let mut new = (*old).clone();
            new.status = wire::ResourceClaimState::default();
            Arc::new(new)
        });
        if new.is_none() {
            self.claims.all.remove(named);
        }
        self.report(&Event::Change(Change::ResourceClaim(Delta {
            old: Some(old),
            new,
        })));
    }

    /// Writes a nomination into the status of a pod.
    fn nominate(&mut self, named: &str, node: &str) {
        let Some(pod) = self.pods.get(named) else {
            return;
        };
        let mut pod = (**pod).clone();
        node.clone_into(&mut pod.status.nominated_node_name);
        self.change(named, Some(pod));
    }
}
