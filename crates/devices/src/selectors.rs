//! Selectors of classes and claims, each text once, and what they have said of devices. A device's answer holds until its
//! slice changes, so that no attempt asks again what one before it has found out.

use crate::cel::{Expression, Subject, Verdict};
use crate::slice::Slice;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// So many texts are kept before unused ones are forgotten for the first time.
const FIRST_SWEEP: usize = 256;
/// So many answers are kept at most; then all are forgotten.
const MOST_VERDICTS: usize = 1 << 17;

/// A selector. It is compiled when it is needed for the first time: many claims are never looked at here.
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

/// Selectors by their text, and their answers.
#[derive(Debug, Default)]
pub(crate) struct Selectors {
    by_text: HashMap<Arc<str>, Arc<Selector>>,
    /// How many there have been.
    count: u64,
    /// So many texts are kept before unused ones are forgotten again.
    sweep_at: usize,
    verdicts: Mutex<HashMap<Asked, Verdict>>,
}

/// By the number of a selector, the version of a slice and the place of a device in it.
type Asked = (u64, u64, usize);

impl Selectors {
    /// The selector with that text.
    pub(crate) fn get(&mut self, text: &str) -> Arc<Selector> {
        if let Some(known) = self.by_text.get(text) {
            return Arc::clone(known);
        }
        if self.by_text.len() >= self.sweep_at.max(FIRST_SWEEP) {
            self.by_text.retain(|_, own| Arc::strong_count(own) > 1);
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

    /// What a selector says of a device, and what it has cost to find out just now: nothing where that was known. `None` where it
    /// would have to be asked and may not.
    pub(crate) fn judge(
        &self,
        selector: &Selector,
        slice: &Slice,
        device: usize,
        may_ask: bool,
    ) -> Option<(Verdict, u64)> {
        let asked = (selector.number, slice.version, device);
        let verdicts = || self.verdicts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = verdicts().get(&asked) {
            return Some((known.clone(), 0));
        }
        if !may_ask {
            return None;
        }
        let verdict = judged(selector, slice, device);
        let mut verdicts = verdicts();
        if verdicts.len() >= MOST_VERDICTS {
            verdicts.clear();
        }
        verdicts.insert(asked, verdict.clone());
        let cost = verdict.cost;
        Some((verdict, cost))
    }
}

fn judged(selector: &Selector, slice: &Slice, device: usize) -> Verdict {
    let fails = |error: &str| Verdict {
        selects: Err(error.into()),
        cost: 0,
    };
    let spec = &slice.spec;
    match (selector.expression(), spec.devices.get(device)) {
        (Ok(expression), Some(device)) => match Subject::new(&spec.driver, device) {
            Ok(subject) => expression.judge(&subject),
            Err(error) => fails(&error),
        },
        (Err(error), _) => fails(error),
        (_, None) => fails("there is no such device"),
    }
}
