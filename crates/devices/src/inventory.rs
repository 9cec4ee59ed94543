//! The resource slices, classes and claims of a cluster, and allocations that the API server does not show yet.

use crate::claim::{Claim, Class};
use crate::selectors::Selectors;
use crate::slice::{Node, Slice};
use evictd_pod::wire::{self, Allocation};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// All devices and claims of a cluster.
#[derive(Debug, Default)]
pub struct Inventory {
    /// By name.
    slices: BTreeMap<Arc<str>, Slice>,
    /// Names of slices by node. The empty name holds slices for several nodes.
    by_node: HashMap<String, BTreeSet<Arc<str>>>,
    /// Names of slices by driver and pool.
    by_pool: HashMap<(String, String), BTreeSet<Arc<str>>>,
    /// The number of slice versions so far.
    versions: u64,
    selectors: Selectors,
    classes: HashMap<String, Class>,
    /// By namespace and name.
    claims: BTreeMap<(String, String), Arc<Claim>>,
    /// Assumed allocations by the claim's UID, with their pods.
    assumed: HashMap<String, AssumedAllocation>,
    /// Claims with an assumed allocation since the current gang began.
    shared: Option<BTreeSet<String>>,
    /// How many claims use a device, by driver and pool, then by name.
    taken: HashMap<(String, String), HashMap<String, usize>>,
}

#[derive(Debug)]
struct AssumedAllocation {
    /// Never empty.
    pods: BTreeSet<String>,
    allocation: Allocation,
}

impl Inventory {
    /// Adds or replaces a slice.
    pub fn put_slice(&mut self, wire: wire::ResourceSlice) {
        self.remove_slice(&wire.metadata.name);
        let name: Arc<str> = wire.metadata.name.into();
        self.versions += 1;
        let slice = Slice {
            spec: wire.spec,
            version: self.versions,
        };
        let node = slice.node().unwrap_or_default().to_owned();
        let at = self.by_node.entry(node).or_default();
        at.insert(Arc::clone(&name));
        let of = self.by_pool.entry(pool(&slice.spec)).or_default();
        of.insert(Arc::clone(&name));
        self.slices.insert(name, slice);
    }

    /// Removes a slice. Returns whether it existed.
    pub fn remove_slice(&mut self, name: &str) -> bool {
        let Some(slice) = self.slices.remove(name) else {
            return false;
        };
        let node = slice.node().unwrap_or_default().to_owned();
        take(&mut self.by_node, &node, name);
        take(&mut self.by_pool, &pool(&slice.spec), name);
        true
    }

    /// Adds or replaces a class.
    pub fn put_class(&mut self, wire: wire::DeviceClass) {
        let name = wire.metadata.name.clone();
        let class = Class::new(wire, &mut self.selectors);
        self.classes.insert(name, class);
    }

    /// Removes a class. Returns whether it existed.
    pub fn remove_class(&mut self, name: &str) -> bool {
        self.classes.remove(name).is_some()
    }

    /// Adds or replaces a claim. An allocation in its status replaces an assumed one.
    pub fn put_claim(&mut self, wire: wire::ResourceClaim) {
        let metadata = &wire.metadata;
        let key = (
            metadata.namespace_or_default().to_owned(),
            metadata.name.clone(),
        );
        if let Some(known) = self.claims.get(&key)
            && is_older(metadata, &known.wire.metadata)
        {
            return;
        }
        // The old version's devices are freed before the new version's devices count.
        self.forget_claim(&key);
        if let Some(allocation) = &wire.status.allocation {
            self.withdraw(&wire.metadata.uid);
            count(&mut self.taken, allocation, true);
        }
        let claim = Claim::new(wire, &mut self.selectors);
        self.claims.insert(key, Arc::new(claim));
    }

    /// Removes a claim and its assumed allocation. Returns whether it existed.
    pub fn remove_claim(&mut self, namespace: &str, name: &str) -> bool {
        let key = (namespace.to_owned(), name.to_owned());
        let removed = self.forget_claim(&key);
        if let Some(claim) = &removed {
            self.withdraw(&claim.wire.metadata.uid);
        }
        removed.is_some()
    }

    fn forget_claim(&mut self, key: &(String, String)) -> Option<Arc<Claim>> {
        let claim = self.claims.remove(key)?;
        if let Some(allocation) = &claim.wire.status.allocation {
            count(&mut self.taken, allocation, false);
        }
        Some(claim)
    }

    /// The last observed version of a claim.
    pub fn claim(&self, namespace: &str, name: &str) -> Option<&wire::ResourceClaim> {
        let claim = self.claims.get(&(namespace.to_owned(), name.to_owned()));
        claim.map(|claim| &claim.wire)
    }

    /// All claims, by namespace and name.
    pub fn claims(&self) -> impl Iterator<Item = &wire::ResourceClaim> {
        self.claims.values().map(|claim| &claim.wire)
    }

    /// Whether the class exists.
    pub fn has_class(&self, name: &str) -> bool {
        self.classes.contains_key(name)
    }

    pub(crate) fn compiled(&self, namespace: &str, name: &str) -> Option<&Arc<Claim>> {
        self.claims.get(&(namespace.to_owned(), name.to_owned()))
    }

    pub(crate) const fn selectors(&self) -> &Selectors {
        &self.selectors
    }

    pub(crate) fn class(&self, name: &str) -> Option<&Class> {
        self.classes.get(name)
    }

