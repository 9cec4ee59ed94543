//! Terminates pods: the tasks that end their processes, and the notices that inform the API server of it. The state of
//! these pods is kept by `Departures`.

use super::{
    cluster::{Cluster, progress},
    contents::ContentsRequest,
    hook::Hooks,
    unfinished::shorten,
};
use crate::{
    config::Tell,
    delivery::{Notice, Progress},
    evict::{ApiEvictor, ClusterEvictor, Evict, EvictError, LocalEvictor, ResumedEvictor, Urgency},
    fact::AdmissionDecision,
    hook::{Hook, HookRequest},
    pods::LocalPod,
    server::state::Answer,
};
use evictd_decision::{
    Cause, Decision,
    record::{self, Contents},
};
use evictd_departures::{Departure, NoticeState};
use evictd_kernel::kill::{CgroupEvictor, GraceCut, Termination, Victim};
use jiff::Timestamp;
use serde_json::json;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};
use tokio::sync::{Notify, mpsc};

/// How a termination ended.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) uid: String,
    /// Whether the pod was started again after an earlier end: then nothing is published again.
    pub(super) again: bool,
    pub(super) result: Result<Termination, EvictError>,
    /// How its pre-kill hook went, if one ran.
    pub(super) hook: Option<record::Hook>,
    /// The contents of the pod before its first signal, if they were read in time.
    pub(super) contents: Option<Box<Contents>>,
}

/// The next event of a pod that is being terminated.
pub(super) enum TerminationEvent {
    /// Its processes have ended, or could not be ended.
    Ended(Box<Ended>),
    /// The pod with this UID gets its first signal now; its contents, if they were read in time.
    Begins(String, Option<Box<Contents>>),
    /// The pre-kill hook of the pod with this UID has ended.
    HookEnded(String, record::Hook),
    /// The API server has answered to its notice.
    Notice(Progress),
}

/// A pod of which a decision is made, as far as the way of its termination depends on it.
#[derive(Clone, Copy)]
pub(super) struct Target<'a> {
    pub(super) pod: &'a LocalPod,
    /// Whether no source lists it: then only its UID is known.
    pub(super) unlisted: bool,
}

/// How a termination begins.
#[derive(Default)]
struct Before {
    /// Whether the pod was started again after an earlier end.
    again: bool,
    hook: Option<(Hook, HookRequest)>,
    /// The figures that are read of the pod before its first signal; `None` for one that was started again.
    contents: Option<ContentsRequest>,
}

/// The tasks by the UIDs of their pods, and the notices by the ids of their decisions.
pub struct Terminations {
    evictor: Arc<CgroupEvictor>,
    /// The container runtime, if it is to stop the pods.
    runtime: Option<evictd_cri::Client>,
    /// Informs the cluster; `None` without one.
    cluster: Option<Cluster>,
    /// Notices about pods whose termination is about to begin.
    notices: BTreeMap<String, Notice>,
    /// Decisions of an earlier run that were taken up.
    resumed: BTreeSet<String>,
    running: BTreeMap<String, Running>,
    /// The pre-kill hook.
    pub(super) hooks: Hooks,
    send: mpsc::UnboundedSender<TerminationEvent>,
    events: mpsc::UnboundedReceiver<TerminationEvent>,
}

/// The ways to hurry a termination.
struct Running {
    grace: GraceCut,
    /// Notified when the hook has to end.
    hook: Arc<Notify>,
}

impl Terminations {
    /// Pods are terminated through their cgroups, or by `runtime` if it is given.
    pub fn new(
        evictor: Arc<CgroupEvictor>,
        runtime: Option<evictd_cri::Client>,
        cluster: Option<Cluster>,
    ) -> Self {
        let (send, events) = mpsc::unbounded_channel();
        Self {
            evictor,
            runtime,
            cluster,
            notices: BTreeMap::new(),
            resumed: BTreeSet::new(),
            running: BTreeMap::new(),
            hooks: Hooks::default(),
            send,
            events,
        }
    }

    /// Shows the processes of pods and ends them.
    pub(super) fn evictor(&self) -> &CgroupEvictor {
        &self.evictor
    }

    /// Whether the cluster can be informed.
    pub(super) const fn has_cluster(&self) -> bool {
        self.cluster.is_some()
    }

    /// The next event. Cancel safe.
    pub(super) async fn next(&mut self) -> TerminationEvent {
        tokio::select! {
            // The sender beside it keeps the channel open.
            Some(event) = self.events.recv() => {
                if let TerminationEvent::Ended(ended) = &event {
                    self.running.remove(&ended.uid);
                }
                event
            }
            progress = progress(self.cluster.as_mut()) => TerminationEvent::Notice(progress),
        }
    }

