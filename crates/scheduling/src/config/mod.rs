//! `KubeSchedulerConfiguration` of `kubescheduler.config.k8s.io/v1`, as kube-scheduler 1.36 reads it: defaults, merging and
//! validation (S5-072 to S5-076). It is read by serde from JSON or YAML into [`KubeSchedulerConfiguration`], which knows
//! every field, and becomes a [`Configuration`] that can be used and printed ([`Configuration::to_json`]).
//!
//! ```
//! use evictd_scheduling::config::{Configuration, KubeSchedulerConfiguration, Point};
//!
//! let wire: KubeSchedulerConfiguration = serde_json::from_str(r#"{
//!     "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
//!     "profiles": [{"plugins": {"score": {"disabled": [{"name": "*"}], "enabled": [{"name": "NodeAffinity"}]}}}]
//! }"#)?;
//! let config = Configuration::new(&wire, &[]).expect("it has no mistakes");
//! assert_eq!(config.profiles[0].points.at(Point::Score), ["NodeAffinity"]);
//! # Ok::<(), serde_json::Error>(())
//! ```

mod args;
mod extender;
mod points;
mod print;
mod text;
mod wire;

pub use args::{Args, SpreadDefaults};
pub use extender::{Extender, Tls};
pub use points::{Point, Points};
pub(crate) use text::print_duration;
pub use wire::KubeSchedulerConfiguration;

use evictd_pod::duration;
use jiff::SignedDuration;
use serde_json::Value;
use std::collections::BTreeMap;

/// The configuration in force.
#[derive(Debug, Clone, PartialEq)]
pub struct Configuration {
    /// Nodes looked at at once by kube-scheduler; here it changes nothing.
    pub parallelism: i64,
    /// How many nodes kube-scheduler scores; here all are.
    pub percentage_of_nodes_to_score: Option<i64>,
    /// Whether profiles of the program itself are served.
    pub enable_profiling: bool,
    /// Whether those of its locks are, too.
    pub enable_contention_profiling: bool,
    /// Whether objects are read only once it leads.
    pub delay_cache_until_active: bool,
    /// Backoff of a pod after its first failure.
    pub pod_initial_backoff: SignedDuration,
    /// The longest backoff.
    pub pod_max_backoff: SignedDuration,
    /// How long a pod waits for an event at most; no file says it, only a flag.
    pub pod_max_unschedulable: SignedDuration,
    /// Who may act.
    pub leader_election: LeaderElection,
    /// How the API server is reached.
    pub client_connection: ClientConnection,
    /// By scheduler name; there is at least one.
    pub profiles: Vec<Profile>,
    /// In the order in which they are asked: those whose errors are passed over come last.
    pub extenders: Vec<Extender>,
    /// What is accepted and changes nothing, a line each.
    pub warnings: Vec<String>,
}

/// Who of several schedulers acts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaderElection {
    /// Whether they agree at all.
    pub leader_elect: bool,
    /// How long others wait after a leader was last heard of.
    pub lease_duration: SignedDuration,
    /// How long a leader tries to renew before it gives up.
    pub renew_deadline: SignedDuration,
    /// How long it waits between two tries.
    pub retry_period: SignedDuration,
    /// The lease.
    pub resource_name: String,
    /// Its namespace.
    pub resource_namespace: String,
}

/// How the API server is reached.
#[derive(Debug, Clone, PartialEq)]
pub struct ClientConnection {
    /// Path of the kubeconfig; empty for the pod's own access.
    pub kubeconfig: String,
    /// Requests a second.
    pub qps: f64,
    /// Requests at once.
    pub burst: i64,
}

/// How the pods of one scheduler name are placed.
#[derive(Debug, Clone, PartialEq)]
pub struct Profile {
    /// `schedulerName` of its pods.
    pub scheduler_name: String,
    /// In place of that of the whole configuration.
    pub percentage_of_nodes_to_score: Option<i64>,
    /// Its plugins.
    pub points: Points,
    /// Their arguments.
    pub args: Args,
    /// Arguments of plugins that are not built in.
    pub custom_args: BTreeMap<String, Value>,
}

/// Something that cannot be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {message}")]
pub struct InvalidField {
    /// Its path: `profiles[0].schedulerName`.
    pub field: String,
    /// What is wrong, and what to do.
    pub message: String,
}

/// FieldErrors while a configuration is read.
#[derive(Default)]
pub(super) struct FieldErrors(Vec<InvalidField>);

impl FieldErrors {
    fn add(&mut self, field: impl Into<String>, message: impl Into<String>) {
        self.0.push(InvalidField {
            field: field.into(),
            message: message.into(),
        });
    }

    /// Notes a number outside a range.
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

