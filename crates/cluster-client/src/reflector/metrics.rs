//! The watches' state as metrics.

use super::Watches;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use std::collections::BTreeMap;
use std::fmt;

/// Registers as `watch_broken` and `watch_objects_skipped_total`, by the path of the collection.
#[derive(Debug)]
pub struct WatchMetrics {
    watches: Watches,
    prefix: &'static str,
}

impl WatchMetrics {
    /// The names begin with this prefix, beside that of the registry.
    pub const fn new(watches: Watches, prefix: &'static str) -> Self {
        Self { watches, prefix }
    }
}

impl Collector for WatchMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        // Several watches may have one path.
        let mut by_path: BTreeMap<String, (bool, u64)> = BTreeMap::new();
        for state in self.watches.states() {
            let (broken, skipped) = by_path.entry(state.path).or_default();
            *broken |= state.broken;
            *skipped += state.skipped;
        }
        let (name, help) = (
            format!("{}watch_broken", self.prefix),
            "Whether a watch of the API server has failed for more than a minute",
        );
        let mut family = encoder.encode_descriptor(&name, help, None, MetricType::Gauge)?;
        for (path, (broken, _)) in &by_path {
            let labels = [("path", path.as_str())];
            let gauge = ConstGauge::new(i64::from(*broken));
            gauge.encode(family.encode_family(&labels)?)?;
        }
        let (name, help) = (
            format!("{}watch_objects_skipped", self.prefix),
            "Objects that a watch could not read: too long, malformed, or beyond the budget for large ones",
        );
        let mut family = encoder.encode_descriptor(&name, help, None, MetricType::Counter)?;
        for (path, (_, skipped)) in &by_path {
            let labels = [("path", path.as_str())];
            ConstCounter::new(*skipped).encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prometheus_client::encoding::text::encode;
    use prometheus_client::registry::Registry;

    #[test]
    fn watches_are_metrics_by_path() {
        let watches = Watches::default();
        let watch = watches.add("/api/v1/pods", "");
        let _same = watches.add("/api/v1/pods", "");
        watch.skipped();
        let mut registry = Registry::with_prefix("evictd");
        registry.register_collector(Box::new(WatchMetrics::new(watches.clone(), "")));
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        for line in [
            "evictd_watch_broken{path=\"/api/v1/pods\"} 0",
            "evictd_watch_objects_skipped_total{path=\"/api/v1/pods\"} 1",
        ] {
            assert!(text.contains(line), "{text}");
        }
    }
}
