//! The meaning of label selectors and node selectors. It is generic, because compiled selectors compare numbers in place of
//! texts.

use crate::wire::{self, TextMap};
use serde::{Deserialize, Serialize};

/// Why a selector is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SelectorError {
    /// Selectors of this kind do not have this operator.
    #[error(
        "{key:?}: operator {operator:?} is not known here; say In, NotIn, Exists or DoesNotExist{more}"
    )]
    Operator {
        /// The label or field.
        key: String,
        /// The operator as it was written.
        operator: String,
        /// The further operators of this kind of selector, for the message.
        more: &'static str,
    },
    /// `In` and `NotIn` need values, `Exists` and `DoesNotExist` take none, `Gt` and `Lt` exactly one integer.
    #[error("{key:?}: {operator} {what}")]
    Values {
        /// The label or field.
        key: String,
        /// The operator of the requirement.
        operator: String,
        /// Which values the operator needs, in a few words.
        what: &'static str,
    },
    /// The only field is `metadata.name`, with `In` or `NotIn` and one value.
    #[error("matchFields {key:?}: only metadata.name, In or NotIn, with one value is possible")]
    Field {
        /// The field as it was written.
        key: String,
    },
}

/// How a label compares with values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Operator {
    /// The value is one of these.
    In,
    /// The value is none of these, or the key is absent.
    NotIn,
    /// The key is present.
    Exists,
    /// The key is absent.
    DoesNotExist,
}

impl Operator {
    fn parse(name: &str) -> Option<Self> {
        let all = [
            ("In", Self::In),
            ("NotIn", Self::NotIn),
            ("Exists", Self::Exists),
            ("DoesNotExist", Self::DoesNotExist),
        ];
        all.into_iter()
            .find_map(|(known, operator)| (known == name).then_some(operator))
    }

    /// Whether a label of this value meets the requirement; `None` stands for an absent label.
    pub fn admits<T: PartialEq<U>, U: ?Sized>(self, values: &[T], value: Option<&U>) -> bool {
        let listed = || value.is_some_and(|value| values.iter().any(|listed| listed == value));
        match self {
            Self::In => listed(),
            Self::NotIn => !listed(),
            Self::Exists => value.is_some(),
            Self::DoesNotExist => value.is_none(),
        }
    }
}

/// The labels of an object. `T` is a text, or a number that represents it.
pub trait Labels<T> {
    /// The value of a label.
    fn value(&self, key: T) -> Option<T>;

    /// A value as an integer, if it is one.
    fn number(&self, value: T) -> Option<i64>;
}

impl<'a> Labels<&'a str> for &'a TextMap {
    fn value(&self, key: &'a str) -> Option<&'a str> {
        self.get(key)
    }

    fn number(&self, value: &'a str) -> Option<i64> {
        value.parse().ok()
    }
}

/// One requirement on labels, compiled.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Requirement<T> {
    key: T,
    demand: Demand<T>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Demand<T> {
    Compared(Operator, Box<[T]>),
    Above(i64),
    Below(i64),
}

impl<T: Copy + PartialEq> Requirement<T> {
    /// The key that it names.
    pub const fn key(&self) -> T {
        self.key
    }

    /// From a requirement of a label selector.
    ///
    /// # Errors
    /// If it is invalid.
    pub fn new<'w>(
        wire: &'w wire::Requirement,
        of: &mut impl FnMut(&'w str) -> T,
    ) -> Result<Self, SelectorError> {
        let wrong = |what| SelectorError::Values {
            key: wire.key.clone(),
            operator: wire.operator.clone(),
            what,
        };
        let operator = Operator::parse(&wire.operator).ok_or_else(|| SelectorError::Operator {
            key: wire.key.clone(),
            operator: wire.operator.clone(),
            more: "",
        })?;
        match (operator, wire.values.is_empty()) {
            (Operator::In | Operator::NotIn, true) => return Err(wrong("needs values")),
            (Operator::Exists | Operator::DoesNotExist, false) => {
                return Err(wrong("takes no values"));
            }
            _ => {}
        }
        let key = of(&wire.key);
        let values = wire.values.iter().map(|value| of(value)).collect();
        Ok(Self {
            key,
            demand: Demand::Compared(operator, values),
        })
    }

    /// From a requirement of a node selector, which may also use `Gt` and `Lt`.
    ///
    /// # Errors
    /// If it is invalid.
    pub fn of_node<'w>(
        wire: &'w wire::Requirement,
        of: &mut impl FnMut(&'w str) -> T,
    ) -> Result<Self, SelectorError> {
        let demand: fn(i64) -> Demand<T> = match wire.operator.as_str() {
            "Gt" => Demand::Above,
            "Lt" => Demand::Below,
            _ => {
                return Self::new(wire, of).map_err(|error| match error {
                    SelectorError::Operator { key, operator, .. } => SelectorError::Operator {
                        key,
                        operator,
                        more: ", Gt or Lt",
                    },
                    other => other,
                });
            }
        };
        let bound = match wire.values.as_slice() {
            [value] => value.parse().ok(),
            _ => None,
        };
        let bound = bound.ok_or_else(|| SelectorError::Values {
            key: wire.key.clone(),
            operator: wire.operator.clone(),
            what: "needs one integer",
        })?;
        Ok(Self {
            key: of(&wire.key),
            demand: demand(bound),
        })
    }

