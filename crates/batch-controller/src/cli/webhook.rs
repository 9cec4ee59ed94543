//! `evictd-batch webhook`: runs the admission webhook.

use super::credentials::{CredentialFlags, runtime};
use crate::webhook::{self, Limits, Options, RunError, Source};
use anyhow::anyhow;
use clap::{ArgAction, Args};
use evictd_batch_admission::{Endpoint, Settings};
use evictd_command::Failure;
use evictd_daemon::logging::Logging;
use evictd_daemon::rate::RateFlags;
use evictd_daemon::server::ListenAddress;
use evictd_daemon::tls::NamedFile;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

const EXAMPLE: &str = "Examples:
  evictd-batch webhook --webhook-namespace evictd
  evictd-batch webhook --tls-cert-file tls.crt --tls-private-key-file tls.key \\
    --ca-cert-file ca.crt --port 8443";

/// Runs the admission webhook: it validates jobs, queues, pod groups and pods, and fills in defaults.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct Arguments {
    #[command(flatten)]
    credentials: CredentialFlags,
    /// The address of the HTTPS server.
    #[arg(long, value_name = "IP", default_value = "0.0.0.0")]
    listen_address: IpAddr,
    /// The port of the HTTPS server.
    #[arg(long, value_name = "PORT", default_value_t = 8443)]
    port: u16,
    /// The serving certificate, PEM. Without it a certificate is generated and stored in a Secret.
    #[arg(long, value_name = "FILE", requires = "tls_private_key_file")]
    tls_cert_file: Option<PathBuf>,
    /// The private key, PEM.
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    tls_private_key_file: Option<PathBuf>,
    /// The certificate authority, PEM. It is written to the webhook configurations.
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    ca_cert_file: Option<PathBuf>,
    /// The Secret with the certificate.
    #[arg(long, value_name = "NAME", default_value = "evictd-batch-webhook")]
    tls_secret: String,
    /// The namespace of the Service and of the Secret. Default: that of this pod.
    #[arg(long, value_name = "NAME")]
    webhook_namespace: Option<String>,
    /// The Service that the API server calls.
    #[arg(long, value_name = "NAME", default_value = "evictd-batch-webhook")]
    webhook_service_name: String,
    /// The name of the webhook configurations, of both kinds, whose caBundle is kept up to date.
    #[arg(long, value_name = "NAME", default_value = "evictd-batch")]
    webhook_configuration: String,
    /// The paths that are served, separated by commas. Default: all.
    #[arg(long, value_name = "PATHS", value_delimiter = ',', value_parser = endpoint)]
    enabled_admission: Vec<Endpoint>,
    /// The names of the batch scheduler. Jobs without a scheduler get the first one. Can be repeated.
    #[arg(
        long = "scheduler-name",
        value_name = "NAME",
        default_value = "volcano"
    )]
    scheduler_names: Vec<String>,
    /// The maximum depth of a queue below the root.
    #[arg(long, value_name = "N", default_value_t = 5)]
    max_queue_depth: usize,
    /// Whether updates of the resources of the root queue are denied.
    #[arg(long, value_name = "BOOL", default_value_t = true, action = ArgAction::Set, num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    enable_root_queue_protection: bool,
    /// Whether the deletion of a queue with pods is denied.
    #[arg(long, value_name = "BOOL", default_value_t = false, action = ArgAction::Set, num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    enable_queue_allocated_pods_check: bool,
    /// Whether there is a plain HTTP server for probes.
    #[arg(long, value_name = "BOOL", default_value_t = false, action = ArgAction::Set, num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    enable_healthz: bool,
    /// The address of the plain HTTP server for probes.
    #[arg(long, value_name = "ADDRESS", default_value = ":11251")]
    healthz_address: ListenAddress,
    /// The number of concurrent decisions.
    #[arg(long, value_name = "N", default_value_t = Limits::default().in_flight)]
    max_in_flight: usize,
    /// The timeout of a request in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = Limits::default().time.as_secs())]
    request_timeout: u64,
    /// How many seconds a shutdown waits for requests in flight.
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    graceful_shutdown_time: u64,
    #[command(flatten)]
    rate: RateFlags,
    #[command(flatten)]
    logging: Logging,
}

fn endpoint(path: &str) -> Result<Endpoint, String> {
    let paths = Endpoint::ALL.map(Endpoint::path).join(", ");
    Endpoint::at(path).ok_or_else(|| format!("the paths are {paths}"))
}

/// The file with the namespace of this pod.
const NAMESPACE_FILE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

impl Arguments {
    pub(super) fn run(self) -> Result<(), Failure> {
        self.logging.start();
        let options = self.options()?;
        runtime()?
            .block_on(webhook::run(options))
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
            credentials: (&self.credentials).into(),
            address: SocketAddr::new(self.listen_address, self.port).into(),
            health_address: self.enable_healthz.then_some(self.healthz_address),
            rate: self.rate,
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
                // With zero no request would ever be answered.
                in_flight: self.max_in_flight.max(1),
                time: Duration::from_secs(self.request_timeout.max(1)),
                ..Limits::default()
            },
            shutdown_timeout: Duration::from_secs(self.graceful_shutdown_time),
        })
    }
}

fn namespace(given: Option<String>) -> Result<String, Failure> {
    let of_pod = || std::fs::read_to_string(NAMESPACE_FILE).ok();
    given
        .or_else(of_pod)
        .map(|name| name.trim().to_owned())
        .ok_or_else(|| {
            Failure::Input(anyhow!(
                "the namespace of the Service is not known outside of a pod: set --webhook-namespace, or set a certificate with --tls-cert-file"
            ))
        })
}
