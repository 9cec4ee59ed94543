//! `KubeSchedulerConfiguration` of `kubescheduler.config.k8s.io/v1` with the defaults, merging and validation of kube-scheduler
//! 1.36 (S5-072 to S5-076). Serde reads JSON or YAML into [`KubeSchedulerConfiguration`], which knows every field. From it a
//! [`Configuration`] is made, which can be printed again ([`Configuration::to_json`]).
//!
//! ```
//! use evictd_scheduling::config::{Configuration, KubeSchedulerConfiguration, Point};
//!
//! let wire: KubeSchedulerConfiguration = serde_json::from_str(r#"{
//!     "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
//!     "profiles": [{"plugins": {"score": {"disabled": [{"name": "*"}], "enabled": [{"name": "NodeAffinity"}]}}}]
//! }"#)?;
//! let config = Configuration::new(&wire, &[]).expect("it has no errors");
//! assert_eq!(config.profiles[0].points.at(Point::Score), ["NodeAffinity"]);
//! # Ok::<(), serde_json::Error>(())
//! ```

mod args;
mod extender;
mod file;
mod points;
mod print;
mod text;
mod wire;

pub use args::{Args, SpreadDefaults};
pub use extender::{Extender, Tls};
pub use points::{Point, Points};
pub use wire::KubeSchedulerConfiguration;

use evictd_configuration::{Fault, Mistake};
use evictd_pod::duration;
use jiff::SignedDuration;
use serde_json::Value;
use std::collections::BTreeMap;

/// The configuration in force.
#[derive(Debug, Clone, PartialEq)]
pub struct Configuration {
    /// How many nodes kube-scheduler filters at once; without effect here.
    pub parallelism: i64,
    /// How many nodes kube-scheduler scores; here all are scored.
    pub percentage_of_nodes_to_score: Option<i64>,
    /// Whether CPU and memory profiles are served.
    pub enable_profiling: bool,
    /// Whether lock contention profiles are served.
    pub enable_contention_profiling: bool,
    /// Whether the watches begin only with the lease.
    pub delay_cache_until_active: bool,
    /// The backoff of a pod after its first failure.
    pub pod_initial_backoff: SignedDuration,
    /// The longest backoff.
    pub pod_max_backoff: SignedDuration,
    /// How long a pod waits for an event at most. Only a flag sets it.
    pub pod_max_unschedulable: SignedDuration,
    /// The leader election.
    pub leader_election: LeaderElection,
    /// The client of the API server.
    pub client_connection: ClientConnection,
    /// One for each scheduler name, at least one.
    pub profiles: Vec<Profile>,
    /// In the order in which they are asked: ignorable ones come last.
    pub extenders: Vec<Extender>,
    /// Settings that are accepted and have no effect.
    pub warnings: Vec<Mistake>,
}

/// The leader election of several schedulers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaderElection {
    /// Whether there is an election.
    pub leader_elect: bool,
    /// How long candidates wait after the last renewal of a leader.
    pub lease_duration: SignedDuration,
    /// How long a leader tries to renew its lease before it stops.
    pub renew_deadline: SignedDuration,
    /// The interval between two tries.
    pub retry_period: SignedDuration,
    /// The name of the lease.
    pub resource_name: String,
    /// The namespace of the lease.
    pub resource_namespace: String,
}

/// The client of the API server.
#[derive(Debug, Clone, PartialEq)]
pub struct ClientConnection {
    /// The path of the kubeconfig; empty for the service account of the pod.
    pub kubeconfig: String,
    /// The sustained rate, in requests per second. `None` is no limit, because kube-scheduler's default would be the most that
    /// this scheduler can do.
    pub qps: Option<f64>,
    /// The size of a burst, in requests.
    pub burst: Option<u32>,
}

/// The plugins for the pods of one scheduler name.
#[derive(Debug, Clone, PartialEq)]
pub struct Profile {
    /// The `schedulerName` of its pods.
    pub scheduler_name: String,
    /// It overrides that of the configuration.
    pub percentage_of_nodes_to_score: Option<i64>,
    /// The plugins at each extension point.
    pub points: Points,
    /// The arguments of the built-in plugins.
    pub args: Args,
    /// The arguments of custom plugins, by name.
    pub custom_args: BTreeMap<String, Value>,
}

