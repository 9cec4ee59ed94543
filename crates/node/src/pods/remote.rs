//! The pods of a source that is not on this machine or may be away: its last report, and the age of that.

use super::{
    Listing, SnapshotFile, Stale, Warning,
    catalog::{Catalog, PodName, key},
    snapshot::Snapshot,
};
use evictd_cluster_client::{Budget, ByKey, Key, Outline, Reflector, Store, Unreadable, parse};
use evictd_kernel::clock::Clock;
use evictd_pod::wire;
use jiff::Timestamp;
use std::sync::Arc;
use tokio::sync::watch;

/// Publishes the known pods, beginning with those kept from before a restart.
#[derive(Debug)]
pub(super) struct Remote {
    server: &'static str,
    catalog: Catalog,
    clock: Clock,
    /// Whether a list is being received: its changes are published together.
    listing: bool,
    /// When the pods were last certain.
    certain_at: Option<Timestamp>,
    stale: Option<Stale>,
    /// Why the kept pods cannot be used; until the source has answered.
    damage: Option<Warning>,
    sender: watch::Sender<Arc<Listing>>,
}

impl Remote {
    /// `server` names the source for messages; `lists_are_whole` says whether a pod that is missing in its list was
    /// deleted.
    pub(super) fn follow(
        server: &'static str,
        lists_are_whole: bool,
        keep: &SnapshotFile,
        (clock, budget): (Clock, &Budget),
    ) -> Reflector<Self> {
        let kept = keep.read();
        let damage = kept.as_ref().err().map(|problem| Warning::Snapshot {
            file: keep.path(),
            problem: problem.clone(),
        });
        let Snapshot { pods, as_of } = kept.unwrap_or_default();
        let mut catalog = Catalog::new(keep.labels(), lists_are_whole);
        let mut names = Vec::new();
        for pod in &pods {
            names.push(match parse(pod.get()) {
                Ok(pod) => catalog.apply(pod),
                Err(Unreadable { outline, problem }) => {
                    let name = PodName::from(&*outline);
                    catalog.refuse(&name, &problem);
                    name
                }
            });
        }
        let mut remote = Self {
            server,
            catalog,
            clock,
            listing: false,
            certain_at: as_of,
            stale: None,
            damage,
            sender: watch::Sender::default(),
        };
        remote.lost("it has not answered yet");
        Reflector::new("/api/v1/pods", remote, budget).with(names)
    }

    /// The channel in which listings are published.
    pub(super) fn sender(&self) -> watch::Sender<Arc<Listing>> {
        self.sender.clone()
    }

    fn certain(&mut self) {
        self.certain_at = Some(self.clock.now());
    }

    fn publish(&self) {
        let mut listing = self.catalog.listing(self.stale.clone());
        listing.warnings.extend(self.damage.clone());
        self.sender.send_replace(Arc::new(listing));
    }
}

impl Remote {
    /// Outside of a list a change is published at once.
    fn changed(&mut self) {
        if !self.listing {
            self.certain();
            self.catalog.take_changed();
            self.publish();
        }
    }
}

impl Store for Remote {
    type Object = wire::Pod;
    type Kept = PodName;
    type Table = ByKey<PodName>;

    /// Such a pod is among the warnings of the listing.
    const LOGS: bool = false;

