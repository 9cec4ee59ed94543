//! Settings without effect, and settings that contradict each other. They are reported when the file is read, because later
//! the only symptom is a waiting job.

use super::Plugin;
use super::arguments::Argument;
use super::boolean_of;
use super::names::{Action, PluginName, Switch};
use evictd_configuration::{Content, Entry, Fault, Node, Place, joined, mismatch};
use evictd_pod::{Quantity, duration};
use evictd_spelling::close;

/// A plugin with its place.
pub(super) struct LoadedPlugin {
    pub(super) tier: usize,
    /// Its path: `tiers[0].plugins[1]`.
    pub(super) path: String,
    pub(super) at: Option<Place>,
    pub(super) plugin: Plugin,
}

/// Plugins that name pods that preempt may evict.
const NAMES_VICTIMS: [PluginName; 8] = [
    PluginName::Gang,
    PluginName::Priority,
    PluginName::Conformance,
    PluginName::Drf,
    PluginName::Pdb,
    PluginName::Tdm,
    PluginName::Cdp,
    PluginName::Extender,
];

/// Plugins that name pods that gangpreempt may evict.
const NAMES_GANG_VICTIMS: [PluginName; 4] = [
    PluginName::Gang,
    PluginName::Priority,
    PluginName::Conformance,
    PluginName::Capacity,
];

/// Plugins of one tier that decide the same question in contradictory ways (S6-096). Across tiers the first one decides.
pub(super) fn contradictions(loaded: &[LoadedPlugin]) -> Vec<(String, Fault)> {
    let hierarchical = loaded
        .iter()
        .filter(|one| one.plugin.name == PluginName::Drf && one.plugin.is_hierarchical());
    let mut found = Vec::new();
    for drf in hierarchical {
        let mut tier = loaded.iter().filter(|other| other.tier == drf.tier);
        if tier.any(|other| other.plugin.name == PluginName::Proportion) {
            let message = "proportion and drf with hierarchy enabled conflicts";
            let advice = "take one of them out of this tier, or enableHierarchy out of drf";
            found.push((drf.path.clone(), Fault::new(drf.at, message).advise(advice)));
        }
    }
    found
}

/// Whether a text can be the address of a server.
fn is_url(text: &str) -> bool {
    let rest = text.strip_prefix("http://");
    let rest = rest.or_else(|| text.strip_prefix("https://"));
    rest.is_some_and(|rest| !rest.is_empty() && !rest.starts_with(['/', ':']))
}

/// Plugins that cannot work at all with their arguments.
pub(super) fn unusable(loaded: &[LoadedPlugin]) -> Vec<(String, Fault)> {
    let key = "extender.urlPrefix";
    let servers = loaded.iter();
    let servers = servers.filter(|one| one.plugin.name == PluginName::Extender);
    let unknown = servers.filter(|one| {
        let url = one.plugin.arguments.text(key);
        !url.is_some_and(is_url)
    });
    let faults = unknown.map(|one| {
        let fault = Fault::new(
            one.at,
            "the extender has no address, so that no call can succeed",
        );
        let path = joined(&one.path, "arguments");
        (
            joined(&path, key),
            fault.advise("write one like http://127.0.0.1:8713"),
        )
    });
    faults.collect()
}

/// Actions and plugins that cannot have the effect that they are written for.
pub(super) fn without_effect(
    actions: &[Action],
    place: Option<Place>,
    loaded: &[LoadedPlugin],
) -> Vec<(String, Fault)> {
    let mut found = Vec::new();
    for (message, advice) in of_actions(actions, loaded) {
        let fault = Fault::new(place, message).advise(advice);
        found.push(("actions".to_owned(), fault));
    }
    for (index, one) in loaded.iter().enumerate() {
        for (key, message, advice) in of_plugin(one, &loaded[..index], actions) {
            let fault = Fault::new(one.at, message).advise(advice);
            found.push((joined(&one.path, key), fault));
        }
    }
    found
}

