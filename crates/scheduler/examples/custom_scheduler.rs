//! The whole scheduler with a custom plugin. This takes a file like this one, and no change of evictd's crates. The plugin delays
//! pods of the namespace `batch` in Permit until some node has the label `feeder=on`. A gang is then bound together, or not at all.
//!
//! ```text
//! apiVersion: kubescheduler.config.k8s.io/v1
//! kind: KubeSchedulerConfiguration
//! profiles:
//! - plugins: {multiPoint: {enabled: [{name: FeederOn}]}}
//!   pluginConfig: [{name: FeederOn, args: {minutes: 10}}]
//! ```

use evictd_placement::{Chosen, Cluster, Permit, Plugin};
use evictd_scheduler::cli::Cli;
use evictd_scheduling::CustomPlugin;
use evictd_scheduling::config::Point;
use jiff::SignedDuration;
use serde_json::Value;
use std::process::ExitCode;
use std::sync::Arc;

struct FeederOn {
    at_most: SignedDuration,
}

impl Plugin for FeederOn {
    fn name(&self) -> &'static str {
        "FeederOn"
    }

    fn permit(&self, chosen: Chosen<'_>) -> Permit {
        let symbols = chosen.cluster.symbols();
        let on = symbols.get("feeder").zip(symbols.get("on"));
        let is_on = |(key, value)| {
            let mut nodes = chosen.cluster.nodes().iter();
            nodes.any(|node| node.labels.get(key) == Some(value))
        };
        if chosen.pod.metadata.namespace != "batch".into() || on.is_some_and(is_on) {
            return Permit::Allow;
        }
        Permit::Wait(self.at_most)
    }
}

/// Makes the plugin from its `pluginConfig`.
fn make(_cluster: &mut Cluster, args: &Value) -> Result<Arc<dyn Plugin>, String> {
    let minutes = match &args["minutes"] {
        Value::Null => 10,
        given => given
            .as_i64()
            .filter(|minutes| (1..=15).contains(minutes))
            .ok_or_else(|| format!("minutes: {given}: must be from 1 to 15"))?,
    };
    let at_most = SignedDuration::from_mins(minutes);
    Ok(Arc::new(FeederOn { at_most }))
}

fn main() -> ExitCode {
    let plugin = CustomPlugin {
        name: "FeederOn",
        points: &[Point::Permit],
        make,
    };
    match evictd_command::parse::<Cli>().run_with(&[plugin]) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report("evictd-scheduler"),
    }
}
