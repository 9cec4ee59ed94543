//! The flags of kube-scheduler, so that its static pod can be kept: those that mean something here, and those that are
//! accepted and change nothing.

use crate::run::process::Port;
use crate::run::serve::Certificate;
use clap::Args;
use evictd_scheduling::config::{Configuration, LeaderElection};
use jiff::SignedDuration;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Feature gates of Kubernetes 1.36 and 1.37 that concern its scheduler, and whether they are on here.
const GATES: [(&str, bool); 24] = [
    ("AllAlpha", false),
    ("AllBeta", false),
    ("CSIStorageCapacity", true),
    ("DRAAdminAccess", false),
    ("DRAExtendedResource", false),
    ("DRAPartitionableDevices", false),
    ("DRAPrioritizedList", false),
    ("DRASchedulerFilterTimeout", false),
    ("DynamicResourceAllocation", false),
    ("GangScheduling", false),
    ("GenericWorkload", false),
    ("InPlacePodVerticalScaling", true),
    ("MatchLabelKeysInPodTopologySpread", true),
    ("NodeDeclaredFeatures", false),
    ("NodeInclusionPolicyInPodTopologySpread", true),
    ("NominatedNodeNameForExpectation", false),
    ("OpportunisticBatching", true),
    ("PodLevelResources", true),
    ("SchedulerAsyncAPICalls", true),
    ("SchedulerAsyncPreemption", true),
    ("SchedulerPopFromBackoffQ", true),
    ("SchedulerQueueingHints", true),
    ("StorageCapacityScoring", false),
    ("TaintTolerationComparisonOperators", false),
];

/// What `run` is told on its command line.
#[derive(Debug, Args)]
pub(super) struct Flags {
    /// A KubeSchedulerConfiguration. Default: that of kube-scheduler.
    #[arg(long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    /// How the API server is reached, unless the configuration says so.
    #[arg(long, value_name = "FILE")]
    pub(super) kubeconfig: Option<PathBuf>,
    /// The kubeconfig's context.
    #[arg(long, value_name = "NAME", default_value = "")]
    pub(super) context: String,
    /// Whether only the holder of the lease schedules. Default: true.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    leader_elect: Option<bool>,
    /// How long others wait after the leader was last heard of.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    leader_elect_lease_duration: Option<SignedDuration>,
    /// How long the leader tries to renew before it gives up.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    leader_elect_renew_deadline: Option<SignedDuration>,
    /// How long is waited between two tries.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    leader_elect_retry_period: Option<SignedDuration>,
    /// The lease.
    #[arg(long, value_name = "NAME")]
    leader_elect_resource_name: Option<String>,
    /// Its namespace.
    #[arg(long, value_name = "NAME")]
    leader_elect_resource_namespace: Option<String>,
    /// Only leases.
    #[arg(long, value_name = "KIND", value_parser = ["leases"])]
    leader_elect_resource_lock: Option<String>,
    /// Features that are to be on or off: A=true,B=false.
    #[arg(long, value_name = "GATES", value_delimiter = ',', value_parser = gate)]
    feature_gates: Vec<(String, bool)>,
    /// How much is logged: 2 and less decisions that fail, 4 and more every one.
    #[arg(short = 'v', long = "v", value_name = "LEVEL", default_value_t = 2)]
    pub(super) verbosity: u8,
    /// The address of the secure port.
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0")]
    pub(super) bind_address: std::net::IpAddr,
    /// The port for health, metrics and questions, over TLS; 0 for none.
    #[arg(long, value_name = "PORT", default_value_t = 10259)]
    pub(super) secure_port: u16,
    /// The certificate of the secure port; without it one is made.
    #[arg(long, value_name = "FILE", requires = "tls_private_key_file")]
    pub(super) tls_cert_file: Option<PathBuf>,
    /// Its private key.
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    pub(super) tls_private_key_file: Option<PathBuf>,
    /// Clients with a certificate by this authority are known by its common name.
    #[arg(long, value_name = "FILE")]
    pub(super) client_ca_file: Option<PathBuf>,
    /// Who asks the API server who a client is.
    #[arg(long, value_name = "FILE")]
    pub(super) authentication_kubeconfig: Option<PathBuf>,
    /// Who asks the API server what a client may do.
    #[arg(long, value_name = "FILE")]
    pub(super) authorization_kubeconfig: Option<PathBuf>,
    /// Paths that everybody may get.
    #[arg(
        long,
        value_name = "PATHS",
        value_delimiter = ',',
        default_value = "/healthz,/readyz,/livez"
    )]
    pub(super) authorization_always_allow_paths: Vec<String>,
    #[command(flatten)]
    without_effect: WithoutEffect,
}

