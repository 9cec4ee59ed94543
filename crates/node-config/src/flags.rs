//! Flags of a kubelet that were pasted as configuration, and the settings that they mean. Distributions take such flags in
//! files of their own: `kubelet-arg` of k3s, `extraArgs` of Talos, `kubeletExtraArgs` of kubeadm.

use super::{
    effective::Kind,
    key::{Field, Key},
    keys::KEYS,
};
use evictd_configuration::{Content, Entry, Fault, Node, Place};
use evictd_signals::Signal;

/// Keys of distributions, in lower case and without dashes, whose values are flags of a kubelet.
const HOLDERS: [&str; 6] = [
    "kubeletarg",
    "kubeletargs",
    "kubeletextraargs",
    "extraargs",
    "extraconfig",
    "kubeletextraconfig",
];
/// Flags that are not the key with dashes.
const RENAMED: [(&str, &str); 3] = [
    ("image-gc-high-threshold", "imageGCHighThresholdPercent"),
    ("image-gc-low-threshold", "imageGCLowThresholdPercent"),
    ("minimum-image-ttl-duration", "imageMinimumGCAge"),
];
/// How much of a flag a message repeats.
const SHOWN: usize = 40;

/// One flag.
#[derive(Debug, PartialEq)]
pub(super) struct Flag {
    /// Where it is, below the key that holds it: `[0]`.
    within: String,
    at: Option<Place>,
    /// Without dashes at its beginning.
    name: String,
    value: String,
}

/// The flags in the value of a key that is no setting; also the key itself may be a flag.
pub(super) fn of_entry(entry: &Entry) -> Vec<Flag> {
    let mut found = Vec::new();
    if is_holder(&entry.key) {
        collect(&entry.value, "", &mut found);
    } else if setting(entry.key.trim_start_matches('-')).is_some() && entry.key.contains('-') {
        found.extend(Flag::named("", entry));
    } else {
        search(&entry.value, "", &mut found);
    }
    found
}

/// The flags in a value that should be a map, such as the whole text of a file with command-line arguments.
pub(super) fn of_value(value: &Node) -> Vec<Flag> {
    let mut found = Vec::new();
    collect(value, "", &mut found);
    found
}

/// Whether this is a distribution's file with flags for its kubelet, whose other keys are not mistakes.
pub(super) fn is_of_a_distribution(root: &Node) -> bool {
    let mut found = Vec::new();
    search(root, "", &mut found);
    !found.is_empty()
}

/// The map that the value of a threshold flag means, `{memory.available: 100Mi}`; also from a list of such texts.
pub(super) fn map(value: &Node) -> Option<String> {
    let entries = match &value.content {
        Content::Text(text) => entries(text)?,
        Content::List(items) => {
            let texts = items.iter().map(|item| match &item.content {
                Content::Text(text) => entries(text),
                _ => None,
            });
            texts.collect::<Option<Vec<_>>>()?.join(", ")
        }
        _ => return None,
    };
    (!entries.is_empty()).then(|| format!("{{{entries}}}"))
}

/// `memory.available: 100Mi, nodefs.available: 10%` from `memory.available<100Mi,nodefs.available<10%`; `None` for any
/// other text.
pub(super) fn entries(text: &str) -> Option<String> {
    let entry = |part: &str| {
        let (signal, value) = part.split_once(['<', '='])?;
        let signal = Signal::parse(signal.trim())?;
        let value = Some(value.trim()).filter(|value| !value.is_empty())?;
        Some(format!("{signal}: {}", scalar(value)))
    };
    let parts = text.split(',').map(str::trim);
    let entries = parts.filter(|part| !part.is_empty()).map(entry);
    let entries = entries.collect::<Option<Vec<_>>>()?;
    (!entries.is_empty()).then(|| entries.join(", "))
}

impl Flag {
    /// From `--eviction-hard=memory.available<100Mi`, with or without dashes.
    fn parse(within: &str, at: Option<Place>, text: &str) -> Option<Self> {
        let text = text.trim().trim_matches(['"', '\'']);
        // `KUBELET_EXTRA_ARGS="--eviction-hard=..."` of a file for systemd.
        let text = text.find("--").map_or(text, |start| &text[start..]);
        let (name, value) = text.split_once('=')?;
        let name = name.trim_start_matches('-').trim_end();
        let known = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if name.is_empty() || !name.bytes().all(known) {
            return None;
        }
        Some(Self {
            within: within.to_owned(),
            at,
            name: name.to_owned(),
            value: value.trim().trim_matches(['"', '\'']).to_owned(),
        })
    }

    /// From an entry `eviction-hard: memory.available<100Mi`.
    fn named(within: &str, entry: &Entry) -> Option<Self> {
        let value = match &entry.value.content {
            Content::Text(value) | Content::Number(value) => value.clone(),
            Content::Bool(value) => value.to_string(),
            _ => return None,
        };
        Some(Self {
            within: within.to_owned(),
            at: entry.at,
            name: entry.key.trim_start_matches('-').to_owned(),
            value,
        })
    }