fn of_actions(actions: &[Action], loaded: &[LoadedPlugin]) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let at = |action: Action| actions.iter().position(|other| *other == action);
    let has = |names: &[PluginName]| loaded.iter().any(|one| names.contains(&one.plugin.name));
    let Some(allocate) = at(Action::Allocate) else {
        let message = "allocate is missing, so no pod that requests anything gets a node";
        found.push((message.to_owned(), "add allocate".to_owned()));
        return found;
    };
    if at(Action::Enqueue).is_some_and(|enqueue| enqueue > allocate) {
        let message = "enqueue comes after allocate, so each job waits for one more session";
        found.push((message.to_owned(), "write enqueue first".to_owned()));
    }
    let evicting = [
        Action::Preempt,
        Action::Reclaim,
        Action::GangPreempt,
        Action::GangReclaim,
    ];
    for action in evicting {
        if at(action).is_some_and(|evicts| evicts < allocate) {
            let name = action.as_str();
            let message = format!(
                "{name} comes before allocate: by Volcano's rules it evicts pods for jobs that fit without, and may keep a job from being bound"
            );
            found.push((message, format!("write allocate before {name}")));
        }
    }
    let shares = [PluginName::Capacity, PluginName::Proportion];
    for action in [Action::Reclaim, Action::GangReclaim] {
        if at(action).is_some() && !has(&shares) {
            let name = action.as_str();
            let message = format!("{name} has no plugin that knows what a queue deserves");
            found.push((
                message,
                "add capacity or proportion to the tiers".to_owned(),
            ));
        }
    }
    found.extend(of_gang_reclaim(actions, loaded));
    let victims: [(Action, &[PluginName]); 2] = [
        (Action::Preempt, &NAMES_VICTIMS),
        (Action::GangPreempt, &NAMES_GANG_VICTIMS),
    ];
    for (action, names) in victims {
        if at(action).is_some() && !has(names) {
            let name = action.as_str();
            let message = format!("{name} has no plugin that names victims, so it evicts no pod");
            found.push((message, "add gang and priority to the tiers".to_owned()));
        }
    }
    if at(Action::Shuffle).is_some() && !has(&[PluginName::Tdm, PluginName::Rescheduling]) {
        let message = "shuffle has no plugin that names pods to move, so it evicts no pod";
        found.push((
            message.to_owned(),
            "add tdm or rescheduling to the tiers, or leave shuffle out".to_owned(),
        ));
    }
    found
}

/// Volcano asks capacity alone about the shares of a gang's victims.
fn of_gang_reclaim(actions: &[Action], loaded: &[LoadedPlugin]) -> Option<(String, String)> {
    let has = |name: PluginName| loaded.iter().any(|one| one.plugin.name == name);
    let alone = has(PluginName::Proportion) && !has(PluginName::Capacity);
    (alone && actions.contains(&Action::GangReclaim)).then(|| {
        let message = "gangreclaim does not ask proportion about victims: by Volcano's rules it evicts pods of queues that hold less than they deserve";
        (
            message.to_owned(),
            "use capacity in place of proportion".to_owned(),
        )
    })
}

/// Key, message and advice for a plugin, of which `before` are those that come before it.
fn of_plugin(
    one: &LoadedPlugin,
    before: &[LoadedPlugin],
    actions: &[Action],
) -> Vec<(&'static str, String, String)> {
    let mut found = Vec::new();
    let name = one.plugin.name;
    let line_of = |other: &LoadedPlugin| other.at.map_or(0, |at| at.line);
    let twin = before.iter().find(|other| other.plugin.name == name);
    if let Some(twin) = twin {
        let name = name.as_str();
        let message = format!(
            "{name} is already in line {}, and takes the arguments of this one",
            line_of(twin)
        );
        found.push(("name", message, "remove one".to_owned()));
    }
    let rival = match name {
        PluginName::Capacity => Some(PluginName::Proportion),
        PluginName::Proportion => Some(PluginName::Capacity),
        _ => None,
    };
    let rival = rival.and_then(|rival| before.iter().find(|other| other.plugin.name == rival));
    if let Some(rival) = rival {
        let message = format!(
            "{} contradicts {} in line {}: both divide the cluster among the queues",
            name.as_str(),
            rival.plugin.name.as_str(),
            line_of(rival)
        );
        found.push(("name", message, "remove one".to_owned()));
    }
    let divides = matches!(name, PluginName::Drf | PluginName::Capacity);
    if one.plugin.at(Switch::Hierarchy) && !divides {
        let message = format!("{} does not use the tree of queues", name.as_str());
        let advice = "set it for drf or capacity".to_owned();
        found.push(("enableHierarchy", message, advice));
    }
    let level = "ancestorReclaimLevel";
    if one.plugin.arguments.value(level).is_some() && !one.plugin.is_hierarchical() {
        let message = "has no effect without the tree of queues".to_owned();
        let advice = format!("add enableHierarchy: true to {}", name.as_str());
        found.push(("arguments.ancestorReclaimLevel", message, advice));
    }
    let asks = |name: &str| name.ends_with("Verb");
    if name == PluginName::Extender && !one.plugin.arguments.names().any(asks) {
        let message = "the extender has no verb, so that it is never asked".to_owned();
        found.push((
            "arguments",
            message,
            "add extender.predicateVerb or another verb".to_owned(),
        ));
    }
    let only_enqueues = matches!(name, PluginName::Overcommit | PluginName::ResourceQuota);
    if only_enqueues && !actions.contains(&Action::Enqueue) {
        let message = format!("{} has no effect without action enqueue", name.as_str());
        found.push(("name", message, "add enqueue to the actions".to_owned()));
    }
    found
}