/// Flags of kube-scheduler that are accepted and change nothing.
#[derive(Debug, Args)]
#[allow(clippy::struct_field_names, reason = "they are the names of flags")]
struct WithoutEffect {
    #[arg(long, hide = true)]
    master: Option<String>,
    #[arg(long, hide = true)]
    cert_dir: Option<String>,
    #[arg(long, hide = true)]
    tls_cipher_suites: Option<String>,
    #[arg(long, hide = true)]
    tls_min_version: Option<String>,
    #[arg(long, hide = true)]
    tls_sni_cert_key: Option<String>,
    #[arg(long, hide = true)]
    requestheader_client_ca_file: Option<String>,
    #[arg(long, hide = true)]
    requestheader_allowed_names: Option<String>,
    #[arg(long, hide = true)]
    requestheader_username_headers: Option<String>,
    #[arg(long, hide = true)]
    requestheader_group_headers: Option<String>,
    #[arg(long, hide = true)]
    requestheader_extra_headers_prefix: Option<String>,
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    authentication_skip_lookup: Option<bool>,
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    authentication_tolerate_lookup_failure: Option<bool>,
    #[arg(long, hide = true)]
    authentication_token_webhook_cache_ttl: Option<String>,
    #[arg(long, hide = true)]
    authorization_webhook_cache_authorized_ttl: Option<String>,
    #[arg(long, hide = true)]
    authorization_webhook_cache_unauthorized_ttl: Option<String>,
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    profiling: Option<bool>,
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    contention_profiling: Option<bool>,
    #[arg(long, hide = true)]
    kube_api_qps: Option<f64>,
    #[arg(long, hide = true)]
    kube_api_burst: Option<i64>,
    #[arg(long, hide = true)]
    kube_api_content_type: Option<String>,
    #[arg(long, hide = true)]
    http2_max_streams_per_connection: Option<i64>,
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    permit_address_sharing: Option<bool>,
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    permit_port_sharing: Option<bool>,
    #[arg(long, hide = true)]
    logging_format: Option<String>,
    #[arg(long, hide = true)]
    log_flush_frequency: Option<String>,
    #[arg(long, hide = true)]
    vmodule: Option<String>,
    #[arg(long, hide = true)]
    show_hidden_metrics_for_version: Option<String>,
    #[arg(long, hide = true)]
    disabled_metrics: Option<String>,
    #[arg(long, hide = true)]
    emulated_version: Option<String>,
    #[arg(long, hide = true)]
    min_compatibility_version: Option<String>,
}

/// A duration as Go writes it.
fn duration(text: &str) -> Result<SignedDuration, String> {
    let parsed: Result<SignedDuration, _> = text.parse();
    match parsed {
        Ok(duration) if duration.is_positive() => Ok(duration),
        _ => Err("a duration above zero is needed, like 15s or 1m30s".to_owned()),
    }
}

/// `Name=true`.
fn gate(text: &str) -> Result<(String, bool), String> {
    let (name, value) = text
        .split_once('=')
        .ok_or("Name=true or Name=false is needed")?;
    let value = value
        .parse()
        .map_err(|_| format!("{value:?} is neither true nor false"))?;
    if GATES.iter().any(|(known, _)| *known == name) {
        return Ok((name.to_owned(), value));
    }
    let known = GATES.iter().map(|(known, _)| *known);
    let nearest = known.min_by_key(|known| strsim::levenshtein(known, name));
    Err(format!(
        "there is no such gate for a scheduler; the nearest is {}",
        nearest.unwrap_or_default()
    ))
}

