//! Questions that only the loop can answer.

use super::Agent;
use crate::server::state::{Question, Unanswered};
use evictd_eviction::{Signal, why};
use evictd_pod::{Pod, pod::system_priority, wire};
use serde_json::{Value, json};

impl Agent {
    pub(super) async fn answer(&mut self, question: Question) {
        // Whoever asked may have gone meanwhile.
        match question {
            Question::Ranking { signal, answer } => {
                let _ = answer.send(self.ranking(signal).await);
            }
            Question::Admit { pod, answer } => {
                let _ = answer.send(self.admit(pod).map_err(Unanswered::Refused));
            }
            Question::Pause { pause, answer } => self.pause(pause, answer),
            Question::Resume { answer } => self.resume(answer),
            Question::Hush { answer } => match &self.ports.cluster {
                Some(cluster) => cluster.hush(answer),
                None => {
                    let _ = answer.send(Ok(json!({})));
                }
            },
        }
    }

    /// The pods as they would go now, for this signal or the one nearest to a threshold.
    async fn ranking(&mut self, signal: Option<Signal>) -> Result<Value, Unanswered> {
        let signal = signal
            .or_else(|| self.nearest())
            .unwrap_or(Signal::MemoryAvailable);
        let now = self.clock.now();
        self.look_at_cgroups(now);
        let set = std::sync::Arc::clone(self.active.set());
        let Some(usage) = self.ports.usage.show(now, signal, &set).await else {
            return Err(Unanswered::NotYet(
                "the pods' usage is being measured for the first time; ask again in a moment",
            ));
        };
        let measured = usage.pods.iter().flatten().filter_map(|pod| pod.time);
        let age = measured.min().map(|oldest| now.duration_since(oldest));
        let ranked = self.housekeeper.rank(now, signal, &set.pods, &usage);
        let next = ranked
            .iter()
            .find(|pod| pod.spared.is_none())
            .map(|pod| pod.pod.to_string());
        let rows: Vec<_> = why::rows(&ranked, signal.resource()).collect();
        Ok(
            json!({ "signal": signal, "pods": rows, "next": next, "ageSeconds": age.map(|age| age.as_secs()) }),
        )
    }

    /// The signal with the least room above a threshold, as a part of its capacity.
    #[allow(clippy::cast_precision_loss, reason = "a comparison of shares")]
    fn nearest(&self) -> Option<Signal> {
        let room = |(_, seen, threshold): &&(Signal, evictd_eviction::Observation, i64)| {
            (seen.available.saturating_sub(*threshold)) as f64 / (seen.capacity.max(1)) as f64
        };
        let nearest = self
            .watched
            .iter()
            .min_by(|a, b| room(a).total_cmp(&room(b)))?;
        Some(nearest.0)
    }

    fn admit(&self, pod: Value) -> Result<Value, String> {
        let mut pod: wire::Pod =
            serde_json::from_value(pod).map_err(|error| format!("no v1 Pod: {error}"))?;
        // A manifest names the class alone.
        let class = pod.spec.priority_class_name.as_str();
        let configured = || self.behaviour.priority_classes.get(class).copied();
        let of_class = || system_priority(class).or_else(configured);
        pod.spec.priority = pod.spec.priority.or_else(of_class);
        let pod = Pod::from_wire(pod);
        serde_json::to_value(self.would_admit(&pod)).map_err(|error| error.to_string())
    }
}
