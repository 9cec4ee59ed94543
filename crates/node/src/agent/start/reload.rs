//! A configuration that is read while the agent runs: which settings take effect, and how the result is published.

use super::behaviour;
use crate::{
    agent::Behaviour,
    config::{Effective, PodsSource, Refused},
    metrics::ConfigurationGauges,
    server::state::{RefusedConfiguration, Shared},
};
use std::sync::Arc;

/// Applies or refuses a configuration that was read again; a refused one changes nothing.
#[derive(Debug)]
pub struct Reload {
    /// The configuration at start. Settings that a reload cannot change keep its values.
    started_with: Effective,
    pods_source: PodsSource,
    shared: Arc<Shared>,
    gauges: ConfigurationGauges,
}

impl Reload {
    pub(super) fn new(
        started_with: &Effective,
        pods_source: PodsSource,
        shared: &Arc<Shared>,
        gauges: ConfigurationGauges,
    ) -> Self {
        gauges.taken(shared.now(), &[]);
        shared.update(|status| status.configuration.read_at = status.started_at);
        Self {
            started_with: started_with.clone(),
            pods_source,
            shared: Arc::clone(shared),
            gauges,
        }
    }

    /// The settings to apply from now on; `None` if nothing changes. Log, status page and metrics show which
    /// settings took effect.
    pub fn take(&self, read: Result<Effective, Refused>) -> Option<Behaviour> {
        let now = self.shared.now();
        let mut config = match read {
            Ok(config) => config,
            Err(refused) => {
                tracing::error!(
                    "the new configuration is refused, the previous one stays in force: {refused}"
                );
                self.gauges.refused();
                let mistakes = refused.mistakes.iter().map(ToString::to_string).collect();
                self.shared.update(|status| {
                    status.configuration.refused = Some(RefusedConfiguration { at: now, mistakes });
                });
                return None;
            }
        };
        let waits = config.waits_for_restart(&self.started_with);
        if !waits.is_empty() {
            tracing::warn!(
                "changed settings that take effect only after a restart: {}",
                waits.join(", ")
            );
        }
        // The warning about it was given at the start.
        config.priority_unknown = self.started_with.priority_unknown;
        self.gauges.taken(now, &waits);
        self.shared.update(|status| {
            status.dry_run = config.is_dry(self.pods_source);
            config.kind.as_str().clone_into(&mut status.rules);
            status.configuration.read_at = now;
            status.configuration.refused = None;
            status.configuration.waits_for_restart =
                waits.iter().map(ToString::to_string).collect();
        });
        tracing::info!("the configuration was reloaded and is in force");
        Some(behaviour(&config, self.pods_source))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        config::{built_in, parse},
        history::Waiting,
        metrics::{Format, Metrics},
        server::state::Status,
    };
    use evictd_kernel::clock::Clock;
    use evictd_testkit::testing::logged;

    const HEADER: &str = "apiVersion: evictd.dev/v1alpha1\nkind: EvictionConfiguration\n";

    fn read(body: &str) -> Result<Effective, Refused> {
        parse("f.yaml", &format!("{HEADER}{body}")).map(|loaded| loaded.effective)
    }

    #[test]
    fn refused_and_waiting_settings_are_shown_until_they_are_corrected() {
        let (shared, _questions) = Shared::new(
            Clock::start(),
            Status::default(),
            "/nowhere".into(),
            Waiting::default(),
        );
        let (metrics, exposition) = Metrics::new();
        let gauges = metrics.configuration();
        let reload = Reload::new(&built_in(), PodsSource::Manifests, &shared, gauges);
        let shows = |line: &str| {
            let text = exposition.render(Format::Plain).unwrap();
            text.lines().any(|shown| shown == line)
        };
        let well = "evictd_config_last_reload_successful 1";
        let waits = "evictd_config_restart_required{setting=\"socket\"} 1";
        assert!(shows(well) && !shows(waits));

        let taken = reload.take(read("dryRun: true\nsocket: /run/other.sock\n"));
        assert!(taken.unwrap().dry_run);
        let status = shared.status();
        assert_eq!(status.configuration.waits_for_restart, ["socket"]);
        assert!(status.dry_run && shows(well) && shows(waits));

        let log = logged(|| assert!(reload.take(read("dryRunn: false\nx: 1\n")).is_none()));
        assert!(log.contains("dryRunn"), "{log}");
        let status = shared.status();
        let refused = status.configuration.refused.unwrap();
        assert_eq!(refused.mistakes.len(), 2);
        assert!(refused.mistakes[0].starts_with("f.yaml:3:1: dryRunn: unknown key"));
        assert!(status.dry_run && shows("evictd_config_last_reload_successful 0"));
        // A setting that waited for a restart still does: the next start would read the corrected file.
        assert_eq!(status.configuration.waits_for_restart, ["socket"]);

        assert!(reload.take(read("")).is_some());
        let status = shared.status();
        assert_eq!(status.configuration.refused, None);
        assert!(status.configuration.waits_for_restart.is_empty());
        assert!(!status.dry_run && shows(well) && !shows(waits));
    }

    #[test]
    fn without_priorities_the_system_is_spared_and_nothing_terminated_unless_that_is_accepted() {
        for (source, body, dry) in [
            (PodsSource::Cri, "", true),
            (PodsSource::Cri, "priorityUnknown: accept\n", false),
            (PodsSource::Kubernetes, "", false),
        ] {
            let behaviour = behaviour(&read(body).unwrap(), source);
            assert_eq!(behaviour.dry_run, dry, "{source:?} {body}");
            let spared = &behaviour.rules.protect.namespaces;
            assert_eq!(
                spared.contains(&"kube-system".to_owned()),
                source == PodsSource::Cri
            );
        }
    }
}