    /// A duration as Go writes it; the default where there is none.
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

/// The API version that is read.
pub const API_VERSION: &str = "kubescheduler.config.k8s.io/v1";

/// What is said of another API version, if it is one.
pub fn version_error(found: &str) -> String {
    let advice = match found.strip_prefix("kubescheduler.config.k8s.io/") {
        Some("v1alpha1" | "v1alpha2" | "v1beta1" | "v1beta2" | "v1beta3") => {
            "; that version is gone from Kubernetes: write the new one and follow the mistakes that are told then"
        }
        _ => "",
    };
    format!("{found:?}: must be {API_VERSION}{advice}")
}

impl Default for Configuration {
    fn default() -> Self {
        let mut mistakes = FieldErrors::default();
        // An empty file has no mistakes.
        Self::read(&KubeSchedulerConfiguration::default(), &[], &mut mistakes)
    }
}

impl Configuration {
    /// Checks a configuration and fills in the defaults. `own` are the plugins that are not built in, each with the points
    /// where it takes part.
    ///
    /// # Errors
    /// Every mistake.
    pub fn new(
        wire: &KubeSchedulerConfiguration,
        own: &[(&str, &[Point])],
    ) -> Result<Self, Vec<InvalidField>> {
        let mut mistakes = FieldErrors::default();
        if wire.kind != "KubeSchedulerConfiguration" {
            mistakes.add(
                "kind",
                format!("{:?}: must be KubeSchedulerConfiguration", wire.kind),
            );
        }
        if wire.api_version != API_VERSION {
            mistakes.add("apiVersion", version_error(&wire.api_version));
        }
        let read = Self::read(wire, own, &mut mistakes);
        if mistakes.0.is_empty() {
            Ok(read)
        } else {
            Err(mistakes.0)
        }
    }

    fn read(
        wire: &KubeSchedulerConfiguration,
        own: &[(&str, &[Point])],
        mistakes: &mut FieldErrors,
    ) -> Self {
        let mut warnings = Vec::new();
        let parallelism = wire.parallelism.unwrap_or(16);
        mistakes.within("parallelism", parallelism, 1, i64::from(i32::MAX));
        percentage(
            "percentageOfNodesToScore",
            wire.percentage_of_nodes_to_score,
            mistakes,
            &mut warnings,
        );
        let initial = wire.pod_initial_backoff_seconds.unwrap_or(1);
        let most = wire.pod_max_backoff_seconds.unwrap_or(10);
        mistakes.within("podInitialBackoffSeconds", initial, 1, i64::MAX);
        if most < initial {
            mistakes.add(
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
                    (own, profiles.len()),
                    mistakes,
                    &mut warnings,
                )
            })
            .collect();
        for (index, profile) in read.iter().enumerate() {
            let name = &profile.scheduler_name;
            let mut before = read[..index].iter();
            if !name.is_empty() && before.any(|other| other.scheduler_name == *name) {
                mistakes.add(
                    format!("profiles[{index}].schedulerName"),
                    format!("{name:?}: another profile has this name"),
                );
            }
            if profile.points.at(Point::QueueSort) != read[0].points.at(Point::QueueSort) {
                mistakes.add(
                    format!("profiles[{index}].plugins.queueSort"),
                    "must be the same in all profiles",
                );
            }
        }
        let extenders = extender::read(&wire.extenders, mistakes);
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
            leader_election: LeaderElection::read(&wire.leader_election, mistakes),
            client_connection: ClientConnection::read(&wire.client_connection, mistakes),
            profiles: read,
            extenders,
            warnings,
        }
    }

    /// The profile of pods with this scheduler name.
    pub fn profile(&self, scheduler_name: &str) -> Option<&Profile> {
        self.profiles
            .iter()
            .find(|profile| profile.scheduler_name == scheduler_name)
    }
}

/// Checks how many nodes are to be scored, which is then ignored: all are.
fn percentage(
    field: &str,
    value: Option<i64>,
    mistakes: &mut FieldErrors,
    warnings: &mut Vec<String>,
) {
    let Some(value) = value else { return };
    mistakes.within(field, value, 0, 100);
    if value != 0 && value != 100 {
        warnings.push(format!("{field}: {value} is ignored: all nodes are scored"));
    }
}

impl LeaderElection {
    fn read(wire: &wire::LeaderElection, mistakes: &mut FieldErrors) -> Self {
        let own = Self {
            leader_elect: wire.leader_elect.unwrap_or(true),
            lease_duration: mistakes.duration(
                "leaderElection.leaseDuration",
                wire.lease_duration.as_deref(),
                15,
            ),
            renew_deadline: mistakes.duration(
                "leaderElection.renewDeadline",
                wire.renew_deadline.as_deref(),
                10,
            ),
            retry_period: mistakes.duration(
                "leaderElection.retryPeriod",
                wire.retry_period.as_deref(),
                2,
            ),
            resource_name: named(wire.resource_name.as_ref(), "kube-scheduler"),
            resource_namespace: named(wire.resource_namespace.as_ref(), "kube-system"),
        };
        let lock = named(wire.resource_lock.as_ref(), "leases");
        if own.leader_elect && lock != "leases" {
            mistakes.add(
                "leaderElection.resourceLock",
                format!("{lock:?}: must be leases"),
            );
        }
        mistakes.0.extend(own.mistakes());
        own
    }

