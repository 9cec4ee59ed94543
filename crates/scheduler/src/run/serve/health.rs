//! The checks of `/healthz`, `/livez` and `/readyz`, told in the words of Kubernetes.

use std::fmt::Write;
use std::sync::{Arc, Mutex, PoisonError};

/// What can fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Check {
    /// A leader whose lease has run out but that goes on.
    LeaderElection,
    /// The lists of all objects are not here yet.
    HandlerSync,
    /// The process ends.
    Shutdown,
}

impl Check {
    const fn name(self) -> &'static str {
        match self {
            Self::LeaderElection => "leaderElection",
            Self::HandlerSync => "sched-handler-sync",
            Self::Shutdown => "shutdown",
        }
    }
}

/// Answers that there is somebody.
const PING: &str = "ping";

/// The state of all checks. Clones share it.
#[derive(Debug, Clone)]
pub struct Health(Arc<Mutex<Vec<Check>>>);

impl Default for Health {
    /// Of a process that has just started: it lives, and nothing is listed yet.
    fn default() -> Self {
        Self(Arc::new(Mutex::new(vec![Check::HandlerSync])))
    }
}

impl Health {
    /// Sets whether this check passes.
    pub fn set(&self, check: Check, passes: bool) {
        let mut failing = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        failing.retain(|failing| *failing != check);
        if !passes {
            failing.push(check);
        }
    }

    /// Name and result of each check of this endpoint.
    fn checks(&self, endpoint: &str) -> Option<Vec<(&'static str, bool)>> {
        let checks: &[Check] = match endpoint {
            "healthz" | "livez" => &[Check::LeaderElection],
            "readyz" => &[Check::HandlerSync, Check::Shutdown],
            _ => return None,
        };
        let failing = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let checks = checks
            .iter()
            .map(|check| (check.name(), !failing.contains(check)));
        Some(std::iter::once((PING, true)).chain(checks).collect())
    }

    /// Whether all is well, and the text; `None` where this is no path of a check.
    pub(super) fn answer(&self, path: &str, query: &str) -> Option<(bool, String)> {
        let mut parts = path.trim_start_matches('/').splitn(2, '/');
        let endpoint = parts.next()?;
        let mut checks = self.checks(endpoint)?;
        if let Some(one) = parts.next() {
            checks.retain(|(name, _)| *name == one);
            if checks.is_empty() {
                return None;
            }
        }
        let excluded: Vec<&str> = query
            .split('&')
            .filter_map(|pair| pair.strip_prefix("exclude="))
            .collect();
        let verbose = query
            .split('&')
            .any(|pair| pair == "verbose" || pair.starts_with("verbose="));
        Some(told(endpoint, &checks, &excluded, verbose))
    }
}

fn told(
    endpoint: &str,
    checks: &[(&str, bool)],
    excluded: &[&str],
    verbose: bool,
) -> (bool, String) {
    let mut text = String::new();
    let mut well = true;
    for (name, passes) in checks {
        let passed = if excluded.contains(name) {
            writeln!(text, "[+]{name} excluded: ok")
        } else if *passes {
            writeln!(text, "[+]{name} ok")
        } else {
            well = false;
            writeln!(text, "[-]{name} failed: reason withheld")
        };
        debug_assert!(passed.is_ok(), "a string takes all text");
    }
    let text = match (well, verbose) {
        (true, false) => "ok".to_owned(),
        (true, true) => format!("{text}{endpoint} check passed\n"),
        (false, _) => format!("{text}{endpoint} check failed\n"),
    };
    (well, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn health_is_told_in_the_words_of_kubernetes() {
        let health = Health::default();
        let is = |path, query, well, text: &str| {
            let expected = Some((well, text.to_owned()));
            assert_eq!(health.answer(path, query), expected, "{path}?{query}");
        };
        is("/healthz", "", true, "ok");
        is(
            "/livez",
            "verbose",
            true,
            "[+]ping ok\n[+]leaderElection ok\nlivez check passed\n",
        );
        let not_synced = "[+]ping ok\n[-]sched-handler-sync failed: reason withheld\n[+]shutdown ok\nreadyz check failed\n";
        is("/readyz", "", false, not_synced);
        is("/readyz", "exclude=sched-handler-sync", true, "ok");
        is("/readyz/ping", "", true, "ok");
        health.set(Check::HandlerSync, true);
        is("/readyz", "", true, "ok");
        health.set(Check::Shutdown, false);
        let ends = "[-]shutdown failed: reason withheld\nreadyz check failed\n";
        is("/readyz/shutdown", "", false, ends);
        health.set(Check::LeaderElection, false);
        let lost = "[+]ping ok\n[-]leaderElection failed: reason withheld\nhealthz check failed\n";
        is("/healthz", "verbose=true", false, lost);
        assert_eq!(health.answer("/metrics", ""), None);
        assert_eq!(health.answer("/healthz/other", ""), None);
    }
}
