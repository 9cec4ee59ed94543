//! HyperNodes from the labels of nodes (S6-244).

use super::object::{
    ExactMatch, HyperNode, HyperNodeSpec, Member, MemberKind, MemberSelector, SOURCE_LABEL,
};
use evictd_pod::wire::{Metadata, null_is_default};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

/// The longest name of a type of networks, in bytes. The names of HyperNodes contain it.
pub(super) const LONGEST_TYPE: usize = 20;

/// The source of the HyperNodes that are found by label.
pub(super) const LABEL_SOURCE: &str = "label";

/// The types of networks by name, each with the labels of its levels.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct LabelConfig {
    /// From the widest level to the node. The last label stands for the node itself, and makes no HyperNode.
    #[serde(deserialize_with = "null_is_default")]
    pub network_topology_types: BTreeMap<String, Vec<NodeLabel>>,
}

/// The label of a level.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeLabel {
    /// The key. Nodes with the same value are in the same HyperNode.
    #[serde(deserialize_with = "null_is_default")]
    pub node_label: String,
}

/// Discovers HyperNodes by label.
#[derive(Debug, Clone, Default)]
pub struct Discovery {
    /// By type, the labels from the level above the nodes to the widest one.
    types: BTreeMap<String, Vec<String>>,
    ignored: Vec<String>,
}

/// A HyperNode that was found. A new one has no name yet.
#[derive(Debug, Clone)]
pub struct Discovered {
    /// The name of an existing HyperNode, or nothing for one that is to be created.
    pub name: Option<String>,
    /// The beginning of the name of a new one.
    pub prefix: String,
    /// The label of its level, which its nodes have.
    pub label: (String, String),
    /// The tier.
    pub tier: i32,
    /// The members: nodes, or the labels of discovered HyperNodes.
    members: BTreeSet<(String, String)>,
}

impl Discovery {
    /// The types of a configuration. A name that is too long and labels that stand twice are left out; [`Self::ignored`]
    /// says which.
    pub fn new(config: &LabelConfig) -> Self {
        let mut discovery = Self::default();
        for (name, labels) in &config.network_topology_types {
            let keys: BTreeSet<&str> = labels.iter().map(|label| &*label.node_label).collect();
            if name.len() > LONGEST_TYPE {
                let why = format!("{name}: the name is longer than {LONGEST_TYPE} bytes");
                discovery.ignored.push(why);
            } else if keys.len() < labels.len() {
                let why = format!("{name}: a label stands twice");
                discovery.ignored.push(why);
            } else {
                let levels = labels.iter().rev().skip(1);
                let levels = levels.map(|label| label.node_label.clone()).collect();
                discovery.types.insert(name.clone(), levels);
            }
        }
        discovery
    }

    /// The types that are left out, and why.
    pub fn ignored(&self) -> &[String] {
        &self.ignored
    }

    /// Whether a change of a node's labels can change the discovered HyperNodes.
    pub fn reads(&self, key: &str) -> bool {
        self.types.values().flatten().any(|label| label == key)
    }

    /// The HyperNodes of these nodes, in the order of their labels. Types that share a label share its HyperNodes; the
    /// first by name makes them.
    pub fn discover(&self, nodes: &[&Metadata], existing: &[&HyperNode]) -> Vec<Discovered> {
        let mut found: BTreeMap<(String, String), Discovered> = BTreeMap::new();
        for (kind, levels) in &self.types {
            for node in nodes {
                let mut member = (String::new(), node.name.clone());
                for (tier, key) in (1..).zip(levels) {
                    let Some(value) = node.labels.get(key) else {
                        break;
                    };
                    let label = (key.clone(), value.to_owned());
                    let entry = found.entry(label.clone()).or_insert_with(|| {
                        let prefix = format!("hypernode-{}-tier{tier}", cleaned(kind));
                        Discovered {
                            name: known_name(existing, &label, &prefix),
                            prefix,
                            label: label.clone(),
                            tier,
                            members: BTreeSet::new(),
                        }
                    });
                    entry.members.insert(member);
                    member = label;
                }
            }
        }
        found.into_values().collect()
    }
}

