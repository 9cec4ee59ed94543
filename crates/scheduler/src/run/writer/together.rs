//! Pods of a gang of which none is bound before what the claims of all of them need is done.

use crate::run::attempts::Failure;
use std::sync::Arc;
use tokio::sync::watch;

/// What is known of all of them. Clones share it.
#[derive(Clone)]
pub struct Together(Arc<watch::Sender<State>>);

struct State {
    /// So many are not ready yet.
    missing: usize,
    /// Why none of them is bound.
    failed: Option<Failure>,
}

impl Together {
    /// For so many pods.
    pub fn new(count: usize) -> Self {
        let state = State {
            missing: count,
            failed: None,
        };
        Self(Arc::new(watch::Sender::new(state)))
    }

    /// One of them cannot be bound, so that none is.
    pub fn fail(&self, failure: Failure) {
        self.0.send_modify(|state| {
            state.failed.get_or_insert(failure);
        });
    }

    /// One of them is ready, or never will be: waits for the others.
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
        let state = states.wait_for(|own| own.missing == 0 || own.failed.is_some());
        match state.await {
            Ok(state) => match &state.failed {
                Some(failure) => Err(Failure {
                    kind: failure.kind,
                    message: format!("another pod of its group: {}", failure.message),
                }),
                None => Ok(()),
            },
            // The sender is held by this one.
            Err(_) => Err(Failure::stopped()),
        }
    }
}
