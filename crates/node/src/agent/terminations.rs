//! The tasks that terminate pods. The state of these pods is kept by `Departures`.

use crate::evict::{Evict, EvictError};
use evictd_kernel::kill::{GraceCut, Termination, Victim};
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tokio::sync::mpsc;

/// How a termination ended.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) uid: String,
    /// Whether the pod was started again after an earlier end: then nothing is published again.
    pub(super) again: bool,
    pub(super) result: Result<Termination, EvictError>,
}

/// The tasks, by the UIDs of their pods.
#[derive(Debug)]
pub(super) struct Terminations {
    running: BTreeMap<String, GraceCut>,
    send: mpsc::UnboundedSender<Ended>,
    ended: mpsc::UnboundedReceiver<Ended>,
}

impl Default for Terminations {
    fn default() -> Self {
        let (send, ended) = mpsc::unbounded_channel();
        Self {
            running: BTreeMap::new(),
            send,
            ended,
        }
    }
}

impl Terminations {
    /// Starts to terminate a pod; the first signal is sent as soon as the caller next waits.
    pub(super) fn begin<E: Evict + Send + Sync + 'static>(
        &mut self,
        evictor: Arc<E>,
        victim: Victim,
        grace: Duration,
        again: bool,
    ) {
        let (cut, send, uid) = (GraceCut::default(), self.send.clone(), victim.uid.clone());
        self.running.insert(uid.clone(), cut.clone());
        tokio::spawn(async move {
            let result = evictor.evict(&victim, grace, &cut).await;
            // The receiver is closed only if the agent has ended.
            let _ = send.send(Ended { uid, again, result });
        });
    }

    /// Ends the grace period of a pod now.
    pub(super) fn cut_grace(&self, uid: &str) {
        if let Some(cut) = self.running.get(uid) {
            cut.cut_grace();
        }
    }

    /// UIDs of the pods to whose processes SIGKILL was sent.
    pub(super) fn killed(&self) -> Vec<String> {
        let killed = self.running.iter().filter(|(_, cut)| cut.has_killed());
        killed.map(|(uid, _)| uid.clone()).collect()
    }

    /// Whether no termination is in progress.
    pub(super) fn is_empty(&self) -> bool {
        self.running.is_empty()
    }

    /// The next termination that ends. Cancel safe.
    pub(super) async fn ended(&mut self) -> Ended {
        let Some(ended) = self.ended.recv().await else {
            return std::future::pending().await;
        };
        self.running.remove(&ended.uid);
        ended
    }
}