/// Why an argument, or a part of it, means nothing, with the key of that. Each of the `known` names may end in `*`.
pub(super) fn argument(known: &[(&str, Argument)], entry: &Entry) -> Vec<(String, Fault)> {
    let key = entry.key.as_str();
    let is_named = |name: &str| match name.strip_suffix('*') {
        Some(prefix) => key.len() > prefix.len() && key.starts_with(prefix),
        None => name == key,
    };
    if let Some((_, kind)) = known.iter().find(|(name, _)| is_named(name)) {
        return kind.mistakes(key, &entry.value);
    }
    let names = || known.iter().map(|(name, _)| *name);
    let advice = match close(key, names()) {
        Some(meant) => format!("did you mean {meant}?"),
        None if known.is_empty() => "it has no arguments".to_owned(),
        None => format!(
            "the arguments are {}",
            names().collect::<Vec<_>>().join(", ")
        ),
    };
    let fault = Fault::new(entry.at, "unknown argument, which is ignored").advise(advice);
    vec![(key.to_owned(), fault)]
}

impl Argument {
    /// The mistakes in a value, each with its key.
    fn mistakes(self, key: &str, value: &Node) -> Vec<(String, Fault)> {
        match (self, &value.content) {
            (Self::Keys(known), Content::Map(entries)) => {
                let mistakes = entries.iter().flat_map(|entry| argument(known, entry));
                mistakes
                    .map(|(below, fault)| (joined(key, &below), fault))
                    .collect()
            }
            (Self::Items(known), Content::List(items)) => {
                let mistakes = items.iter().enumerate().flat_map(|(at, item)| {
                    Self::Keys(known).mistakes(&format!("{key}[{at}]"), item)
                });
                mistakes.collect()
            }
            _ => {
                let fault = self.mistake(value);
                fault
                    .map(|fault| (key.to_owned(), fault))
                    .into_iter()
                    .collect()
            }
        }
    }

    fn mistake(self, value: &Node) -> Option<Fault> {
        if value.is_null() || self.admits(value) {
            return None;
        }
        let expected = match self {
            Self::Any | Self::Text => "a text".to_owned(),
            Self::Duration => "a duration like 30s".to_owned(),
            Self::Map | Self::Keys(_) => "a map".to_owned(),
            Self::Items(_) => "a list".to_owned(),
            Self::Boolean => "true or false".to_owned(),
            Self::Real(f64::NEG_INFINITY, _) => "a number".to_owned(),
            Self::Real(least, f64::INFINITY) => format!("a number of at least {least}"),
            Self::Whole(i64::MIN, _) => "a whole number".to_owned(),
            Self::Whole(least, i64::MAX) => format!("a whole number of at least {least}"),
            Self::Whole(least, most) => format!("a whole number from {least} to {most}"),
            Self::Real(least, most) => format!("a number from {least} to {most}"),
            Self::Amount => "a whole number or a quantity".to_owned(),
            Self::Word(word) => word.to_owned(),
            Self::Texts => "a list of texts".to_owned(),
            Self::Url => "an address like http://127.0.0.1:8713".to_owned(),
        };
        Some(mismatch(value, &expected).advise("the default holds"))
    }

    fn admits(self, value: &Node) -> bool {
        let text = match &value.content {
            Content::Text(text) | Content::Number(text) => text.trim(),
            _ => "",
        };
        let whole = || value.to_json().as_i64();
        match self {
            Self::Any => true,
            Self::Map => matches!(value.content, Content::Map(_)),
            Self::Keys(_) | Self::Items(_) => false,
            Self::Text => !text.is_empty(),
            Self::Duration => duration::parse(text).is_ok_and(|duration| duration.is_positive()),
            Self::Boolean => boolean_of(&value.to_json()).is_some(),
            Self::Whole(least, most) => {
                whole().is_some_and(|number| (least..=most).contains(&number))
            }
            Self::Real(least, most) => {
                let number = value.to_json().as_f64();
                number.is_some_and(|number| (least..=most).contains(&number))
            }
            Self::Amount => match &value.content {
                Content::Text(text) => {
                    let quantity = text.parse::<Quantity>();
                    quantity.is_ok_and(|quantity| quantity.milli_value() >= 0)
                }
                _ => whole().is_some_and(|number| number >= 0),
            },
            Self::Word(word) => text == word,
            Self::Texts => match &value.content {
                Content::List(items) => {
                    let mut items = items.iter();
                    items.all(|item| matches!(item.content, Content::Text(_)))
                }
                _ => false,
            },
            Self::Url => is_url(text),
        }
    }
}
