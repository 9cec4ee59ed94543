//! `volcano-controller.conf`: the sources that find HyperNodes (S6-243 to S6-245).

use super::discovery::{Discovery, LABEL_SOURCE, LONGEST_TYPE, LabelConfig, NodeLabel};
use evictd_configuration::{
    Content, Fault, InvalidConfiguration, Mistake, Node, joined, mismatch, text, unknown_key,
};

/// The list of sources.
const SOURCES: &str = "networkTopologyDiscovery";
/// The types of networks of source `label`.
const TYPES: &str = "networkTopologyTypes";
const OF_SOURCE: [&str; 5] = ["source", "enabled", "interval", "credentials", "config"];

/// Sources of Volcano that stay out, each with the reason and the way to do without (S6-245).
const REFUSED: [(&str, &str); 1] = [(
    "ufm",
    "the interface of NVIDIA's fabric manager is not read: label the nodes with their leaf switch and its group, and use source label, or write the HyperNodes by hand",
)];

/// The sources of a configuration that can be used.
#[derive(Debug, Clone, Default)]
pub struct DiscoveryConf {
    /// The discovery by labels of nodes, if it is enabled.
    pub label: Option<Discovery>,
    /// Settings that are ignored, each with its place.
    pub warnings: Vec<Mistake>,
}

impl DiscoveryConf {
    /// Reads a text; `file` is its name in messages. An empty text enables no source.
    ///
    /// # Errors
    /// Every mistake with its place. Volcano leaves out types of networks that are wrong (S6-244), and so would delete their
    /// HyperNodes.
    pub fn parse(file: &str, text: &str) -> Result<Self, InvalidConfiguration> {
        let mut reader = Reader {
            file,
            mistakes: Vec::new(),
            warnings: Vec::new(),
        };
        let label = match Node::parse(text) {
            _ if text.trim().is_empty() => None,
            Ok(tree) => reader.sources(&tree),
            Err(error) => {
                let message = format!("it is not YAML: {error}");
                reader.mistake("", Fault::new(error.at, message));
                None
            }
        };
        if reader.mistakes.is_empty() {
            let warnings = reader.warnings;
            return Ok(Self { label, warnings });
        }
        Err(InvalidConfiguration::new(reader.mistakes))
    }
}

struct Reader<'f> {
    file: &'f str,
    mistakes: Vec<Mistake>,
    warnings: Vec<Mistake>,
}

