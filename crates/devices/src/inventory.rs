//! The resource slices, classes and claims of a cluster, and allocations that the API server does not show yet.

use crate::binding::{Binding, binding, has_failed_binding};
use crate::claim::{Claim, Class};
use crate::pool::{PoolEntry, PoolKey, State, state_elsewhere};
use crate::selectors::Selectors;
use crate::slice::{Node, Slice, kinds};
use crate::taint_rules::{TaintRules, selects_pool};
use crate::verdicts::{NodeVerdicts, Verdicts, Versions};
use evictd_pod::compatibility::Release;
use evictd_pod::wire::{self, Allocation};
use jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// All devices and claims of a cluster.
#[derive(Debug, Default)]
pub struct Inventory {
    /// By name.
    slices: BTreeMap<Arc<str>, Arc<Slice>>,
    taint_rules: TaintRules,
    release: Release,
    /// Names of slices by node. The empty name holds slices for several nodes.
    by_node: HashMap<String, BTreeSet<Arc<str>>>,
    pools: HashMap<PoolKey, PoolEntry>,
    /// Pools with counters from which no node without their devices can take all.
    unready: BTreeMap<PoolKey, State>,
    /// The number of slice versions so far.
    slice_versions: u64,
    versions: Versions,
    verdicts: Verdicts,
    selectors: Selectors,
    classes: HashMap<String, Class>,
    /// The class that serves an extended resource.
    by_resource: HashMap<String, String>,
    /// By namespace and name.
    claims: BTreeMap<(String, String), Arc<Claim>>,
    /// The special claims of pods, by the UID of the pod.
    special: HashMap<Arc<str>, (String, String)>,
    /// The allocated claims, by namespace and name, whose devices were not bound in time.
    late: BTreeSet<(String, String)>,
    /// Devices that were allocated before and are not bound are late, too: another program or an earlier process waited.
    late_before: Option<Timestamp>,
    /// Assumed allocations by the claim's UID, with their pods.
    assumed: HashMap<String, AssumedAllocation>,
    /// Claims with an assumed allocation since the current gang began.
    shared: Option<BTreeSet<String>>,
}

#[derive(Debug)]
struct AssumedAllocation {
    /// Never empty.
    pods: BTreeSet<String>,
    allocation: Allocation,
}

impl Inventory {
    /// Allocates as this release of Kubernetes, before any object is added.
    pub const fn set_release(&mut self, release: Release) {
        self.release = release;
    }

    #[cfg(test)]
    pub(crate) const fn slice_versions(&self) -> u64 {
        self.slice_versions
    }

    pub(crate) const fn release(&self) -> Release {
        self.release
    }

    /// Adds or replaces a slice.
    pub fn put_slice(&mut self, wire: wire::ResourceSlice) {
        let mut spec = wire.spec;
        let rules = self.taint_rules.taint(&mut spec);
        self.put_tainted(wire.metadata.name.into(), spec, rules);
    }

    /// `rules` as in [`Slice`].
    fn put_tainted(&mut self, name: Arc<str>, spec: wire::SliceSpec, rules: Vec<Vec<Arc<str>>>) {
        self.remove_slice(&name);
        self.slice_versions += 1;
        let slice = Arc::new(Slice {
            kinds: kinds(&spec.devices),
            spec,
            version: self.slice_versions,
            rules,
        });
        let node = slice.node().unwrap_or_default().to_owned();
        let at = self.by_node.entry(node).or_default();
        at.insert(Arc::clone(&name));
        let key = pool(&slice.spec);
        let entry = self.pools.entry(key.clone()).or_default();
        entry.slices.insert(Arc::clone(&name), Arc::clone(&slice));
        self.versions.slice(&slice, true);
        self.slices.insert(name, slice);
        self.pool_changed(&key);
    }

    /// After a slice of a pool was added or removed.
    fn pool_changed(&mut self, key: &PoolKey) {
        let was_unready = self.unready.remove(key);
        let Some(entry) = self.pools.get_mut(key) else {
            return;
        };
        entry.forget_counters();
        if entry.is_empty() {
            self.pools.remove(key);
            if was_unready.is_some() {
                self.versions.all();
            }
            return;
        }
        // Slices on other nodes, too, decide whether a pool is complete and how much of its counters is left.
        self.versions.usage(entry);
        if entry.slices.values().any(|slice| slice.has_counters())
            && let Some(state) = state_elsewhere(key, entry)
        {
            self.unready.insert(key.clone(), state);
        }
        if self.unready.get(key).copied() != was_unready {
            self.versions.all();
        }
    }

