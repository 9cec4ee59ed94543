//! The health checks of a daemon, in Kubernetes' format, at `/healthz`, `/livez` and `/readyz`.

use crate::probes::Probe;
use axum::http::StatusCode;
use evictd_cluster_client::Watches;
use std::fmt::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The checks of a daemon: an enum of the parts that can fail.
pub trait Check: Copy + Eq + Send + Sync + 'static {
    /// All checks, in the order in which they are shown.
    const ALL: &'static [Self];

    /// The name on the pages.
    fn name(self) -> &'static str;

    /// Whether `/livez` fails with it, so that the daemon is started again. All others are for `/readyz`.
    fn is_of_life(self) -> bool {
        false
    }

    /// Whether it passes before anything has been said about it.
    fn passes_at_start(self) -> bool {
        false
    }
}

/// Passes as long as anything is answered.
const PING: &str = "ping";

/// Passes unless a watch of the API server has failed for longer than a restart of the server takes.
const WATCHES: &str = "watches-work";

/// The state of all checks. Clones share it.
#[derive(Debug, Clone)]
pub struct Health<C> {
    failing: Arc<Mutex<Vec<C>>>,
    watches: Option<Watches>,
}

impl<C: Check> Default for Health<C> {
    /// Of a process that has just started.
    fn default() -> Self {
        let failing = C::ALL
            .iter()
            .copied()
            .filter(|check| !check.passes_at_start());
        Self {
            failing: Arc::new(Mutex::new(failing.collect())),
            watches: None,
        }
    }
}

impl<C: Check> Health<C> {
    /// Of a process that has just started, and is not ready while one of these watches stays broken.
    pub fn of(watches: &Watches) -> Self {
        Self {
            watches: Some(watches.clone()),
            ..Self::default()
        }
    }

    /// Sets whether this check passes.
    pub fn set(&self, check: C, passes: bool) {
        let mut failing = self.failing();
        failing.retain(|failing| *failing != check);
        if !passes {
            failing.push(check);
        }
    }

    /// Whether this check passes.
    pub fn is(&self, check: C) -> bool {
        !self.failing().contains(&check)
    }

    fn failing(&self) -> MutexGuard<'_, Vec<C>> {
        self.failing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Name and result of each check of this endpoint.
    fn checks(&self, endpoint: &str) -> Option<Vec<(&'static str, bool)>> {
        let of_life = match endpoint {
            "healthz" | "livez" => true,
            "readyz" => false,
            _ => return None,
        };
        let failing = self.failing();
        let checks = C::ALL.iter().filter(|check| check.is_of_life() == of_life);
        let checks = checks.map(|check| (check.name(), !failing.contains(check)));
        let watches = self.watches.as_ref().filter(|_| !of_life);
        let watches = watches.map(|watches| (WATCHES, watches.broken().is_none()));
        let first = std::iter::once((PING, true));
        Some(first.chain(checks).chain(watches).collect())
    }
}

impl<C: Check> Probe for Health<C> {
    fn answer(&self, path: &str, query: &str) -> Option<(StatusCode, String)> {
        let mut parts = path.trim_start_matches('/').splitn(2, '/');
        let endpoint = parts.next()?;
        let mut checks = self.checks(endpoint)?;
        if let Some(one) = parts.next() {
            checks.retain(|(name, _)| *name == one);
            // As in Kubernetes: the path of an unknown check is not found.
            if checks.is_empty() {
                return None;
            }
        }
        let pairs = || query.split('&');
        let excluded: Vec<&str> = pairs()
            .filter_map(|pair| pair.strip_prefix("exclude="))
            .collect();
        let verbose = pairs().any(|pair| pair == "verbose" || pair.starts_with("verbose="));
        Some(page(endpoint, &checks, &excluded, verbose))
    }
}

fn page(
    endpoint: &str,
    checks: &[(&str, bool)],
    excluded: &[&str],
    verbose: bool,
) -> (StatusCode, String) {
    let mut text = String::new();
    let mut well = true;
    for (name, passes) in checks {
        let written = if excluded.contains(name) {
            writeln!(text, "[+]{name} excluded: ok")
        } else if *passes {
            writeln!(text, "[+]{name} ok")
        } else {
            well = false;
            // Probes are answered to everybody, so reasons are in the log alone.
            writeln!(text, "[-]{name} failed: reason withheld")
        };
        debug_assert!(written.is_ok(), "a string takes all text");
    }
    match (well, verbose) {
        (true, false) => (StatusCode::OK, "ok".to_owned()),
        (true, true) => (StatusCode::OK, format!("{text}{endpoint} check passed\n")),
        (false, _) => {
            let text = format!("{text}{endpoint} check failed\n");
            (StatusCode::INTERNAL_SERVER_ERROR, text)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evictd_cluster_client::Watch;

    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    enum Own {
        Leader,
        Sync,
        Shutdown,
    }

    impl Check for Own {
        const ALL: &'static [Self] = &[Self::Leader, Self::Sync, Self::Shutdown];

        fn name(self) -> &'static str {
            match self {
                Self::Leader => "leaderElection",
                Self::Sync => "sync",
                Self::Shutdown => "shutdown",
            }
        }

        fn is_of_life(self) -> bool {
            self == Self::Leader
        }

        fn passes_at_start(self) -> bool {
            self != Self::Sync
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_stays_broken_fails_readiness_and_no_liveness() {
        let watches = Watches::default();
        let health = Health::of(&watches);
        health.set(Own::Sync, true);
        let _watch = Watch::new("/api/v1/pods", String::new(), &watches);
        let is_well = |path| health.answer(path, "").unwrap().0 == StatusCode::OK;
        assert!(is_well("/readyz"));
        tokio::time::advance(std::time::Duration::from_secs(61)).await;
        assert!(!is_well("/readyz") && !is_well("/readyz/watches-work") && is_well("/livez"));
    }

    #[test]
    fn health_is_reported_in_the_words_of_kubernetes() {
        let health = Health::default();
        let is = |path, query, code: u16, text: &str| {
            let (found, page) = health.answer(path, query).unwrap();
            assert_eq!(
                (found.as_u16(), page.as_str()),
                (code, text),
                "{path}?{query}"
            );
        };
        is("/healthz", "", 200, "ok");
        let live = "[+]ping ok\n[+]leaderElection ok\nlivez check passed\n";
        is("/livez", "verbose", 200, live);
        let not_synced =
            "[+]ping ok\n[-]sync failed: reason withheld\n[+]shutdown ok\nreadyz check failed\n";
        is("/readyz", "", 500, not_synced);
        is("/readyz", "exclude=sync", 200, "ok");
        is("/readyz/ping", "", 200, "ok");
        health.set(Own::Sync, true);
        assert!(health.is(Own::Sync));
        is("/readyz", "", 200, "ok");
        health.set(Own::Shutdown, false);
        let ends = "[-]shutdown failed: reason withheld\nreadyz check failed\n";
        is("/readyz/shutdown", "", 500, ends);
        health.set(Own::Leader, false);
        let lost = "[+]ping ok\n[-]leaderElection failed: reason withheld\nhealthz check failed\n";
        is("/healthz", "verbose=true", 500, lost);
        assert_eq!(health.answer("/metrics", ""), None);
        assert_eq!(health.answer("/healthz/other", ""), None);
    }
}
