//! The jobs of the cluster, by name and by the object that created them.

use super::names::{CREATED_BY_FLOW, CREATED_BY_TEMPLATE};
use evictd_batch_objects::Job;
use evictd_pod::wire::OwnerReference;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The label and owner of a job that name the object that created it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Creator {
    /// The UID of its cron job.
    CronJob(String),
    /// The value of the label.
    Flow(String),
    /// The value of the label.
    Template(String),
}

/// The jobs, indexed. The lists of jobs are in the order of their names.
#[derive(Debug, Clone, Default)]
pub(crate) struct Jobs {
    /// By namespace and name.
    by_name: BTreeMap<(String, String), Arc<Job>>,
    /// By namespace and creator, then by name.
    by_creator: BTreeMap<(String, Creator), BTreeMap<String, Arc<Job>>>,
}

/// The owner that controls a job.
pub(super) fn controller_of(job: &Job) -> Option<&OwnerReference> {
    let mut owners = job.metadata.owner_references.iter();
    owners.find(|owner| owner.controller)
}

fn creators(job: &Job) -> impl Iterator<Item = (String, Creator)> {
    let namespace = job.metadata.namespace_or_default().to_owned();
    let label = |key| job.metadata.labels.get(key).map(str::to_owned);
    let cron = controller_of(job).filter(|owner| owner.kind == "CronJob");
    let creators = [
        cron.map(|owner| Creator::CronJob(owner.uid.clone())),
        label(CREATED_BY_FLOW).map(Creator::Flow),
        label(CREATED_BY_TEMPLATE).map(Creator::Template),
    ];
    let creators = creators.into_iter().flatten();
    creators.map(move |creator| (namespace.clone(), creator))
}

impl Jobs {
    /// A job as it is now.
    pub(crate) fn set(&mut self, job: &Arc<Job>) {
        let namespace = job.metadata.namespace_or_default().to_owned();
        let name = job.metadata.name.clone();
        if let Some(old) = self.by_name.get(&(namespace.clone(), name.clone())) {
            let old = Arc::clone(old);
            self.remove_from_creators(&old);
        }
        for creator in creators(job) {
            let jobs = self.by_creator.entry(creator).or_default();
            jobs.insert(name.clone(), Arc::clone(job));
        }
        self.by_name.insert((namespace, name), Arc::clone(job));
    }

    /// A job was deleted. A later one of the same name stays.
    pub(crate) fn remove(&mut self, job: &Job) {
        let namespace = job.metadata.namespace_or_default().to_owned();
        let key = (namespace, job.metadata.name.clone());
        let known = self.by_name.get(&key);
        if let Some(known) = known.filter(|known| known.metadata.uid == job.metadata.uid) {
            let known = Arc::clone(known);
            self.remove_from_creators(&known);
            self.by_name.remove(&key);
        }
    }

    fn remove_from_creators(&mut self, job: &Job) {
        for creator in creators(job) {
            if let Some(jobs) = self.by_creator.get_mut(&creator) {
                jobs.remove(&job.metadata.name);
                if jobs.is_empty() {
                    self.by_creator.remove(&creator);
                }
            }
        }
    }

    /// The job of this name.
    pub(super) fn get(&self, namespace: &str, name: &str) -> Option<&Arc<Job>> {
        self.by_name.get(&(namespace.to_owned(), name.to_owned()))
    }

    fn of(&self, namespace: &str, creator: Creator) -> Vec<Arc<Job>> {
        let jobs = self.by_creator.get(&(namespace.to_owned(), creator));
        jobs.into_iter()
            .flat_map(BTreeMap::values)
            .cloned()
            .collect()
    }

    /// The jobs that the cron job of this UID controls.
    pub(super) fn of_cron_job(&self, namespace: &str, uid: &str) -> Vec<Arc<Job>> {
        self.of(namespace, Creator::CronJob(uid.to_owned()))
    }

    /// The jobs with the label of this flow.
    pub(super) fn of_flow(&self, namespace: &str, label: String) -> Vec<Arc<Job>> {
        self.of(namespace, Creator::Flow(label))
    }

    /// The jobs with the label of this template.
    pub(super) fn of_template(&self, namespace: &str, label: String) -> Vec<Arc<Job>> {
        self.of(namespace, Creator::Template(label))
    }
}