    /// Removes a slice. Returns whether it existed.
    pub fn remove_slice(&mut self, name: &str) -> bool {
        let Some(slice) = self.slices.remove(name) else {
            return false;
        };
        let node = slice.node().unwrap_or_default().to_owned();
        take(&mut self.by_node, &node, name);
        let key = pool(&slice.spec);
        self.versions.slice(&slice, false);
        if !self.by_node.contains_key(&node) {
            self.versions.forget(&node);
        }
        if let Some(entry) = self.pools.get_mut(&key) {
            entry.slices.remove(name);
        }
        self.pool_changed(&key);
        true
    }

    /// Adds or replaces a rule that taints devices.
    pub fn put_taint_rule(&mut self, rule: wire::DeviceTaintRule) {
        let new = rule.spec.clone();
        let old = self.taint_rules.put(rule);
        if old.as_ref() != Some(&new) {
            self.taint_again(&[old, Some(new)]);
        }
    }

    /// Removes a rule that taints devices. Returns whether it existed.
    pub fn remove_taint_rule(&mut self, name: &str) -> bool {
        let removed = self.taint_rules.remove(name);
        let existed = removed.is_some();
        self.taint_again(&[removed]);
        existed
    }

    /// After these rules were added or removed.
    fn taint_again(&mut self, rules: &[Option<wire::DeviceTaintRuleSpec>]) {
        let concerns = |slice: &Slice| {
            let mut rules = rules.iter().flatten();
            rules.any(|rule| selects_pool(rule, &slice.spec.driver, &slice.spec.pool.name))
        };
        let slices = self.slices.iter();
        let concerned = slices.filter(|(_, slice)| concerns(slice));
        let concerned = concerned.map(|(name, slice)| (Arc::clone(name), Arc::clone(slice)));
        for (name, slice) in concerned.collect::<Vec<_>>() {
            let mut spec = slice.published();
            let rules = self.taint_rules.taint(&mut spec);
            // A new version of a slice costs an evaluation of every selector.
            if !slice.has_taints_of(&spec, &rules) {
                self.put_tainted(name, spec, rules);
            }
        }
    }

    /// Adds or replaces a class.
    pub fn put_class(&mut self, wire: wire::DeviceClass) {
        let name = wire.metadata.name.clone();
        let class = Class::new(wire, &mut self.selectors);
        self.classes.insert(name, class);
        self.find_resources();
    }

    /// Finds the class of each extended resource: the youngest, and of equally old ones the first by name.
    fn find_resources(&mut self) {
        let mut classes: Vec<&Class> = self.classes.values().collect();
        classes.sort_by_key(|class| (class.created, std::cmp::Reverse(&*class.name)));
        let named = classes.iter().map(|class| (class.resource.clone(), class));
        let named = named.filter(|(resource, _)| !resource.is_empty());
        let implicit = classes
            .iter()
            .map(|class| (format!("{IMPLICIT_RESOURCE}{}", class.name), class));
        let all = named.chain(implicit);
        self.verdicts.clear();
        self.by_resource = all
            .map(|(resource, class)| (resource, class.name.clone()))
            .collect();
    }

    /// The name of the class whose devices serve an extended resource.
    pub fn class_of_resource(&self, resource: &str) -> Option<&str> {
        self.by_resource.get(resource).map(String::as_str)
    }

    /// Removes a class. Returns whether it existed.
    pub fn remove_class(&mut self, name: &str) -> bool {
        let removed = self.classes.remove(name).is_some();
        self.find_resources();
        removed
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
        let known = self.claims.get(&key);
        if known.is_some_and(|known| !has_same_devices(&known.wire, &wire)) {
            self.late.remove(&key);
        }
        // The old version's devices are freed before the new version's devices count.
        self.forget_claim(&key);
        if let Some(allocation) = &wire.status.allocation {
            self.withdraw(&wire.metadata.uid);
            self.count(allocation, true);
        }
        if let Some(pod) = special_of(&wire.metadata) {
            // Its allocation replaces the one that was assumed before the claim existed.
            if wire.status.allocation.is_some() {
                self.withdraw(&special_key(&pod));
            }
            self.special.insert(pod, key.clone());
        }
        let claim = Claim::new(wire, &mut self.selectors);
        self.claims.insert(key, Arc::new(claim));
    }

