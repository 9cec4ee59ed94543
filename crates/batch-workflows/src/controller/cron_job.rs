//! One sync of a cron job (S6-235 to S6-241): ended jobs leave the status, old ones are deleted, and the job of the most
//! recent time is created.

use super::call::{Call, Done, Object};
use super::jobs::{Jobs, controller_of};
use super::names::{BATCH_API, JOBS, SCHEDULED_TIME, controller};
use super::replay::{Replay, Stop, write_status};
use super::times;
use crate::objects::{ConcurrencyPolicy, CronJob, CronJobStatus, JobReference};
use crate::schedule::{Schedule, zone};
use evictd_batch_objects::{Compat, Difference, Job, JobPhase};
use evictd_reconcile::{Notice, Refusal};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The most old jobs of a kind that one sync deletes.
const MOST_DELETIONS: usize = 100;

/// A cron job and its jobs.
#[derive(Debug)]
pub(crate) struct Input {
    cron: Arc<CronJob>,
    /// The jobs that it controls.
    jobs: Vec<Arc<Job>>,
    /// The jobs of its status that exist, by namespace and name.
    active: BTreeMap<(String, String), Arc<Job>>,
}

impl Input {
    pub(crate) fn new(cron: &Arc<CronJob>, jobs: &Jobs) -> Self {
        let metadata = &cron.metadata;
        let namespace = metadata.namespace_or_default();
        let controlled = jobs.of_cron_job(namespace, &metadata.uid).into_iter();
        let named =
            |job: &Arc<Job>| controller_of(job).is_some_and(|owner| owner.name == metadata.name);
        let active = cron.status.active.iter().filter_map(|entry| {
            let job = jobs.get(&entry.namespace, &entry.name)?;
            Some((
                (entry.namespace.clone(), entry.name.clone()),
                Arc::clone(job),
            ))
        });
        Self {
            jobs: controlled.filter(named).collect(),
            active: active.collect(),
            cron: Arc::clone(cron),
        }
    }
}

/// `status.active` while jobs leave it.
struct Active {
    entries: Vec<JobReference>,
    /// How many of the entries count. Those behind are left over, as in Volcano's list.
    count: usize,
}

impl Active {
    fn current(&self) -> &[JobReference] {
        self.entries.get(..self.count).unwrap_or_default()
    }

    fn has(&self, uid: &str) -> bool {
        !uid.is_empty() && self.current().iter().any(|entry| entry.uid == uid)
    }

    fn remove(&mut self, uid: &str) {
        if uid.is_empty() {
            return;
        }
        let mut kept = self.current().to_vec();
        kept.retain(|entry| entry.uid != uid);
        for (entry, kept) in self.entries.iter_mut().zip(&kept) {
            entry.clone_from(kept);
        }
        self.count = kept.len();
    }

    fn push(&mut self, entry: JobReference) {
        self.entries.truncate(self.count);
        self.entries.push(entry);
        self.count += 1;
    }
}

struct Sync<'a, 'r> {
    input: &'a Input,
    now: Timestamp,
    compat: Compat,
    replay: &'a mut Replay<'r>,
    active: Active,
    last_schedule_time: Option<Timestamp>,
    last_successful_time: Option<Timestamp>,
    /// Whether Volcano writes the status.
    changed: bool,
}

/// Runs the sync; returns how long it is until the next one.
pub(super) fn sync(
    input: &Input,
    now: Timestamp,
    compat: Compat,
    replay: &mut Replay<'_>,
) -> Result<Option<SignedDuration>, Stop> {
    let cron = &input.cron;
    if cron.metadata.deletion_timestamp.is_some() {
        return Ok(None);
    }
    let entries = cron.status.active.clone();
    let mut sync = Sync {
        input,
        now,
        compat,
        replay,
        active: Active {
            count: entries.len(),
            entries,
        },
        last_schedule_time: cron.status.last_schedule_time,
        last_successful_time: cron.status.last_successful_time,
        changed: false,
    };
    sync.finished_jobs()?;
    sync.active_jobs();
    let due = if cron.spec.suspend {
        None
    } else {
        Some(sync.next_job()?)
    };
    if sync.changed {
        let status = CronJobStatus {
            active: sync.active.current().to_vec(),
            last_schedule_time: sync.last_schedule_time,
            last_successful_time: sync.last_successful_time,
        };
        let again = !compat.has(Difference::EqualStatusIsUnchanged);
        let object = Object::CronJob(Arc::clone(cron));
        write_status(&object, (&cron.status, &status), again, sync.replay)?;
    }
    Ok(due)
}

