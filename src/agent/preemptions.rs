//! Pods that leave so that a critical one has room, where no kubelet does it: one after the other, each with its own
//! grace (S2-016). One that cannot be ended is passed over, and the critical pod stays in (S2-019).

use super::{Act, Agent, Errand, Landing, Ruling, cluster};
use evictd_eviction::{critical, rules::own_grace_period_seconds};
use evictd_pod::Pod;
use jiff::Timestamp;
use std::{collections::VecDeque, path::Path, sync::Arc, time::Duration};

/// Who is yet to leave, in kill order.
#[derive(Debug, Default)]
pub(super) struct Preemptions {
    waiting: VecDeque<Planned>,
}

#[derive(Debug)]
struct Planned {
    uid: String,
    /// UID of the critical one.
    preemptor: String,
    /// The first resource that it lacks.
    lacks: String,
}

impl Preemptions {
    /// Whether this pod is to leave: what it holds counts as free.
    pub(super) fn is_planned(&self, uid: &str) -> bool {
        self.waiting.iter().any(|planned| planned.uid == uid)
    }
}

impl Agent {
    /// A critical pod is let in: its victims leave from now on.
    pub(super) fn plan_preemption(&mut self, ruling: Ruling) {
        self.publish_ruling(&ruling);
        let planned = ruling.victims.into_iter().map(|uid| Planned {
            uid,
            preemptor: ruling.pod.uid.clone(),
            lacks: ruling.lacks.clone(),
        });
        self.preemptions.waiting.extend(planned);
    }

    /// Sets the next victim on its way out, unless the one before is not gone yet. In a dry run all wait.
    pub(super) fn preempt(&mut self, now: Timestamp) {
        if self.ends_nobody() {
            return;
        }
        while let Some(next) = self.preemptions.waiting.front() {
            if self.flights.contains(&next.uid) {
                return;
            }
            let set = Arc::clone(self.active.set());
            let find = |uid: &str| set.pods.iter().find(|pod| pod.uid == uid);
            let both = find(&next.uid).zip(find(&next.preemptor));
            let cgroup = self.active.cgroup_of(&next.uid);
            match (both, cgroup.map(Path::to_owned)) {
                (Some((pod, preemptor)), Some(cgroup)) => {
                    let lacks = next.lacks.clone();
                    return self.begin_preemption(now, (pod, preemptor, lacks), &cgroup);
                }
                (Some((pod, preemptor)), None) => tracing::error!(
                    EVICTD_POD = pod.full_name(),
                    EVICTD_POD_UID = pod.uid,
                    "{pod} cannot be preempted for {preemptor}: no cgroup of it is known"
                ),
                // One of them has gone by itself.
                (None, _) => {}
            }
            self.preemptions.waiting.pop_front();
        }
    }

    fn begin_preemption(
        &mut self,
        now: Timestamp,
        (pod, preemptor, lacks): (&Pod, &Pod, String),
        cgroup: &Path,
    ) {
        let seconds = u64::try_from(own_grace_period_seconds(pod)).unwrap_or(0);
        let mut ruling = Ruling {
            id: self.admission.id(now),
            time: now,
            pod: pod.clone(),
            act: Act::Leave {
                preemptor: preemptor.full_name(),
            },
            reason: critical::REASON.to_owned(),
            message: critical::MESSAGE.to_owned(),
            preempt: Vec::new(),
            conditions: Vec::new(),
            victims: Vec::new(),
            lacks,
            grace: Duration::from_secs(seconds).max(self.behaviour.least_grace),
            notice: None,
            ends: true,
            boot_id: self.ports.boot_id.clone(),
        };
        ruling.notice = self.notice_of(&ruling, Some(critical::CONDITION_MESSAGE));
        self.write_down(&ruling);
        let errand = Errand::Preemption {
            resource: ruling.lacks.clone(),
        };
        let notice = ruling.notice.take();
        self.launch(ruling.leaving(errand, cluster::victim(pod, cgroup), notice));
        self.publish_ruling(&ruling);
    }

    /// A departure has ended, well or not: the next victim's turn.
    pub(super) fn note_preempted(&mut self, landing: &Landing) {
        let uid = &landing.flight.uid;
        self.preemptions
            .waiting
            .retain(|planned| planned.uid != *uid);
    }
}
