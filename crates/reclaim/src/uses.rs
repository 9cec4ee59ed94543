//! When each image was first listed, and when a container was last seen to use it.

use super::inventory::Inventory;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The times of each image, by its id. CRI does not tell them, so they count from when evictd first looked.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ImageUses(BTreeMap<String, ImageUse>);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ImageUse {
    first_seen: Timestamp,
    last_used: Timestamp,
}

impl ImageUses {
    /// Notes the images that exist at `now` and those that containers use, and forgets deleted ones. Sets the times of
    /// each image of the inventory. A new image counts as used now. Times in the future, after the clock was set back,
    /// count as now.
    pub fn note(&mut self, now: Timestamp, inventory: &mut Inventory) {
        let used = inventory.used();
        let mut noted = BTreeMap::new();
        for image in &mut inventory.images {
            let known = self.0.get(&image.id);
            let in_use = !image.keys().is_disjoint(&used);
            image.first_seen = known.map_or(now, |known| known.first_seen.min(now));
            image.last_used = known
                .filter(|_| !in_use)
                .map_or(now, |known| known.last_used.min(now));
            let times = ImageUse {
                first_seen: image.first_seen,
                last_used: image.last_used,
            };
            noted.insert(image.id.clone(), times);
        }
        self.0 = noted;
    }
}
