//! Answers to questions that need the main loop's state.

use super::{Agent, dedup::Dedup, reclaim::active_pods};
use crate::server::state::{Question, Unanswered};
use evictd_decision::why;
use evictd_pod::compatibility::Release;
use evictd_pod::{Pod, pod::system_priority, wire};
use evictd_signals::Signal;
use serde_json::{Value, json};

impl Agent {
    pub(super) async fn answer(&mut self, question: Question) {
        // The receiver may be closed by now.
        match question {
            Question::Ranking { signal, answer } => {
                let _ = answer.send(self.ranking(signal).await);
            }
            Question::Disk { answer } => {
                let _ = answer.send(self.disk());
            }
            Question::NearMisses { answer } => {
                let kept = serde_json::to_value(self.ports.near_misses.to_keep());
                let _ = answer.send(kept.map_err(|error| Unanswered::Refused(error.to_string())));
            }
            Question::Admit { pod, answer } => {
                let _ = answer.send(self.admit(pod).map_err(Unanswered::Refused));
            }
            Question::Pause { pause, answer } => {
                if self.ports.pauses.begin(self.clock.now(), pause, answer) {
                    self.dedup = Dedup::default();
                }
            }
            Question::Resume { answer } => {
                self.ports.pauses.end(answer);
                self.dedup = Dedup::default();
            }
            Question::StopNodeReports { answer } => self.ports.terminations.stop_reports(answer),
        }
    }

    /// Who fills the node's disks.
    fn disk(&mut self) -> Result<Value, Unanswered> {
        let now = self.clock.now();
        let set = std::sync::Arc::clone(self.active.set());
        let ledger = self.layout.as_ref().and_then(|layout| {
            let thresholds = self.housekeeper.thresholds();
            let usage = &mut self.ports.usage;
            usage.disks(now, &set, &layout.filesystems, &thresholds)
        });
        let mut ledger = ledger.ok_or(Unanswered::NotYet(
            "the node's disks are being looked at; ask again in a moment",
        ))?;
        let reclaimer = &mut self.ports.reclaim.reclaimer;
        ledger.reclaimable = reclaimer.reclaimable(now, || active_pods(&self.active));
        if let Some((size, age)) = reclaimer.images_on_disk(now) {
            ledger.set_images(size, age.as_secs());
        }
        serde_json::to_value(ledger).map_err(|error| Unanswered::Refused(error.to_string()))
    }

    /// All pods in the order in which they would be evicted for this signal now. Without a signal, for the one
    /// nearest to its threshold for which the usage of any pod is known.
    async fn ranking(&mut self, signal: Option<Signal>) -> Result<Value, Unanswered> {
        let signals = signal.map_or_else(|| self.sleep.nearest(), |signal| vec![signal]);
        self.update_cgroups(self.clock.now());
        let mut first = None;
        for signal in signals {
            let (answer, is_known) = match self.rank_for(signal).await {
                Ok((answer, is_known)) => (Ok(answer), is_known),
                Err(unanswered) => (Err(unanswered), false),
            };
            // A ranking without any figure answers nothing, so the next signal is tried.
            if is_known {
                return answer;
            }
            first.get_or_insert(answer);
        }
        first.unwrap_or(Err(Unanswered::NotYet(
            "no signal has been sampled yet; ask again in a moment",
        )))
    }

    /// The ranking for one signal, and whether the usage of any pod is known for it.
    async fn rank_for(&mut self, signal: Signal) -> Result<(Value, bool), Unanswered> {
        let now = self.clock.now();
        let set = std::sync::Arc::clone(self.active.set());
        let Some(usage) = self.ports.usage.show(now, signal, &set).await else {
            return Err(Unanswered::NotYet(
                "the pods' usage is being measured for the first time; ask again in a moment",
            ));
        };
        let resource = signal.resource();
        let measured = usage
            .pods
            .iter()
            .flatten()
            .filter_map(|pod| pod.measured(resource));
        // The answer is as old as its oldest figure.
        let age = measured.min().map(|oldest| now.duration_since(oldest));
        let ranked = self.housekeeper.rank(now, signal, &set.pods, &usage);
        let next = ranked
            .iter()
            .find(|pod| pod.spared.is_none())
            .map(|pod| pod.pod.to_string());
        let is_known = ranked.iter().any(|pod| pod.usage.is_some());
        let rows: Vec<_> = why::rows(&ranked, resource).collect();
        let answer = json!({ "signal": signal, "pods": rows, "next": next, "ageSeconds": age.map(|age| age.as_secs()) });
        Ok((answer, is_known))
    }

    fn admit(&self, pod: Value) -> Result<Value, String> {
        let mut pod: wire::Pod =
            serde_json::from_value(pod).map_err(|error| format!("not a v1 Pod: {error}"))?;
        // A manifest only names its priority class.
        let class = pod.spec.priority_class_name.as_str();
        let configured = || self.behaviour.priority_classes.get(class).copied();
        let of_class = || system_priority(class).or_else(configured);
        pod.spec.priority = pod.spec.priority.or_else(of_class);
        // The pod of a question has no status yet, so the release of this node gives it a class.
        let kubelet = self.ports.allocatable.kubelet();
        let release = kubelet.map(|(major, minor)| Release::of_version(major, minor));
        let pod = Pod::of_release(pod, release.unwrap_or_default());
        let here = &self.active.set().pods;
        let outcome =
            self.admission
                .would_admit(&pod, here, &self.housekeeper, &self.ports.allocatable);
        serde_json::to_value(outcome).map_err(|error| error.to_string())
    }
}