    /// Removes a claim and its assumed allocation. Returns whether it existed.
    pub fn remove_claim(&mut self, namespace: &str, name: &str) -> bool {
        let key = (namespace.to_owned(), name.to_owned());
        self.late.remove(&key);
        let removed = self.forget_claim(&key);
        if let Some(claim) = &removed {
            self.withdraw(&claim.wire.metadata.uid);
        }
        removed.is_some()
    }

    fn forget_claim(&mut self, key: &(String, String)) -> Option<Arc<Claim>> {
        let claim = self.claims.remove(key)?;
        if let Some(pod) = special_of(&claim.wire.metadata) {
            self.special.remove(&pod);
        }
        if let Some(allocation) = &claim.wire.status.allocation {
            self.count(allocation, false);
        }
        Some(claim)
    }

    /// A pod has waited too long for the devices of this claim. They cannot be used any more, unless they were bound meanwhile
    /// (S7-163).
    pub fn devices_are_late(&mut self, namespace: &str, name: &str) {
        let key = (namespace.to_owned(), name.to_owned());
        let is_pending = |claim: &wire::ResourceClaim| {
            let allocation = claim.status.allocation.as_ref();
            allocation
                .is_some_and(|allocation| binding(allocation, &claim.status) == Binding::Pending)
        };
        let known = self.claims.get(&key);
        if known.is_some_and(|claim| is_pending(&claim.wire)) {
            self.late.insert(key);
        }
    }

    /// Devices that were allocated before this time should be bound by now (S7-163).
    pub const fn set_late_before(&mut self, time: Timestamp) {
        self.late_before = Some(time);
    }

    /// Whether the devices of a claim cannot be bound: their driver says so, or has not bound them in time (S7-163).
    pub fn has_failed_binding(&self, claim: &wire::ResourceClaim, allocation: &Allocation) -> bool {
        let status = &claim.status;
        has_failed_binding(allocation, status)
            || (self.is_late(claim, allocation) && binding(allocation, status) == Binding::Pending)
    }

    fn is_late(&self, claim: &wire::ResourceClaim, allocation: &Allocation) -> bool {
        let since = allocation.allocation_timestamp.as_deref();
        let since = since.and_then(|text| text.parse::<Timestamp>().ok());
        let is_old = since
            .zip(self.late_before)
            .is_some_and(|(since, before)| since < before);
        let waited_for = || {
            let metadata = &claim.metadata;
            let namespace = metadata.namespace_or_default().to_owned();
            self.late.contains(&(namespace, metadata.name.clone()))
        };
        is_old || (!self.late.is_empty() && waited_for())
    }

    /// The last observed version of a claim.
    pub fn claim(&self, namespace: &str, name: &str) -> Option<&wire::ResourceClaim> {
        let claim = self.claims.get(&(namespace.to_owned(), name.to_owned()));
        claim.map(|claim| &claim.wire)
    }

    /// The stored special claim of a pod, by the pod's UID.
    pub fn special_claim(&self, pod: &str) -> Option<&wire::ResourceClaim> {
        let claim = self.claims.get(self.special.get(pod)?);
        claim.map(|claim| &claim.wire)
    }

    /// All claims, by namespace and name.
    pub fn claims(&self) -> impl Iterator<Item = &wire::ResourceClaim> {
        self.claims.values().map(|claim| &claim.wire)
    }

    /// In a trial: counts the devices of an allocated claim as used, or as free. The caller restores the count.
    pub fn count_claim(&mut self, namespace: &str, name: &str, is_used: bool) {
        let claim = self.compiled(namespace, name).map(Arc::clone);
        if let Some(allocation) = claim
            .as_ref()
            .and_then(|claim| claim.wire.status.allocation.as_ref())
        {
            self.count(allocation, is_used);
        }
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

    pub(crate) const fn versions(&self) -> &Versions {
        &self.versions
    }

    pub(crate) fn verdicts(&self, kind: Vec<Arc<str>>) -> Arc<NodeVerdicts> {
        self.verdicts.of(kind)
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
        self.count(&allocation, true);
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

    /// The allocations that the API server does not show yet.
    pub(crate) fn assumed(&self) -> impl Iterator<Item = &Allocation> {
        self.assumed.values().map(|assumed| &assumed.allocation)
    }

    /// From now on pods may use the assumed allocations of earlier pods of their gang.
    pub fn begin_sharing(&mut self) {
        self.shared = Some(BTreeSet::new());
    }

    /// The pods of the gang may use this assumed allocation, too.
    pub fn share(&mut self, claim: &str) {
        if let Some(shared) = &mut self.shared
            && self.assumed.contains_key(claim)
        {
            shared.insert(claim.to_owned());
        }
    }

    /// From now on pods wait until the API server shows the allocations of other pods' claims.
    pub fn end_sharing(&mut self) {
        self.shared = None;
    }

    /// The assumed allocation of a claim, by UID, that the pods of the gang may use, and its number of pods.
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
            self.count(&assumption.allocation, false);
        }
        if let Some(shared) = &mut self.shared {
            shared.remove(claim);
        }
    }

