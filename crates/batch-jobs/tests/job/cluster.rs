//! A machine and the API server that it changes: every change comes back as an event, when the test lets it.

use evictd_batch_jobs::job::{
    Answer, Call, Done, JobCommand, JobEvent, JobMachine, KeyPair, Lister,
};
use evictd_batch_objects::{Compat, Job, PodGroup, TaskPod};
use evictd_reconcile::{Notice, Refusal, apply};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// What is stored.
#[derive(Default)]
pub(super) struct Stored {
    pub(super) job: Option<Value>,
    pub(super) pods: BTreeMap<String, Value>,
    pub(super) group: Option<Value>,
    pub(super) queue: bool,
    version: u64,
}

pub(super) struct Cluster {
    pub(super) stored: RefCell<Stored>,
    pub(super) machine: Option<JobMachine>,
    pub(super) now: Timestamp,
    wake: Option<Timestamp>,
    /// Calls that wait for their answers.
    calls: VecDeque<Vec<Call>>,
    /// Events that have not come yet.
    pub(super) events: VecDeque<JobEvent>,
    pub(super) notices: Vec<Notice>,
    /// Calls that will be refused, by what they are for: `CreatePod`, ...
    pub(super) failing: BTreeSet<&'static str>,
    /// Pods whose deletion is refused.
    pub(super) undeletable: BTreeSet<String>,
    /// Calls that were made, by what they were for.
    pub(super) made: Vec<String>,
    compat: Compat,
}

struct Around<'a>(&'a RefCell<Stored>);

impl Lister for Around<'_> {
    fn has_queue(&self, _: &str) -> bool {
        self.0.borrow().queue
    }
    fn priority(&self, _: &str) -> Option<i32> {
        None
    }
    fn has_claim(&self, _: &str, _: &str) -> bool {
        false
    }
    fn pod_group(&self, _: &str, name: &str) -> Option<Arc<PodGroup>> {
        let stored = self.0.borrow();
        let group: PodGroup = serde_json::from_value(stored.group.clone()?).unwrap();
        (group.metadata.name == name).then(|| Arc::new(group))
    }
    fn pod(&self, _: &str, _: &str) -> Option<Arc<TaskPod>> {
        None
    }
}

fn parsed<T: serde::de::DeserializeOwned>(value: &Value) -> T {
    serde_json::from_value(value.clone()).unwrap()
}

impl Cluster {
    pub(super) fn new(job: &Value, compat: Compat) -> Self {
        let mut cluster = Self {
            stored: RefCell::new(Stored {
                queue: true,
                version: 1000,
                ..Stored::default()
            }),
            machine: None,
            now: "2026-01-01T01:00:00Z".parse().unwrap(),
            wake: None,
            calls: VecDeque::new(),
            events: VecDeque::new(),
            notices: Vec::new(),
            failing: BTreeSet::new(),
            undeletable: BTreeSet::new(),
            made: Vec::new(),
            compat,
        };
        cluster.store_job(job.clone());
        cluster.restart();
        cluster
    }

    /// A controller that was killed begins anew, with what is stored; what was under way is lost.
    pub(super) fn restart(&mut self) {
        self.machine = Some(JobMachine::new("ml", "train", self.compat, Some(15)));
        self.calls.clear();
        self.events.clear();
        self.wake = None;
        let stored = self.stored.get_mut();
        let pods = stored.pods.values();
        let pods = pods.map(|pod| parsed::<TaskPod>(pod).into()).collect();
        let job = stored.job.as_ref();
        let found = job.map(|job| JobEvent::Found(Box::new(parsed(job)), pods));
        self.events.extend(found);
    }

    fn store_job(&mut self, mut job: Value) {
        let stored = self.stored.get_mut();
        stored.version += 1;
        job["metadata"]["resourceVersion"] = json!(stored.version.to_string());
        self.events.push_back(JobEvent::Job(Box::new(parsed(&job))));
        stored.job = Some(job);
    }

