//! Phrases about a minimum reclaim, and about unevictable growth.

use crate::{ActingThreshold, UnevictableGrowth};
use evictd_pod::Quantity;
use evictd_signals::{Signal, StarvedResource, human_bytes, pressure::percent};

impl ActingThreshold {
    /// `memory.available is 61.1Mi, below its threshold of 64Mi`. `None` while only its minimum reclaim holds it: then
    /// [`Self::held_words`] says so.
    pub(crate) fn crossed_words(&self) -> Option<String> {
        let signal = self.threshold.signal;
        if self.threshold.held_until(&self.observed).is_some() {
            return None;
        }
        Some(if signal.is_pressure() {
            let seen = percent(self.observed.taken());
            format!(
                "{signal} is {seen}, past its threshold of {}",
                self.threshold.value
            )
        } else {
            let shown = |value: i64| amount_words(signal, value);
            let (seen, least) = (shown(self.observed.available), shown(self.quantity.value()));
            format!("{signal} is {seen}, below its threshold of {least}")
        })
    }

    /// `memory.available is 180Mi, above its threshold of 64Mi, and held until 217Mi by the minimum reclaim`
    pub(crate) fn held_words(&self, until: Quantity) -> String {
        let shown = |value: i64| amount_words(self.threshold.signal, value);
        format!(
            "{} is {}, above its threshold of {}, and held until {} by the minimum reclaim",
            self.threshold.signal,
            shown(self.observed.available),
            shown(self.quantity.value()),
            shown(until.value())
        )
    }
}

/// An amount of this signal for people: `180Mi`, `1124` inodes, `3.5%` of the time.
fn amount_words(signal: Signal, value: i64) -> String {
    if signal.is_pressure() {
        format!("{}.{:02}%", value / 100, (value % 100).abs())
    } else if signal.counts_bytes() {
        human_bytes(value)
    } else {
        value.to_string()
    }
}

impl UnevictableGrowth {
    /// `shop/db grows and may not be evicted (static pod): by 12Mi a second, ..`
    pub(super) fn words(&self, resource: StarvedResource) -> String {
        let per_second = resource.amount(self.per_second);
        let because = self.because.as_deref().unwrap_or("it is no pod");
        let who = match &self.pod {
            Some(pod) => format!("{pod} grows and may not be evicted ({because})"),
            None => "programs of the host grow and cannot be evicted".to_owned(),
        };
        let seconds = self.seconds;
        format!(
            "{who}: by {per_second} a second, so that in {seconds} s nothing would be left of what evictions free"
        )
    }
}
