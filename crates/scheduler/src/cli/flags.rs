//! The flags of kube-scheduler, so that its static pod can be kept: those that mean something here, and those that are
//! accepted and change nothing.

use super::gates::{self, gate};
use super::values::{boolean, duration};
use super::without_effect::WithoutEffect;
use crate::configuration;
use crate::run::process::Ports;
use crate::run::serve::Port;
use clap::{Arg, Args};
use evictd_command::Failure;
use evictd_daemon::logging::Logging;
use evictd_daemon::server::ListenAddress;
use evictd_daemon::tls::NamedFile;
use evictd_scheduling::CustomPlugin;
use evictd_scheduling::config::{Configuration, LeaderElection};
use jiff::SignedDuration;
use std::net::SocketAddr;
use std::path::PathBuf;

/// What `run` is told on its command line. As with kube-scheduler's flags, of one that comes twice the last counts, and names may
/// have underscores for dashes.
#[derive(Debug, Args)]
#[command(args_override_self = true, mut_args(with_underscores))]
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
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = boolean)]
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
    #[command(flatten)]
    pub(super) logging: Logging,
    /// The address of the secure port.
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0")]
    pub(super) bind_address: std::net::IpAddr,
    /// The port for health, metrics and questions, over TLS; 0 for none.
    #[arg(long, value_name = "PORT", default_value_t = 10259)]
    pub(super) secure_port: u16,
    /// Where health alone is served over plain HTTP, for probes that no other client can delay: ADDRESS:PORT or :PORT; empty:
    /// nowhere.
    #[arg(
        long,
        value_name = "ADDRESS",
        default_value = "",
        hide_default_value = true
    )]
    healthz_address: String,
    /// The certificate of the secure port; without it one is made.
    #[arg(long, value_name = "FILE", requires = "tls_private_key_file")]
    pub(super) tls_cert_file: Option<PathBuf>,
    /// Its private key.
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    pub(super) tls_private_key_file: Option<PathBuf>,
    /// The oldest version of TLS: VersionTLS12, which older ones stand for, or VersionTLS13.
    #[arg(long, value_name = "VERSION", value_parser = ["VersionTLS10", "VersionTLS11", "VersionTLS12", "VersionTLS13"])]
    tls_min_version: Option<String>,
    /// Clients with a certificate by this authority are known by its common name. Default: the authorities that the API
    /// server publishes for that, which --authentication-kubeconfig reads.
    #[arg(long, value_name = "FILE")]
    pub(super) client_ca_file: Option<PathBuf>,
    /// Who asks the API server who a client is.
    #[arg(long, value_name = "FILE")]
    pub(super) authentication_kubeconfig: Option<PathBuf>,
    /// Not to read them.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = boolean)]
    authentication_skip_lookup: Option<bool>,
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
    /// Requests a second to the API server, without --config. Default: 50.
    #[arg(long, value_name = "NUMBER")]
    kube_api_qps: Option<f64>,
    /// Requests at once to the API server, without --config. Default: 100.
    #[arg(long, value_name = "NUMBER")]
    kube_api_burst: Option<u32>,
    /// How long a pod waits for an event at most. Default: 5m.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pod_max_in_unschedulable_pods_duration: Option<SignedDuration>,
    /// Writes the configuration that --config and the flags make, and ends.
    #[arg(long, value_name = "FILE")]
    pub(super) write_config_to: Option<PathBuf>,
    #[command(flatten)]
    without_effect: WithoutEffect,
}

fn with_underscores(arg: Arg) -> Arg {
    match arg.get_long().filter(|long| long.contains('-')) {
        // Some seventy names, once at start: they have to live as long as the command line.
        Some(long) => {
            let alias: &'static str = String::leak(long.replace('-', "_"));
            arg.alias(alias)
        }
        None => arg,
    }
}

impl Flags {
    /// The configuration in force: that of the file, or without one the default, with what the flags say.
    ///
    /// # Errors
    /// A file that cannot be used, or flags that do not go together.
    pub(super) fn effective(&self, own: &[CustomPlugin]) -> Result<Configuration, Failure> {
        let file = self.config.as_deref();
        let file = file.map(|path| configuration::read(path, own));
        let mut config = match file.transpose().map_err(Failure::input)? {
            Some(file) => file,
            None => self.without_file(),
        };
        self.apply(&mut config.leader_election);
        config.pod_max_unschedulable = self
            .pod_max_in_unschedulable_pods_duration
            .unwrap_or(config.pod_max_unschedulable);
        let mistakes = config.leader_election.errors();
        let lines = mistakes.iter().map(|own| {
            let (_, field) = own.field.rsplit_once('.').unwrap_or_default();
            format!("--leader-elect-*: {field} {}", own.message)
        });
        let lines: Vec<String> = lines.collect();
        if lines.is_empty() {
            Ok(config)
        } else {
            Err(Failure::Input(anyhow::anyhow!(lines.join("\n"))))
        }
    }

    /// The default with what older flags say, for which a file leaves no room.
    fn without_file(&self) -> Configuration {
        let mut config = Configuration::default();
        let client = &mut config.client_connection;
        client.qps = self.kube_api_qps.unwrap_or(client.qps);
        client.burst = self.kube_api_burst.map_or(client.burst, i64::from);
        config
    }

    /// Puts what the flags say in the place of what the configuration says of the election.
    fn apply(&self, own: &mut LeaderElection) {
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

    /// Where the scheduler is asked.
    ///
    /// # Errors
    /// An address that is none.
    pub(super) fn ports(&self) -> Result<Ports, Failure> {
        let probes = Some(self.healthz_address.as_str()).filter(|address| !address.is_empty());
        let probes = probes.map(str::parse::<ListenAddress>).transpose();
        let probes = probes.map_err(|error| {
            let given = &self.healthz_address;
            Failure::Input(anyhow::anyhow!("--healthz-address {given}: {error}"))
        })?;
        Ok(Ports {
            secure: self.port(),
            probes,
        })
    }

    /// The secure port; `None` where there is to be none.
    fn port(&self) -> Option<Port> {
        let named = |flag, path: &Option<PathBuf>| {
            let path = path.clone()?;
            Some(NamedFile { flag, path })
        };
        let certificate = named("--tls-cert-file", &self.tls_cert_file);
        let key = named("--tls-private-key-file", &self.tls_private_key_file);
        (self.secure_port != 0).then(|| Port {
            address: SocketAddr::new(self.bind_address, self.secure_port).into(),
            certificate: certificate.zip(key),
            client_ca: named("--client-ca-file", &self.client_ca_file),
            skip_lookup: self.authentication_skip_lookup == Some(true),
            only_tls13: self.tls_min_version.as_deref() == Some("VersionTLS13"),
            authentication: self.authentication_kubeconfig.clone(),
            authorization: self.authorization_kubeconfig.clone(),
            always_allowed: self.authorization_always_allow_paths.clone(),
        })
    }

    /// What is accepted and changes nothing, a line each.
    pub(super) fn warnings(&self) -> Vec<String> {
        let file = self.config.is_some();
        let beside = [
            ("--kube-api-qps", self.kube_api_qps.is_some()),
            ("--kube-api-burst", self.kube_api_burst.is_some()),
        ];
        let beside = beside.into_iter().filter(|(_, given)| file && *given);
        let beside = beside.map(|(flag, _)| format!("{flag} is ignored beside --config"));
        let more = self.without_effect.warning();
        gates::warnings(&self.feature_gates)
            .chain(beside)
            .chain(more)
            .collect()
    }
}

#[cfg(test)]
mod tests;