    /// What cannot be, none where there is no election. To be asked again where flags changed it.
    pub fn mistakes(&self) -> Vec<InvalidField> {
        let mut mistakes = FieldErrors::default();
        if self.leader_elect && self.lease_duration <= self.renew_deadline {
            mistakes.add(
                "leaderElection.leaseDuration",
                "must be above renewDeadline",
            );
        }
        // Each wait is longer by up to a fifth, so that several do not try at the same time.
        let retry = self.retry_period.saturating_mul(6) / 5;
        if self.leader_elect && self.renew_deadline <= retry {
            mistakes.add(
                "leaderElection.renewDeadline",
                "must be above 1.2 times retryPeriod",
            );
        }
        mistakes.0
    }
}

/// A name; the default where it is empty.
fn named(name: Option<&String>, default: &str) -> String {
    name.filter(|name| !name.is_empty())
        .map_or_else(|| default.to_owned(), Clone::clone)
}

impl ClientConnection {
    fn read(wire: &wire::ClientConnection, mistakes: &mut FieldErrors) -> Self {
        let burst = wire.burst.unwrap_or_default();
        mistakes.within("clientConnection.burst", burst, 0, i64::from(i32::MAX));
        Self {
            kubeconfig: wire.kubeconfig.clone().unwrap_or_default(),
            qps: wire.qps.filter(|qps| *qps != 0.0).unwrap_or(50.0),
            burst: if burst == 0 { 100 } else { burst },
        }
    }
}

impl Profile {
    fn read(
        field: &str,
        wire: &wire::Profile,
        (own, count): (&[(&str, &[Point])], usize),
        mistakes: &mut FieldErrors,
        warnings: &mut Vec<String>,
    ) -> Self {
        let default = (count == 1).then(|| "default-scheduler".to_owned());
        let scheduler_name = wire.scheduler_name.clone().or(default).unwrap_or_default();
        if scheduler_name.is_empty() {
            mistakes.add(format!("{field}.schedulerName"), "is missing");
        }
        let percent = format!("{field}.percentageOfNodesToScore");
        percentage(
            &percent,
            wire.percentage_of_nodes_to_score,
            mistakes,
            warnings,
        );
        let points_of = |name: &str| -> Vec<Point> {
            let built_in = points::known().find(|own| own.name == name);
            let mine = own
                .iter()
                .find(|(own, _)| *own == name)
                .map(|(_, points)| *points);
            built_in
                .map(|own| own.points)
                .or(mine)
                .unwrap_or_default()
                .to_vec()
        };
        check_plugins(field, &wire.plugins, &points_of, own, mistakes);
        let points = Points::new(&wire.plugins, points_of);
        if points.at(Point::QueueSort).len() != 1 {
            mistakes.add(
                format!("{field}.plugins.queueSort"),
                "exactly one plugin must sort the queue; it is PrioritySort",
            );
        }
        if points.at(Point::Bind).is_empty() {
            mistakes.add(
                format!("{field}.plugins.bind"),
                "at least one plugin must bind; enable DefaultBinder",
            );
        }
        let (args, custom_args) = args::read(field, &wire.plugin_config, own, mistakes);
        Self {
            scheduler_name,
            percentage_of_nodes_to_score: wire.percentage_of_nodes_to_score,
            points,
            args,
            custom_args,
        }
    }
}

/// Notes plugins that nobody knows, that do not take part where they are named, or that are named twice.
fn check_plugins(
    field: &str,
    plugins: &wire::Plugins,
    points_of: &impl Fn(&str) -> Vec<Point>,
    own: &[(&str, &[Point])],
    mistakes: &mut FieldErrors,
) {
    let multi = [("multiPoint", &plugins.multi_point, None)];
    let single = Point::ALL.map(|point| (point.as_str(), point.of(plugins), Some(point)));
    for (name, set, point) in multi.into_iter().chain(single) {
        for (index, named) in set.enabled.iter().enumerate() {
            let at = format!("{field}.plugins.{name}.enabled[{index}]");
            let points = points_of(&named.name);
            if points.is_empty() {
                mistakes.add(format!("{at}.name"), unknown(&named.name, own));
            } else if point.is_some_and(|point| !points.contains(&point)) {
                mistakes.add(
                    format!("{at}.name"),
                    format!("{} takes no part in {name}", named.name),
                );
            }
            if set.enabled[..index]
                .iter()
                .any(|other| other.name == named.name)
            {
                mistakes.add(
                    format!("{at}.name"),
                    format!("{} is enabled twice", named.name),
                );
            }
            let weight = named.weight.unwrap_or(0);
            mistakes.within(&format!("{at}.weight"), weight, 0, i64::from(i32::MAX));
        }
    }
}

/// What is said of a plugin that nobody knows.
pub(super) fn unknown(name: &str, own: &[(&str, &[Point])]) -> String {
    let known = points::known()
        .map(|own| own.name)
        .chain(own.iter().map(|(name, _)| *name));
    let nearest = known.min_by_key(|known| strsim::levenshtein(known, name));
    format!(
        "{name:?}: there is no such plugin; the nearest is {}",
        nearest.unwrap_or_default()
    )
}
