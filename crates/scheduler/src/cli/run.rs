//! `evictd-scheduler run`: schedules the pods of a cluster.

use super::flags::Flags;
use crate::configuration;
use crate::run::{Engine, Events, Limits, Writer, watch};
use clap::Args;
use evictd_cluster_client::{Access, Credentials};
use evictd_command::Failure;
use evictd_scheduling::config::Configuration;
use evictd_scheduling::{Framework, Scheduler, Settings};
use jiff::{SignedDuration, Timestamp};
use std::io::IsTerminal;
use std::path::PathBuf;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, watch as flag};
use tracing::info;
use tracing::level_filters::LevelFilter;

const EXAMPLE: &str = "Example:
  evictd-scheduler run --config /etc/kubernetes/scheduler-config.yaml
  evictd-scheduler run --kubeconfig /etc/kubernetes/scheduler.conf";

/// Schedules the pods of a cluster, beside kube-scheduler or in its place.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct Arguments {
    #[command(flatten)]
    flags: Flags,
}

impl Arguments {
    pub(super) fn run(self) -> Result<(), Failure> {
        let config = self.flags.effective()?;
        if let Some(path) = &self.flags.write_config_to {
            return configuration::write(path, &config);
        }
        let colour = std::io::stderr().is_terminal();
        let log = tracing_subscriber::fmt().with_writer(std::io::stderr);
        let level = match self.flags.verbosity {
            0..=3 => LevelFilter::INFO,
            4..=6 => LevelFilter::DEBUG,
            _ => LevelFilter::TRACE,
        };
        log.with_max_level(level)
            .with_target(false)
            .with_ansi(colour)
            .init();
        for warning in config.warnings.iter().chain(&self.flags.warnings()) {
            tracing::warn!("{warning}");
        }
        let of_config = &config.client_connection.kubeconfig;
        let of_config = (!of_config.is_empty()).then(|| PathBuf::from(of_config));
        let credentials = Credentials {
            kubeconfig: of_config.or(self.flags.kubeconfig),
            context: self.flags.context,
        };
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()?;
        let longest = self.flags.pod_max_in_unschedulable_pods_duration;
        runtime.block_on(schedule(&credentials, &config, longest))
    }
}

/// `longest`: how long a pod waits for an event at most.
fn scheduler(config: &Configuration, longest: Option<SignedDuration>) -> Result<Scheduler, String> {
    let default = Settings::default();
    let settings = Settings {
        initial_backoff: config.pod_initial_backoff,
        max_backoff: config.pod_max_backoff,
        max_unschedulable: longest.unwrap_or(default.max_unschedulable),
        ..default
    };
    Scheduler::new(settings, !config.extenders.is_empty(), |cluster| {
        let profiles = config.profiles.iter();
        profiles
            .map(|profile| Framework::new(cluster, profile, &[]))
            .collect()
    })
}

async fn schedule(
    credentials: &Credentials,
    config: &Configuration,
    longest: Option<SignedDuration>,
) -> Result<(), Failure> {
    let access = Access::find(credentials).await.map_err(Failure::input)?;
    let actions = access.actions().map_err(Failure::input)?;
    info!(
        "schedules for {} with the credentials of {access}",
        access.server()
    );
    let names: Vec<&str> = config
        .profiles
        .iter()
        .map(|own| own.scheduler_name.as_str())
        .collect();
    let hostname = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let events = Events::new(&actions, hostname.trim(), names, Timestamp::now);
    let writer = Writer::new(actions, events.clone(), Limits::default());
    let (send, news) = mpsc::unbounded_channel();
    watch(&access, &send);
    let (_lead, leads) = flag::channel(true);
    let (stop, stopped) = flag::channel(false);
    let scheduler = scheduler(config, longest)
        .map_err(|error| Failure::Input(anyhow::anyhow!("--config: {error}")))?;
    let engine = Engine::new(scheduler, writer, events, news, leads, Timestamp::now);
    let engine = tokio::spawn(engine.run(stopped));
    let (mut terminate, mut interrupt) = (
        signal(SignalKind::terminate())?,
        signal(SignalKind::interrupt())?,
    );
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    info!("stops");
    // The engine may have ended already, which is as good.
    let _ = stop.send(true);
    let _ = engine.await;
    Ok(())
}
