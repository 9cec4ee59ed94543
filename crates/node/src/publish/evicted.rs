//! Passes the UIDs of the pods that were evicted here to the garbage collector, which does not trust the annotations on pods:
//! others may write them.

use super::Publish;
use crate::fact::{AdmissionAction, AdmissionDecision, Decided, Fact};
use std::collections::BTreeSet;
use tokio::sync::watch;

/// UIDs of the pods that were terminated or rejected here.
#[derive(Debug)]
pub(crate) struct Evicted(pub watch::Sender<BTreeSet<String>>);

impl Evicted {
    fn add(&self, uid: &str) {
        self.0.send_if_modified(|uids| uids.insert(uid.to_owned()));
    }
}

impl Publish for Evicted {
    fn publish(&mut self, fact: &Fact<'_>) {
        match fact {
            Fact::Deciding(decided) => self.deciding(decided),
            Fact::Admitting(admission) => self.admitting(admission),
            _ => {}
        }
    }
}

impl Evicted {
    fn deciding(&mut self, decided: &Decided<'_>) {
        if let Some(uid) = decided.decision.uid.as_ref().filter(|_| !decided.dry_run()) {
            self.add(uid);
        }
    }

    fn admitting(&mut self, admission: &AdmissionDecision) {
        if matches!(
            admission.act,
            AdmissionAction::Reject | AdmissionAction::Leave { .. }
        ) {
            self.add(&admission.pod.uid);
        }
    }
}
