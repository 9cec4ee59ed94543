//! Whoever sweeps up after evictions believes no mark on a pod, which others may write, but this.

use super::{Decided, Landed, Look, Publish};
use crate::agent::{Act, Ruling};
use std::collections::BTreeSet;
use tokio::sync::watch;

/// UIDs of the pods that were ended or kept out here.
#[derive(Debug)]
pub struct Evicted(pub watch::Sender<BTreeSet<String>>);

impl Evicted {
    fn add(&self, uid: &str) {
        self.0.send_if_modified(|uids| uids.insert(uid.to_owned()));
    }
}

impl Publish for Evicted {
    fn looked(&mut self, _: &Look<'_>) {}

    fn deciding(&mut self, decided: &Decided<'_>) {
        if let Some(uid) = decided.decision.uid.as_ref().filter(|_| !decided.dry_run()) {
            self.add(uid);
        }
    }

    fn decided(&mut self, _: &Decided<'_>) {}

    fn ruling(&mut self, ruling: &Ruling) {
        if matches!(ruling.act, Act::Reject | Act::Leave { .. }) {
            self.add(&ruling.pod.uid);
        }
    }

    fn landed(&mut self, _: &Landed<'_>) {}
}