    /// The slices with devices for this node, sorted by name.
    pub(crate) fn slices_at<'i>(&'i self, node: &dyn Node) -> Vec<&'i Slice> {
        let of = |name: &str| self.by_node.get(name).into_iter().flatten();
        let names: BTreeSet<&Arc<str>> = of(node.name()).chain(of("")).collect();
        let slices = names.into_iter().filter_map(|name| self.slices.get(name));
        let slices = slices.map(|slice| &**slice);
        let slices = slices.filter(|slice| !slice.has_counters());
        slices.filter(|slice| slice.is_for(node)).collect()
    }

    pub(crate) fn pool(&self, (driver, name): (&str, &str)) -> Option<&PoolEntry> {
        self.pools.get(&(driver.to_owned(), name.to_owned()))
    }

    /// The pools whose devices are not allocated on any node, with the reason and what ends that, sorted.
    pub fn unusable_pools(&self) -> Vec<String> {
        let pools = self.pools.iter().filter_map(|((driver, name), entry)| {
            let (problem, mends) = entry.problem()?;
            Some(format!(
                "pool {name} of driver {driver} {problem}; its devices are not allocated until its driver {mends}"
            ))
        });
        let mut pools: Vec<String> = pools.collect();
        pools.sort_unstable();
        pools
    }

    /// The names of the classes, sorted.
    pub fn class_names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.classes.keys().map(String::as_str).collect();
        names.sort_unstable();
        names
    }

    /// Pools that are incomplete or invalid on nodes that cannot use their devices.
    pub(crate) fn unready_elsewhere(&self) -> &BTreeMap<PoolKey, State> {
        &self.unready
    }

    /// Counts the devices of an allocation as used or as free. Admin access does not use a device.
    fn count(&mut self, allocation: &Allocation, more: bool) {
        let devices = allocation.devices.results.iter();
        for device in devices.filter(|device| device.admin_access != Some(true)) {
            let key = (device.driver.clone(), device.pool.clone());
            let pool = self.pools.entry(key.clone()).or_default();
            pool.count(device, more);
            self.versions.usage(pool);
            if pool.is_empty() {
                self.pools.remove(&key);
            }
        }
    }
}

/// Whether two versions of a claim have the same devices. The watch may have missed what was between them.
fn has_same_devices(old: &wire::ResourceClaim, new: &wire::ResourceClaim) -> bool {
    let (had, has) = (&old.status.allocation, &new.status.allocation);
    let both = had.as_ref().zip(has.as_ref());
    old.metadata.uid == new.metadata.uid
        && both.is_some_and(|(had, has)| {
            had.has_devices_of(has) && had.allocation_timestamp == has.allocation_timestamp
        })
}

/// The UID of the pod whose extended resources a special claim serves.
fn special_of(metadata: &wire::Metadata) -> Option<Arc<str>> {
    let annotation = metadata.annotations.get(SPECIAL)?;
    let mut owners = metadata.owner_references.iter();
    let owner = owners.find(|owner| owner.controller && owner.kind == "Pod")?;
    (annotation == "true").then(|| (*owner.uid).into())
}

/// The key of a special claim before it has a UID, by the UID of its pod.
pub fn special_key(pod: &str) -> String {
    format!("special claim of {pod}")
}

/// The annotation of a special claim.
const SPECIAL: &str = "resource.kubernetes.io/extended-resource-claim";

/// Every class serves this prefix with its name as an extended resource.
const IMPLICIT_RESOURCE: &str = "deviceclass.resource.kubernetes.io/";

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