    pub(super) fn store_pod(&mut self, mut pod: Value) {
        let stored = self.stored.get_mut();
        stored.version += 1;
        pod["metadata"]["resourceVersion"] = json!(stored.version.to_string());
        self.events
            .push_back(JobEvent::Pod(parsed::<TaskPod>(&pod).into()));
        stored
            .pods
            .insert(pod["metadata"]["name"].as_str().unwrap().to_owned(), pod);
    }

    pub(super) fn remove_pod(&mut self, name: &str) {
        if let Some(pod) = self.stored.get_mut().pods.remove(name) {
            self.events
                .push_back(JobEvent::PodGone(parsed::<TaskPod>(&pod).into()));
        }
    }

    /// The kubelet or the scheduler says what became of a pod.
    pub(super) fn set_phase(&mut self, name: &str, phase: &str) {
        let pod = self.stored.get_mut().pods.get(name).cloned();
        if let Some(mut pod) = pod {
            pod["status"]["phase"] = json!(phase);
            self.store_pod(pod);
        }
    }

    pub(super) fn set_group_phase(&mut self, phase: &str) {
        if let Some(group) = &mut self.stored.get_mut().group {
            let old = parsed::<PodGroup>(group);
            group["status"]["phase"] = json!(phase);
            let new = parsed::<PodGroup>(group);
            self.events
                .push_back(JobEvent::Group(old.into(), new.into()));
        }
    }

    fn give(&mut self, event: JobEvent) {
        let around = Around(&self.stored);
        let machine = self.machine.as_mut().unwrap();
        for command in machine.on_event(self.now, event, &around) {
            match command {
                JobCommand::Calls(calls) => self.calls.push_back(calls),
                JobCommand::Notice(notice) => self.notices.push(notice),
                JobCommand::Read(name) => {
                    let pod = self.stored.borrow().pods.get(&name).map(parsed::<TaskPod>);
                    self.events
                        .push_back(JobEvent::Read(name, Ok(pod.map(Arc::new))));
                }
                JobCommand::Wake(time) => {
                    assert!(time > self.now, "woken at once, for ever");
                    self.wake = Some(time);
                }
            }
        }
        assert!(self.calls.len() <= 1, "one round at a time");
    }

    /// What the PodGroup demands: `minMember`, `minTaskMember` and of `minResources` the cpu.
    pub(super) fn demand(&self) -> (i64, Value, Value) {
        let stored = self.stored.borrow();
        let spec = &stored.group.as_ref().unwrap()["spec"];
        let min = spec["minMember"].as_i64().unwrap();
        let cpu = spec["minResources"]["cpu"].clone();
        (min, spec["minTaskMember"].clone(), cpu)
    }

    /// Gives the machine one event; returns whether there was one.
    pub(super) fn event(&mut self) -> bool {
        let Some(event) = self.events.pop_front() else {
            return false;
        };
        self.give(event);
        true
    }

    /// Answers the calls that wait; returns whether there were any.
    pub(super) fn answer(&mut self) -> bool {
        let Some(calls) = self.calls.pop_front() else {
            return false;
        };
        let answers = calls.into_iter().map(|call| self.call(call)).collect();
        self.give(JobEvent::Answers(answers));
        true
    }

    /// Makes the first of the calls that wait, and is killed. `late`: they come to the server when the next one has read what
    /// there is.
    pub(super) fn die_half_way(&mut self, done: usize, late: bool) {
        let calls = self.calls.pop_front().unwrap_or_default();
        if late {
            self.restart();
        }
        for call in calls.into_iter().take(done) {
            let _ = self.call(call);
        }
        if !late {
            self.restart();
        }
    }

    /// Lets the time come that the machine waits for, if it waits.
    pub(super) fn tick(&mut self) {
        if let Some(wake) = self.wake.take() {
            self.now = self.now.max(wake);
            self.give(JobEvent::Tick);
        }
    }

    /// Lets everything happen that is due, and what the machine itself waits for up to an hour.
    pub(super) fn settle(&mut self) {
        let end = self.now + SignedDuration::from_hours(1);
        for _ in 0..10_000 {
            if self.answer() || self.event() {
                continue;
            }
            match self.wake {
                Some(wake) if wake <= end => self.tick(),
                _ => return,
            }
        }
        panic!("it does not come to rest");
    }

