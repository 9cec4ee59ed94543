//! `NodeVolumeLimits`: how many volumes of a driver a node attaches.

use super::claims::{self, Attachment};
use super::{Filter, Here, Rejection};
use crate::cluster::Cluster;
use crate::pod::Pod;
use crate::symbol::Symbol;
use hashbrown::HashMap;

struct VolumeLimits {
    drivers: Box<[Driver]>,
    /// Volumes of these drivers that any pod has, by a small index.
    volumes: Box<[Volume]>,
    /// Of each template, the volumes of its pods.
    of: Box<[Box<[usize]>]>,
    /// The volumes of the pod itself.
    wanted: Box<[usize]>,
    /// Volumes that were in use since the node was entered.
    seen: Vec<usize>,
}

/// A driver of one of the pod's volumes.
struct Driver {
    name: Symbol,
    /// Volumes that are attached here.
    attached: i64,
    /// How many can be; `None` where that is unlimited or not known.
    limit: Option<i64>,
}

struct Volume {
    driver: usize,
    /// How many pods here use it.
    users: i64,
}

pub(crate) fn new(cluster: &Cluster, pod: &Pod) -> Option<Box<dyn Filter>> {
    let own = cluster.template(pod);
    let attachments = |template| {
        let known = claims::known(cluster, template);
        known.filter_map(|(_, claim)| claims::attachment(cluster, claim))
    };
    let mut drivers: HashMap<Symbol, usize> = HashMap::new();
    for (driver, _) in attachments(own) {
        claims::index(&mut drivers, driver);
    }
    if drivers.is_empty() {
        return None;
    }
    let mut volumes: HashMap<(usize, Attachment), usize> = HashMap::new();
    let mut of = |template| -> Box<[usize]> {
        let attachments = attachments(template);
        let counted = attachments.filter_map(|(driver, attachment)| {
            let driver = drivers.get(&driver)?;
            Some(claims::index(&mut volumes, (*driver, attachment)))
        });
        counted.collect()
    };
    let wanted = of(own);
    let of = cluster.templates().iter().map(&mut of).collect();
    let mut names: Vec<_> = drivers.into_iter().collect();
    names.sort_unstable_by_key(|(_, index)| *index);
    let names = names.into_iter().map(|(name, _)| Driver {
        name,
        attached: 0,
        limit: None,
    });
    let mut volumes: Vec<_> = volumes.into_iter().collect();
    volumes.sort_unstable_by_key(|(_, index)| *index);
    let volumes = volumes
        .into_iter()
        .map(|((driver, _), _)| Volume { driver, users: 0 });
    Some(Box::new(VolumeLimits {
        drivers: names.collect(),
        volumes: volumes.collect(),
        of,
        wanted,
        seen: Vec::new(),
    }))
}

impl VolumeLimits {
    fn add(&mut self, pod: &Pod, times: i64) {
        for index in &self.of[pod.template.index()] {
            let volume = &mut self.volumes[*index];
            let before = volume.users > 0;
            volume.users += times;
            if !before {
                self.seen.push(*index);
            }
            let change = i64::from(volume.users > 0) - i64::from(before);
            self.drivers[volume.driver].attached += change;
        }
    }

    /// The first driver that would have to attach too much: its limit and how many volumes the pod adds.
    fn overfull(&self) -> Option<(&Driver, i64, i64)> {
        self.drivers.iter().enumerate().find_map(|(index, driver)| {
            let limit = driver.limit?;
            // A pod that names one volume twice still brings it once.
            let new = self.wanted.iter().enumerate().filter(|(place, wanted)| {
                let volume = &self.volumes[**wanted];
                let again = self.wanted[..*place].contains(wanted);
                volume.driver == index && volume.users <= 0 && !again
            });
            let new = i64::try_from(new.count()).unwrap_or(i64::MAX);
            (new > 0 && driver.attached + new > limit).then_some((driver, limit, new))
        })
    }
}

impl Filter for VolumeLimits {
    fn changes(&self) -> bool {
        true
    }

    fn remembers(&self) -> bool {
        false
    }

    fn enter(&mut self, here: Here<'_>) {
        for index in self.seen.drain(..) {
            self.volumes[index].users = 0;
        }
        for driver in &mut self.drivers {
            driver.attached = 0;
        }
        for pod in &here.node.pods {
            self.add(pod, 1);
        }
        let limits = here.cluster.storage().limits.get(&here.node.name);
        for driver in &mut self.drivers {
            let mut limits = limits.into_iter().flatten();
            let limit = limits.find(|(name, _)| *name == driver.name);
            driver.limit = limit.map(|(_, limit)| *limit);
        }
    }

    fn change(&mut self, _here: Here<'_>, pod: &Pod, times: i64) {
        self.add(pod, times);
    }

    fn check(&self, _here: Here<'_>) -> Result<(), Rejection> {
        match self.overfull() {
            None => Ok(()),
            Some(_) => Err(Rejection::unschedulable("node(s) exceed max volume count")),
        }
    }

    fn obstacle(&self, here: Here<'_>, _away: &dyn Fn(usize) -> bool) -> Option<String> {
        let (driver, limit, new) = self.overfull()?;
        let (name, attached) = (here.cluster.symbols().text(driver.name), driver.attached);
        Some(format!(
            "{attached} of {limit} volumes of {name} are attached, and {new} more wanted"
        ))
    }
}