fn is_finished(job: &Job) -> bool {
    job.status
        .state
        .phase
        .known()
        .is_some_and(JobPhase::is_final)
}

impl Sync<'_, '_> {
    fn normal(&mut self, reason: &'static str, message: String) {
        self.replay.notice(Notice::normal(reason, message));
    }

    fn warning(&mut self, reason: &'static str, message: String) {
        self.replay.notice(Notice::warning(reason, message));
    }

    /// Ended jobs leave the status, and the oldest are deleted (S6-235).
    fn finished_jobs(&mut self) -> Result<(), Stop> {
        let (mut completed, mut failed) = (Vec::new(), Vec::new());
        for job in self.input.jobs.iter().filter(|job| is_finished(job)) {
            if self.active.has(&job.metadata.uid) {
                self.active.remove(&job.metadata.uid);
                let name = &job.metadata.name;
                let message = format!("Saw completed job: {name} in active, remove");
                self.normal("SawCompletedJob", message);
                self.changed = true;
            }
            let state = &job.status.state;
            if state.phase == JobPhase::Completed {
                let ended = state.last_transition_time;
                if self.last_successful_time.is_none() || ended > self.last_successful_time {
                    self.last_successful_time = ended.or(self.last_successful_time);
                    self.changed = true;
                }
                completed.push(job);
            } else if state.phase == JobPhase::Failed {
                failed.push(job);
            }
        }
        let spec = &self.input.cron.spec;
        self.delete_oldest(completed, spec.successful_jobs_history_limit)?;
        self.delete_oldest(failed, spec.failed_jobs_history_limit)
    }

    fn delete_oldest(&mut self, jobs: Vec<&Arc<Job>>, limit: Option<i32>) -> Result<(), Stop> {
        let Some(limit) = limit else {
            return Ok(());
        };
        // A negative limit keeps none.
        let surplus = jobs
            .len()
            .saturating_sub(usize::try_from(limit).unwrap_or(0));
        let mut jobs = jobs;
        jobs.sort_by_key(|job| {
            let created = job.metadata.creation_timestamp;
            let created = created.map(evictd_pod::wire::Time::timestamp);
            (created.is_none(), created, job.metadata.name.clone())
        });
        // The sync resumes after each answer, and runs again after each deletion.
        for job in jobs.into_iter().take(surplus.min(MOST_DELETIONS)) {
            self.delete(job)?;
        }
        Ok(())
    }

    /// Deletes a job. Returns whether that succeeded.
    fn delete(&mut self, job: &Job) -> Result<bool, Stop> {
        let metadata = &job.metadata;
        let name = &metadata.name;
        let answer = self.replay.call(|| Call::DeleteJob {
            namespace: metadata.namespace_or_default().to_owned(),
            name: name.clone(),
            uid: metadata.uid.to_string(),
        })?;
        if let Err(refusal) = answer {
            let message = format!("Error deleting job {name:?}: {}", refusal.about(JOBS, name));
            self.warning("FailedDelete", message);
            return Ok(false);
        }
        self.active.remove(&metadata.uid);
        self.normal("SuccessfulDelete", format!("Deleted job {name:?}"));
        self.changed = true;
        Ok(true)
    }

    /// The next entry of a walk over `status.active`. In Volcano's walk each removal moves the later entries forward.
    fn met(&self, start: &[JobReference], index: usize) -> Option<JobReference> {
        let entries = if self.compat.has(Difference::EachActiveJobOnce) {
            start
        } else {
            &self.active.entries
        };
        entries.get(index).cloned()
    }