    fn key(pod: &wire::Pod) -> Key<'_> {
        key(&pod.metadata.uid, &pod.metadata.name)
    }

    fn key_of(outline: &Outline) -> Key<'_> {
        key(&outline.uid, &outline.name)
    }

    fn version(pod: &wire::Pod) -> &str {
        &pod.metadata.resource_version
    }

    /// The kubelet changes the status of a pod without another version.
    fn has_version(_: &PodName, _: &str) -> bool {
        false
    }

    /// A pod with another UID has another key.
    fn has_uid(_: &PodName, _: &str) -> bool {
        true
    }

    fn begin(&mut self) {
        self.listing = true;
    }

    /// Of each pod a bounded part is kept, and a node has few.
    fn size(_: &wire::Pod, _: usize) -> usize {
        0
    }

    fn applied(&mut self, _: Option<PodName>, pod: wire::Pod) -> PodName {
        let name = self.catalog.apply(pod);
        self.changed();
        name
    }

    fn gone(&mut self, name: PodName, last: Option<wire::Pod>) {
        let now = self.clock.now();
        if self.listing && last.is_none() {
            self.catalog.unlist(&name, now);
        } else {
            self.catalog.delete(&name, last, now);
        }
        self.changed();
    }

    fn unreadable(&mut self, _: Option<&PodName>, pod: &Unreadable) -> Option<PodName> {
        let name = PodName::from(&*pod.outline);
        self.catalog.refuse(&name, &pod.problem);
        self.changed();
        Some(name)
    }

    fn up_to_date(&mut self) {
        if std::mem::take(&mut self.listing) {
            self.damage = None;
        }
        let stale = self.stale.take();
        self.certain();
        if self.catalog.take_changed() || stale.is_some() {
            self.publish();
        }
        if stale.is_some() {
            tracing::info!("{} reports the pods", self.server);
        }
    }

    /// The source does not answer any more.
    fn lost(&mut self, problem: &str) {
        let stale = Some(Stale {
            server: self.server,
            problem: problem.to_owned(),
            as_of: self.certain_at,
        });
        if self.stale != stale {
            self.stale = stale;
            self.publish();
        }
    }
}

/// Pods of a source as a test reports them.
#[cfg(test)]
pub(super) mod testing {
    use super::*;
    use evictd_cluster_client::Follow;
    use std::collections::BTreeSet;

    pub(in crate::pods) struct Followed {
        reflector: Reflector<Remote>,
        _place: tempfile::TempDir,
    }

    impl Followed {
        pub(in crate::pods) fn new(lists_are_whole: bool) -> Self {
            let place = tempfile::tempdir().unwrap();
            let keep = SnapshotFile::new(place.path().to_owned(), "n".to_owned(), BTreeSet::new());
            let rest = (Clock::start(), &Budget::default());
            let mut reflector = Remote::follow("a test", lists_are_whole, &keep, rest);
            reflector.up_to_date();
            Self {
                reflector,
                _place: place,
            }
        }

        pub(in crate::pods) fn listing(&self) -> Arc<Listing> {
            self.reflector.store().sender.borrow().clone()
        }

        pub(in crate::pods) fn begin(&mut self) {
            self.reflector.begin();
        }

        pub(in crate::pods) fn apply(&mut self, pod: &str) {
            self.reflector.applied(parse(pod), pod.len());
        }

        pub(in crate::pods) fn delete(&mut self, pod: &str) {
            self.reflector.deleted(parse(pod));
        }

        /// The end of a list; whether another listing was published.
        pub(in crate::pods) fn finish(&mut self) -> bool {
            let before = self.listing();
            self.reflector.up_to_date();
            !Arc::ptr_eq(&before, &self.listing())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evictd_cluster_client::Follow;
    use std::{collections::BTreeSet, fs};

    #[tokio::test]
    async fn a_pod_of_the_snapshot_that_is_no_longer_listed_was_deleted() {
        let place = tempfile::tempdir().unwrap();
        let pod = |uid: &str| {
            format!(r#"{{"metadata":{{"name":"{uid}","namespace":"shop","uid":"{uid}"}}}}"#)
        };
        let items = [pod("gone"), pod("here")].join(",");
        let text = format!(r#"{{"asOf":"2026-11-21T00:00:00Z","node":"n","items":[{items}]}}"#);
        fs::write(place.path().join("pods.json"), text).unwrap();
        let keep = SnapshotFile::new(place.path().to_owned(), "n".to_owned(), BTreeSet::new());
        let clock = Clock::start();
        let rest = (clock, &Budget::default());
        let mut remote = Remote::follow("a test", true, &keep, rest);
        let listing = || remote.store().sender().borrow().clone();
        assert_eq!((listing().pods.len(), listing().deleted.len()), (2, 0));
        remote.begin();
        remote.applied(parse(&pod("here")), 0);
        remote.up_to_date();
        let listing = remote.store().sender().borrow().clone();
        let uids: Vec<_> = listing
            .deleted
            .iter()
            .map(|one| one.pod.uid.as_str())
            .collect();
        assert_eq!((listing.pods.len(), uids), (1, vec!["gone"]));
        // It counts as missing from now on, whenever it was deleted.
        assert!(listing.deleted[0].at >= clock.now() - jiff::SignedDuration::from_mins(1));
        assert_eq!(listing.deleted[0].grace.as_secs(), 30);
    }
}
