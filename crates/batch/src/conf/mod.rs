//! `volcano-scheduler.conf` (S6-092 to S6-096): which actions a session takes, and which plugins have a say, tier by tier.
//!
//! ```
//! use evictd_batch::conf::{Action, Conf};
//!
//! let conf = Conf::read("actions: \"enqueue, allocate\"\ntiers:\n- plugins:\n  - name: gang\n    enableJobOder: false\n")?;
//! assert_eq!(conf.actions, [Action::Enqueue, Action::Allocate]);
//! let warning = conf.warnings[0].to_string();
//! assert!(warning.starts_with("volcano-scheduler.conf:5:5: tiers[0].plugins[0].enableJobOder: unknown key"), "{warning}");
//! # Ok::<(), evictd_batch::conf::ConfError>(())
//! ```

mod arguments;
mod checks;
mod names;
mod read;

pub use names::{Action, PluginName, Switch, Switches};

use evictd_configuration::{InvalidConfiguration, Mistake};
use evictd_pod::duration;
use read::Reader;
use serde_json::{Map, Value};
use std::time::Duration;

/// The configuration for an empty file (S6-092).
pub const BUILT_IN: &str = "\
actions: \"enqueue, allocate, backfill\"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
- plugins:
  - name: overcommit
  - name: drf
  - name: predicates
  - name: proportion
  - name: nodeorder
";

/// A configuration that can be used.
#[derive(Debug, Clone)]
pub struct Conf {
    /// In the order in which they are taken.
    pub actions: Vec<Action>,
    /// Of a tier each plugin is asked; whether the next tier is, too, depends on the question.
    pub tiers: Vec<Vec<Plugin>>,
    /// Arguments of actions.
    pub arguments: Vec<(Action, Arguments)>,
    /// How the use of nodes is measured.
    pub metrics: Arguments,
    /// Settings that are ignored or have no effect, each with its place.
    pub warnings: Vec<Mistake>,
}

/// A plugin of a tier.
#[derive(Debug, Clone)]
pub struct Plugin {
    /// Which.
    pub name: PluginName,
    /// Where it takes part.
    pub switches: Switches,
    /// Its arguments.
    pub arguments: Arguments,
}

/// Arguments by name: numbers, booleans and texts.
#[derive(Debug, Clone, Default)]
pub struct Arguments(pub(crate) Map<String, Value>);

/// Why a configuration is unusable. A caller with an earlier one keeps using it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{invalid}")]
pub struct ConfError {
    /// The first mistake, in Volcano's words where Volcano reports it.
    pub first: String,
    /// Every mistake, with its place.
    pub invalid: InvalidConfiguration,
}

impl ConfError {
    fn new(volcano: Option<String>, invalid: InvalidConfiguration) -> Self {
        let first = volcano.or_else(|| Some(invalid.mistakes.first()?.within_text()));
        Self {
            first: first.unwrap_or_default(),
            invalid,
        }
    }
}

/// The least time between two readings of the use of nodes.
const SHORTEST_INTERVAL: Duration = Duration::from_secs(1);
/// The same where the configuration names none.
const INTERVAL: Duration = Duration::from_secs(30);

impl Conf {
    /// How often the use of nodes is read; `None` if no plugin needs it.
    pub fn measures(&self) -> Option<Duration> {
        let needed = [PluginName::Usage, PluginName::Rescheduling];
        let mut plugins = self.tiers.iter().flatten();
        plugins.find(|plugin| needed.contains(&plugin.name))?;
        Some(self.metrics_interval())
    }

    /// The address of the server of plugin extender.
    pub fn extender(&self) -> Option<&str> {
        let mut plugins = self.tiers.iter().flatten();
        let extender = plugins.find(|plugin| plugin.name == PluginName::Extender)?;
        extender.arguments.text("extender.urlPrefix")
    }

    /// `metrics.interval`: how often the use of nodes is read.
    pub(crate) fn metrics_interval(&self) -> Duration {
        let interval = self.metrics.text("interval");
        let interval = interval.and_then(|text| duration::parse(text).ok());
        let interval = interval.and_then(|interval| Duration::try_from(interval).ok());
        let interval = interval.filter(|interval| !interval.is_zero());
        interval.unwrap_or(INTERVAL).max(SHORTEST_INTERVAL)
    }

    /// Reads the text of a file that is called `volcano-scheduler.conf` in messages; an empty one means [`BUILT_IN`].
    pub fn read(text: &str) -> Result<Self, ConfError> {
        Self::parse("volcano-scheduler.conf", text)
    }

    /// The same with the file's name.
    pub fn parse(file: &str, text: &str) -> Result<Self, ConfError> {
        let text = if text.trim().is_empty() {
            BUILT_IN
        } else {
            text
        };
        Reader::new(file).read(text)
    }

    /// The arguments of an action.
    pub fn arguments_of(&self, action: Action) -> Option<&Arguments> {
        let mut all = self.arguments.iter();
        all.find(|(known, _)| *known == action)
            .map(|(_, arguments)| arguments)
    }
}

impl Plugin {
    /// Whether it takes part at a point.
    pub const fn at(&self, switch: Switch) -> bool {
        self.switches.at(switch)
    }

    /// Whether queues are compared along the paths of their annotations.
    pub const fn is_hierarchical(&self) -> bool {
        self.switches.at(Switch::Hierarchy)
    }
}

impl Arguments {
    /// A number, not one in quotes; the default where there is none.
    pub fn number(&self, name: &str, default: f64) -> f64 {
        let number = self.0.get(name).and_then(Value::as_f64);
        number.unwrap_or(default)
    }

    /// A whole number, not one in quotes; the default where there is none.
    #[expect(clippy::cast_precision_loss, reason = "weights and counts")]
    pub fn whole(&self, name: &str, default: f64) -> f64 {
        let number = self.0.get(name).and_then(Value::as_i64);
        number.map_or(default, |number| number as f64)
    }

    /// A boolean, also one in quotes; the default where there is none.
    pub fn boolean(&self, name: &str, default: bool) -> bool {
        let boolean = self.0.get(name).and_then(boolean_of);
        boolean.unwrap_or(default)
    }

    /// A text.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).and_then(Value::as_str)
    }

    /// A value of any shape.
    pub fn value(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }

    /// The names of all.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

/// A key of a map that Volcano reads into a structure, where upper and lower case are alike.
pub(crate) fn field<'m>(map: &'m Map<String, Value>, key: &str) -> Option<&'m Value> {
    let mut entries = map.iter();
    map.get(key).or_else(|| {
        entries
            .find(|(name, _)| name.eq_ignore_ascii_case(key))
            .map(|(_, value)| value)
    })
}

/// The booleans of Go and of YAML 1.1, which Volcano reads.
pub(crate) fn boolean_of(value: &Value) -> Option<bool> {
    let text = match value {
        Value::Bool(value) => return Some(*value),
        Value::String(text) => text.as_str(),
        _ => return None,
    };
    match text {
        "1" | "t" | "T" | "true" | "True" | "TRUE" | "y" | "Y" | "yes" | "Yes" | "YES" | "on"
        | "On" | "ON" => Some(true),
        "0" | "f" | "F" | "false" | "False" | "FALSE" | "n" | "N" | "no" | "No" | "NO" | "off"
        | "Off" | "OFF" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