    /// Whether it holds no object at all.
    pub fn is_empty(&self) -> bool {
        self.slices.is_empty() && self.classes.is_empty() && self.claims.is_empty()
    }

    /// Assumes an allocation until the API server shows it, or until every pod that relies on it calls
    /// [`Inventory::withdraw_pod`].
    pub fn assume(&mut self, claim: &str, pod: &str, allocation: Allocation) {
        if let Some(assumption) = self.assumed.get_mut(claim)
            && assumption.allocation.has_devices_of(&allocation)
        {
            assumption.pods.insert(pod.to_owned());
            return;
        }
        self.withdraw(claim);
        count(&mut self.taken, &allocation, true);
        let pods = BTreeSet::from([pod.to_owned()]);
        let assumption = AssumedAllocation { pods, allocation };
        self.assumed.insert(claim.to_owned(), assumption);
        if let Some(shared) = &mut self.shared {
            shared.insert(claim.to_owned());
        }
    }

    /// Whether a claim, by UID, has an assumed allocation.
    pub fn is_assumed(&self, claim: &str) -> bool {
        self.assumed.contains_key(claim)
    }

    /// From now on pods may use the assumed allocations of earlier pods of their gang.
    pub fn begin_sharing(&mut self) {
        self.shared = Some(BTreeSet::new());
    }

    /// From now on pods wait until the API server shows the allocations of other pods' claims.
    pub fn end_sharing(&mut self) {
        self.shared = None;
    }

    /// The assumed allocation of a claim, by UID, since [`Inventory::begin_sharing`], and its number of pods.
    pub fn shared(&self, claim: &str) -> Option<(&Allocation, usize)> {
        self.shared
            .as_ref()
            .filter(|claims| claims.contains(claim))?;
        let assumption = self.assumed.get(claim)?;
        Some((&assumption.allocation, assumption.pods.len()))
    }

    /// Withdraws a pod from assumed allocations, and frees those without other pods. Returns whether it had any.
    pub fn withdraw_pod(&mut self, pod: &str) -> bool {
        let assumed = self.assumed.iter_mut();
        let withdrawn = assumed.filter_map(|(claim, assumption)| {
            let was = assumption.pods.remove(pod);
            was.then(|| (claim.clone(), assumption.pods.is_empty()))
        });
        let withdrawn: Vec<(String, bool)> = withdrawn.collect();
        for (claim, _) in withdrawn.iter().filter(|(_, was_last)| *was_last) {
            self.withdraw(claim);
        }
        !withdrawn.is_empty()
    }

    fn withdraw(&mut self, claim: &str) {
        if let Some(assumption) = self.assumed.remove(claim) {
            count(&mut self.taken, &assumption.allocation, false);
        }
        if let Some(shared) = &mut self.shared {
            shared.remove(claim);
        }
    }

    /// The supported slices for this node, sorted by name.
    pub(crate) fn slices_at<'i>(&'i self, node: &dyn Node) -> Vec<&'i Slice> {
        let of = |name: &str| self.by_node.get(name).into_iter().flatten();
        let names: BTreeSet<&Arc<str>> = of(node.name()).chain(of("")).collect();
        let slices = names.into_iter().filter_map(|name| self.slices.get(name));
        let understood = slices.filter(|slice| slice.is_supported());
        understood.filter(|slice| slice.is_for(node)).collect()
    }

    /// All slices of a pool, for any node.
    pub(crate) fn slices_of(&self, (driver, pool): (&str, &str)) -> impl Iterator<Item = &Slice> {
        let key = (driver.to_owned(), pool.to_owned());
        let names = self.by_pool.get(&key).into_iter().flatten();
        names.filter_map(|name| self.slices.get(name))
    }

    /// The devices of a pool that are in use.
    pub(crate) fn taken(&self, driver: &str, pool: &str) -> Option<&HashMap<String, usize>> {
        self.taken.get(&(driver.to_owned(), pool.to_owned()))
    }
}

/// Whether it is an older version of the same object that arrives late. Kubernetes allows resource versions to be
/// compared as numbers.
fn is_older(new: &wire::Metadata, known: &wire::Metadata) -> bool {
    let number = |metadata: &wire::Metadata| metadata.resource_version.parse::<u128>().ok();
    let (new_version, known_version) = (number(new), number(known));
    new.uid == known.uid && new_version.is_some() && new_version < known_version
}

fn pool(spec: &wire::SliceSpec) -> (String, String) {
    (spec.driver.clone(), spec.pool.name.clone())
}

fn take<K: std::hash::Hash + Eq>(names: &mut HashMap<K, BTreeSet<Arc<str>>>, key: &K, name: &str) {
    if let Some(named) = names.get_mut(key) {
        named.remove(name);
        if named.is_empty() {
            names.remove(key);
        }
    }
}

/// Counts the devices of an allocation as used or as free. Admin access does not use a device.
fn count(
    taken: &mut HashMap<(String, String), HashMap<String, usize>>,
    allocation: &Allocation,
    more: bool,
) {
    let devices = allocation.devices.results.iter();
    for device in devices.filter(|device| device.admin_access != Some(true)) {
        let key = (device.driver.clone(), device.pool.clone());
        let pool = taken.entry(key.clone()).or_default();
        let devices = pool.entry(device.device.clone()).or_default();
        if more {
            *devices += 1;
            continue;
        }
        *devices = devices.saturating_sub(1);
        if *devices == 0 {
            pool.remove(&device.device);
        }
        if pool.is_empty() {
            taken.remove(&key);
        }
    }
}
