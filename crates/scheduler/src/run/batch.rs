//! Batch sessions beside the decisions about single pods, on the same cache: what they go by, and when one is due.

use super::watches::BatchChange;
use evictd_batch::conf::{Conf, ConfError};
use evictd_batch::session::{Cache, Form, Known, Outcome, Setting};
use evictd_batch::wire::PodGroupStatus;
use evictd_pod::wire;
use evictd_scheduling::{Delta, Scheduler};
use jiff::Timestamp;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tracing::{info, warn};

/// What `--batch-conf` and the flags beside it say.
#[derive(Debug, Clone)]
pub struct BatchSettings {
    /// `volcano-scheduler.conf`.
    pub file: PathBuf,
    /// How long after the end of a session the next one begins (S6-087).
    pub period: Duration,
    /// Whose pods are placed, and where jobs go that name no queue.
    pub setting: Setting,
    /// How it decides.
    pub form: Form,
}

/// Why a configuration of sessions cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BatchError {
    /// The file cannot be read.
    #[error("--batch-conf {0}: {1}")]
    Unreadable(PathBuf, std::io::Error),
    /// What it says cannot be used.
    #[error("--batch-conf {0}: {1}")]
    Wrong(PathBuf, ConfError),
}

/// The sessions' side of the engine.
pub struct Batch {
    settings: BatchSettings,
    text: String,
    conf: Conf,
    cache: Cache,
    known: Known,
    /// Whether what sessions go by has changed since the last one.
    changed: bool,
    /// When a session is due although nothing has changed.
    again_at: Option<Timestamp>,
    /// After which change of the cluster the last session ended.
    ended_at: u64,
    /// Up to which change of it nodes were looked at.
    renewed_at: u64,
}

impl Batch {
    /// Reads the configuration.
    ///
    /// # Errors
    /// A file that cannot be read or used.
    pub fn new(settings: BatchSettings) -> Result<Self, BatchError> {
        let (text, conf) = read(&settings.file)?;
        warn_of(&settings.file, &conf);
        Ok(Self {
            text,
            conf,
            cache: Cache::new(settings.setting.clone()),
            known: Known::default(),
            settings,
            changed: true,
            again_at: None,
            ended_at: 0,
            renewed_at: 0,
        })
    }

    /// How long after the end of a session the next one begins.
    pub const fn period(&self) -> Duration {
        self.settings.period
    }

    /// The name of its scheduler, by which events are told.
    pub fn scheduler(&self) -> &str {
        &self.settings.setting.scheduler
    }

    /// Where jobs go that name no queue.
    pub fn default_queue(&self) -> &str {
        &self.settings.setting.default_queue
    }

    /// What is known.
    pub const fn known(&self) -> &Known {
        &self.known
    }

    /// A pod of any scheduler came, changed or went.
    pub fn on_pod(&mut self, scheduler: &mut Scheduler, pods: &Delta<wire::Pod>) {
        let own = |pod: &Arc<wire::Pod>| pod.spec.scheduler_name == self.settings.setting.scheduler;
        match (&pods.old, &pods.new) {
            (_, Some(new)) if own(new) => {
                let pod = self.known.put_pod(Arc::clone(new));
                self.put(scheduler, &pod);
            }
            (Some(old), None) if own(old) => {
                self.known.remove_pod(&old.metadata);
                scheduler.with_cluster(|cluster| self.cache.remove_pod(cluster, &old.metadata));
            }
            _ => return,
        }
        self.changed = true;
    }

    fn put(&mut self, scheduler: &mut Scheduler, pod: &wire::Pod) {
        scheduler.with_cluster(|cluster| self.cache.pod(cluster, pod));
    }

    /// A pod group, a queue or a priority class came, changed or went.
    pub fn on(&mut self, change: BatchChange) {
        let (cache, known) = (&mut self.cache, &mut self.known);
        match change {
            BatchChange::Group(Delta { new: Some(new), .. }) => {
                cache.group(&new);
                known.put_group(new);
            }
            BatchChange::Group(Delta { old: Some(old), .. }) => {
                cache.remove_group(&old.metadata);
                known.remove_group(&old.metadata);
            }
            BatchChange::Queue(Delta { new: Some(new), .. }) => {
                cache.queue(&new);
                known.put_queue(new);
            }
            BatchChange::Queue(Delta { old: Some(old), .. }) => {
                cache.remove_queue(&old.metadata.name);
                known.remove_queue(&old.metadata);
            }
            BatchChange::PriorityClass(Delta { new: Some(new), .. }) => cache.class(&new),
            BatchChange::PriorityClass(Delta { old: Some(old), .. }) => {
                cache.remove_class(&old.metadata.name);
            }
            BatchChange::Group(_) | BatchChange::Queue(_) | BatchChange::PriorityClass(_) => return,
        }
        self.changed = true;
    }