    /// The mistake that this flag is in a file of this kind.
    pub(super) fn fault(&self, kind: Kind) -> Fault {
        let message = format!(
            "--{} is a flag of the kubelet, and not read from here",
            shortened(&self.name)
        );
        let fault = Fault::new(self.at, message).inside(&self.within);
        let Some(key) = setting(&self.name) else {
            return fault.advise("evictd has no such setting; leave it out");
        };
        match key.name(kind).map(|name| (name, self.written(key))) {
            Some((name, Some(value))) => fault.advise(format!("write {}", nested(name, &value))),
            Some((name, None)) => {
                fault.advise(format!("write it as the map {name}: {{signal: value}}"))
            }
            None => fault.advise("only a KubeletConfiguration has it"),
        }
    }

    /// Its value as a value of this key; `None` if a map is needed and this is none.
    fn written(&self, key: &Key) -> Option<String> {
        match key.field {
            Field::Signals { .. } => entries(&self.value).map(|entries| format!("{{{entries}}}")),
            Field::One { schema, .. } if schema()["type"] == "array" => {
                let items = self.value.split(',').map(|item| scalar(item.trim()));
                Some(format!("[{}]", items.collect::<Vec<_>>().join(", ")))
            }
            Field::One { .. } => Some(scalar(&self.value)),
        }
    }
}

/// Collects from every key that holds flags, at any depth.
fn search(node: &Node, within: &str, found: &mut Vec<Flag>) {
    match &node.content {
        Content::Map(entries) => {
            for entry in entries {
                let within = format!("{within}.{}", entry.key);
                if is_holder(&entry.key) {
                    collect(&entry.value, &within, found);
                } else {
                    search(&entry.value, &within, found);
                }
            }
        }
        Content::List(items) => {
            for (index, item) in items.iter().enumerate() {
                search(item, &format!("{within}[{index}]"), found);
            }
        }
        _ => {}
    }
}

/// Collects from a list of flags, a map by flag, a list of maps with `name` and `value`, or a command line.
fn collect(node: &Node, within: &str, found: &mut Vec<Flag>) {
    match &node.content {
        Content::Text(text) => {
            let flags = text.split_whitespace();
            found.extend(flags.filter_map(|flag| Flag::parse(within, node.at, flag)));
        }
        Content::List(items) => {
            for (index, item) in items.iter().enumerate() {
                collect(item, &format!("{within}[{index}]"), found);
            }
        }
        Content::Map(entries) => {
            let text = |name: &str| match &node.get(name)?.value.content {
                Content::Text(text) => Some(text.as_str()),
                _ => None,
            };
            // One form of kubeadm, `{name: .., value: ..}`; the other has names as keys.
            if let Some((name, value)) = text("name").zip(text("value")) {
                found.extend(Flag::parse(within, node.at, &format!("{name}={value}")));
            } else {
                let named = |entry| Flag::named(&format!("{within}.{}", entry_key(entry)), entry);
                found.extend(entries.iter().filter_map(named));
            }
        }
        Content::Null | Content::Bool(_) | Content::Number(_) => {}
    }
}

fn entry_key(entry: &Entry) -> &str {
    &entry.key
}

fn is_holder(key: &str) -> bool {
    let plain = folded(key.trim_end_matches('+'));
    HOLDERS.contains(&plain.as_str())
}

/// The setting that a flag of this name sets.
fn setting(flag: &str) -> Option<&'static Key> {
    let renamed = RENAMED.iter().find(|(name, _)| *name == flag);
    let name = folded(renamed.map_or(flag, |(_, name)| name));
    let of_kubelet = |key: &&Key| {
        let kubelets = key.name(Kind::Kubelet);
        kubelets.is_some_and(|known| folded(known) == name)
    };
    KEYS.iter().find(of_kubelet)
}

/// Lower case and without dashes.
fn folded(name: &str) -> String {
    name.replace('-', "").to_ascii_lowercase()
}

/// `imageGC: {highThresholdPercent: 85}` from `imageGC.highThresholdPercent`.
fn nested(path: &str, value: &str) -> String {
    match path.split_once('.') {
        Some((outer, inner)) => format!("{outer}: {{{}}}", nested(inner, value)),
        None => format!("{path}: {value}"),
    }
}

/// In quotes where YAML needs them.
fn scalar(value: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._%/+-".contains(&byte);
    let starts = value.starts_with(|first: char| first.is_ascii_alphanumeric() || first == '/');
    if starts && value.bytes().all(plain) {
        value.to_owned()
    } else {
        serde_json::Value::from(value).to_string()
    }
}

fn shortened(name: &str) -> String {
    name.chars().take(SHOWN).collect()
}