/// An error of a configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {message}")]
pub struct InvalidField {
    /// The path of the field, as `profiles[0].schedulerName`.
    pub field: String,
    /// The error, with the values that are allowed.
    pub message: String,
}

/// The errors of a configuration. All are collected, so that one run reports every one.
#[derive(Default)]
pub(super) struct FieldErrors(Vec<InvalidField>);

impl FieldErrors {
    fn add(&mut self, field: impl Into<String>, message: impl Into<String>) {
        self.0.push(InvalidField {
            field: field.into(),
            message: message.into(),
        });
    }

    /// Reports a number outside a range.
    fn within(&mut self, field: &str, value: i64, least: i64, most: i64) {
        if value < least || value > most {
            let range = if most == i64::MAX {
                format!("must be at least {least}")
            } else {
                format!("must be from {least} to {most}")
            };
            self.add(field, format!("{value}: {range}"));
        }
    }

    /// Reads a duration in the format of Go. If it is absent or zero, the default holds.
    fn duration(&mut self, field: &str, text: Option<&str>, default: i64) -> SignedDuration {
        let default = SignedDuration::from_secs(default);
        let Some(text) = text else { return default };
        match duration::parse(text).ok() {
            Some(SignedDuration::ZERO) => default,
            Some(duration) if duration.is_positive() => duration,
            _ => {
                self.add(
                    field,
                    format!("{text:?}: must be a duration above zero like 15s or 1m30s"),
                );
                default
            }
        }
    }
}

/// The supported API version.
pub(super) const API_VERSION: &str = "kubescheduler.config.k8s.io/v1";

/// The message for an unsupported API version.
pub(super) fn version_error(found: &str) -> String {
    let advice = match found.strip_prefix("kubescheduler.config.k8s.io/") {
        Some("v1alpha1" | "v1alpha2" | "v1beta1" | "v1beta2" | "v1beta3") => {
            "; that version is gone from Kubernetes: write the new one and follow the errors that are told then"
        }
        _ => "",
    };
    format!("{found:?}: must be {API_VERSION}{advice}")
}

impl Default for Configuration {
    fn default() -> Self {
        let mut errors = FieldErrors::default();
        // An empty file has no errors.
        Self::read(&KubeSchedulerConfiguration::default(), &[], &mut errors)
    }
}

impl Configuration {
    /// Checks a configuration and fills in the defaults. `custom` are the custom plugins with their extension points.
    ///
    /// # Errors
    /// Every invalid field.
    pub fn new(
        wire: &KubeSchedulerConfiguration,
        custom: &[(&str, &[Point])],
    ) -> Result<Self, Vec<InvalidField>> {
        let mut errors = FieldErrors::default();
        if wire.kind != "KubeSchedulerConfiguration" {
            errors.add(
                "kind",
                format!("{:?}: must be KubeSchedulerConfiguration", wire.kind),
            );
        }
        if wire.api_version != API_VERSION {
            errors.add("apiVersion", version_error(&wire.api_version));
        }
        let read = Self::read(wire, custom, &mut errors);
        if errors.0.is_empty() {
            Ok(read)
        } else {
            Err(errors.0)
        }
    }

