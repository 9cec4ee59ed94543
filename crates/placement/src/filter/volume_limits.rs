//! `NodeVolumeLimits`: how many volumes of a driver a node can attach.

use super::claims::{self, Attachment};
use super::{Code, Filter, Here, Reason, Rejection};
use crate::attached;
use crate::cluster::Cluster;
use crate::pod::Pod;
use crate::symbol::Symbol;
use crate::template::{Template, TemplateId, Volume as Named};
use evictd_pod::compatibility::Gate;
use hashbrown::HashMap;

struct VolumeLimits {
    drivers: Box<[Driver]>,
    /// Volumes of the limited drivers, by a dense index.
    volumes: Vec<Volume>,
    /// The index of each volume by its driver's index.
    indices: HashMap<(usize, Attachment), usize>,
    /// The volumes of each template that was looked up.
    of: HashMap<TemplateId, Box<[usize]>>,
    /// The volumes of the pod itself.
    wanted: Box<[usize]>,
    /// Volumes that were in use since the node was entered.
    in_use: Vec<usize>,
    /// An upper bound of the volumes attached here.
    upper_bound: i64,
    /// Whether the volumes were counted. The count is skipped if the upper bound fits, because with a claim per pod
    /// every pod needs a lookup.
    counted: bool,
    /// Pods added and removed while the volumes were not counted.
    uncounted: Vec<(TemplateId, i64)>,
}

/// A driver of one of the pod's volumes.
struct Driver {
    name: Symbol,
    /// Volumes that are attached here.
    attached: i64,
    /// The attach limit; `None` if it is unlimited or unknown.
    limit: Option<i64>,
    /// Whether its volumes keep pods off nodes without it (S7-222).
    must_be_installed: bool,
    /// Whether it must be registered here and is not.
    is_missing: bool,
}

struct Volume {
    driver: usize,
    /// How many pods here use it.
    users: i64,
    /// Whether a `VolumeAttachment` names it. It then counts even without a pod here.
    attached: bool,
}

impl Volume {
    const fn counts(&self) -> bool {
        self.users > 0 || self.attached
    }
}

pub(crate) fn new(cluster: &Cluster, pod: &Pod) -> Option<Box<dyn Filter>> {
    VolumeLimits::new(cluster, pod).map(|filter| Box::new(filter) as _)
}

/// The attachable volumes of a template's pods.
fn attachments<'c>(
    cluster: &'c Cluster,
    template: &'c Template,
) -> impl Iterator<Item = (Symbol, Attachment)> + 'c {
    let known = claims::known(cluster, template);
    let of_claims = known.filter_map(|(_, claim)| claims::attachment(cluster, claim));
    let disks = template.volumes.iter().filter_map(|volume| match volume {
        Named::Disk { kind, name, .. } => {
            let driver = cluster.symbols().get(attached::of_disk(kind)?)?;
            Some((driver, Attachment::Handle(*name)))
        }
        Named::Claim(_) => None,
    });
    of_claims.chain(disks)
}

impl VolumeLimits {
    /// `None` for a pod without attachable volumes.
    fn new(cluster: &Cluster, pod: &Pod) -> Option<Self> {
        let template = cluster.template(pod);
        let mut drivers: Vec<Driver> = Vec::new();
        let scales = cluster.compatibility().is_on(Gate::VolumeLimitScaling);
        let must_be_installed = |name: &Symbol| {
            let driver = cluster.storage().drivers.get(name);
            scales && driver.is_some_and(|driver| driver.must_be_installed)
        };
        for (name, _) in attachments(cluster, template) {
            // A pod has few volumes, so the list is searched rather than hashed.
            if drivers.iter().all(|driver| driver.name != name) {
                drivers.push(Driver {
                    name,
                    attached: 0,
                    limit: None,
                    must_be_installed: must_be_installed(&name),
                    is_missing: false,
                });
            }
        }
        if drivers.is_empty() {
            return None;
        }
        let mut filter = Self {
            drivers: drivers.into(),
            volumes: Vec::new(),
            indices: HashMap::new(),
            of: HashMap::new(),
            wanted: Box::default(),
            in_use: Vec::new(),
            upper_bound: 0,
            counted: false,
            uncounted: Vec::new(),
        };
        filter.wanted = filter.volumes_of(cluster, template);
        Some(filter)
    }