    /// Begins the termination that a decision has started: with a cluster, in the configured way. `answer_timeout` is
    /// how long a hard eviction waits for the API server. A kubelet restarts what ends without its doing.
    pub(super) fn begin(
        &mut self,
        departure: &Departure,
        (victim, contents): (Victim, ContentsRequest),
        grace: Duration,
        (answer_timeout, kubelet): (Duration, bool),
    ) {
        let local = Arc::clone(&self.evictor);
        let notice = self.notices.remove(&departure.id);
        let resumed = self.resumed.remove(&departure.id);
        // The API server knows of it already: only the processes are left to end.
        if resumed && departure.notice_state == NoticeState::Sent {
            let before = Before {
                contents: Some(contents),
                ..Before::default()
            };
            return self.spawn(ResumedEvictor(local), victim, grace, before);
        }
        let cause = departure.purpose.cause();
        let before = Before {
            again: false,
            hook: self.hooks.begin(departure),
            contents: Some(contents),
        };
        match (&self.cluster, notice) {
            (Some(cluster), Some(mut notice)) => {
                // An API server that deletes the pod would give it the whole grace period once more.
                if resumed {
                    shorten(&mut notice, grace);
                }
                let evictor = ClusterEvictor {
                    local: self.local_evictor(),
                    delivery_queue: cluster.delivery_queue.clone(),
                    notice,
                    again: resumed,
                    // For other reasons there is time to wait. If the API server is informed first, no controller
                    // starts the pod here again.
                    tell: match cause {
                        Some(Cause::Hard) => cluster.tell,
                        Some(Cause::Soft | Cause::LocalStorage) | None => Tell::First,
                    },
                    urgency: match cause {
                        Some(Cause::Soft) => Urgency::Soft,
                        Some(Cause::Hard | Cause::LocalStorage) | None => {
                            Urgency::Hard(answer_timeout)
                        }
                    },
                    kubelet,
                };
                self.spawn(evictor, victim, grace, before);
            }
            (Some(cluster), None) if departure.asked => {
                let (namespace, name) = departure.pod.split_once('/').unwrap_or_default();
                let evictor = ApiEvictor {
                    local,
                    actions: cluster.actions.clone(),
                    namespace: namespace.to_owned(),
                    name: name.to_owned(),
                };
                self.spawn(evictor, victim, grace, before);
            }
            _ => self.spawn(self.local_evictor(), victim, grace, before),
        }
    }

    /// Terminates a pod that was started again after its end.
    pub(super) fn begin_again(&mut self, victim: Victim, grace: Duration) {
        let before = Before {
            again: true,
            ..Before::default()
        };
        self.spawn(self.local_evictor(), victim, grace, before);
    }

    fn local_evictor(&self) -> LocalEvictor {
        LocalEvictor {
            cgroups: Arc::clone(&self.evictor),
            runtime: self.runtime.clone(),
        }
    }

