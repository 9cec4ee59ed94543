//! Selectors, compiled once: demands on labels as comparisons of symbols.

use crate::labels::Labels;
use crate::symbol::{Symbol, Symbols};
use evictd_pod::wire;

/// Why a selector makes no sense.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SelectorError {
    /// The operator is none that selectors of this kind know.
    #[error(
        "{key:?}: operator {operator:?} is not known here; say In, NotIn, Exists or DoesNotExist{more}"
    )]
    Operator {
        /// The label or field.
        key: String,
        /// What was said.
        operator: String,
        /// What else this kind of selector knows.
        more: &'static str,
    },
    /// `In` and `NotIn` need values, `Exists` and `DoesNotExist` take none, `Gt` and `Lt` exactly one integer.
    #[error("{key:?}: {operator} {what}")]
    Values {
        /// The label or field.
        key: String,
        /// The operator.
        operator: String,
        /// What it takes.
        what: &'static str,
    },
    /// Only `metadata.name` can be asked for, with `In` or `NotIn` and one value.
    #[error("matchFields {key:?}: only metadata.name, In or NotIn, with one value is possible")]
    Field {
        /// The field.
        key: String,
    },
}

/// One demand on labels.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Requirement {
    key: Symbol,
    demand: Demand,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Demand {
    In(Box<[Symbol]>),
    NotIn(Box<[Symbol]>),
    Exists,
    DoesNotExist,
    Above(i64),
    Below(i64),
}

impl Requirement {
    fn new(symbols: &mut Symbols, wire: &wire::Requirement) -> Result<Self, SelectorError> {
        let wrong = |what| SelectorError::Values {
            key: wire.key.clone(),
            operator: wire.operator.clone(),
            what,
        };
        let mut values = || -> Box<[Symbol]> {
            let values = wire.values.iter();
            values.map(|value| symbols.intern(value)).collect()
        };
        let integer = || match wire.values.as_slice() {
            [value] => value.parse().map_err(|_| wrong("needs one integer")),
            _ => Err(wrong("needs one integer")),
        };
        let demand = match (wire.operator.as_str(), wire.values.is_empty()) {
            ("In" | "NotIn", true) => return Err(wrong("needs values")),
            ("Exists" | "DoesNotExist", false) => return Err(wrong("takes no values")),
            ("In", _) => Demand::In(values()),
            ("NotIn", _) => Demand::NotIn(values()),
            ("Exists", _) => Demand::Exists,
            ("DoesNotExist", _) => Demand::DoesNotExist,
            ("Gt", _) => Demand::Above(integer()?),
            ("Lt", _) => Demand::Below(integer()?),
            _ => {
                return Err(SelectorError::Operator {
                    key: wire.key.clone(),
                    operator: wire.operator.clone(),
                    more: "",
                });
            }
        };
        Ok(Self {
            key: symbols.intern(&wire.key),
            demand,
        })
    }

    /// That a label has this value.
    pub fn equals(key: Symbol, value: Symbol) -> Self {
        Self {
            key,
            demand: Demand::In([value].into()),
        }
    }

    /// That a label has not this value.
    pub fn differs(key: Symbol, value: Symbol) -> Self {
        Self {
            key,
            demand: Demand::NotIn([value].into()),
        }
    }

    /// Whether these labels fulfil it; the table is asked for texts that are compared as numbers.
    pub fn matches(&self, symbols: &Symbols, labels: &Labels) -> bool {
        let value = labels.get(self.key);
        let number = || value.and_then(|value| symbols.text(value).parse::<i64>().ok());
        match &self.demand {
            Demand::In(values) => value.is_some_and(|value| values.contains(&value)),
            Demand::NotIn(values) => !value.is_some_and(|value| values.contains(&value)),
            Demand::Exists => value.is_some(),
            Demand::DoesNotExist => value.is_none(),
            Demand::Above(bound) => number().is_some_and(|number| number > *bound),
            Demand::Below(bound) => number().is_some_and(|number| number < *bound),
        }
    }
}

/// A selector of labels.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Selector {
    /// An absent selector.
    Nothing,
    /// All of these; an empty list selects everything.
    All(Box<[Requirement]>),
}