    fn read(
        wire: &KubeSchedulerConfiguration,
        custom: &[(&str, &[Point])],
        errors: &mut FieldErrors,
    ) -> Self {
        let mut warnings = Vec::new();
        let parallelism = wire.parallelism.unwrap_or(16);
        errors.within("parallelism", parallelism, 1, i64::from(i32::MAX));
        percentage(
            "percentageOfNodesToScore",
            wire.percentage_of_nodes_to_score,
            errors,
            &mut warnings,
        );
        let initial = wire.pod_initial_backoff_seconds.unwrap_or(1);
        let most = wire.pod_max_backoff_seconds.unwrap_or(10);
        errors.within("podInitialBackoffSeconds", initial, 1, i64::MAX);
        if most < initial {
            errors.add(
                "podMaxBackoffSeconds",
                format!("{most}: must be at least podInitialBackoffSeconds, {initial}"),
            );
        }
        let unnamed = [wire::Profile::default()];
        let profiles = if wire.profiles.is_empty() {
            &unnamed[..]
        } else {
            &wire.profiles
        };
        let mut read: Vec<Profile> = profiles
            .iter()
            .enumerate()
            .map(|(index, profile)| {
                Profile::read(
                    &format!("profiles[{index}]"),
                    profile,
                    (custom, profiles.len()),
                    errors,
                    &mut warnings,
                )
            })
            .collect();
        for (index, profile) in read.iter().enumerate() {
            let name = &profile.scheduler_name;
            let mut before = read[..index].iter();
            // A missing name is reported already.
            if !name.is_empty() && before.any(|other| other.scheduler_name == *name) {
                errors.add(
                    format!("profiles[{index}].schedulerName"),
                    format!("{name:?}: another profile has this name"),
                );
            }
            // All profiles share one queue.
            if profile.points.at(Point::QueueSort) != read[0].points.at(Point::QueueSort) {
                errors.add(
                    format!("profiles[{index}].plugins.queueSort"),
                    "must be the same in all profiles",
                );
            }
        }
        let extenders = extender::read(&wire.extenders, errors);
        extender::ignore_resources(&extenders, &mut read);
        Self {
            parallelism,
            percentage_of_nodes_to_score: wire.percentage_of_nodes_to_score,
            enable_profiling: wire.enable_profiling.unwrap_or(true),
            enable_contention_profiling: wire.enable_contention_profiling.unwrap_or(true),
            delay_cache_until_active: wire.delay_cache_until_active.unwrap_or(false),
            pod_initial_backoff: SignedDuration::from_secs(initial),
            pod_max_backoff: SignedDuration::from_secs(most),
            pod_max_unschedulable: SignedDuration::from_mins(5),
            leader_election: LeaderElection::read(&wire.leader_election, errors),
            client_connection: ClientConnection::read(&wire.client_connection, errors),
            profiles: read,
            extenders,
            warnings,
        }
    }

    /// The profile for a scheduler name.
    pub fn profile(&self, scheduler_name: &str) -> Option<&Profile> {
        self.profiles
            .iter()
            .find(|profile| profile.scheduler_name == scheduler_name)
    }
}

/// Checks `percentageOfNodesToScore`, which has no effect, because all nodes are scored.
fn percentage(
    field: &str,
    value: Option<i64>,
    errors: &mut FieldErrors,
    warnings: &mut Vec<Mistake>,
) {
    let Some(value) = value else { return };
    errors.within(field, value, 0, 100);
    if value != 0 && value != 100 {
        let fault = Fault::new(None, format!("{value} is ignored: all nodes are scored"));
        warnings.push(fault.advise("leave it out").in_file("", field));
    }
}

impl LeaderElection {
    fn read(wire: &wire::LeaderElection, errors: &mut FieldErrors) -> Self {
        let election = Self {
            leader_elect: wire.leader_elect.unwrap_or(true),
            lease_duration: errors.duration(
                "leaderElection.leaseDuration",
                wire.lease_duration.as_deref(),
                15,
            ),
            renew_deadline: errors.duration(
                "leaderElection.renewDeadline",
                wire.renew_deadline.as_deref(),
                10,
            ),
            retry_period: errors.duration(
                "leaderElection.retryPeriod",
                wire.retry_period.as_deref(),
                2,
            ),
            resource_name: name_or(wire.resource_name.as_ref(), "kube-scheduler"),
            resource_namespace: name_or(wire.resource_namespace.as_ref(), "kube-system"),
        };
        let lock = name_or(wire.resource_lock.as_ref(), "leases");
        if election.leader_elect && lock != "leases" {
            errors.add(
                "leaderElection.resourceLock",
                format!("{lock:?}: must be leases"),
            );
        }
        errors.0.extend(election.errors());
        election
    }

    /// The errors of the durations, none without an election. To be called again after flags have changed them.
    pub fn errors(&self) -> Vec<InvalidField> {
        let mut errors = FieldErrors::default();
        if self.leader_elect && self.lease_duration <= self.renew_deadline {
            errors.add(
                "leaderElection.leaseDuration",
                "must be above renewDeadline",
            );
        }
        // The interval is extended by up to a fifth at random, so that candidates do not try at the same time.
        let retry = self.retry_period.saturating_mul(6) / 5;
        if self.leader_elect && self.renew_deadline <= retry {
            errors.add(
                "leaderElection.renewDeadline",
                "must be above 1.2 times retryPeriod",
            );
        }
        errors.0
    }
}

fn name_or(name: Option<&String>, default: &str) -> String {
    name.filter(|name| !name.is_empty())
        .map_or_else(|| default.to_owned(), Clone::clone)
}