    /// Runs a session, unless nothing has changed since the last one, and it is not the time either: then it would come to
    /// nothing new.
    pub fn session(&mut self, scheduler: &mut Scheduler, now: Timestamp) -> Option<Outcome> {
        self.reread();
        let changes = scheduler.cluster().changes().now();
        let due = self.again_at.is_some_and(|at| at <= now);
        if !self.changed && !due && changes == self.ended_at {
            return None;
        }
        self.cache.set_now(now);
        let (conf, form, since) = (&self.conf, &self.settings.form, self.renewed_at);
        let outcome = scheduler.with_cluster(|cluster| {
            self.cache.renew(cluster, since);
            self.cache.session(cluster, conf, form)
        });
        self.changed = false;
        self.again_at = outcome.again_at;
        // What the session itself has tried and undone is looked at again.
        self.renewed_at = changes;
        self.ended_at = scheduler.cluster().changes().now();
        Some(outcome)
    }

    /// A pod is sent to its node. Returns it as it was and as it will be.
    pub fn assume_bound(&mut self, key: &str, node: &str) -> Option<[Arc<wire::Pod>; 2]> {
        let before = Arc::clone(self.known.pod(key)?);
        Some([before, self.known.assume_bound(key, node)?])
    }

    /// A pod is about to be deleted. Returns it as it was and as it will be.
    pub fn assume_evicted(&mut self, key: &str, now: Timestamp) -> Option<[Arc<wire::Pod>; 2]> {
        let before = Arc::clone(self.known.pod(key)?);
        Some([before, self.known.assume_evicted(key, now)?])
    }

    /// What was decided about a pod, or what has become of that, counts from now on.
    pub fn assumed(&mut self, scheduler: &mut Scheduler, pod: &wire::Pod) {
        self.changed = true;
        self.put(scheduler, pod);
    }

    /// The status of a group is written.
    pub fn assume_group(&mut self, key: &str, status: PodGroupStatus) {
        if let Some(group) = self.known.assume_group(key, status) {
            self.cache.group(&group);
        }
    }

    /// A pod was not bound. Returns it as it is, if no watch has said otherwise.
    pub fn not_bound(&mut self, key: &str) -> Option<Arc<wire::Pod>> {
        self.known.not_bound(key)
    }

    /// A pod was not deleted. Returns it as it is.
    pub fn not_evicted(&mut self, key: &str) -> Option<Arc<wire::Pod>> {
        self.known.not_evicted(key)
    }

    /// Takes a changed file up. One that cannot be used changes nothing (S6-087).
    fn reread(&mut self) {
        let file = &self.settings.file;
        match std::fs::read_to_string(file) {
            Ok(text) if text == self.text => {}
            Ok(text) => {
                match Conf::read(&text) {
                    Ok(conf) => {
                        info!("{} has changed and is in force", file.display());
                        warn_of(file, &conf);
                        self.conf = conf;
                        self.changed = true;
                    }
                    Err(error) => warn!(
                        "{} has changed and cannot be used, the one before stays: {error}",
                        file.display()
                    ),
                }
                self.text = text;
            }
            // A file that is just being replaced is there the next time.
            Err(error) => tracing::debug!("{}: {error}", file.display()),
        }
    }
}

fn read(file: &Path) -> Result<(String, Conf), BatchError> {
    let text = std::fs::read_to_string(file)
        .map_err(|error| BatchError::Unreadable(file.to_owned(), error))?;
    let conf = Conf::read(&text).map_err(|error| BatchError::Wrong(file.to_owned(), error))?;
    Ok((text, conf))
}

fn warn_of(file: &Path, conf: &Conf) {
    for warning in &conf.warnings {
        warn!("{}: {warning}", file.display());
    }
}