impl Selector {
    /// Compiles a selector; an absent one selects nothing.
    pub fn new(
        symbols: &mut Symbols,
        selector: Option<&wire::Selector>,
    ) -> Result<Self, SelectorError> {
        let Some(selector) = selector else {
            return Ok(Self::Nothing);
        };
        let mut all = Vec::with_capacity(selector.match_labels.len());
        for (key, value) in &selector.match_labels {
            all.push(Requirement::equals(
                symbols.intern(key),
                symbols.intern(value),
            ));
        }
        for requirement in &selector.match_expressions {
            if matches!(requirement.operator.as_str(), "Gt" | "Lt") {
                return Err(SelectorError::Operator {
                    key: requirement.key.clone(),
                    operator: requirement.operator.clone(),
                    more: "",
                });
            }
            all.push(Requirement::new(symbols, requirement)?);
        }
        Ok(Self::All(all.into()))
    }

    /// The same with more demands; what selects nothing goes on selecting nothing.
    #[must_use]
    pub fn and(self, more: impl IntoIterator<Item = Requirement>) -> Self {
        match self {
            Self::Nothing => Self::Nothing,
            Self::All(all) => Self::All(all.into_iter().chain(more).collect()),
        }
    }

    /// Whether these labels are selected.
    pub fn matches(&self, symbols: &Symbols, labels: &Labels) -> bool {
        match self {
            Self::Nothing => false,
            Self::All(all) => all
                .iter()
                .all(|requirement| requirement.matches(symbols, labels)),
        }
    }

    /// Whether it is an absent one.
    pub(crate) const fn is_nothing(&self) -> bool {
        matches!(self, Self::Nothing)
    }

    /// Whether it makes no demand at all: an absent or an empty selector.
    pub fn is_empty(&self) -> bool {
        matches!(self, Self::Nothing) || matches!(self, Self::All(all) if all.is_empty())
    }
}

/// Which nodes: any of the terms.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct NodeSelector(Box<[NodeTerm]>);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct NodeTerm {
    labels: Box<[Requirement]>,
    /// Names that the node must have (true) or must not have.
    names: Box<[(bool, Symbol)]>,
}

impl NodeSelector {
    /// Compiles a node selector.
    pub fn new(symbols: &mut Symbols, wire: &wire::NodeSelector) -> Result<Self, SelectorError> {
        let terms = wire.node_selector_terms.iter();
        let terms: Result<_, _> = terms.map(|term| NodeTerm::new(symbols, term)).collect();
        Ok(Self(terms?))
    }

    /// The values that labels must have, and names of nodes: "zone-a or zone-b". Empty if it asks in another way.
    pub(crate) fn values(&self, symbols: &Symbols) -> String {
        let values = self.0.iter().flat_map(|term| {
            let labels = term.labels.iter();
            let labels = labels.flat_map(|requirement| match &requirement.demand {
                Demand::In(values) => &values[..],
                _ => &[],
            });
            let names = term.names.iter().filter(|(wanted, _)| *wanted);
            labels.chain(names.map(|(_, name)| name))
        });
        let values: Vec<&str> = values.map(|value| symbols.text(*value)).collect();
        values.join(" or ")
    }

    /// Whether a node of this name and these labels is meant.
    pub fn matches(&self, symbols: &Symbols, name: Symbol, labels: &Labels) -> bool {
        self.0
            .iter()
            .any(|term| term.matches(symbols, name, labels))
    }
}

impl NodeTerm {
    fn new(symbols: &mut Symbols, wire: &wire::NodeSelectorTerm) -> Result<Self, SelectorError> {
        let expressions = wire.match_expressions.iter();
        let labels: Result<_, _> = expressions
            .map(|requirement| match Requirement::new(symbols, requirement) {
                Err(SelectorError::Operator { key, operator, .. }) => {
                    Err(SelectorError::Operator {
                        key,
                        operator,
                        more: ", Gt or Lt",
                    })
                }
                other => other,
            })
            .collect();
        let fields = wire.match_fields.iter();
        let names: Result<_, _> = fields
            .map(
                |field| match (field.operator.as_str(), field.values.as_slice()) {
                    ("In", [name]) if field.key == "metadata.name" => {
                        Ok((true, symbols.intern(name)))
                    }
                    ("NotIn", [name]) if field.key == "metadata.name" => {
                        Ok((false, symbols.intern(name)))
                    }
                    _ => Err(SelectorError::Field {
                        key: field.key.clone(),
                    }),
                },
            )
            .collect();
        Ok(Self {
            labels: labels?,
            names: names?,
        })
    }

    fn matches(&self, symbols: &Symbols, name: Symbol, labels: &Labels) -> bool {
        let demands_anything = !(self.labels.is_empty() && self.names.is_empty());
        demands_anything
            && self
                .names
                .iter()
                .all(|(wanted, own)| (*own == name) == *wanted)
            && self
                .labels
                .iter()
                .all(|requirement| requirement.matches(symbols, labels))
    }
}