impl Discovered {
    /// The object; `name_of` gives the names of discovered HyperNodes by their label.
    pub fn object(&self, name_of: &dyn Fn(&(String, String)) -> String) -> HyperNode {
        // A type of networks may put nodes where another one puts HyperNodes.
        let names = self.members.iter().map(|member| match member {
            (key, node) if key.is_empty() => (node.clone(), false),
            label => (name_of(label), true),
        });
        let names: BTreeSet<(String, bool)> = names.collect();
        let members = names.into_iter().map(|(name, is_group)| Member {
            kind: if is_group {
                MemberKind::HyperNode
            } else {
                MemberKind::Node
            },
            selector: MemberSelector {
                exact_match: Some(ExactMatch { name }),
                ..MemberSelector::default()
            },
        });
        let (key, value) = &self.label;
        let labels = [(SOURCE_LABEL, LABEL_SOURCE), (key.as_str(), value.as_str())];
        HyperNode {
            metadata: Metadata {
                name: name_of(&self.label),
                labels: labels.into_iter().collect(),
                ..Metadata::default()
            },
            spec: HyperNodeSpec {
                members: members.collect(),
                tier: self.tier,
                tier_name: key.clone(),
            },
            ..HyperNode::default()
        }
    }
}

/// The characters of the end of a name, as Kubernetes has them: no vowels, so that no words come about.
const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// The most ends of a name that are tried.
const MOST_NAMES: u64 = 64;

impl Discovery {
    /// The HyperNodes of these nodes with their names. A new one gets a name that follows from its label, so that two
    /// processes never make two of them; one that exists or is in `taken` belongs to another HyperNode.
    pub(super) fn objects(
        &self,
        nodes: &[&Metadata],
        existing: &[&HyperNode],
        taken: &BTreeSet<String>,
    ) -> Vec<HyperNode> {
        let found = self.discover(nodes, existing);
        let mut used: BTreeSet<String> = existing
            .iter()
            .map(|known| known.metadata.name.clone())
            .chain(taken.iter().cloned())
            .collect();
        let mut names = BTreeMap::new();
        for one in &found {
            let new = || {
                let mut names = (0..MOST_NAMES).map(|attempt| new_name(one, attempt));
                names.find(|name| !used.contains(name))
            };
            if let Some(name) = one.name.clone().or_else(new) {
                used.insert(name.clone());
                names.insert(one.label.clone(), name);
            }
        }
        let name_of = |label: &(String, String)| names.get(label).cloned().unwrap_or_default();
        found
            .iter()
            .filter(|one| names.contains_key(&one.label))
            .map(|one| one.object(&name_of))
            .collect()
    }
}

/// A name for a new HyperNode, by a hash (FNV-1a) of its label.
fn new_name(one: &Discovered, attempt: u64) -> String {
    let (key, value) = &one.label;
    let bytes = key.bytes().chain([0]).chain(value.bytes());
    let bytes = bytes.chain(attempt.to_le_bytes());
    let mut hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    });
    let mut name = format!("{}-", one.prefix);
    for _ in 0..5 {
        let letters = LETTERS.len() as u64;
        let at = usize::try_from(hash % letters).unwrap_or(0);
        name.push(char::from(LETTERS[at]));
        hash /= letters;
    }
    name
}

/// The first existing HyperNode of a label whose name begins so.
fn known_name(
    existing: &[&HyperNode],
    (key, value): &(String, String),
    prefix: &str,
) -> Option<String> {
    let of_label = existing.iter().filter(|known| {
        let labels = &known.metadata.labels;
        labels.get(SOURCE_LABEL) == Some(LABEL_SOURCE) && labels.get(key) == Some(value.as_str())
    });
    let names = of_label.map(|known| known.metadata.name.as_str());
    names
        .filter(|name| name.starts_with(prefix))
        .min()
        .map(str::to_owned)
}

/// A name of a type as names of objects have it.
fn cleaned(kind: &str) -> String {
    let characters = kind.chars().map(|character| match character {
        '.' | '-' => character,
        other if other.is_ascii_alphanumeric() => other.to_ascii_lowercase(),
        _ => '-',
    });
    characters.collect()
}
