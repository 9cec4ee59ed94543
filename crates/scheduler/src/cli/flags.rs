//! The flags of `run`. All flags of kube-scheduler are accepted, so that its static pod can be kept; some have no effect.

use super::ignored_flags::IgnoredFlags;
use crate::configuration;
use crate::emulation::Emulation;
use crate::run::process::Ports;
use crate::run::serve::Port;
use crate::values::{boolean, duration};
use clap::{Arg, Args};
use evictd_command::Failure;
use evictd_daemon::logging::Logging;
use evictd_daemon::rate::RateFlags;
use evictd_daemon::server::ListenAddress;
use evictd_daemon::tls::NamedFile;
use evictd_scheduling::CustomPlugin;
use evictd_scheduling::config::{ClientConnection, Configuration, LeaderElection};
use jiff::SignedDuration;
use std::fmt::Display;
use std::net::SocketAddr;
use std::path::PathBuf;

/// As with kube-scheduler, the last value of a repeated flag counts, and names may have underscores in place of dashes.
#[derive(Debug, Args)]
#[command(args_override_self = true, mut_args(with_underscores))]
pub(super) struct Flags {
    /// A KubeSchedulerConfiguration. Default: kube-scheduler's.
    #[arg(long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    /// The kubeconfig for the API server, unless the configuration names one.
    #[arg(long, value_name = "FILE")]
    pub(super) kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig.
    #[arg(long, value_name = "NAME", default_value = "")]
    pub(super) context: String,
    /// Schedule only while holding the lease. Default: true.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = boolean)]
    leader_elect: Option<bool>,
    /// How long others wait after the last renewal of the leader.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    leader_elect_lease_duration: Option<SignedDuration>,
    /// How long the leader tries to renew the lease before it stops.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    leader_elect_renew_deadline: Option<SignedDuration>,
    /// The pause between two attempts to get or renew the lease.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    leader_elect_retry_period: Option<SignedDuration>,
    /// The name of the lease.
    #[arg(long, value_name = "NAME")]
    leader_elect_resource_name: Option<String>,
    /// The namespace of the lease.
    #[arg(long, value_name = "NAME")]
    leader_elect_resource_namespace: Option<String>,
    /// The kind of the lock: only leases.
    #[arg(long, value_name = "KIND", value_parser = ["leases"])]
    leader_elect_resource_lock: Option<String>,
    #[command(flatten)]
    pub(super) emulation: Emulation,
    #[command(flatten)]
    pub(super) logging: Logging,
    /// The address of the secure port.
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0")]
    pub(super) bind_address: std::net::IpAddr,
    /// The port for health, metrics and pages, over TLS. 0 opens none.
    #[arg(long, value_name = "PORT", default_value_t = 10259)]
    pub(super) secure_port: u16,
    /// The address for health alone, over plain HTTP, so that other clients cannot delay probes: ADDRESS:PORT or :PORT. Empty
    /// opens none.
    #[arg(
        long,
        value_name = "ADDRESS",
        default_value = "",
        hide_default_value = true
    )]
    healthz_address: String,
    /// The certificate of the secure port. Default: one that is made at the start.
    #[arg(long, value_name = "FILE", requires = "tls_private_key_file")]
    pub(super) tls_cert_file: Option<PathBuf>,
    /// The private key of that certificate.
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    pub(super) tls_private_key_file: Option<PathBuf>,
    /// The oldest version of TLS. Versions before VersionTLS12 mean VersionTLS12.
    #[arg(long, value_name = "VERSION", value_parser = ["VersionTLS10", "VersionTLS11", "VersionTLS12", "VersionTLS13"])]
    tls_min_version: Option<String>,
    /// The authorities of client certificates. Default: those that the API server publishes.
    #[arg(long, value_name = "FILE")]
    pub(super) client_ca_file: Option<PathBuf>,
    /// The kubeconfig to authenticate clients with. Default: this pod's service account.
    #[arg(long, value_name = "FILE")]
    pub(super) authentication_kubeconfig: Option<PathBuf>,
    /// Do not read the published authorities of client certificates.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = boolean)]
    authentication_skip_lookup: Option<bool>,
    /// The kubeconfig to authorize clients with. Default: this pod's service account.
    #[arg(long, value_name = "FILE")]
    pub(super) authorization_kubeconfig: Option<PathBuf>,
    /// Paths that need no authorization.
    #[arg(
        long,
        value_name = "PATHS",
        value_delimiter = ',',
        default_value = "/healthz,/readyz,/livez"
    )]
    pub(super) authorization_always_allow_paths: Vec<String>,
    #[command(flatten)]
    rate: RateFlags,
    /// The longest time that an unschedulable pod waits for an event. Default: 5m.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pod_max_in_unschedulable_pods_duration: Option<SignedDuration>,
    /// Write the effective configuration to this file, and exit.
    #[arg(long, value_name = "FILE")]
    pub(super) write_config_to: Option<PathBuf>,
    #[command(flatten)]
    ignored: IgnoredFlags,
}

