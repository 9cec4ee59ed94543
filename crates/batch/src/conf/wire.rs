//! From YAML to a configuration, with a warning for whatever is passed over.

use super::names::{Action, PluginName, REFUSED, REFUSED_ARGUMENTS, Switch, Switches};
use super::{Arguments, Conf, ConfError, Plugin};
use evictd_spelling::nearest;
use serde_json::{Map, Value};

const OF_FILE: [&str; 4] = ["actions", "tiers", "configurations", "metrics"];
const OF_TIER: [&str; 1] = ["plugins"];
const OF_CONFIGURATION: [&str; 2] = ["name", "arguments"];

#[derive(Default)]
pub(super) struct Reader {
    warnings: Vec<String>,
}

fn wrong(place: &str, wanted: &str) -> ConfError {
    ConfError::Syntax(format!("{place}: must be {wanted}"))
}

fn map<'v>(value: &'v Value, place: &str) -> Result<Option<&'v Map<String, Value>>, ConfError> {
    match value {
        Value::Null => Ok(None),
        Value::Object(map) => Ok(Some(map)),
        _ => Err(wrong(place, "a map")),
    }
}

fn list<'v>(value: Option<&'v Value>, place: &str) -> Result<&'v [Value], ConfError> {
    match value {
        None | Some(Value::Null) => Ok(&[]),
        Some(Value::Array(list)) => Ok(list),
        Some(_) => Err(wrong(place, "a list")),
    }
}

impl Reader {
    pub(super) fn conf(&mut self, value: &Value) -> Result<Conf, ConfError> {
        let Some(file) = map(value, "the file")? else {
            // Volcano splits an empty text into one empty name.
            return Err(ConfError::UnknownAction(String::new()));
        };
        self.unknown(file, "", &OF_FILE);
        let actions = match file.get("actions") {
            None | Some(Value::Null) => "",
            Some(Value::String(text)) => text,
            Some(_) => return Err(wrong("actions", "a text of names between commas")),
        };
        let actions = actions.split(',').map(|name| {
            let action = Action::find(name.trim());
            action.ok_or_else(|| ConfError::UnknownAction(name.to_owned()))
        });
        let actions = actions.collect::<Result<Vec<Action>, ConfError>>()?;
        let mut tiers = Vec::new();
        for (index, tier) in list(file.get("tiers"), "tiers")?.iter().enumerate() {
            tiers.push(self.tier(tier, &format!("tiers[{index}]"))?);
        }
        let mut arguments = Vec::new();
        let configurations = list(file.get("configurations"), "configurations")?;
        for (index, configuration) in configurations.iter().enumerate() {
            arguments
                .extend(self.configuration(configuration, &format!("configurations[{index}]"))?);
        }
        Ok(Conf {
            actions,
            tiers,
            arguments,
            warnings: std::mem::take(&mut self.warnings),
        })
    }

    fn unknown(&mut self, map: &Map<String, Value>, place: &str, known: &[&str]) {
        for key in map.keys() {
            if known.contains(&key.as_str()) {
                continue;
            }
            let dot = if place.is_empty() { "" } else { "." };
            let near = nearest(key, known.iter().copied())
                .map_or(String::new(), |near| format!("; the nearest is {near}"));
            self.warnings
                .push(format!("{place}{dot}{key}: unknown key{near}"));
        }
    }

    fn tier(&mut self, value: &Value, place: &str) -> Result<Vec<Plugin>, ConfError> {
        let Some(tier) = map(value, place)? else {
            return Ok(Vec::new());
        };
        self.unknown(tier, place, &OF_TIER);
        let place = format!("{place}.plugins");
        let mut plugins = Vec::new();
        for (index, plugin) in list(tier.get("plugins"), &place)?.iter().enumerate() {
            plugins.extend(self.plugin(plugin, &format!("{place}[{index}]"))?);
        }
        Ok(plugins)
    }

    /// A plugin; `None` for one that is not built.
    fn plugin(&mut self, value: &Value, place: &str) -> Result<Option<Plugin>, ConfError> {
        let Some(fields) = map(value, place)? else {
            return Ok(None);
        };
        let keys = Switch::KEYS.iter().map(|(key, _)| *key);
        let keys: Vec<&str> = keys.chain(OF_CONFIGURATION).collect();
        self.unknown(fields, place, &keys);
        let written = fields
            .get("name")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let Some(name) = PluginName::find(written) else {
            let mut refused = REFUSED.iter();
            if let Some((_, reason)) = refused.find(|(name, _)| *name == written) {
                return Err(ConfError::RefusedPlugin {
                    line: 0,
                    place: format!("{place}.name"),
                    name: written.to_owned(),
                    reason,
                });
            }
            let known = PluginName::ALL.iter().map(|known| known.as_str());
            // A plugin that is skipped changes every decision, so the warning should be easy to act on.
            let near = nearest(written, known).unwrap_or_default();
            let reason = format!("unknown plugin; the nearest is {near}");
            self.warnings
                .push(format!("{place}.name: {written}: {reason}; it is skipped"));
            return Ok(None);
        };
        let mut switches = Switches::default();
        for (key, switch) in Switch::KEYS {
            match fields.get(key) {
                None | Some(Value::Null) => {}
                Some(Value::Bool(on)) => {
                    if let Some(switch) = switch {
                        switches.set(switch, *on);
                    }
                }
                Some(_) => return Err(wrong(&format!("{place}.{key}"), "true or false")),
            }
        }
        let arguments = arguments(fields, place)?;
        for (key, reason) in REFUSED_ARGUMENTS {
            if arguments.boolean(key, false) {
                return Err(ConfError::RefusedPlugin {
                    line: 0,
                    place: format!("{place}.arguments"),
                    name: key.to_owned(),
                    reason,
                });
            }
        }
        Ok(Some(Plugin {
            name,
            switches,
            arguments,
        }))
    }

    /// Arguments of an action; `None` where it names none.
    fn configuration(
        &mut self,
        value: &Value,
        place: &str,
    ) -> Result<Option<(Action, Arguments)>, ConfError> {
        let Some(fields) = map(value, place)? else {
            return Ok(None);
        };
        self.unknown(fields, place, &OF_CONFIGURATION);
        let written = fields
            .get("name")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let Some(action) = Action::find(written) else {
            self.warnings.push(format!(
                "{place}.name: {written}: unknown action; it is skipped"
            ));
            return Ok(None);
        };
        Ok(Some((action, arguments(fields, place)?)))
    }
}

fn arguments(fields: &Map<String, Value>, place: &str) -> Result<Arguments, ConfError> {
    let value = fields.get("arguments").unwrap_or(&Value::Null);
    let arguments = map(value, &format!("{place}.arguments"))?;
    Ok(Arguments(arguments.cloned().unwrap_or_default()))
}
