//! Pods that are being ended: what they still hold is on its way back.

use crate::Signal;
use crate::decision::RankedPod;
use evictd_pod::{Pod, Quantity};
use jiff::{SignedDuration, Timestamp};
use std::collections::{BTreeMap, BTreeSet};

/// How long the kernel may take to give back what a process held, once that is seen to stand still.
const UNMAPPING: SignedDuration = SignedDuration::from_secs(2);

/// Those that the shell has begun to end, by UID.
#[derive(Debug, Clone, Default)]
pub(crate) struct Dying {
    pods: BTreeMap<String, Ending>,
    /// The last victim, and what it held when it was chosen: looks may be far apart on a machine that is short of everything.
    chosen: Option<(String, (Signal, Quantity))>,
}

#[derive(Debug, Clone)]
struct Ending {
    /// Until when what it holds counts as nearly free.
    until: Timestamp,
    /// What it held of a signal's resource when last seen.
    held: Option<(Signal, Quantity)>,
}

impl Dying {
    /// This pod is the next to go, and holds so much.
    pub(crate) fn choose(&mut self, uid: &str, signal: Signal, holds: Option<Quantity>) {
        self.chosen = holds.map(|holds| (uid.to_owned(), (signal, holds)));
    }

    /// It will have been killed by `kill_at`; answers until when it is waited for.
    pub(crate) fn begin(&mut self, uid: &str, kill_at: Timestamp) -> Timestamp {
        let until = after(kill_at);
        let chosen = self.chosen.take_if(|(chosen, _)| chosen == uid);
        let before = self.pods.get(uid).and_then(|ending| ending.held);
        let held = chosen.map(|(_, held)| held).or(before);
        self.pods.insert(uid.to_owned(), Ending { until, held });
        until
    }

    /// Whether it was there.
    pub(crate) fn end(&mut self, uid: &str) -> bool {
        self.pods.remove(uid).is_some()
    }

    pub(crate) fn contains(&self, uid: &str) -> bool {
        self.pods.contains_key(uid)
    }

    pub(crate) fn uids(&self) -> BTreeSet<String> {
        self.pods.keys().cloned().collect()
    }

    /// Whether what it holds counts as nearly free.
    pub(crate) fn is_credited(&self, uid: &str, now: Timestamp) -> bool {
        self.pods.get(uid).is_some_and(|ending| now < ending.until)
    }

    /// A large pod gives back over seconds on a slow or busy machine: while it holds less at each look, it is waited for.
    /// Answers whom that is true of, and until when.
    pub(crate) fn observe(
        &mut self,
        now: Timestamp,
        signal: Signal,
        pods: &[Pod],
        rows: &[RankedPod],
    ) -> Vec<(String, Timestamp)> {
        let mut giving_back = Vec::new();
        for pod in rows {
            let uid = &pods[pod.index].uid;
            let (Some(ending), Some(holds)) = (self.pods.get_mut(uid), pod.gives_back(signal))
            else {
                continue;
            };
            let before = ending.held.replace((signal, holds));
            let gives_back = before.is_some_and(|(of, held)| of == signal && holds < held);
            if gives_back && ending.until < after(now) {
                ending.until = after(now);
                giving_back.push((uid.clone(), ending.until));
            }
        }
        giving_back
    }
}

fn after(kill_at: Timestamp) -> Timestamp {
    kill_at.saturating_add(UNMAPPING).unwrap_or(kill_at)
}