impl Flags {
    /// Puts what the flags say in the place of what the configuration says of the election.
    pub(super) fn apply(&self, config: &mut Configuration) {
        let own: &mut LeaderElection = &mut config.leader_election;
        own.leader_elect = self.leader_elect.unwrap_or(own.leader_elect);
        own.lease_duration = self
            .leader_elect_lease_duration
            .unwrap_or(own.lease_duration);
        own.renew_deadline = self
            .leader_elect_renew_deadline
            .unwrap_or(own.renew_deadline);
        own.retry_period = self.leader_elect_retry_period.unwrap_or(own.retry_period);
        if let Some(name) = &self.leader_elect_resource_name {
            own.resource_name.clone_from(name);
        }
        if let Some(namespace) = &self.leader_elect_resource_namespace {
            own.resource_namespace.clone_from(namespace);
        }
    }

    /// The secure port; `None` where there is to be none.
    pub(super) fn port(&self) -> Option<Port> {
        let files = self
            .tls_cert_file
            .clone()
            .zip(self.tls_private_key_file.clone());
        let certificate = files
            .map_or(Certificate::SelfSigned(Vec::new()), |(certificate, key)| {
                Certificate::Files { certificate, key }
            });
        (self.secure_port != 0).then(|| Port {
            address: SocketAddr::new(self.bind_address, self.secure_port),
            certificate,
            client_ca: self.client_ca_file.clone(),
            only_tls13: self.without_effect.tls_min_version.as_deref() == Some("VersionTLS13"),
            authentication: self.authentication_kubeconfig.clone(),
            authorization: self.authorization_kubeconfig.clone(),
            always_allowed: self.authorization_always_allow_paths.clone(),
        })
    }

    /// What is accepted and changes nothing, a line each.
    pub(super) fn warnings(&self) -> Vec<String> {
        let gates = self.feature_gates.iter().filter_map(|(name, value)| {
            let (_, here) = GATES.iter().find(|(known, _)| known == name)?;
            let is = if *here { "on" } else { "off" };
            (value != here).then(|| {
                format!("--feature-gates {name}={value} changes nothing: it is always {is} here")
            })
        });
        gates.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Command {
        #[command(flatten)]
        flags: Flags,
    }

    fn parse(arguments: &[&str]) -> Result<Flags, String> {
        let all = ["scheduler"].into_iter().chain(arguments.iter().copied());
        Command::try_parse_from(all)
            .map(|command| command.flags)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn s5_073_the_flags_of_a_static_pod_are_understood() {
        let flags = parse(&[
            "--authentication-kubeconfig=/etc/kubernetes/scheduler.conf",
            "--authorization-kubeconfig=/etc/kubernetes/scheduler.conf",
            "--bind-address=127.0.0.1",
            "--kubeconfig=/etc/kubernetes/scheduler.conf",
            "--leader-elect=true",
            "--leader-elect-lease-duration=30s",
            "--profiling=false",
            "--tls-min-version=VersionTLS12",
            "--feature-gates=SchedulerQueueingHints=true,AllAlpha=true",
            "-v=4",
        ]);
        let flags = flags.unwrap();
        let mut config = Configuration::default();
        flags.apply(&mut config);
        assert!(config.leader_election.leader_elect);
        assert_eq!(
            config.leader_election.lease_duration,
            SignedDuration::from_secs(30)
        );
        assert_eq!((flags.verbosity, flags.secure_port), (4, 10259));
        assert_eq!(
            flags.warnings(),
            ["--feature-gates AllAlpha=true changes nothing: it is always off here"]
        );
    }

    #[test]
    fn what_is_not_known_is_told_with_the_nearest() {
        let told = parse(&["--leader-elct=true"]).unwrap_err();
        assert!(told.contains("--leader-elect"), "{told}");
        let told = parse(&["--feature-gates=SchedulerQueueingHint=true"]).unwrap_err();
        assert!(
            told.contains("the nearest is SchedulerQueueingHints"),
            "{told}"
        );
        assert!(
            parse(&["--leader-elect-retry-period=soon"])
                .unwrap_err()
                .contains("like 15s")
        );
    }
}