    /// Starts the task; the first signal is sent as soon as the caller next waits.
    fn spawn<E: Evict + Send + Sync + 'static>(
        &mut self,
        evictor: E,
        victim: Victim,
        grace: Duration,
        before: Before,
    ) {
        let (cut, send, uid) = (GraceCut::default(), self.send.clone(), victim.uid.clone());
        let running = Running {
            grace: cut.clone(),
            hook: Arc::default(),
        };
        let end_hook = Arc::clone(&running.hook);
        let local = Arc::clone(&self.evictor);
        // A second termination of the same pod replaces the handle: its grace period is the one to cut.
        self.running.insert(uid.clone(), running);
        // Beside the loop, which waits neither for a hook nor for a grace period.
        tokio::spawn(async move {
            let Before {
                again,
                hook,
                contents,
            } = before;
            let hook = match hook {
                // On the heap: no other task shall have room for it.
                Some((hook, request)) => Some(Box::pin(hook.run(&request, &end_hook)).await),
                None => None,
            };
            // The receiver is closed only if the agent has ended.
            if let Some(hook) = &hook {
                let _ = send.send(TerminationEvent::HookEnded(uid.clone(), hook.clone()));
            }
            // After the first signal the processes begin to go, and with them the answer to which one held the memory.
            let contents = match contents {
                Some(request) => {
                    let (containers, lines) = (request.containers, request.command_lines);
                    let contents = local.contents(&victim, containers, lines).await;
                    let contents = contents.map(Box::new);
                    let _ = send.send(TerminationEvent::Begins(uid.clone(), contents.clone()));
                    contents
                }
                None => None,
            };
            let result = evictor.evict(&victim, grace, &cut).await;
            let ended = Ended {
                uid,
                again,
                result,
                hook,
                contents,
            };
            let _ = send.send(TerminationEvent::Ended(Box::new(ended)));
        });
    }

    /// Ends the pre-kill hook of a pod now.
    pub(super) fn end_hook(&self, uid: &str) {
        if let Some(running) = self.running.get(uid) {
            running.hook.notify_one();
        }
    }

    /// Ends all pre-kill hooks now.
    pub(super) fn end_hooks(&self) {
        for running in self.running.values() {
            running.hook.notify_one();
        }
    }

    /// Ends the grace period of a pod now.
    pub(super) fn cut_grace(&self, uid: &str) {
        if let Some(running) = self.running.get(uid) {
            running.hook.notify_one();
            running.grace.cut_grace();
        }
    }

    /// UIDs of the pods to whose processes SIGKILL was sent.
    pub(super) fn killed(&self) -> Vec<String> {
        let running = self.running.iter();
        let killed = running.filter(|(_, running)| running.grace.has_killed());
        killed.map(|(uid, _)| uid.clone()).collect()
    }

    /// Whether no termination is in progress.
    pub(super) fn is_empty(&self) -> bool {
        self.running.is_empty()
    }

    /// Whether the API server is asked for permission to evict this pod by this decision.
    pub(super) fn asks(&self, decision: &Decision, target: Target<'_>) -> bool {
        let cluster = self.cluster.as_ref();
        let asks =
            cluster.is_some_and(|cluster| cluster.asks_budgets(decision.kind, decision.time));
        asks && !target.pod.is_from_file() && !target.unlisted
    }

    /// The same for a pod that an earlier run was terminating.
    pub(super) fn asked(&self, departure: &Departure) -> bool {
        let cause = departure.purpose.cause();
        self.cluster
            .as_ref()
            .zip(cause)
            .is_some_and(|(cluster, cause)| cluster.asks_budgets(cause, departure.since))
    }

    /// The notice to the API server about this pod; `None` if evictd does not send one.
    pub(super) fn notice(
        &self,
        id: &str,
        decision: &Decision,
        target: Target<'_>,
        grace: Duration,
    ) -> Option<Notice> {
        let cluster = self.cluster.as_ref()?;
        let ours = !cluster.asks_budgets(decision.kind, decision.time);
        // The name of an unlisted pod is unknown. A kubelet overwrites the status of a static one for ever.
        let ours = ours && !target.unlisted && !target.pod.is_from_file();
        ours.then(|| Notice::new(id, decision, target.pod, cluster.way(grace)))
    }

    /// The notice about an admission decision; `condition` is the message of the pod's `DisruptionTarget`.
    pub(super) fn notice_of(
        &self,
        decision: &AdmissionDecision,
        condition: Option<&str>,
    ) -> Option<Notice> {
        let cluster = self.cluster.as_ref()?;
        let (id, pod) = (&decision.id, &decision.pod);
        let (reason, message) = (&decision.reason, &decision.message);
        Some(Notice {
            id: id.clone(),
            namespace: pod.namespace.clone(),
            name: pod.name.clone(),
            uid: pod.uid.clone(),
            generation: pod.generation,
            reason: reason.clone(),
            message: message.clone(),
            disruption_target: condition.map(str::to_owned),
            way: cluster.way(decision.grace),
            record: record::brief(id, decision.time, decision.kind().as_str(), reason, message),
            time: decision.time,
        })
    }

    /// Keeps the notice of a decision until the pod is terminated.
    pub(super) fn keep_notice(&mut self, id: &str, notice: Option<Notice>) {
        if let Some(notice) = notice {
            self.notices.insert(id.to_owned(), notice);
        }
    }

    /// Drops the notice of a decision that is not carried out.
    pub(super) fn drop_notice(&mut self, id: &str) {
        self.notices.remove(id);
    }

    /// Sends the notice of a pod that has no processes to terminate.
    pub(super) fn send_notice(&mut self, id: &str) {
        if let (Some(notice), Some(cluster)) = (self.notices.remove(id), &self.cluster) {
            // The delivery queue reports the result.
            if self.resumed.remove(&notice.id) {
                drop(cluster.delivery_queue.submit_again(notice));
            } else {
                drop(cluster.delivery_queue.submit(notice));
            }
        }
    }

    /// Withdraws the notice of a pod.
    pub(super) fn withdraw(&self, uid: &str, why: &str) {
        if let Some(cluster) = &self.cluster {
            cluster.delivery_queue.withdraw(uid, why);
        }
    }

    /// A decision of an earlier run is taken up.
    pub(super) fn resume(&mut self, id: &str) {
        self.resumed.insert(id.to_owned());
    }

    /// A decision of an earlier run is finished without a termination.
    pub(super) fn conclude(&mut self, id: &str) {
        self.resumed.remove(id);
    }

    /// Notes that budgets forbid an eviction now; the next pod in the ranking is tried.
    pub(super) fn note_blocked(&mut self, now: Timestamp) {
        if let Some(cluster) = &mut self.cluster {
            cluster.note_blocked(now);
        }
    }

    /// Notes that a budget allowed an eviction.
    pub(super) fn note_allowed(&mut self) {
        if let Some(cluster) = &mut self.cluster {
            cluster.blocked = None;
        }
    }

    /// Stops all reports to the Node; answers when none is in progress any more.
    pub(super) fn stop_reports(&self, answer: Answer) {
        match &self.cluster {
            Some(cluster) => cluster.stop_reports(answer),
            None => {
                // The receiver may be closed by now.
                let _ = answer.send(Ok(json!({})));
            }
        }
    }

    /// Detaches the cluster when the agent stops: no new notice is sent after that.
    pub(super) fn close_cluster(&mut self) -> Option<Cluster> {
        self.cluster.take()
    }
}
