//! Pods that are not let in: their status says so before their containers start, and what runs of them is ended.
//!
//! Where a kubelet looks after the pods that is the last word, once the API server has it. Until then, and where pods
//! come from manifests for good, it holds as long as its reason does.

use super::{Agent, Errand, Ruling, cluster, restarts::end};
use crate::{
    outbox::{Fate, Publication},
    pods::Rejection,
};
use jiff::{SignedDuration, Timestamp};
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tokio::task::JoinHandle;

/// How often it is looked whether anything of them runs.
const PERIOD: SignedDuration = SignedDuration::from_secs(1);
/// Why a notice is dropped.
const RUNS_ON: &str = "the pod was started and runs on after the pressure";

/// The pods that were turned away, by UID, as long as they are here.
#[derive(Debug, Default)]
pub(super) struct Rejections {
    away: BTreeMap<String, Away>,
    looked: Option<Timestamp>,
}

#[derive(Debug)]
struct Away {
    ruling: Ruling,
    /// Whether the API server has it.
    told: bool,
    /// What runs of it is being ended.
    ending: Option<JoinHandle<()>>,
}

impl Rejections {
    /// Why this pod was turned away, if it was.
    pub(super) fn of(&self, uid: &str) -> Option<Rejection> {
        let away = self.away.get(uid)?;
        Some(Rejection {
            reason: away.ruling.reason.clone(),
            message: away.ruling.message.clone(),
        })
    }
}

impl Away {
    fn is_ending(&self) -> bool {
        let ending = self.ending.as_ref();
        ending.is_some_and(|ending| !ending.is_finished())
    }
}

impl Agent {
    /// Tells the pod's status, ends what runs of it, and tells the world.
    pub(super) fn turn_away(&mut self, mut ruling: Ruling) {
        ruling.grace = self.hard_grace();
        ruling.boot_id.clone_from(&self.ports.boot_id);
        ruling.notice = self.notice_of(&ruling, None);
        let cgroup = self.active.cgroup_of(&ruling.pod.uid);
        let victim = cgroup.map(|cgroup| cluster::victim(&ruling.pod, cgroup));
        let hierarchies = &self.ports.evictor.hierarchies;
        let running = victim.filter(|victim| hierarchies.runs(&victim.cgroup));
        ruling.ends = running.is_some();
        self.write_down(&ruling);
        match (running, ruling.notice.take()) {
            (Some(victim), notice) => {
                self.launch(ruling.leaving(Errand::Rejection, victim, notice));
            }
            (None, Some(notice)) => self.post(notice),
            (None, None) => {}
        }
        self.publish_ruling(&ruling);
        let away = Away {
            told: false,
            ending: None,
            ruling,
        };
        self.rejections
            .away
            .insert(away.ruling.pod.uid.clone(), away);
    }

    fn hard_grace(&self) -> Duration {
        let seconds = self.housekeeper.rules().hard_grace_period_seconds;
        let grace = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
        grace.max(self.behaviour.least_grace)
    }

    /// Looks after pods that were turned away: whether they are still here, and whether anything of them runs.
    pub(super) fn look_after_rejected(&mut self, now: Timestamp) {
        let recent = |looked: Timestamp| now.duration_since(looked) < PERIOD;
        if self.rejections.away.is_empty() || self.rejections.looked.is_some_and(recent) {
            return;
        }
        self.rejections.looked = Some(now);
        self.look(true);
        let no_kubelet = self.ports.room.is_machine();
        let mut away = std::mem::take(&mut self.rejections.away);
        away.retain(|uid, away| {
            if no_kubelet && self.active.is_in(uid) {
                self.withdraw(uid, Ruling::LET_IN);
                return false;
            }
            let cgroup = self.active.cgroup_of(uid);
            let lives = cgroup.is_some_and(|cgroup| self.ports.evictor.hierarchies.runs(cgroup));
            let has_ended = away.told && self.active.has_ended(uid) && !lives;
            self.active.is_listed(uid) && !has_ended
        });
        for (uid, away) in &mut away {
            let Some(cgroup) = self.active.cgroup_of(uid) else {
                continue;
            };
            let victim = cluster::victim(&away.ruling.pod, cgroup);
            // One that is ended before its kubelet is told is only started again.
            let just_now = !away.told && now.duration_since(away.ruling.time) < PERIOD;
            if (just_now && !no_kubelet)
                || away.is_ending()
                || self.flights.contains(uid)
                || !self.ports.evictor.hierarchies.runs(&victim.cgroup)
            {
                continue;
            }
            let reason_holds = || {
                let mut held = self.housekeeper.taints();
                held.any(|held| away.ruling.conditions.contains(&held))
            };
            let period = self.housekeeper.rules().pressure_transition_period;
            if no_kubelet || away.told || reason_holds() {
                if self.ends_nobody() {
                    continue;
                }
                tracing::warn!(
                    EVICTD_DECISION_ID = away.ruling.id,
                    EVICTD_POD = away.ruling.pod.full_name(),
                    EVICTD_POD_UID = uid,
                    "{} was started though it is not let in; it is ended",
                    away.ruling.pod
                );
                let evictor = Arc::clone(&self.ports.evictor);
                away.ending = Some(end(evictor, victim, self.hard_grace()));
            } else if now.duration_since(away.ruling.time) >= period {
                self.withdraw(uid, RUNS_ON);
            }
        }
        away.append(&mut self.rejections.away);
        self.rejections.away = away;
    }

    /// It is known what became of a notice; a pod whose status never says that it is turned away is let in.
    pub(super) fn rejection_told(&mut self, publication: &Publication) {
        let uid = &publication.uid;
        let Some(away) = self.rejections.away.get_mut(uid) else {
            return;
        };
        if away.ruling.id != publication.id {
            return;
        }
        match publication.fate {
            Fate::Published | Fate::Recorded(_) => away.told = true,
            Fate::NotPublished(_) => {
                self.rejections.away.remove(uid);
                self.admission.pardon(uid);
            }
        }
    }
}