    fn call(&mut self, call: Call) -> Answer {
        let text = format!("{call:?}");
        let kind = text.split([' ', '{']).next().unwrap().to_owned();
        self.made.push(kind.clone());
        if self.failing.contains(kind.as_str()) {
            return Err(Refusal::Other("a fault".to_owned()));
        }
        match call {
            Call::DeletePod { name, .. } if self.undeletable.contains(&name) => {
                return Err(Refusal::Other("a fault".to_owned()));
            }
            Call::MarkPod { name, annotations } => {
                let pod = self.stored.get_mut().pods.get(&name).cloned();
                let mut pod = pod.ok_or(Refusal::NotFound)?;
                for (name, value) in annotations {
                    pod["metadata"]["annotations"][name] = json!(value);
                }
                self.store_pod(pod);
            }
            Call::DeletePod { name, uid } => {
                let stored = self.stored.get_mut();
                let pod = stored.pods.get(&name).ok_or(Refusal::NotFound)?;
                // Of a process that was killed, and told late.
                if pod["metadata"]["uid"] != uid.as_str() {
                    return Err(Refusal::NotFound);
                }
                self.remove_pod(&name);
            }
            Call::CreatePod { pod } => {
                let mut pod = pod.pod();
                let name = pod["metadata"]["name"].as_str().unwrap().to_owned();
                let stored = self.stored.get_mut();
                if stored.pods.contains_key(&name) {
                    return Err(Refusal::AlreadyExists);
                }
                pod["metadata"]["uid"] = json!(format!("{name}-{}", stored.version));
                pod["status"] = json!({"phase": "Pending"});
                let made = parsed::<TaskPod>(&pod);
                self.store_pod(pod);
                return Ok(Done::Pod(Box::new(made)));
            }
            Call::WriteStatus { patch } => {
                let job = self.stored.get_mut().job.clone();
                let mut job = job.ok_or(Refusal::NotFound)?;
                if patch["metadata"]["resourceVersion"] != job["metadata"]["resourceVersion"] {
                    return Err(Refusal::Other("conflict".to_owned()));
                }
                let before = parsed::<Job>(&job).status;
                apply(&mut job["status"], &patch["status"]);
                let after = parsed::<Job>(&job).status;
                assert!(after.version >= before.version, "the version goes back");
                assert!(
                    after.retry_count >= before.retry_count,
                    "the retries go back"
                );
                self.store_job(job);
                let job = self
                    .stored
                    .get_mut()
                    .job
                    .as_ref()
                    .map(parsed::<Job>)
                    .unwrap();
                return Ok(Done::Job(Box::new(job)));
            }
            Call::CreatePodGroup { group } => {
                let stored = self.stored.get_mut();
                if stored.group.is_some() {
                    return Err(Refusal::AlreadyExists);
                }
                stored.group = Some(group);
            }
            Call::UpdatePodGroup { patch, .. } => {
                let group = self.stored.get_mut().group.as_mut();
                apply(group.ok_or(Refusal::NotFound)?, &patch);
            }
            Call::DeletePodGroup { .. } => {
                self.stored
                    .get_mut()
                    .group
                    .take()
                    .ok_or(Refusal::NotFound)?;
            }
            Call::MakeKeys => {
                let (private, public) = ("private".to_owned(), "public".to_owned());
                return Ok(Done::Keys(KeyPair { private, public }));
            }
            Call::PatchJob { .. }
            | Call::CreateObject { .. }
            | Call::ApplyObject { .. }
            | Call::DeleteObject { .. } => {}
        }
        Ok(Done::Nothing)
    }

    pub(super) fn job(&self) -> Job {
        parsed(self.stored.borrow().job.as_ref().unwrap())
    }

    pub(super) fn phase(&self) -> String {
        self.job().status.state.phase.to_string()
    }

    pub(super) fn pods(&self) -> Vec<String> {
        self.stored.borrow().pods.keys().cloned().collect()
    }
}
