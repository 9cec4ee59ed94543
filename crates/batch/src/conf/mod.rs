//! `volcano-scheduler.conf` (S6-092 to S6-096): which actions a session takes, and which plugins have a say, tier by tier.
//!
//! ```
//! use evictd_batch::conf::{Action, Conf};
//!
//! let conf = Conf::read("actions: \"enqueue, allocate\"\ntiers:\n- plugins:\n  - name: gang\n    enableJobOder: false\n")?;
//! assert_eq!(conf.actions, [Action::Enqueue, Action::Allocate]);
//! assert_eq!(conf.warnings[0], "tiers[0].plugins[0].enableJobOder: unknown key; the nearest is enableJobOrder");
//! # Ok::<(), evictd_batch::conf::ConfError>(())
//! ```

mod names;
mod wire;

pub use names::{Action, PluginName, Switch, Switches};

use serde_json::{Map, Value};
use wire::Reader;

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
    /// The ignored parts, a line each, with their places.
    pub warnings: Vec<String>,
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
pub enum ConfError {
    /// It is not YAML, or not of this shape.
    #[error("{0}")]
    Syntax(String),
    /// There is no such action; the text is as it was written between commas.
    #[error("failed to find Action {0}")]
    UnknownAction(String),
    /// A plugin or a switch of Volcano that stays out. Without it the configuration would mean something else.
    #[error("line {line}: {place}: {name} is not supported: {reason}")]
    RefusedPlugin {
        /// The line of the text.
        line: usize,
        /// The path in the configuration.
        place: String,
        /// The name that is not supported.
        name: String,
        /// The reason and the remedy.
        reason: &'static str,
    },
    /// Both decide the order of queues.
    #[error("proportion and drf with hierarchy enabled conflicts")]
    HierarchyAndProportion,
}

impl ConfError {
    /// The error with the first line that has the name as a value or a key.
    fn in_text(mut self, text: &str) -> Self {
        if let Self::RefusedPlugin { line, name, .. } = &mut self {
            let is_word = |word: &str| word.trim_matches(['"', '\'', ',', '}', '{', ':']) == name;
            let mut lines = text.lines();
            let at = lines.position(|line| line.split_whitespace().any(is_word));
            *line = at.map_or(0, |at| at + 1);
        }
        self
    }
}

impl Conf {
    /// Reads the text of a file; an empty one means [`BUILT_IN`].
    pub fn read(text: &str) -> Result<Self, ConfError> {
        let text = if text.trim().is_empty() {
            BUILT_IN
        } else {
            text
        };
        let value: Value = serde_saphyr::from_str(text)
            .map_err(|error| ConfError::Syntax(format!("it is not YAML: {error}")))?;
        let mut reader = Reader::default();
        let conf = reader.conf(&value).map_err(|error| error.in_text(text))?;
        for tier in &conf.tiers {
            let has = |name: PluginName, hierarchy: bool| {
                let mut plugins = tier.iter();
                plugins
                    .any(|plugin| plugin.name == name && (!hierarchy || plugin.is_hierarchical()))
            };
            // Both order queues by shares that contradict each other. Across tiers the first one decides.
            if has(PluginName::Drf, true) && has(PluginName::Proportion, false) {
                return Err(ConfError::HierarchyAndProportion);
            }
        }
        Ok(conf)
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
    /// A number, also one in quotes; the default where there is none.
    pub fn number(&self, name: &str, default: f64) -> f64 {
        let number = match self.0.get(name) {
            Some(Value::Number(number)) => number.as_f64(),
            Some(Value::String(text)) => text.trim().parse().ok(),
            _ => None,
        };
        number.unwrap_or(default)
    }

    /// A boolean, also one in quotes; the default where there is none.
    pub fn boolean(&self, name: &str, default: bool) -> bool {
        match self.0.get(name) {
            Some(Value::Bool(value)) => *value,
            Some(Value::String(text)) => text.trim().parse().unwrap_or(default),
            _ => default,
        }
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

#[cfg(test)]
mod tests;
