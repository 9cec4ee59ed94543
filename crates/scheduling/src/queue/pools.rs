//! The pools with their orders, and the index from a plugin to the pods that it rejected.
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;

use hashbrown::HashMap;

use super::Settings;
use super::costly::CostlyPods;
use super::entry::{Entry, Turn};
use super::pool::Pool;
use crate::plugins::{PluginName, PluginSet};

/// From where the next pod comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    Active,
    Costly,
    Backoff,
}

#[derive(Debug, Default)]
pub(super) struct Pools {
    pods: HashMap<Arc<str>, Entry>,
    active: BTreeSet<Turn>,
    /// The costly ones among the active pods are here instead.
    pub(super) costly: CostlyPods,
    /// By the second in which it ends.
    backoff: BTreeSet<(i64, Turn)>,
    error_backoff: BTreeSet<(i64, Arc<str>)>,
    /// The unschedulable and gated pods by plugin. Each of them has at least one.
    rejected: Vec<BTreeSet<Arc<str>>>,
    unschedulable: usize,
    gated: usize,
    /// The number of waiting pods that each plugin has rejected, by plugin and profile.
    counts: HashMap<(PluginName, u16), usize>,
}

impl Pools {
    pub(super) fn len(&self) -> usize {
        self.pods.len()
    }

    pub(super) fn count(&self, pool: Pool) -> usize {
        match pool {
            Pool::Active => self.active.len() + self.costly.len(),
            Pool::Backoff => self.backoff.len(),
            Pool::ErrorBackoff => self.error_backoff.len(),
            Pool::Unschedulable => self.unschedulable,
            Pool::Gated => self.gated,
        }
    }

    pub(super) fn get(&self, pod: &str) -> Option<&Entry> {
        self.pods.get(pod)
    }

    /// Puts the pod into the pool that its entry names.
    pub(super) fn put(&mut self, pod: Arc<str>, mut entry: Entry, settings: &Settings) {
        // The end of the backoff is part of the order, so it must be fixed first.
        entry.expiry(settings);
        let turn = (Reverse(entry.priority), entry.timestamp, Arc::clone(&pod));
        match entry.pool {
            Pool::Active => {
                if !self.costly.insert(&turn) {
                    self.active.insert(turn);
                }
            }
            Pool::Backoff => {
                self.backoff.insert((entry.backoff_order(), turn));
            }
            Pool::ErrorBackoff => {
                self.error_backoff
                    .insert((entry.backoff_order(), Arc::clone(&pod)));
            }
            Pool::Unschedulable => {
                self.unschedulable += 1;
                self.index(&pod, entry.rejectors);
            }
            Pool::Gated => {
                self.gated += 1;
                self.index(&pod, entry.gate.into_iter().collect());
            }
        }
        for plugin in entry.rejectors.iter() {
            *self.counts.entry((plugin, entry.profile)).or_default() += 1;
        }
        self.pods.insert(pod, entry);
    }

    /// The number of waiting pods that each plugin has rejected, by plugin and profile. A count that has fallen to zero stays.
    pub(super) fn rejected_counts(&self) -> impl Iterator<Item = (PluginName, u16, usize)> {
        let counts = self.counts.iter();
        counts.map(|((plugin, profile), count)| (*plugin, *profile, *count))
    }

    pub(super) fn take(&mut self, pod: &str) -> Option<(Arc<str>, Entry)> {
        if self.pods.is_empty() {
            return None;
        }
        let (pod, entry) = self.pods.remove_entry(pod)?;
        for plugin in entry.rejectors.iter() {
            if let Some(count) = self.counts.get_mut(&(plugin, entry.profile)) {
                *count = count.saturating_sub(1);
            }
        }
        let turn = (Reverse(entry.priority), entry.timestamp, Arc::clone(&pod));
        match entry.pool {
            Pool::Active => {
                if !self.costly.remove(&turn) {
                    self.active.remove(&turn);
                }
            }
            Pool::Backoff => {
                self.backoff.remove(&(entry.backoff_order(), turn));
            }
            Pool::ErrorBackoff => {
                self.error_backoff
                    .remove(&(entry.backoff_order(), Arc::clone(&pod)));
            }
            Pool::Unschedulable => {
                self.unschedulable -= 1;
                self.forget(&pod, entry.rejectors);
            }
            Pool::Gated => {
                self.gated -= 1;
                self.forget(&pod, entry.gate.into_iter().collect());
            }
        }
        Some((pod, entry))
    }

    /// The next pod, and the pool that it comes from.
    pub(super) fn next(&mut self) -> Option<(Arc<str>, Next)> {
        let first = self.active.first();
        if let Some((_, _, pod)) = self.costly.next(first) {
            let pod = Arc::clone(pod);
            self.costly.take_turn(&pod);
            return Some((pod, Next::Costly));
        }
        let active = first.map(|(_, _, pod)| (Arc::clone(pod), Next::Active));
        active.or_else(|| {
            let (_, (_, _, pod)) = self.backoff.first()?;
            Some((Arc::clone(pod), Next::Backoff))
        })
    }

    /// The pods whose backoff ended before this second.
    pub(super) fn expired(&self, second: i64) -> Vec<Arc<str>> {
        let rejected = self
            .backoff
            .iter()
            .take_while(|(expiry, _)| *expiry < second);
        let errors = self
            .error_backoff
            .iter()
            .take_while(|(expiry, _)| *expiry < second);
        rejected
            .map(|(_, (_, _, pod))| pod)
            .chain(errors.map(|(_, pod)| pod))
            .cloned()
            .collect()
    }

    /// The pods of a pool: of the first three in the order in which they leave it, of the others by key.
    pub(super) fn list(&self, pool: Pool) -> Vec<Arc<str>> {
        match pool {
            Pool::Active => {
                let turns = self.active.iter().chain(self.costly.list());
                turns.map(|turn| &turn.2).cloned().collect()
            }
            Pool::Backoff => self
                .backoff
                .iter()
                .map(|(_, turn)| &turn.2)
                .cloned()
                .collect(),
            Pool::ErrorBackoff => self
                .error_backoff
                .iter()
                .map(|(_, pod)| pod)
                .cloned()
                .collect(),
            Pool::Unschedulable | Pool::Gated => {
                let mut pods = self.rejected_by(PluginName::ALL.iter().copied().collect());
                // The index holds both pools; often one of them is empty.
                if pods.len() > self.count(pool) {
                    pods.retain(|pod| self.get(pod).is_some_and(|entry| entry.pool == pool));
                }
                pods
            }
        }
    }

    /// The unschedulable pods that one of these plugins rejected, and the gated ones that one of them gates.
    pub(super) fn rejected_by(&self, plugins: PluginSet) -> Vec<Arc<str>> {
        let lists = plugins.iter();
        let lists = lists.filter_map(|plugin| self.rejected.get(plugin as usize));
        let mut found: Vec<Arc<str>> = lists.flatten().cloned().collect();
        found.sort_unstable();
        found.dedup();
        found
    }

    fn index(&mut self, pod: &Arc<str>, plugins: PluginSet) {
        for plugin in plugins.iter() {
            self.of(plugin).insert(Arc::clone(pod));
        }
    }

    fn forget(&mut self, pod: &Arc<str>, plugins: PluginSet) {
        for plugin in plugins.iter() {
            self.of(plugin).remove(pod);
        }
    }

    fn of(&mut self, plugin: PluginName) -> &mut BTreeSet<Arc<str>> {
        let index = plugin as usize;
        if self.rejected.len() <= index {
            self.rejected.resize_with(index + 1, BTreeSet::new);
        }
        &mut self.rejected[index]
    }
}