    /// The status is compared with the jobs that exist (S6-236).
    fn active_jobs(&mut self) {
        let input = self.input;
        for job in input.jobs.iter().filter(|job| !is_finished(job)) {
            if !self.active.has(&job.metadata.uid) {
                self.orphan(job);
            }
        }
        let controlled: BTreeSet<&str> = input.jobs.iter().map(|job| &*job.metadata.uid).collect();
        let start = self.active.current().to_vec();
        for index in 0..start.len() {
            let Some(entry) = self.met(&start, index) else {
                continue;
            };
            if controlled.contains(entry.uid.as_str()) {
                continue;
            }
            let (name, expected) = (&entry.name, &entry.uid);
            let job = input.active.get(&(entry.namespace.clone(), name.clone()));
            let message = match job {
                None => format!("Active job {name:?} no longer exists (UID: {expected})"),
                Some(job) if *job.metadata.uid != **expected => {
                    let actual = &job.metadata.uid;
                    format!(
                        "Active job reference {name:?} points to a different UID (expected: {expected}, actual: {actual})"
                    )
                }
                Some(_) => continue,
            };
            self.warning("StaleReference", message);
            self.active.remove(expected);
            self.changed = true;
        }
    }

    /// A job that runs and is not in the status.
    fn orphan(&mut self, job: &Job) {
        let (name, uid) = (&job.metadata.name, &job.metadata.uid);
        if self.compat.has(Difference::AdoptJobs) {
            self.normal(
                "AdoptedJob",
                format!("Took job {name} into active: it was created before and not written down"),
            );
            self.adopt(job, None);
            return;
        }
        let message = format!(
            "Detected orphaned job forgotten or not managed by controller: {name} (UID: {uid})"
        );
        self.warning("OrphanedJob", message);
    }

    /// A job becomes active. The time that it was created for is handled then.
    fn adopt(&mut self, job: &Job, time: Option<Timestamp>) {
        let metadata = &job.metadata;
        let written = metadata.annotations.get(SCHEDULED_TIME);
        let time = time.or_else(|| written?.parse().ok());
        self.last_schedule_time = self.last_schedule_time.max(time);
        self.active.push(JobReference {
            api_version: BATCH_API.to_owned(),
            kind: "Job".to_owned(),
            name: metadata.name.clone(),
            namespace: metadata.namespace_or_default().to_owned(),
            uid: metadata.uid.to_string(),
        });
        self.changed = true;
    }

    /// Creates the job that is due; returns how long it is to the next one (S6-237 to S6-240).
    fn next_job(&mut self) -> Result<SignedDuration, Stop> {
        let cron = Arc::clone(&self.input.cron);
        let schedule = self.schedule(&cron)?;
        // As in Volcano, the deadline and the next time count from the state at the start of the sync.
        let mut found = (*cron).clone();
        found.status.last_schedule_time = self.last_schedule_time;
        let missed = times::due(&found, self.now, &schedule).map_err(|error| {
            self.warning(
                "InvalidSchedule",
                format!("Error getting schedule time: {error}"),
            );
            Stop::Failed(error.to_string())
        })?;
        if let Some(time) = missed.most_recent {
            if missed.many {
                self.warning("TooManyMissedTimes", TOO_MANY.to_owned());
            }
            if !self.is_handled(&cron, time) && self.makes_way()? {
                self.create(&cron, time)?;
                found.status.last_schedule_time = self.last_schedule_time;
            }
        }
        Ok(times::until_next(&found, self.now, &schedule))
    }

    fn schedule(&mut self, cron: &CronJob) -> Result<Schedule, Stop> {
        let spec = &cron.spec;
        if let Some(name) = &spec.time_zone
            && let Err(error) = zone(name)
        {
            let message = format!("Invalid time zone {name:?}: {error}");
            self.warning("InvalidTimeZone", message);
            return Err(Stop::Failed(error.to_string()));
        }
        if spec.schedule.contains("TZ") {
            let text = &spec.schedule;
            let message = format!(
                "CRON_TZ or TZ in the schedule {text:?} is not officially supported. If set, the TimeZone field will be ignored during execution."
            );
            self.warning("UnsupportedSchedule", message);
        }
        let schedule = Schedule::parse(&zoned(cron));
        schedule.map_err(|error| Stop::Failed(error.to_string()))
    }

