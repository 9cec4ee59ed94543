//! `evictd-batch webhook`: the admission webhook.

use super::service::{Served, runtime};
use crate::webhook::process::{self, Options, RunError};
use crate::webhook::{Limits, Source};
use anyhow::anyhow;
use clap::{ArgAction, Args};
use evictd_batch::admission::{Endpoint, Settings};
use evictd_command::Failure;
use evictd_daemon::logging::Logging;
use evictd_daemon::server::ListenAddress;
use evictd_daemon::tls::NamedFile;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

const EXAMPLE: &str = "Examples:
  evictd-batch webhook --webhook-namespace evictd
  evictd-batch webhook --tls-cert-file tls.crt --tls-private-key-file tls.key \\
    --ca-cert-file ca.crt --port 8443";

/// Decides whether jobs, queues, pod groups and pods are let in, and what they get.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct Arguments {
    #[command(flatten)]
    served: Served,
    /// Where reviews are taken.
    #[arg(long, value_name = "IP", default_value = "0.0.0.0")]
    listen_address: IpAddr,
    /// The port of reviews.
    #[arg(long, value_name = "PORT", default_value_t = 8443)]
    port: u16,
    /// The certificate, PEM. Without it one is made and kept in a Secret.
    #[arg(long, value_name = "FILE", requires = "tls_private_key_file")]
    tls_cert_file: Option<PathBuf>,
    /// Its key, PEM.
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    tls_private_key_file: Option<PathBuf>,
    /// Who signed it, PEM; it is written to the webhook configurations.
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    ca_cert_file: Option<PathBuf>,
    /// The Secret of the certificate.
    #[arg(long, value_name = "NAME", default_value = "evictd-batch-webhook")]
    tls_secret: String,
    /// The namespace of the Service and of the Secret. By default this pod's.
    #[arg(long, value_name = "NAME")]
    webhook_namespace: Option<String>,
    /// The Service that the API server calls.
    #[arg(long, value_name = "NAME", default_value = "evictd-batch-webhook")]
    webhook_service_name: String,
    /// The webhook configurations, of both kinds, that are told which certificate to trust.
    #[arg(long, value_name = "NAME", default_value = "evictd-batch")]
    webhook_configuration: String,
    /// What is decided, as paths separated by commas.
    #[arg(long, value_name = "PATHS", value_delimiter = ',', value_parser = endpoint)]
    enabled_admission: Vec<Endpoint>,
    /// Names of our scheduler; jobs that name none get the first. May be given several times.
    #[arg(
        long = "scheduler-name",
        value_name = "NAME",
        default_value = "volcano"
    )]
    scheduler_names: Vec<String>,
    /// How deep a queue may be below the root.
    #[arg(long, value_name = "N", default_value_t = 5)]
    max_queue_depth: usize,
    /// Whether the resources of the root queue are fixed.
    #[arg(long, value_name = "BOOL", default_value_t = true, action = ArgAction::Set, num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    enable_root_queue_protection: bool,
    /// Whether a queue with pods cannot be deleted.
    #[arg(long, value_name = "BOOL", default_value_t = false, action = ArgAction::Set, num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    enable_queue_allocated_pods_check: bool,
    /// Whether probes are answered over plain HTTP, too.
    #[arg(long, value_name = "BOOL", default_value_t = false, action = ArgAction::Set, num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    enable_healthz: bool,
    /// Where they are.
    #[arg(long, value_name = "ADDRESS", default_value = ":11251")]
    healthz_address: ListenAddress,
    /// How many requests are decided at a time.
    #[arg(long, value_name = "N", default_value_t = Limits::default().in_flight)]
    max_in_flight: usize,
    /// How many seconds a request may take.
    #[arg(long, value_name = "SECONDS", default_value_t = Limits::default().time.as_secs())]
    request_timeout: u64,
    /// How many seconds requests have to end when the process is told to stop.
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    graceful_shutdown_time: u64,
    #[command(flatten)]
    logging: Logging,
}

fn endpoint(path: &str) -> Result<Endpoint, String> {
    let paths = Endpoint::ALL.map(Endpoint::path).join(", ");
    Endpoint::at(path).ok_or_else(|| format!("the paths are {paths}"))
}

/// The namespace of this pod.
const OWN_NAMESPACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

impl Arguments {
    pub(super) fn run(self) -> Result<(), Failure> {
        self.logging.start();
        let options = self.options()?;
        runtime()?
            .block_on(process::run(options))
            .map_err(|error| match error {
                RunError::Access(_) | RunError::Bind(_) => Failure::input(error),
                RunError::System(_) => Failure::from(error),
            })
    }

    fn options(self) -> Result<Options, Failure> {
        let named = |flag, path: Option<PathBuf>| path.map(|path| NamedFile { flag, path });
        let certificate = named("--tls-cert-file", self.tls_cert_file);
        let key = named("--tls-private-key-file", self.tls_private_key_file);
        let certificate = match (certificate, key) {
            (Some(certificate), Some(key)) => Source::Files {
                certificate,
                key,
                authority: named("--ca-cert-file", self.ca_cert_file),
            },
            _ => Source::Secret {
                namespace: namespace(self.webhook_namespace)?,
                name: self.tls_secret,
                service: self.webhook_service_name,
            },
        };
        let mut endpoints = self.enabled_admission;
        if endpoints.is_empty() {
            endpoints = Endpoint::ALL.to_vec();
        }
        Ok(Options {
            credentials: self.served.into(),
            address: SocketAddr::new(self.listen_address, self.port).into(),
            health_address: self.enable_healthz.then_some(self.healthz_address),
            certificate,
            configuration: self.webhook_configuration,
            endpoints,
            settings: Settings {
                scheduler_names: self.scheduler_names,
                max_queue_depth: self.max_queue_depth,
                protect_root: self.enable_root_queue_protection,
                check_allocated_pods: self.enable_queue_allocated_pods_check,
                ..Settings::default()
            },
            limits: Limits {
                in_flight: self.max_in_flight.max(1),
                time: Duration::from_secs(self.request_timeout.max(1)),
                ..Limits::default()
            },
            farewell: Duration::from_secs(self.graceful_shutdown_time),
        })
    }
}

fn namespace(given: Option<String>) -> Result<String, Failure> {
    let own = || std::fs::read_to_string(OWN_NAMESPACE).ok();
    let namespace = given.or_else(own).map(|name| name.trim().to_owned());
    namespace.ok_or_else(|| {
        Failure::Input(anyhow!(
            "in which namespace is the Service? This is no pod: say so with --webhook-namespace, or give a certificate with --tls-cert-file"
        ))
    })
}
