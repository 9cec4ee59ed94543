//! Which changed settings a running daemon cannot take up.

use super::{
    effective::Effective,
    key::{Effect, Key},
    keys::KEYS,
};

impl Effective {
    /// The keys of this configuration that differ from the running one and take effect at the next start only.
    pub fn waits_for_restart(&self, running: &Self) -> Vec<&'static str> {
        let waits =
            |key: &&Key| key.effect == Effect::Restart && key.show(self) != key.show(running);
        KEYS.iter()
            .filter(waits)
            .map(|key| key.name(self.kind).unwrap_or(key.path))
            .collect()
    }
}
