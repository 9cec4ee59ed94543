//! Builds the configuration from the tree of a text. It collects every mistake, and warns about each setting that it
//! ignores.

use super::arguments::{Argument, OF_METRICS};
use super::checks::{self, LoadedPlugin};
use super::names::{Action, PluginName, REFUSED, REFUSED_ARGUMENTS, REMOVED, Switch, Switches};
use super::{Arguments, Conf, ConfError, Plugin};
use evictd_configuration::{
    Content, Entry, Fault, InvalidConfiguration, Mistake, Node, Place, joined, mismatch,
    unknown_key,
};
use evictd_spelling::{close, nearest};

const OF_FILE: [&str; 4] = ["actions", "tiers", "configurations", "metrics"];
const OF_TIER: [&str; 1] = ["plugins"];
const OF_CONFIGURATION: [&str; 2] = ["name", "arguments"];

pub(super) struct Reader<'f> {
    file: &'f str,
    mistakes: Vec<Mistake>,
    warnings: Vec<Mistake>,
    /// Volcano's message for the first mistake, if Volcano reports it.
    volcano: Option<String>,
}

fn is_map(node: &Node) -> bool {
    matches!(node.content, Content::Map(_))
}

/// The warning about a name that is unknown or missing.
fn skipped<'k>(
    kind: &str,
    (written, at): (&str, Option<Place>),
    known: impl Iterator<Item = &'k str>,
) -> Fault {
    if written.is_empty() {
        return Fault::new(at, format!("the {kind} has no name; it is skipped"));
    }
    let near = nearest(written, known).unwrap_or_default();
    let message = format!("{written}: unknown {kind}; it is skipped");
    Fault::new(at, message).advise(format!("the nearest is {near}"))
}

impl<'f> Reader<'f> {
    pub(super) const fn new(file: &'f str) -> Self {
        Self {
            file,
            mistakes: Vec::new(),
            warnings: Vec::new(),
            volcano: None,
        }
    }

    pub(super) fn read(mut self, text: &str) -> Result<Conf, ConfError> {
        let conf = match Node::parse(text) {
            Ok(tree) => self.conf(&tree),
            Err(error) => {
                let message = format!("it is not YAML: {error}");
                self.mistake("", Fault::new(error.at, message));
                None
            }
        };
        match conf {
            Some(mut conf) if self.mistakes.is_empty() => {
                let position = |mistake: &Mistake| (mistake.line, mistake.column);
                self.warnings.sort_by_key(position);
                conf.warnings = self.warnings;
                Ok(conf)
            }
            _ => Err(ConfError::new(
                self.volcano,
                InvalidConfiguration::new(self.mistakes),
            )),
        }
    }

    fn mistake(&mut self, key: &str, fault: Fault) {
        self.mistakes.push(fault.in_file(self.file, key));
    }

    /// A mistake that Volcano reports, too, in its words.
    fn mistake_of_volcano(&mut self, key: &str, fault: Fault) {
        if self.mistakes.is_empty() {
            self.volcano = Some(fault.message.clone());
        }
        self.mistake(key, fault);
    }

    fn warning(&mut self, key: &str, fault: Fault) {
        self.warnings.push(fault.in_file(self.file, key));
    }

    /// The configuration; `None` if the whole is of another type.
    fn conf(&mut self, tree: &Node) -> Option<Conf> {
        if !is_map(tree) && !tree.is_null() {
            self.mistake("", mismatch(tree, "a map"));
            return None;
        }
        for (path, fault) in tree.duplicate_keys() {
            self.mistake(&path, fault);
        }
        self.unknown(tree, "", &OF_FILE);
        let actions = self.actions(tree);
        let mut loaded = Vec::new();
        let mut tiers = Vec::new();
        for (index, tier) in self.items(tree, "", "tiers").iter().enumerate() {
            let path = format!("tiers[{index}]");
            tiers.push(self.tier((tier, index), &path, &mut loaded));
        }
        let mut arguments = Vec::new();
        let configurations = self.items(tree, "", "configurations");
        for (index, configuration) in configurations.iter().enumerate() {
            let path = format!("configurations[{index}]");
            arguments.extend(self.configuration(configuration, &path));
        }
        let metrics = self.metrics(tree);
        for (key, fault) in checks::unusable(&loaded) {
            self.mistake(&key, fault);
        }
        for (key, fault) in checks::contradictions(&loaded) {
            self.mistake_of_volcano(&key, fault);
        }
        let place = tree.get("actions").and_then(|entry| entry.value.at);
        for (key, fault) in checks::without_effect(&actions, place, &loaded) {
            self.warning(&key, fault);
        }
        Some(Conf {
            actions,
            tiers,
            arguments,
            metrics,
            warnings: Vec::new(),
        })
    }