    /// Requires that a label has this value.
    pub fn equals(key: T, value: T) -> Self {
        Self {
            key,
            demand: Demand::Compared(Operator::In, [value].into()),
        }
    }

    /// Requires that a label does not have this value.
    pub fn differs(key: T, value: T) -> Self {
        Self {
            key,
            demand: Demand::Compared(Operator::NotIn, [value].into()),
        }
    }

    /// The values of which the label must have one; empty for any other requirement.
    pub fn wanted(&self) -> &[T] {
        match &self.demand {
            Demand::Compared(Operator::In, values) => values,
            _ => &[],
        }
    }

    /// The values with which a label is compared.
    pub fn values(&self) -> &[T] {
        match &self.demand {
            Demand::Compared(_, values) => values,
            Demand::Above(_) | Demand::Below(_) => &[],
        }
    }

    /// Whether these labels meet it.
    pub fn matches(&self, labels: &impl Labels<T>) -> bool {
        let value = labels.value(self.key);
        let number = || value.and_then(|value| labels.number(value));
        match &self.demand {
            Demand::Compared(operator, values) => operator.admits(values, value.as_ref()),
            // A label that is absent or no number is neither above nor below.
            Demand::Above(bound) => number().is_some_and(|number| number > *bound),
            Demand::Below(bound) => number().is_some_and(|number| number < *bound),
        }
    }
}

/// Whether labels meet a selector. An empty selector matches all labels, an invalid one none.
pub fn selects(selector: &wire::Selector, labels: &TextMap) -> bool {
    let mut expressions = selector.match_expressions.iter();
    let mut wanted = selector.match_labels.iter();
    wanted.all(|(key, value)| labels.get(key) == Some(value))
        && expressions.all(|expression| {
            Requirement::new(expression, &mut std::convert::identity)
                .is_ok_and(|requirement| requirement.matches(&labels))
        })
}

/// One term of a node selector, compiled. A node matches if it meets every requirement; a term without requirements matches
/// no node.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct NodeTerm<T> {
    labels: Box<[Requirement<T>]>,
    /// Names that the node must have (true) or must not have.
    names: Box<[(bool, T)]>,
}

impl<T: Copy + PartialEq> NodeTerm<T> {
    /// Compiles a term.
    ///
    /// # Errors
    /// If it is invalid.
    pub fn new<'w>(
        wire: &'w wire::NodeSelectorTerm,
        of: &mut impl FnMut(&'w str) -> T,
    ) -> Result<Self, SelectorError> {
        let labels: Result<_, _> = wire
            .match_expressions
            .iter()
            .map(|requirement| Requirement::of_node(requirement, of))
            .collect();
        let mut name = |field: &'w wire::Requirement| {
            // The name is the only field of nodes that Kubernetes selects by.
            let is_name = field.key == "metadata.name";
            match (field.operator.as_str(), field.values.as_slice()) {
                ("In", [name]) if is_name => Ok((true, of(name))),
                ("NotIn", [name]) if is_name => Ok((false, of(name))),
                _ => Err(SelectorError::Field {
                    key: field.key.clone(),
                }),
            }
        };
        let names: Result<_, _> = wire.match_fields.iter().map(&mut name).collect();
        Ok(Self {
            labels: labels?,
            names: names?,
        })
    }

    /// How many requirements it has, and how many values are in them.
    pub fn size(&self) -> (usize, usize) {
        let values = self.labels.iter().map(|label| label.values().len());
        (self.labels.len() + self.names.len(), values.sum())
    }

    /// The values that labels must have, and the names of which the node must have one.
    pub fn wanted(&self) -> impl Iterator<Item = T> {
        let labels = self.labels.iter().flat_map(Requirement::wanted).copied();
        let names = self.names.iter().filter(|(wanted, _)| *wanted);
        labels.chain(names.map(|(_, name)| *name))
    }

    /// The only names that a node can have: `None` if the term names none, empty if it contradicts itself.
    pub fn names(&self) -> Option<Vec<T>> {
        let mut wanted = self.names.iter().filter(|(is, _)| *is);
        let (_, first) = wanted.next()?;
        let fits = wanted.all(|(_, other)| other == first);
        Some(if fits { vec![*first] } else { Vec::new() })
    }

    /// Whether a node of this name with these labels matches.
    pub fn matches(&self, name: T, labels: &impl Labels<T>) -> bool {
        let demands_anything = !(self.labels.is_empty() && self.names.is_empty());
        let mut names = self.names.iter();
        demands_anything
            && names.all(|(wanted, known)| (*known == name) == *wanted)
            && self
                .labels
                .iter()
                .all(|requirement| requirement.matches(labels))
    }
}
