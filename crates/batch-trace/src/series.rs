//! Amounts over time, as averages of equal spans.

use serde::Serialize;

/// With so many spans each two neighbours become one.
const MOST: usize = 300;
/// The shortest span, in milliseconds.
const SHORTEST: u64 = 1000;

/// Averages of several amounts over spans of equal length, which grow with the time that is covered.
#[derive(Debug, Clone)]
pub(super) struct Series {
    /// How many amounts.
    width: usize,
    /// Length of a span, in milliseconds.
    span: u64,
    /// Of each span and amount: how long the amount was known, in milliseconds, and its sum over that time.
    spans: Vec<(Vec<u64>, Vec<f64>)>,
}

/// The averages of one span.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Average {
    /// In milliseconds since the beginning.
    pub(super) from: u64,
    /// `None` where an amount was not known at any time of the span.
    pub(super) amounts: Vec<Option<f64>>,
}

impl Series {
    pub(super) const fn new(width: usize) -> Self {
        Self {
            width,
            span: SHORTEST,
            spans: Vec::new(),
        }
    }

    /// In milliseconds.
    pub(super) const fn span(&self) -> u64 {
        self.span
    }

    /// These were the amounts from one moment to another.
    #[expect(clippy::cast_precision_loss, reason = "spans are below 2⁵³ ms")]
    pub(super) fn add(&mut self, mut from: u64, to: u64, amounts: &[Option<f64>]) {
        while to > self.span * (MOST as u64) {
            self.halve();
        }
        while from < to {
            let at = from / self.span;
            let end = to.min((at + 1) * self.span);
            let lasted = end - from;
            let at = usize::try_from(at).unwrap_or(MOST).min(MOST);
            while self.spans.len() <= at {
                self.spans
                    .push((vec![0; self.width], vec![0.0; self.width]));
            }
            let (times, sums) = &mut self.spans[at];
            for ((time, sum), amount) in times.iter_mut().zip(sums).zip(amounts) {
                if let Some(amount) = amount {
                    *time += lasted;
                    *sum += amount * lasted as f64;
                }
            }
            from = end;
        }
    }

    fn halve(&mut self) {
        self.span *= 2;
        let mut merged = Vec::with_capacity(self.spans.len() / 2 + 1);
        for pair in self.spans.chunks(2) {
            let (mut times, mut sums) = pair[0].clone();
            for (more_times, more_sums) in &pair[1..] {
                for (time, more) in times.iter_mut().zip(more_times) {
                    *time += more;
                }
                for (sum, more) in sums.iter_mut().zip(more_sums) {
                    *sum += more;
                }
            }
            merged.push((times, sums));
        }
        self.spans = merged;
    }

    /// The averages, span by span.
    #[expect(clippy::cast_precision_loss, reason = "spans are below 2⁵³ ms")]
    pub(super) fn averages(&self) -> impl Iterator<Item = Average> {
        let spans = self.spans.iter().zip(0_u64..);
        spans.map(|((times, sums), index)| {
            let amounts = times.iter().zip(sums);
            let amounts = amounts.map(|(time, sum)| (*time > 0).then(|| sum / *time as f64));
            Average {
                from: index * self.span,
                amounts: amounts.collect(),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn averages(series: &Series) -> Vec<Option<f64>> {
        series
            .averages()
            .map(|average| average.amounts[0])
            .collect()
    }

    #[test]
    fn a_span_has_the_average_of_the_time_in_which_the_amount_was_known() {
        let mut series = Series::new(1);
        series.add(0, 500, &[Some(1.0)]);
        series.add(500, 2250, &[Some(3.0)]);
        series.add(2250, 4000, &[None]);
        assert_eq!(averages(&series), [Some(2.0), Some(3.0), Some(3.0), None]);
    }

    #[test]
    fn a_long_time_makes_longer_spans_and_loses_nothing() {
        let mut series = Series::new(1);
        series.add(0, 250_000, &[Some(1.0)]);
        series.add(250_000, 3_000_000, &[Some(0.0)]);
        assert_eq!(series.span(), 16_000);
        let found = averages(&series);
        assert!(found.len() <= MOST, "{}", found.len());
        assert_eq!(
            (found[14], found[15], found[16]),
            (Some(1.0), Some(0.625), Some(0.0))
        );
    }
}