fn with_underscores(arg: Arg) -> Arg {
    match arg.get_long().filter(|long| long.contains('-')) {
        // Some seventy names, which must live as long as the command line. This happens once.
        Some(long) => {
            let alias: &'static str = String::leak(long.replace('-', "_"));
            arg.alias(alias)
        }
        None => arg,
    }
}

impl Flags {
    /// The effective configuration: that of the file, or the default, overridden by the flags.
    ///
    /// # Errors
    /// An invalid file, or flags that contradict each other.
    pub(super) fn effective(&self, plugins: &[CustomPlugin]) -> Result<Configuration, Failure> {
        let file = self.config.as_deref();
        let file = file.map(|path| configuration::read(path, plugins));
        let mut config = file.transpose()?.unwrap_or_default();
        // kube-scheduler ignores these flags beside a file, and has a rate of 50 then. Without that default there would be no limit.
        let client = &mut config.client_connection;
        client.qps = client.qps.or(self.rate.qps);
        client.burst = client.burst.or(self.rate.burst);
        self.apply(&mut config.leader_election);
        config.pod_max_unschedulable = self
            .pod_max_in_unschedulable_pods_duration
            .unwrap_or(config.pod_max_unschedulable);
        let mistakes = config.leader_election.errors();
        let lines = mistakes.iter().map(|mistake| {
            let (_, field) = mistake.field.rsplit_once('.').unwrap_or_default();
            format!("--leader-elect-*: {field} {}", mistake.message)
        });
        let lines: Vec<String> = lines.collect();
        if lines.is_empty() {
            Ok(config)
        } else {
            Err(Failure::Input(anyhow::anyhow!(lines.join("\n"))))
        }
    }

    /// Which rate counts, for each flag of it beside a file.
    pub(super) fn rate_warnings(&self, effective: &ClientConnection) -> Vec<String> {
        let qps = beside("--kube-api-qps", self.rate.qps, "qps", effective.qps);
        let burst = beside(
            "--kube-api-burst",
            self.rate.burst,
            "burst",
            effective.burst,
        );
        let lines = [qps, burst].into_iter().flatten();
        lines.filter(|_| self.config.is_some()).collect()
    }

    /// Overrides the settings of the election.
    fn apply(&self, election: &mut LeaderElection) {
        election.leader_elect = self.leader_elect.unwrap_or(election.leader_elect);
        election.lease_duration = self
            .leader_elect_lease_duration
            .unwrap_or(election.lease_duration);
        election.renew_deadline = self
            .leader_elect_renew_deadline
            .unwrap_or(election.renew_deadline);
        election.retry_period = self
            .leader_elect_retry_period
            .unwrap_or(election.retry_period);
        if let Some(name) = &self.leader_elect_resource_name {
            election.resource_name.clone_from(name);
        }
        if let Some(namespace) = &self.leader_elect_resource_namespace {
            election.resource_namespace.clone_from(namespace);
        }
    }

    /// # Errors
    /// An invalid address.
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

    /// The secure port. `None` with `--secure-port=0`.
    fn port(&self) -> Option<Port> {
        let named = |flag, path: &Option<PathBuf>| {
            let path = path.clone()?;
            Some(NamedFile { flag, path })
        };
        let certificate = named("--tls-cert-file", &self.tls_cert_file);
        let key = named("--tls-private-key-file", &self.tls_private_key_file);
        // As in kube-scheduler, port 0 turns the secure port off.
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

    /// A line for each flag without effect.
    pub(super) fn warnings(&self) -> Vec<String> {
        let more = self.ignored.warning();
        self.emulation.warnings().chain(more).collect()
    }
}

/// Whether a flag counts beside a file with this field of `clientConnection`.
fn beside<T: PartialEq + Display>(
    flag: &str,
    given: Option<T>,
    name: &str,
    effective: Option<T>,
) -> Option<String> {
    let (given, effective) = (given?, effective?);
    Some(if given == effective {
        format!(
            "{flag} {given} holds, because the file of --config sets no other clientConnection.{name}; kube-scheduler ignores the \
             flag beside a file"
        )
    } else {
        format!(
            "{flag} {given} is ignored, because the file of --config sets clientConnection.{name} to {effective}"
        )
    })
}

#[cfg(test)]
mod tests;
