//! Compiled selectors and their cached results. A result is valid until the device's slice changes, so that no attempt
//! repeats an evaluation of an earlier one.

use crate::cel::{Expression, Subject, Verdict};
use crate::slice::Slice;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// How many selectors are kept before the first sweep of unused ones.
const FIRST_SWEEP: usize = 256;
/// How many results are kept. The cache is then cleared.
const MOST_VERDICTS: usize = 1 << 17;

/// A selector that is compiled on first use, because many claims are never scheduled here.
#[derive(Debug)]
pub(crate) struct Selector {
    number: u64,
    text: Arc<str>,
    expression: OnceLock<Result<Expression, String>>,
}

impl Selector {
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn error(&self) -> Option<&str> {
        self.expression().as_ref().err().map(String::as_str)
    }

    fn expression(&self) -> &Result<Expression, String> {
        self.expression
            .get_or_init(|| Expression::compile(&self.text))
    }
}

/// Selectors by text, and their results.
#[derive(Debug, Default)]
pub(crate) struct Selectors {
    by_text: HashMap<Arc<str>, Arc<Selector>>,
    /// How many selectors have been created.
    count: u64,
    /// How many selectors are kept before the next sweep.
    sweep_at: usize,
    verdicts: Mutex<HashMap<CacheKey, Verdict>>,
}

/// A selector's number, a slice's version and a device's index.
type CacheKey = (u64, u64, usize);

impl Selectors {
    /// Finds or adds the selector with this text.
    pub(crate) fn get(&mut self, text: &str) -> Arc<Selector> {
        if let Some(known) = self.by_text.get(text) {
            return Arc::clone(known);
        }
        if self.by_text.len() >= self.sweep_at.max(FIRST_SWEEP) {
            self.by_text
                .retain(|_, selector| Arc::strong_count(selector) > 1);
            self.sweep_at = 2 * self.by_text.len();
        }
        self.count += 1;
        let text: Arc<str> = text.into();
        let selector = Arc::new(Selector {
            number: self.count,
            text: Arc::clone(&text),
            expression: OnceLock::new(),
        });
        self.by_text.insert(text, Arc::clone(&selector));
        selector
    }

    /// Evaluates a selector for a device, or returns the cached result with cost 0. `None` if it is not cached and must
    /// not be evaluated.
    pub(crate) fn evaluate(
        &self,
        selector: &Selector,
        slice: &Slice,
        device: usize,
        may_evaluate: bool,
    ) -> Option<(Verdict, u64)> {
        let key = (selector.number, slice.version, device);
        let verdicts = || self.verdicts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = verdicts().get(&key) {
            return Some((known.clone(), 0));
        }
        if !may_evaluate {
            return None;
        }
        // Evaluated without the lock, so that a concurrent search does not wait.
        let verdict = fresh_verdict(selector, slice, device);
        let mut verdicts = verdicts();
        if verdicts.len() >= MOST_VERDICTS {
            verdicts.clear();
        }
        verdicts.insert(key, verdict.clone());
        let cost = verdict.cost;
        Some((verdict, cost))
    }
}

fn fresh_verdict(selector: &Selector, slice: &Slice, device: usize) -> Verdict {
    let fails = |error: &str| Verdict {
        selects: Err(error.into()),
        cost: 0,
    };
    let spec = &slice.spec;
    match (selector.expression(), spec.devices.get(device)) {
        (Ok(expression), Some(device)) => match Subject::new(&spec.driver, device) {
            Ok(subject) => expression.evaluate(&subject),
            Err(error) => fails(&error),
        },
        (Err(error), _) => fails(error),
        (_, None) => fails("there is no such device"),
    }
}
