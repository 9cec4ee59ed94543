//! Bodies of requests, read within a budget of bytes and time before any work is done for them.
//!
//! All bodies that are being read or decided on share the budget. If it is used up, the body that is being read for the
//! longest time is given up. So slow clients cannot keep others out.

use axum::body::{Body, Bytes};
use axum::http::StatusCode;
use http_body_util::BodyExt;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// The budget of a listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BodyLimits {
    /// The most bytes of one body.
    pub largest: usize,
    /// The most bytes of all bodies together.
    pub all: usize,
    /// The longest time from the head until the body is complete.
    pub time: Duration,
}

/// Why there is no body.
#[derive(Debug, thiserror::Error)]
pub enum BodyError {
    /// It has more bytes than one body may.
    #[error("request body too large")]
    TooLarge,
    /// It did not arrive in time.
    #[error("the request body took too long")]
    TooSlow,
    /// Others need the memory.
    #[error("too many request bodies at once")]
    TooMany,
    /// The client ended it early.
    #[error("{0}")]
    Broken(axum::Error),
}

impl BodyError {
    /// The status code of the answer.
    pub const fn status(&self) -> StatusCode {
        match self {
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::TooSlow => StatusCode::REQUEST_TIMEOUT,
            Self::TooMany => StatusCode::SERVICE_UNAVAILABLE,
            Self::Broken(_) => StatusCode::BAD_REQUEST,
        }
    }
}

/// Reads bodies. Clones share the budget.
#[derive(Debug, Clone)]
pub struct Bodies {
    limits: BodyLimits,
    budget: Arc<Mutex<Budget>>,
}

#[derive(Debug, Default)]
struct Budget {
    /// Bytes of all bodies that are being read or kept.
    used: usize,
    /// Bodies that are being read, by the order of their beginnings.
    reading: BTreeMap<u64, Reading>,
    next: u64,
}

#[derive(Debug)]
struct Reading {
    bytes: usize,
    given_up: CancellationToken,
}

/// A whole body. Its bytes are free again when it is dropped.
#[derive(Debug)]
pub struct Whole {
    bytes: Bytes,
    _share: Share,
}

impl AsRef<[u8]> for Whole {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Bodies {
    /// With a budget that nothing uses yet.
    pub fn new(limits: BodyLimits) -> Self {
        Self {
            limits,
            budget: Arc::default(),
        }
    }

    /// Reads a body to its end.
    pub async fn read(&self, body: Body) -> Result<Whole, BodyError> {
        let (share, given_up) = self.begin();
        tokio::select! {
            biased;
            () = given_up.cancelled() => Err(BodyError::TooMany),
            read = timeout(self.limits.time, self.read_all(share, body)) => {
                read.unwrap_or(Err(BodyError::TooSlow))
            }
        }
    }

    fn begin(&self) -> (Share, CancellationToken) {
        let mut budget = lock(&self.budget);
        let id = budget.next;
        budget.next += 1;
        let given_up = CancellationToken::new();
        let reading = Reading {
            bytes: 0,
            given_up: given_up.clone(),
        };
        budget.reading.insert(id, reading);
        let share = Share {
            budget: Arc::clone(&self.budget),
            id,
            kept: None,
        };
        (share, given_up)
    }

    async fn read_all(&self, mut share: Share, mut body: Body) -> Result<Whole, BodyError> {
        let mut all = Vec::new();
        while let Some(frame) = body.frame().await {
            // Trailers are no part of the body.
            let Ok(data) = frame.map_err(BodyError::Broken)?.into_data() else {
                continue;
            };
            if all.len() + data.len() > self.limits.largest {
                return Err(BodyError::TooLarge);
            }
            lock(&self.budget).take(share.id, data.len(), self.limits.all)?;
            all.extend_from_slice(&data);
        }
        share.keep()?;
        Ok(Whole {
            bytes: all.into(),
            _share: share,
        })
    }

    #[cfg(test)]
    pub(super) fn used(&self) -> usize {
        lock(&self.budget).used
    }
}

fn lock(budget: &Mutex<Budget>) -> MutexGuard<'_, Budget> {
    budget.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Budget {
    /// Takes bytes for a body that is being read; older ones are given up if there are not enough.
    fn take(&mut self, id: u64, bytes: usize, all: usize) -> Result<(), BodyError> {
        if !self.reading.contains_key(&id) {
            return Err(BodyError::TooMany);
        }
        while self.used + bytes > all {
            let oldest = self.reading.keys().copied().find(|other| *other != id);
            let oldest = oldest.ok_or(BodyError::TooMany)?;
            self.give_up(oldest);
        }
        self.used += bytes;
        if let Some(reading) = self.reading.get_mut(&id) {
            reading.bytes += bytes;
        }
        Ok(())
    }

    fn give_up(&mut self, id: u64) {
        if let Some(reading) = self.reading.remove(&id) {
            self.used = self.used.saturating_sub(reading.bytes);
            reading.given_up.cancel();
        }
    }
}

/// A body's part of the budget.
#[derive(Debug)]
struct Share {
    budget: Arc<Mutex<Budget>>,
    id: u64,
    /// The bytes of a body that is complete, which is not given up any more.
    kept: Option<usize>,
}

impl Share {
    fn keep(&mut self) -> Result<(), BodyError> {
        let read = lock(&self.budget).reading.remove(&self.id);
        self.kept = Some(read.ok_or(BodyError::TooMany)?.bytes);
        Ok(())
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut budget = lock(&self.budget);
        match self.kept {
            Some(bytes) => budget.used = budget.used.saturating_sub(bytes),
            None => budget.give_up(self.id),
        }
    }
}