impl ClientConnection {
    fn read(wire: &wire::ClientConnection, errors: &mut FieldErrors) -> Self {
        let burst = wire.burst.unwrap_or_default();
        errors.within("clientConnection.burst", burst, 0, i64::from(i32::MAX));
        Self {
            kubeconfig: wire.kubeconfig.clone().unwrap_or_default(),
            qps: wire.qps.filter(|qps| *qps != 0.0),
            burst: u32::try_from(burst).ok().filter(|burst| *burst > 0),
        }
    }
}

impl Profile {
    fn read(
        field: &str,
        wire: &wire::Profile,
        (custom, count): (&[(&str, &[Point])], usize),
        errors: &mut FieldErrors,
        warnings: &mut Vec<Mistake>,
    ) -> Self {
        // With several profiles a default name would hide that one was forgotten.
        let default = (count == 1).then(|| "default-scheduler".to_owned());
        let scheduler_name = wire.scheduler_name.clone().or(default).unwrap_or_default();
        if scheduler_name.is_empty() {
            errors.add(format!("{field}.schedulerName"), "is missing");
        }
        let percent = format!("{field}.percentageOfNodesToScore");
        percentage(
            &percent,
            wire.percentage_of_nodes_to_score,
            errors,
            warnings,
        );
        let points_of = |name: &str| -> Vec<Point> {
            let built_in = points::known().find(|plugin| plugin.name == name);
            let of_custom = custom
                .iter()
                .find(|(plugin, _)| *plugin == name)
                .map(|(_, points)| *points);
            built_in
                .map(|plugin| plugin.points)
                .or(of_custom)
                .unwrap_or_default()
                .to_vec()
        };
        check_plugins(field, &wire.plugins, &points_of, custom, errors);
        let points = Points::new(&wire.plugins, points_of);
        if points.at(Point::QueueSort).len() != 1 {
            errors.add(
                format!("{field}.plugins.queueSort"),
                "exactly one plugin must sort the queue; it is PrioritySort",
            );
        }
        if points.at(Point::Bind).is_empty() {
            errors.add(
                format!("{field}.plugins.bind"),
                "at least one plugin must bind; enable DefaultBinder",
            );
        }
        let (args, custom_args) = args::read(field, &wire.plugin_config, custom, errors);
        Self {
            scheduler_name,
            percentage_of_nodes_to_score: wire.percentage_of_nodes_to_score,
            points,
            args,
            custom_args,
        }
    }
}

/// Reports plugins that do not exist, that have no part in the point where they are enabled, or that are enabled twice.
fn check_plugins(
    field: &str,
    plugins: &wire::Plugins,
    points_of: &impl Fn(&str) -> Vec<Point>,
    custom: &[(&str, &[Point])],
    errors: &mut FieldErrors,
) {
    let multi = [("multiPoint", &plugins.multi_point, None)];
    let single = Point::ALL.map(|point| (point.as_str(), point.of(plugins), Some(point)));
    for (name, set, point) in multi.into_iter().chain(single) {
        for (index, named) in set.enabled.iter().enumerate() {
            let at = format!("{field}.plugins.{name}.enabled[{index}]");
            let points = points_of(&named.name);
            if points.is_empty() {
                errors.add(format!("{at}.name"), unknown(&named.name, custom));
            } else if point.is_some_and(|point| !points.contains(&point)) {
                errors.add(
                    format!("{at}.name"),
                    format!("{} takes no part in {name}", named.name),
                );
            }
            if set.enabled[..index]
                .iter()
                .any(|other| other.name == named.name)
            {
                errors.add(
                    format!("{at}.name"),
                    format!("{} is enabled twice", named.name),
                );
            }
            let weight = named.weight.unwrap_or(0);
            errors.within(&format!("{at}.weight"), weight, 0, i64::from(i32::MAX));
        }
    }
}

/// The message for a plugin that does not exist.
pub(super) fn unknown(name: &str, custom: &[(&str, &[Point])]) -> String {
    let known = points::known()
        .map(|plugin| plugin.name)
        .chain(custom.iter().map(|(name, _)| *name));
    let nearest = evictd_spelling::nearest(name, known);
    format!(
        "{name:?}: there is no such plugin; the nearest is {}",
        nearest.unwrap_or_default()
    )
}