    fn is_handled(&self, cron: &CronJob, time: Timestamp) -> bool {
        let (name, namespace) = (job_name(cron, time), cron.metadata.namespace_or_default());
        let mut active = self.active.current().iter();
        self.last_schedule_time == Some(time)
            || active.any(|entry| entry.name == name && entry.namespace == namespace)
    }

    /// Whether the concurrency policy lets a job start; with `Replace` after the active jobs are deleted (S6-239).
    fn makes_way(&mut self) -> Result<bool, Stop> {
        let policy = self.input.cron.spec.concurrency_policy.known();
        if self.active.count == 0 {
            return Ok(true);
        }
        match policy {
            Some(ConcurrencyPolicy::Forbid) => {
                let message = "Skipping job creation because another job is already running";
                self.warning("ForbidConcurrent", message.to_owned());
                Ok(false)
            }
            Some(ConcurrencyPolicy::Replace) => {
                let message = "Replacing active job for CronJob";
                self.warning("ReplaceConcurrent", message.to_owned());
                self.replace()?;
                Ok(true)
            }
            _ => Ok(true),
        }
    }

    fn replace(&mut self) -> Result<(), Stop> {
        let start = self.active.current().to_vec();
        for index in 0..start.len() {
            let Some(entry) = self.met(&start, index) else {
                continue;
            };
            let JobReference {
                name, namespace, ..
            } = &entry;
            let job = match self.read(namespace, name)? {
                Ok(job) => job,
                Err(Refusal::NotFound) if self.compat.has(Difference::EachActiveJobOnce) => {
                    // The job was deleted by others.
                    self.active.remove(&entry.uid);
                    self.changed = true;
                    continue;
                }
                Err(refusal) => {
                    let error = refusal.about(JOBS, name);
                    self.warning("FailedGet", format!("Get job: {error}"));
                    return Err(Stop::Failed(error));
                }
            };
            if !self.delete(&job)? {
                let error = format!("could not replace job {namespace}/{name}");
                return Err(Stop::Failed(error));
            }
        }
        Ok(())
    }

    fn read(&mut self, namespace: &str, name: &str) -> Result<Result<Arc<Job>, Refusal>, Stop> {
        let answer = self.replay.call(|| Call::ReadJob {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        })?;
        Ok(match answer {
            Ok(Done::Job(job)) => Ok(Arc::clone(job)),
            Ok(_) => Err(Refusal::NotFound),
            Err(refusal) => Err(refusal.clone()),
        })
    }

    fn create(&mut self, cron: &CronJob, time: Timestamp) -> Result<(), Stop> {
        let zone = zone(cron.spec.time_zone.as_deref().unwrap_or_default());
        let job = job(cron, time, &zone.unwrap_or(TimeZone::UTC));
        let name = job_name(cron, time);
        let answer = self.replay.call(|| Call::CreateJob { job })?;
        match answer {
            Ok(Done::Job(job)) => {
                let metadata = &cron.metadata;
                let id = format!("{}/{}", metadata.namespace_or_default(), metadata.name);
                let message = format!("Created job {name} for CronJob {id}");
                self.normal("SuccessfulCreate", message);
                if !self.active.has(&job.metadata.uid) {
                    self.adopt(job, Some(time));
                    self.last_schedule_time = Some(time);
                }
                Ok(())
            }
            Ok(_) => Ok(()),
            Err(Refusal::AlreadyExists) => self.existing(cron, time, &name),
            Err(refusal @ Refusal::NamespaceTerminating(_)) => {
                let namespace = cron.metadata.namespace_or_default();
                let message =
                    format!("Namespace {namespace} is terminating, skipping job creation");
                self.warning("NamespaceTerminating", message);
                Err(Stop::Failed(refusal.about(JOBS, &name)))
            }
            Err(refusal) => {
                let error = refusal.about(JOBS, &name);
                self.warning("FailedCreate", format!("Failed to create job: {error}"));
                Err(Stop::Failed(error))
            }
        }
    }

