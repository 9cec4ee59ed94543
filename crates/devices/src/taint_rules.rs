//! Taints that rules add to published devices (S7-192).

use evictd_pod::wire::{Device, DeviceTaintRule, DeviceTaintRuleSpec, SliceSpec};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The taint rules of a cluster.
#[derive(Debug, Default)]
pub(crate) struct TaintRules(BTreeMap<Arc<str>, DeviceTaintRuleSpec>);

impl TaintRules {
    /// Adds or replaces a rule. Returns the replaced one.
    pub(crate) fn put(&mut self, rule: DeviceTaintRule) -> Option<DeviceTaintRuleSpec> {
        self.0.insert(rule.metadata.name.into(), rule.spec)
    }

    /// Removes a rule and returns it.
    pub(crate) fn remove(&mut self, name: &str) -> Option<DeviceTaintRuleSpec> {
        self.0.remove(name)
    }

    /// Adds the taints to the devices of a published slice, after those of the driver. Returns the names of the rules by
    /// device; nothing if no rule selects any.
    pub(crate) fn taint(&self, spec: &mut SliceSpec) -> Vec<Vec<Arc<str>>> {
        let SliceSpec {
            driver,
            pool,
            devices,
            ..
        } = spec;
        let rules = self.0.iter();
        let rules: Vec<_> = rules
            .filter(|(_, rule)| selects_pool(rule, driver, &pool.name))
            .collect();
        let tainted = devices.iter_mut().map(|device| {
            let rules = rules.iter().filter(|(_, rule)| selects(rule, device));
            let rules: Vec<_> = rules.collect();
            let taints = rules.iter().map(|(_, rule)| rule.taint.clone());
            device.taints.extend(taints);
            let names = rules.iter().map(|(name, _)| Arc::clone(name));
            names.collect()
        });
        let names: Vec<Vec<_>> = tainted.collect();
        if names.iter().all(Vec::is_empty) {
            return Vec::new();
        }
        names
    }
}

/// Whether devices of a pool may be selected.
pub(crate) fn selects_pool(rule: &DeviceTaintRuleSpec, driver: &str, pool: &str) -> bool {
    rule.device_selector.as_ref().is_none_or(|selector| {
        is_wanted(selector.driver.as_ref(), driver) && is_wanted(selector.pool.as_ref(), pool)
    })
}

fn selects(rule: &DeviceTaintRuleSpec, device: &Device) -> bool {
    let selector = rule.device_selector.as_ref();
    selector.is_none_or(|selector| is_wanted(selector.device.as_ref(), &device.name))
}

fn is_wanted(wanted: Option<&String>, name: &str) -> bool {
    wanted.is_none_or(|wanted| wanted == name)
}