    /// How the use of nodes is measured. Volcano's other sources are not read.
    fn metrics(&mut self, tree: &Node) -> Arguments {
        let Some(entry) = tree.get("metrics").filter(|entry| !entry.value.is_null()) else {
            return Arguments::default();
        };
        if !self.is_map(&entry.value, "metrics") {
            return Arguments::default();
        }
        let source = entry.value.get("type").map(|entry| &entry.value);
        if let Some(value) = source
            && let Content::Text(text) = &value.content
            && text != "metrics_server"
        {
            let message = format!("{text}: the use of nodes is read from metrics.k8s.io instead");
            let fault = Fault::new(value.at, message).advise("write metrics_server");
            self.warning("metrics.type", fault);
        }
        for entry in entry.value.entries() {
            self.arguments_without_effect(OF_METRICS, entry, "metrics");
        }
        match entry.value.to_json() {
            serde_json::Value::Object(map) => Arguments(map),
            _ => Arguments::default(),
        }
    }

    fn actions(&mut self, tree: &Node) -> Vec<Action> {
        let entry = tree.get("actions");
        let (text, place) = match entry.map(|entry| &entry.value) {
            // Volcano splits an empty text into one empty name.
            None => ("", tree.at),
            Some(value) => match &value.content {
                Content::Null => ("", value.at),
                Content::Text(text) => (text.as_str(), value.at),
                _ => {
                    let fault = mismatch(value, "a text of names between commas");
                    self.mistake("actions", fault.advise("write \"enqueue, allocate\""));
                    return Vec::new();
                }
            },
        };
        let mut actions = Vec::new();
        for name in text.split(',') {
            if let Some(action) = Action::find(name.trim()) {
                actions.push(action);
                continue;
            }
            let fault = Fault::new(place, format!("failed to find Action {name}"));
            let known = || Action::ALL.into_iter().map(Action::as_str);
            let removed = REMOVED.iter().find(|(removed, _)| *removed == name.trim());
            let advice = match (removed, close(name.trim(), known())) {
                (Some((_, advice)), _) => (*advice).to_owned(),
                (None, Some(meant)) => format!("did you mean {meant}?"),
                (None, None) => {
                    let known: Vec<&str> = known().collect();
                    format!("the actions are {}", known.join(", "))
                }
            };
            self.mistake_of_volcano("actions", fault.advise(advice));
        }
        actions
    }