    /// The indices of a template's volumes that count here.
    fn volumes_of(&mut self, cluster: &Cluster, template: &Template) -> Box<[usize]> {
        let attachments = attachments(cluster, template);
        attachments
            .filter_map(|(driver, attachment)| self.index_of(driver, attachment))
            .collect()
    }

    /// The index of a volume; `None` if the pod has no volume of its driver.
    fn index_of(&mut self, driver: Symbol, attachment: Attachment) -> Option<usize> {
        let driver = self
            .drivers
            .iter()
            .position(|candidate| candidate.name == driver)?;
        let next = self.volumes.len();
        let index = *self.indices.entry((driver, attachment)).or_insert(next);
        if index == next {
            self.volumes.push(Volume {
                driver,
                users: 0,
                attached: false,
            });
        }
        Some(index)
    }

    /// Changes a volume and its driver's sum.
    fn update(&mut self, index: usize, change: impl FnOnce(&mut Volume)) {
        let volume = &mut self.volumes[index];
        let before = volume.counts();
        change(volume);
        if !before {
            self.in_use.push(index);
        }
        let change = i64::from(volume.counts()) - i64::from(before);
        self.drivers[volume.driver].attached += change;
    }

    fn add(&mut self, cluster: &Cluster, template: TemplateId, times: i64) {
        let known = self.of.remove(&template);
        let volumes = known.unwrap_or_else(|| {
            let template = &cluster.templates()[template.index()];
            self.volumes_of(cluster, template)
        });
        for index in &volumes {
            self.update(*index, |volume| volume.users += times);
        }
        self.of.insert(template, volumes);
    }

    /// Counts attached volumes. A volume stays attached for a while after its last pod.
    fn add_attachments(&mut self, here: Here<'_>) {
        let storage = here.cluster.storage();
        for attachment in storage.attachments_of(here.node.name) {
            let volume = storage.volumes.get(&attachment.volume);
            let Some(handle) = volume.and_then(|volume| volume.csi_handle) else {
                continue;
            };
            if let Some(index) = self.index_of(attachment.driver, Attachment::Handle(handle)) {
                self.update(index, |volume| volume.attached = true);
            }
        }
    }

    /// Counts the volumes here if the limit may be exceeded.
    fn count(&mut self, here: Here<'_>) {
        let wanted = i64::try_from(self.wanted.len()).unwrap_or(i64::MAX);
        let most = self.upper_bound.saturating_add(wanted);
        let mut limits = self.drivers.iter().filter_map(|driver| driver.limit);
        let any_missing = self.drivers.iter().any(|driver| driver.is_missing);
        if self.counted || (!any_missing && limits.all(|limit| most <= limit)) {
            return;
        }
        self.counted = true;
        for pod in &here.node.pods {
            self.add(here.cluster, pod.template, 1);
        }
        self.add_attachments(here);
        for (template, times) in std::mem::take(&mut self.uncounted) {
            self.add(here.cluster, template, times);
        }
    }

    /// How many volumes of a driver the pod adds. One that it names twice is added once.
    fn new_volumes(&self, driver: usize) -> i64 {
        let new = self.wanted.iter().enumerate().filter(|(place, wanted)| {
            let volume = &self.volumes[**wanted];
            let again = self.wanted[..*place].contains(wanted);
            volume.driver == driver && volume.users <= 0 && !again
        });
        i64::try_from(new.count()).unwrap_or(i64::MAX)
    }

    /// The first driver of a new volume that must be registered here and is not.
    fn missing(&self) -> Option<Symbol> {
        let drivers = self.drivers.iter().enumerate();
        let mut missing =
            drivers.filter(|(index, driver)| driver.is_missing && self.new_volumes(*index) > 0);
        missing.next().map(|(_, driver)| driver.name)
    }

    /// The first driver over its limit, the limit and the number of added volumes.
    fn over_limit(&self) -> Option<(&Driver, i64, i64)> {
        self.drivers.iter().enumerate().find_map(|(index, driver)| {
            let limit = driver.limit?;
            let new = self.new_volumes(index);
            (new > 0 && driver.attached + new > limit).then_some((driver, limit, new))
        })
    }
}

impl Filter for VolumeLimits {
    fn changes(&self) -> bool {
        true
    }

    fn keeps_state(&self) -> bool {
        false
    }

