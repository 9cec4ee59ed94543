//! A job that is not there, with the nearest name that is.

use super::what_if::WhatIf;
use evictd_batch_objects::Job;
use evictd_spelling::close;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

/// There is nothing of this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Unknown {
    namespace: String,
    name: String,
    /// Another namespace that has one of the name.
    elsewhere: Option<String>,
    nearest: Option<String>,
}

impl Unknown {
    pub(super) fn of(
        what_if: &WhatIf<'_>,
        jobs: &[Arc<Job>],
        (namespace, name): (&str, &str),
    ) -> Self {
        let jobs = jobs.iter().map(|job| &job.metadata);
        let groups = what_if.groups.values().map(|group| &group.metadata);
        let known: BTreeSet<(&str, &str)> = jobs
            .chain(groups)
            .map(|job| (job.namespace_or_default(), job.name.as_str()))
            .collect();
        let elsewhere = known.iter().find(|(_, job_name)| *job_name == name);
        let here = known
            .iter()
            .filter(|(job_namespace, _)| *job_namespace == namespace);
        let nearest = close(name, here.map(|(_, job_name)| *job_name));
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            elsewhere: elsewhere.map(|(namespace, _)| (*namespace).to_owned()),
            nearest: nearest.map(str::to_owned),
        }
    }
}

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            namespace, name, ..
        } = self;
        write!(
            f,
            "no job, pod group, pod or owner of pods is named {name} in the namespace {namespace}"
        )?;
        if let Some(elsewhere) = &self.elsewhere {
            write!(f, "; there is one in the namespace {elsewhere}")
        } else if let Some(nearest) = &self.nearest {
            write!(f, "; the nearest name is {nearest}")
        } else {
            Ok(())
        }
    }
}