    /// A job has the name already. Volcano looks for it in no namespace, and never finds it (S6-240).
    fn existing(&mut self, cron: &CronJob, time: Timestamp, name: &str) -> Result<(), Stop> {
        let missing = || Stop::Failed(Refusal::NotFound.about(JOBS, name));
        if !self.compat.has(Difference::AdoptJobs) {
            return Err(missing());
        }
        let namespace = cron.metadata.namespace_or_default();
        let job = match self.read(namespace, name)? {
            Ok(job) => job,
            Err(refusal) => return Err(Stop::Failed(refusal.about(JOBS, name))),
        };
        let owner = controller_of(&job);
        if owner.is_none_or(|owner| owner.uid != *cron.metadata.uid) {
            let owner = owner.map_or("none", |owner| owner.name.as_str());
            self.warning(
                "ForeignJob",
                format!(
                    "Job {name} exists but is not owned by this CronJob (current owner: {owner})"
                ),
            );
        } else if is_finished(&job) {
            // It ran for this time, so it must not run again.
            self.last_schedule_time = Some(time);
            self.changed = true;
        } else if !self.active.has(&job.metadata.uid) {
            self.adopt(&job, Some(time));
        }
        Ok(())
    }
}

const TOO_MANY: &str = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew";

/// The schedule with its time zone, unless it names one itself.
pub(super) fn zoned(cron: &CronJob) -> String {
    let (schedule, zone_name) = (&cron.spec.schedule, &cron.spec.time_zone);
    match zone_name {
        Some(name) if !schedule.contains("TZ") && zone(name).is_ok() => {
            format!("TZ={name} {schedule}")
        }
        _ => schedule.clone(),
    }
}

/// A job has the same name each time that it is created for a time, so that it is created once.
fn job_name(cron: &CronJob, time: Timestamp) -> String {
    format!("{}-{}", cron.metadata.name, time.as_second().div_euclid(60))
}

fn job(cron: &CronJob, time: Timestamp, zone: &TimeZone) -> Value {
    let template = &cron.spec.job_template;
    let texts = |field: &str| {
        let texts = template["metadata"][field].as_object();
        texts.cloned().unwrap_or_default()
    };
    let mut annotations = texts("annotations");
    let scheduled = rfc_3339(time, zone).into();
    annotations.insert(SCHEDULED_TIME.to_owned(), scheduled);
    let metadata = &cron.metadata;
    let mut fields = Map::from_iter([
        ("name".to_owned(), job_name(cron, time).into()),
        (
            "namespace".to_owned(),
            metadata.namespace_or_default().into(),
        ),
        ("annotations".to_owned(), annotations.into()),
        (
            "ownerReferences".to_owned(),
            controller(BATCH_API, "CronJob", &metadata.name, &metadata.uid),
        ),
    ]);
    let labels = texts("labels");
    if !labels.is_empty() {
        fields.insert("labels".to_owned(), labels.into());
    }
    json!({
        "apiVersion": BATCH_API,
        "kind": "Job",
        "metadata": fields,
        "spec": template["spec"],
    })
}

/// A time with the offset of a zone.
fn rfc_3339(time: Timestamp, zone: &TimeZone) -> String {
    let offset = zone.to_offset(time);
    let clock = offset.to_datetime(time);
    // RFC 3339 has no seconds in offsets.
    let minutes = offset.seconds() / 60;
    let sign = if minutes < 0 { '-' } else { '+' };
    let (hours, rest) = (minutes.abs() / 60, minutes.abs() % 60);
    let clock = clock.strftime("%Y-%m-%dT%H:%M:%S");
    match minutes {
        0 => format!("{clock}Z"),
        _ => format!("{clock}{sign}{hours:02}:{rest:02}"),
    }
}
