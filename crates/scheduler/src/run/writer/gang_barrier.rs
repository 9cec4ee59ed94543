//! The barrier of a gang: none of its pods is bound before the claims of all of them are prepared.

use crate::run::api_retry::Failure;
use std::sync::Arc;
use tokio::sync::watch;

/// Each pod of the gang has a clone.
#[derive(Clone)]
pub(crate) struct GangBarrier(Arc<watch::Sender<State>>);

struct State {
    /// How many pods have not arrived yet.
    missing: usize,
    /// The first failure. No pod is bound after it.
    failed: Option<Failure>,
}

impl GangBarrier {
    /// A barrier for this number of pods.
    pub(crate) fn new(count: usize) -> Self {
        let state = State {
            missing: count,
            failed: None,
        };
        Self(Arc::new(watch::Sender::new(state)))
    }

    /// Reports a pod that cannot be bound.
    pub(crate) fn fail(&self, failure: Failure) {
        self.0.send_modify(|state| {
            state.failed.get_or_insert(failure);
        });
    }

    /// Waits until all pods have arrived or one has failed.
    pub(super) async fn arrive(&self, ready: Result<(), Failure>) -> Result<(), Failure> {
        match ready {
            Ok(()) => self.0.send_modify(|state| {
                state.missing = state.missing.saturating_sub(1);
            }),
            Err(failure) => {
                self.fail(failure.clone());
                return Err(failure);
            }
        }
        let mut states = self.0.subscribe();
        let settled = states.wait_for(|state| state.missing == 0 || state.failed.is_some());
        match settled.await {
            Ok(state) => match &state.failed {
                Some(failure) => Err(Failure {
                    kind: failure.kind,
                    message: format!("another pod of its group: {}", failure.message),
                }),
                None => Ok(()),
            },
            // Unreachable: `self` holds the sender.
            Err(_) => Err(Failure::stopped()),
        }
    }
}
