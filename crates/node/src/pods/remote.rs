//! The pods of a source that is not on this machine or may be away: what it last reported, and how old that is.

use super::{Listing, SnapshotFile, Stale, Warning, catalog::Catalog, snapshot::Snapshot};
use evictd_cluster_client::{Follow, Parsed, parse};
use evictd_kernel::clock::Clock;
use evictd_pod::wire;
use jiff::Timestamp;
use std::sync::Arc;
use tokio::sync::watch;

/// Publishes what is known, beginning with the pods kept from before a restart.
#[derive(Debug)]
pub(super) struct Remote {
    server: &'static str,
    catalog: Catalog,
    clock: Clock,
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
    pub(super) fn new(
        server: &'static str,
        lists_are_whole: bool,
        keep: &SnapshotFile,
        clock: Clock,
    ) -> Self {
        let kept = keep.read();
        let damage = kept.as_ref().err().map(|problem| Warning::Snapshot {
            file: keep.path(),
            problem: problem.clone(),
        });
        let Snapshot { pods, as_of } = kept.unwrap_or_default();
        let mut catalog = Catalog::new(keep.labels(), lists_are_whole);
        for pod in &pods {
            catalog.apply(parse(pod.get()));
        }
        let mut remote = Self {
            server,
            catalog,
            clock,
            certain_at: as_of,
            stale: None,
            damage,
            sender: watch::Sender::default(),
        };
        remote.lost("it has not answered yet".to_owned());
        remote
    }

    /// The channel in which listings are published.
    pub(super) fn sender(&self) -> watch::Sender<Arc<Listing>> {
        self.sender.clone()
    }

    /// The source does not answer any more.
    pub(super) fn lost(&mut self, problem: String) {
        let stale = Some(Stale {
            server: self.server,
            problem,
            as_of: self.certain_at,
        });
        if self.stale != stale {
            self.stale = stale;
            self.publish();
        }
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

impl Follow for Remote {
    type Object = wire::Pod;

    fn version(object: &Self::Object) -> &str {
        &object.metadata.resource_version
    }

    fn begin(&mut self) {
        self.catalog.begin();
    }

    fn applied(&mut self, object: Parsed<'_, wire::Pod>) {
        self.catalog.apply(object);
        if !self.catalog.is_listing() {
            self.certain();
            self.publish();
        }
    }

    fn deleted(&mut self, object: Parsed<'_, wire::Pod>) {
        self.catalog.delete(object, self.clock.now());
        self.certain();
        self.publish();
    }

    fn up_to_date(&mut self) {
        if self.catalog.is_listing() {
            self.damage = None;
        }
        let others = self.catalog.finish(self.clock.now());
        let stale = self.stale.take();
        self.certain();
        if others || stale.is_some() {
            self.publish();
        }
        if stale.is_some() {
            tracing::info!("{} reports the pods", self.server);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{collections::BTreeSet, fs};

    #[tokio::test]
    async fn who_was_kept_from_before_a_restart_and_is_listed_no_more_has_departed() {
        let place = tempfile::tempdir().unwrap();
        let pod = |uid: &str| {
            format!(r#"{{"metadata":{{"name":"{uid}","namespace":"shop","uid":"{uid}"}}}}"#)
        };
        let items = [pod("gone"), pod("here")].join(",");
        let text = format!(r#"{{"asOf":"2026-11-21T00:00:00Z","node":"n","items":[{items}]}}"#);
        fs::write(place.path().join("pods.json"), text).unwrap();
        let keep = SnapshotFile::new(place.path().to_owned(), "n".to_owned(), BTreeSet::new());
        let clock = Clock::start();
        let mut remote = Remote::new("a test", true, &keep, clock);
        let listing = || remote.sender().borrow().clone();
        assert_eq!((listing().pods.len(), listing().deleted.len()), (2, 0));
        remote.begin();
        remote.applied(parse(&pod("here")));
        remote.up_to_date();
        let listing = remote.sender().borrow().clone();
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
