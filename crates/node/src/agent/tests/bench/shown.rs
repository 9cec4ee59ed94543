//! The status, the log and the facts of the agent.

use super::{super::recorder::Told, Bench};
use evictd_decision::record::{Hook, Record};
use evictd_reclaim::Reclaimed;
use serde_json::Value;
use std::fs;

impl Bench {
    /// The output of `evictd status -o json`.
    pub(in crate::agent::tests) fn status(&self) -> Value {
        serde_json::to_value(self.status.as_ref().unwrap().status()).unwrap()
    }

    /// Whether `evictd status` says that this pod is not admitted.
    pub(in crate::agent::tests) fn is_rejected(&self, name: &str) -> bool {
        let told = format!("shop/{name} is not admitted");
        self.status()["warnings"].to_string().contains(&told)
    }

    /// Whether `evictd status` says that memory is short.
    pub(in crate::agent::tests) fn holds_memory_pressure(&self) -> bool {
        let conditions = self.status()["conditions"].clone();
        let mut all = conditions.as_array().unwrap().iter();
        all.any(|one| one["condition"] == "MemoryPressure" && one["raised"] == true)
    }

    /// Changes the state that the last agent has kept for the next one.
    pub(in crate::agent::tests) fn edit_kept(&self, edit: impl FnOnce(&mut Value)) {
        let path = self.path("run/conditions");
        let mut kept = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        edit(&mut kept);
        fs::write(path, kept.to_string()).unwrap();
    }

    /// All lines so far, without the times.
    pub(in crate::agent::tests) fn told(&self) -> Vec<String> {
        let heard = self.heard.lock().unwrap();
        heard.told.iter().map(|told| told.what.clone()).collect()
    }

    /// The seconds until this line came first.
    pub(in crate::agent::tests) fn at(&self, what: &str) -> f64 {
        let heard = self.heard.lock().unwrap();
        let found = heard.told.iter().find(|told| told.what == what);
        found
            .unwrap_or_else(|| panic!("not told: {what}: {:#?}", heard.told))
            .at
    }

    /// When the agent has looked, in seconds.
    pub(in crate::agent::tests) fn looks(&self) -> Vec<f64> {
        self.heard.lock().unwrap().looks.clone()
    }

    /// The ended pre-kill hooks.
    pub(in crate::agent::tests) fn hooks(&self) -> Vec<Hook> {
        self.heard.lock().unwrap().hooks.clone()
    }

    /// All lines so far.
    pub(in crate::agent::tests) fn log(&self) -> Vec<Told> {
        self.heard.lock().unwrap().told.clone()
    }

    /// The amounts that were freed without an eviction.
    pub(in crate::agent::tests) fn reclaims(&self) -> Vec<Reclaimed> {
        self.heard.lock().unwrap().reclaims.clone()
    }

    /// Its decisions.
    pub(in crate::agent::tests) fn records(&self) -> Vec<Record> {
        self.heard.lock().unwrap().records.clone()
    }
}