impl Reader<'_> {
    fn mistake(&mut self, key: &str, fault: Fault) {
        self.mistakes.push(fault.in_file(self.file, key));
    }

    /// Warns about keys that mean nothing. Volcano ignores them, too.
    fn unknown(&mut self, node: &Node, above: &str, known: &[&str]) {
        for entry in node.entries() {
            if !known.contains(&entry.key.as_str()) {
                let mut fault = unknown_key(above, entry, known);
                fault.message.push_str(", which is ignored");
                let warning = fault.in_file(self.file, &joined(above, &entry.key));
                self.warnings.push(warning);
            }
        }
    }

    /// The items of a list; none, with a mistake, of another value.
    fn items<'n>(&mut self, node: &'n Node, path: &str) -> &'n [Node] {
        match &node.content {
            Content::List(items) => return items,
            Content::Null => {}
            _ => self.mistake(path, mismatch(node, "a list")),
        }
        &[]
    }

    fn sources(&mut self, tree: &Node) -> Option<Discovery> {
        if !matches!(tree.content, Content::Map(_) | Content::Null) {
            self.mistake("", mismatch(tree, "a map"));
        }
        for (path, fault) in tree.duplicate_keys() {
            self.mistake(&path, fault);
        }
        self.unknown(tree, "", &[SOURCES]);
        let sources = &tree.get(SOURCES)?.value;
        let mut label = None;
        for (index, source) in self.items(sources, SOURCES).iter().enumerate() {
            let path = format!("{SOURCES}[{index}]");
            self.unknown(source, &path, &OF_SOURCE);
            if !self.is_enabled(source, &path) {
                continue;
            }
            let found = self.source(source, &path);
            // As in Volcano the first one counts.
            if label.is_none() {
                label = found;
            } else if found.is_some() {
                let fault = Fault::new(source.at, "source label is enabled twice");
                self.mistake(&path, fault.advise("join the types of networks in one"));
            }
        }
        label
    }

    fn is_enabled(&mut self, source: &Node, path: &str) -> bool {
        let Some(entry) = source.get("enabled") else {
            return false;
        };
        match entry.value.content {
            Content::Bool(enabled) => enabled,
            Content::Null => false,
            _ => {
                let fault = mismatch(&entry.value, "true or false");
                self.mistake(&joined(path, "enabled"), fault);
                false
            }
        }
    }

    /// The discovery of an enabled source; `None`, with a mistake, of one that is not built.
    fn source(&mut self, source: &Node, path: &str) -> Option<Discovery> {
        let entry = source.get("source").map(|entry| &entry.value);
        let (name, at) = match entry.map(|value| &value.content) {
            Some(Content::Text(name)) => (name.as_str(), entry.and_then(|value| value.at)),
            _ => ("", source.at),
        };
        if name == LABEL_SOURCE {
            let config = source.get("config").map(|entry| &entry.value);
            return self.label(config.unwrap_or(source), &joined(path, "config"));
        }
        let refused = REFUSED.iter().find(|(refused, _)| *refused == name);
        let message = match refused {
            Some((name, reason)) => format!("{name} is not supported: {reason}"),
            None => format!("{name:?} is no source of HyperNodes; there is {LABEL_SOURCE}"),
        };
        self.mistake(&joined(path, "source"), Fault::new(at, message));
        None
    }

    fn label(&mut self, config: &Node, path: &str) -> Option<Discovery> {
        let above = joined(path, TYPES);
        let types = config.get(TYPES).map(|entry| &entry.value);
        let types = types.filter(|types| !types.entries().is_empty());
        let Some(types) = types else {
            let message = "source label needs types of networks, each with its labels";
            let fault = Fault::new(config.at, message);
            self.mistake(
                &above,
                fault.advise("disable the source to leave its HyperNodes as they are"),
            );
            return None;
        };
        self.unknown(config, path, &[TYPES]);
        let mut read = LabelConfig::default();
        for entry in types.entries() {
            let path = joined(&above, &entry.key);
            if entry.key.len() > LONGEST_TYPE {
                let message = format!("the name is longer than {LONGEST_TYPE} bytes");
                self.mistake(&path, Fault::new(entry.at, message));
            }
            let labels = self.levels(&entry.value, &path);
            read.network_topology_types
                .insert(entry.key.clone(), labels);
        }
        Some(Discovery::new(&read))
    }

    /// The labels of a type of networks.
    fn levels(&mut self, node: &Node, path: &str) -> Vec<NodeLabel> {
        let mut labels: Vec<NodeLabel> = Vec::new();
        for (index, item) in self.items(node, path).iter().enumerate() {
            let path = format!("{path}[{index}]");
            self.unknown(item, &path, &["nodeLabel"]);
            let value = item.get("nodeLabel").map(|entry| &entry.value);
            let key = value.and_then(|value| text(value, "a label").ok());
            let Some(key) = key.filter(|key| !key.is_empty()) else {
                let fault = Fault::new(item.at, "there is no nodeLabel");
                self.mistake(
                    &path,
                    fault.advise("write - nodeLabel: and the key of a label"),
                );
                continue;
            };
            if labels.iter().any(|label| label.node_label == key) {
                let message = format!("the label {key} stands twice");
                self.mistake(&path, Fault::new(item.at, message).advise("remove one"));
            }
            labels.push(NodeLabel {
                node_label: key.to_owned(),
            });
        }
        if labels.len() < 2 {
            let message =
                "a type of networks has at least two labels, from the widest level to the node";
            let fault = Fault::new(node.at, message);
            self.mistake(
                path,
                fault.advise("add kubernetes.io/hostname as the last one"),
            );
        }
        labels
    }
}