    fn enter(&mut self, here: Here<'_>) {
        for index in self.in_use.drain(..) {
            self.volumes[index].users = 0;
            self.volumes[index].attached = false;
        }
        for driver in &mut self.drivers {
            driver.attached = 0;
        }
        let limits = here.cluster.storage().limits.get(&here.node.name);
        for driver in &mut self.drivers {
            let mut limits = limits.into_iter().flatten();
            let known = limits.find(|(name, _)| *name == driver.name);
            driver.limit = known.and_then(|(_, limit)| *limit);
            driver.is_missing = driver.must_be_installed && known.is_none();
        }
        let attachments = here.cluster.storage().attachments_of(here.node.name).len();
        let attachments = i64::try_from(attachments).unwrap_or(i64::MAX);
        self.upper_bound = here.node.volumes.saturating_add(attachments);
        self.counted = false;
        self.uncounted.clear();
        self.count(here);
    }

    fn change(&mut self, here: Here<'_>, pod: &Pod, times: i64) {
        if self.counted {
            self.add(here.cluster, pod.template, times);
            return;
        }
        self.uncounted.push((pod.template, times));
        self.upper_bound += here.cluster.template(pod).named_volumes() * times;
        self.count(here);
    }

    fn check(&self, _here: Here<'_>) -> Result<(), Rejection> {
        if let Some(driver) = self.missing() {
            return Err(Rejection {
                code: Code::Unschedulable,
                reason: Reason::NoDriver(driver),
            });
        }
        match self.over_limit() {
            None => Ok(()),
            Some(_) => Err(Rejection::unschedulable("node(s) exceed max volume count")),
        }
    }

    fn obstacle(&self, here: Here<'_>, _away: &dyn Fn(usize) -> bool) -> Option<String> {
        if let Some(driver) = self.missing() {
            let driver = here.cluster.symbols().text(driver);
            return Some(format!("the CSI driver {driver} is not registered here"));
        }
        let (driver, limit, new) = self.over_limit()?;
        let (name, attached) = (here.cluster.symbols().text(driver.name), driver.attached);
        Some(format!(
            "{attached} of {limit} volumes of {name} are attached, and {new} more wanted"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::VolumeLimits;
    use crate::cluster::Cluster;
    use crate::filter::{Filter as _, Here};
    use serde_json::{from_value, json};

    #[test]
    fn volumes_are_counted_only_near_the_limit() {
        let mut cluster = Cluster::new();
        let pod = |name: &str, node: &str| {
            let volume = json!({"name": "v", "persistentVolumeClaim": {"claimName": name}});
            let spec = json!({"volumes": [volume], "nodeName": node});
            from_value(json!({"metadata": {"name": name}, "spec": spec})).unwrap()
        };
        for name in ["here", "new", "other"] {
            let csi = json!({"driver": "ebs", "volumeHandle": name});
            let volume = json!({"metadata": {"name": name}, "spec": {"csi": csi}});
            cluster.add_volume(&from_value(volume).unwrap()).unwrap();
            let claim = json!({"metadata": {"name": name}, "spec": {"volumeName": name}});
            cluster.add_claim(&from_value(claim).unwrap()).unwrap();
        }
        for count in 1..=3 {
            let driver = json!({"name": "ebs", "allocatable": {"count": count}});
            let node = json!({"metadata": {"name": "a"}, "spec": {"drivers": [driver]}});
            cluster.add_csi_node(&from_value(node).unwrap());
            let node = json!({"metadata": {"name": "a"}});
            cluster.add_node(&from_value(node).unwrap());
            cluster.add_pod(pod("here", "a")).unwrap();
            let new = cluster.pod(pod("new", "")).unwrap();
            let other = cluster.pod(pod("other", "")).unwrap();
            let mut filter = VolumeLimits::new(&cluster, &new).unwrap();
            let here = Here::new(&cluster, cluster.find_node("a").unwrap());
            filter.enter(here);
            assert_eq!(
                (filter.counted, filter.check(here).is_ok()),
                (count < 2, count >= 2)
            );
            filter.change(here, &other, 1);
            assert_eq!(
                (filter.counted, filter.check(here).is_ok()),
                (count < 3, count >= 3)
            );
            filter.change(here, &other, -1);
            assert_eq!(filter.check(here).is_ok(), count >= 2);
            filter.change(here, &here.node.pods[0], -1);
            assert!(filter.check(here).is_ok());
        }
    }
}
