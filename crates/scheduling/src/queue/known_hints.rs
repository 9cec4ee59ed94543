//! Queueing hints that equal pods share.

use super::QueueingHints;
use crate::plugins::PluginName;
use hashbrown::HashMap;

/// The most hints that are kept. Pods that share nothing would fill the map in vain.
const MAX_HINTS: usize = 1024;

/// The hints of one event, by plugin and template. Thousands of pods of one template may wait.
#[derive(Default)]
pub(super) struct KnownHints(HashMap<(PluginName, usize), bool>);

impl KnownHints {
    /// As [`QueueingHints::wakes`].
    pub(super) fn wakes<E>(
        &mut self,
        hints: &impl QueueingHints<E>,
        (plugin, pod): (PluginName, &str),
        event: &E,
    ) -> bool {
        let Some(template) = hints.template(plugin, pod, event) else {
            return hints.wakes(plugin, pod, event);
        };
        if let Some(wakes) = self.0.get(&(plugin, template)) {
            return *wakes;
        }
        let wakes = hints.wakes(plugin, pod, event);
        if self.0.len() < MAX_HINTS {
            self.0.insert((plugin, template), wakes);
        }
        wakes
    }
}
