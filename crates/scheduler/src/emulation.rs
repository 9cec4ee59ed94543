//! `--emulated-version` and `--feature-gates`, as kube-scheduler has them.

use crate::values::boolean;
use anyhow::anyhow;
use clap::Args;
use evictd_command::Failure;
use evictd_pod::compatibility::{Compatibility, Gate, Release};
use serde_json::Value;

/// The release of Kubernetes to behave as, and its feature gates.
#[derive(Debug, Default, Clone, Args)]
pub(crate) struct Emulation {
    /// The release of Kubernetes whose scheduler decides, as 1.37 or kube=1.37. Default: for `run` that of the API server, for
    /// files 1.36.
    #[arg(long, value_name = "VERSION", value_delimiter = ',', value_parser = version)]
    emulated_version: Vec<(u32, u32)>,
    /// Features to turn on or off: A=true,B=false.
    #[arg(long, value_name = "GATES", value_delimiter = ',', value_parser = gate)]
    feature_gates: Vec<(String, bool)>,
}

/// Gates of Volcano that stay out, each with the reason and the way to do without (S6-249).
const REFUSED: [(&str, &str); 1] = [(
    "SchedulingGatesQueueAdmission",
    "gates of pods are removed by those who set them, and never by a session; pods without the annotation scheduling.volcano.sh/queue-allocation-gate wait for their queue as well",
)];

/// The oldest release that kube-scheduler 1.36 can emulate. Before 1.36, behaviour is that of 1.36.
const OLDEST: (u32, u32) = (1, 33);

/// Parses `1.37`, or `kube=1.37` with the name of the component.
fn version(text: &str) -> Result<(u32, u32), String> {
    let text = text.trim();
    let version = match text.split_once('=') {
        Some(("kube", version)) => version,
        Some((component, _)) => {
            return Err(format!("{component}: the only component here is kube"));
        }
        None => text,
    };
    let parts = version.strip_prefix('v').unwrap_or(version).split('.');
    let parts: Option<Vec<u32>> = parts.map(|part| part.parse().ok()).collect();
    match parts.as_deref() {
        Some([major, minor]) if ((1, 37) >= (*major, *minor)) && (OLDEST <= (*major, *minor)) => {
            Ok((*major, *minor))
        }
        Some([_, _]) => Err(format!(
            "Kubernetes {version} cannot be emulated, only {}",
            known()
        )),
        _ => Err("the form is MAJOR.MINOR, as 1.37".to_owned()),
    }
}

fn known() -> String {
    Release::ALL.map(Release::as_str).join(" and ")
}

/// Parses `Name=true`, or `kube:Name=true` with the name of a component.
fn gate(text: &str) -> Result<(String, bool), String> {
    let (name, value) = text
        .split_once('=')
        .ok_or("Name=true or Name=false is needed")?;
    let name = name.trim();
    let name = name.strip_prefix("kube:").unwrap_or(name);
    let value = boolean(value.trim())?;
    if Compatibility::known_gates().any(|known| known == name) {
        return Ok((name.to_owned(), value));
    }
    if let Some((_, reason)) = REFUSED.iter().find(|(refused, _)| *refused == name) {
        return Err(if value {
            format!("{name} is not supported: {reason}")
        } else {
            "it is a gate of Volcano, where it is off: leave it out".to_owned()
        });
    }
    let nearest = evictd_spelling::nearest(name, Compatibility::known_gates());
    Err(format!(
        "there is no such gate; the nearest is {}",
        nearest.unwrap_or_default()
    ))
}

impl Emulation {
    /// The release that was asked for, or the nearest one.
    pub(crate) fn release(&self) -> Option<Release> {
        let (major, minor) = self.emulated_version.last()?;
        Some(Release::of_version(*major, *minor))
    }

    /// The compatibility with a release and these gates. The error has a line for each gate that cannot be set.
    pub(crate) fn with(&self, release: Release) -> Result<Compatibility, String> {
        let set = self.feature_gates.iter();
        let set = set.map(|(name, value)| (name.as_str(), *value));
        Compatibility::with_gates(release, set).map_err(|errors| {
            let lines = errors
                .iter()
                .map(|error| format!("--feature-gates: {error}"));
            lines.collect::<Vec<_>>().join("\n")
        })
    }

    /// The compatibility for files.
    ///
    /// # Errors
    /// A release that is not known, or gates that it does not have.
    pub(crate) fn of_files(&self) -> Result<Compatibility, Failure> {
        if let Some(older) = self.older() {
            let known = known();
            let error = anyhow!("--emulated-version {older}: cannot be emulated, only {known}");
            return Err(Failure::Input(error));
        }
        let compatibility = self.with(self.release().unwrap_or_default());
        compatibility.map_err(|error| Failure::Input(anyhow!(error)))
    }

    /// A release before those that are known.
    fn older(&self) -> Option<String> {
        let (major, minor) = self.emulated_version.last()?;
        (*minor < 36).then(|| format!("{major}.{minor}"))
    }

    /// A warning for each gate that cannot be set this way, the last setting of each, and one for an older release.
    pub(crate) fn warnings(&self) -> impl Iterator<Item = String> {
        let older = self.older().map(|older| {
            format!(
                "--emulated-version {older}: behaves as 1.36, the oldest release that is known here"
            )
        });
        let fixed = Gate::ALL.iter().filter_map(|gate| {
            let (name, here) = (gate.as_str(), gate.fixed()?);
            let (_, value) = self
                .feature_gates
                .iter()
                .rev()
                .find(|(set, _)| set == name)?;
            let is = if here { "on" } else { "off" };
            (*value != here).then(|| {
                format!("--feature-gates {name}={value} changes nothing: it is always {is} here")
            })
        });
        older.into_iter().chain(fixed)
    }
}

/// `None` if the answer names no version. Some providers add a plus sign to the minor version.
pub(crate) fn of_server(version: &Value) -> Option<Release> {
    let number = |field: &str| -> Option<u32> {
        let text = version[field].as_str()?;
        text.trim_end_matches('+').parse().ok()
    };
    Some(Release::of_version(number("major")?, number("minor")?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_release_is_read_from_what_servers_and_providers_answer() {
        let table = [
            ("1", "36", Some("1.36")),
            ("1", "37+", Some("1.37")),
            ("1", "39", Some("1.37")),
            ("1", "33", Some("1.36")),
            ("2", "0", Some("1.37")),
            ("", "", None),
            ("1", "x", None),
        ];
        for (major, minor, release) in table {
            let read = of_server(&json!({ "major": major, "minor": minor }));
            assert_eq!(read.map(Release::as_str), release, "{major}.{minor}");
        }
        assert_eq!(of_server(&Value::Null), None);
    }
}