    /// The items of a list; none, with a mistake, of another value.
    fn items<'n>(&mut self, node: &'n Node, above: &str, key: &str) -> &'n [Node] {
        match node.get(key).map(|entry| &entry.value) {
            None => &[],
            Some(value) => match &value.content {
                Content::Null => &[],
                Content::List(items) => items,
                _ => {
                    let fault = mismatch(value, "a list").advise("begin each item with -");
                    self.mistake(&joined(above, key), fault);
                    &[]
                }
            },
        }
    }

    /// Whether this is a map; another value is a mistake, and null is nothing.
    fn is_map(&mut self, node: &Node, path: &str) -> bool {
        if !is_map(node) && !node.is_null() {
            self.mistake(path, mismatch(node, "a map"));
        }
        is_map(node)
    }

    fn unknown(&mut self, node: &Node, above: &str, known: &[&str]) {
        for entry in node.entries() {
            if !known.contains(&entry.key.as_str()) {
                let mut fault = unknown_key(above, entry, known);
                fault.message.push_str(", which is ignored");
                self.warning(&joined(above, &entry.key), fault);
            }
        }
    }

    fn tier(
        &mut self,
        (node, tier): (&Node, usize),
        path: &str,
        loaded: &mut Vec<LoadedPlugin>,
    ) -> Vec<Plugin> {
        if !self.is_map(node, path) {
            return Vec::new();
        }
        self.unknown(node, path, &OF_TIER);
        let mut plugins = Vec::new();
        for (index, plugin) in self.items(node, path, "plugins").iter().enumerate() {
            let path = format!("{path}.plugins[{index}]");
            if let Some(read) = self.plugin(plugin, &path) {
                loaded.push(LoadedPlugin {
                    tier,
                    path,
                    at: plugin.at,
                    plugin: read.clone(),
                });
                plugins.push(read);
            }
        }
        plugins
    }

    /// A plugin; `None` for one that is not built.
    fn plugin(&mut self, node: &Node, path: &str) -> Option<Plugin> {
        if !self.is_map(node, path) {
            return None;
        }
        let keys = Switch::KEYS.iter().map(|(key, _)| *key);
        let keys: Vec<&str> = keys.chain(OF_CONFIGURATION).collect();
        self.unknown(node, path, &keys);
        let name = self.plugin_name(node, path)?;
        let mut switches = Switches::default();
        for (key, switch) in Switch::KEYS {
            let Some(entry) = node.get(key) else {
                continue;
            };
            let Some(on) = self.switch(&entry.value, &joined(path, key)) else {
                continue;
            };
            if let Some(switch) = switch {
                switches.set(switch, on);
            } else {
                let fault = Fault::new(entry.at, "has no effect: nothing is built for it");
                self.warning(&joined(path, key), fault.advise("leave it out"));
            }
        }
        let arguments = self.arguments(node, path);
        let entries = node.get("arguments").map(|entry| entry.value.entries());
        let path_of_arguments = joined(path, "arguments");
        for entry in entries.unwrap_or_default() {
            let path = joined(&path_of_arguments, &entry.key);
            let mut refused = REFUSED_ARGUMENTS.iter();
            let refused = refused.find(|(key, _)| *key == entry.key);
            match refused {
                Some((key, reason)) if arguments.boolean(key, false) => {
                    let message = format!("{key} is not supported: {reason}");
                    self.mistake(&path, Fault::new(entry.at, message));
                }
                Some(_) => {}
                None => self.arguments_without_effect(name.arguments(), entry, &path_of_arguments),
            }
        }
        Some(Plugin {
            name,
            switches,
            arguments,
        })
    }

    /// Warns about an argument that means nothing, and about such parts of it.
    fn arguments_without_effect(&mut self, known: &[(&str, Argument)], entry: &Entry, path: &str) {
        for (key, fault) in checks::argument(known, entry) {
            self.warning(&joined(path, &key), fault);
        }
    }

    /// The plugin that this entry names; `None`, with a mistake or a warning, if it is not built.
    fn plugin_name(&mut self, node: &Node, path: &str) -> Option<PluginName> {
        let entry = node.get("name");
        let (written, at) = match entry.map(|entry| &entry.value) {
            Some(value) => match &value.content {
                Content::Text(text) => (text.as_str(), value.at),
                _ => ("", value.at),
            },
            None => ("", node.at),
        };
        if let Some(name) = PluginName::find(written) {
            return Some(name);
        }
        let path = joined(path, "name");
        if let Some((name, reason)) = REFUSED.iter().find(|(name, _)| *name == written) {
            let message = format!("{name} is not supported: {reason}");
            self.mistake(&path, Fault::new(at, message));
            return None;
        }
        // A plugin that is skipped changes every decision, so the warning should be easy to act on.
        let known = PluginName::ALL.iter().map(|known| known.as_str());
        self.warning(&path, skipped("plugin", (written, at), known));
        None
    }

    /// A switch. Volcano's parser knows the words of YAML 1.1, too.
    fn switch(&mut self, value: &Node, path: &str) -> Option<bool> {
        match &value.content {
            Content::Null => return None,
            Content::Bool(on) => return Some(*on),
            Content::Text(text) => match text.to_lowercase().as_str() {
                "y" | "yes" | "on" => return Some(true),
                "n" | "no" | "off" => return Some(false),
                _ => {}
            },
            _ => {}
        }
        self.mistake(path, mismatch(value, "true or false"));
        None
    }

    /// Arguments of an action; `None` where it names none.
    fn configuration(&mut self, node: &Node, path: &str) -> Option<(Action, Arguments)> {
        if !self.is_map(node, path) {
            return None;
        }
        self.unknown(node, path, &OF_CONFIGURATION);
        let entry = node.get("name");
        let written = match entry.map(|entry| &entry.value.content) {
            Some(Content::Text(text)) => text.as_str(),
            _ => "",
        };
        let Some(action) = Action::find(written) else {
            let at = entry.map_or(node.at, |entry| entry.value.at);
            let known = Action::ALL.into_iter().map(Action::as_str);
            self.warning(
                &joined(path, "name"),
                skipped("action", (written, at), known),
            );
            return None;
        };
        let arguments = self.arguments(node, path);
        let entries = node.get("arguments").map(|entry| entry.value.entries());
        for entry in entries.unwrap_or_default() {
            let path = joined(path, "arguments");
            self.arguments_without_effect(action.arguments(), entry, &path);
        }
        Some((action, arguments))
    }

    fn arguments(&mut self, node: &Node, path: &str) -> Arguments {
        let Some(entry) = node.get("arguments") else {
            return Arguments::default();
        };
        self.is_map(&entry.value, &joined(path, "arguments"));
        let entries = entry.value.entries().iter();
        Arguments(
            entries
                .map(|entry| (entry.key.clone(), entry.value.to_json()))
                .collect(),
        )
    }
}
