//! Writes down what an agent tells, and when.

use crate::{fact::Fact, publish::Publish};
use evictd_decision::record::{Hook, Record};
use evictd_reclaim::Reclaimed;
use evictd_signals::NodeCondition;
use jiff::Timestamp;
use std::sync::{Arc, Mutex};

/// What was told, and after how many seconds.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Told {
    pub(super) at: f64,
    pub(super) what: String,
}

/// What the recorder has heard.
#[derive(Default)]
pub(super) struct Heard {
    pub(super) told: Vec<Told>,
    pub(super) looks: Vec<f64>,
    pub(super) records: Vec<Record>,
    pub(super) reclaims: Vec<Reclaimed>,
    pub(super) hooks: Vec<Hook>,
    pressure: bool,
}

/// Writes down every fact.
pub(super) struct Recorder {
    pub(super) began: Timestamp,
    pub(super) heard: Arc<Mutex<Heard>>,
}

impl Publish for Recorder {
    fn publish(&mut self, fact: &Fact<'_>) {
        let mut heard = self.heard.lock().unwrap();
        let since = |now: Timestamp| now.duration_since(self.began).as_secs_f64();
        let (now, what) = match fact {
            Fact::CycleEnded(cycle) => {
                heard.looks.push(since(cycle.now));
                let mut raised = cycle.housekeeper.conditions();
                let raised = raised.any(|one| one == NodeCondition::MemoryPressure);
                if raised == heard.pressure {
                    return;
                }
                heard.pressure = raised;
                let what = if raised { "raised" } else { "cleared" };
                (cycle.now, what.to_owned())
            }
            Fact::Decided(decided) => {
                heard.records.push(decided.record.clone());
                let who = decided.record.pod.as_deref().unwrap_or("nobody");
                let verb = match (decided.paused, decided.dry_run()) {
                    (Some(_), _) => "paused",
                    (None, true) => "would evict",
                    (None, false) => "evicts",
                };
                (decided.decision.time, format!("{verb} {who}"))
            }
            Fact::Terminated(ended) => {
                heard.hooks.extend(ended.hook.cloned());
                let pod = &ended.departure.pod;
                let what = match ended.result {
                    Ok(one) if one.gone_at.is_none() => format!("{pod} lives on"),
                    Ok(one) if one.killed_at.is_some() => format!("{pod} is killed"),
                    Ok(_) => format!("{pod} left"),
                    Err(error) => format!("{pod}: {error}"),
                };
                (ended.now, what)
            }
            Fact::Reclaimed(record) => {
                let done = record.reclaimed.clone().unwrap();
                let enough = if done.relieved { ", enough" } else { "" };
                let what = format!("reclaims {} images{enough}", done.images);
                heard.reclaims.push(done);
                (record.time, what)
            }
            Fact::FoundGone(ended) => (ended.now, format!("{} is found gone", ended.departure.pod)),
            _ => return,
        };
        let at = since(now);
        heard.told.push(Told { at, what });
    }
}
