//! Selectors, compiled once: demands on labels as comparisons of symbols.

use crate::labels::Labels;
use crate::symbol::{Symbol, Symbols};
use evictd_pod::selector::{self, NodeTerm, SelectorError};
use evictd_pod::wire;

/// One demand on labels.
pub type Requirement = selector::Requirement<Symbol>;

/// Labels of one object; the table is asked for texts that are compared as numbers.
struct Known<'a>(&'a Symbols, &'a Labels);

impl selector::Labels<Symbol> for Known<'_> {
    fn value(&self, key: Symbol) -> Option<Symbol> {
        self.1.get(key)
    }

    fn number(&self, value: Symbol) -> Option<i64> {
        self.0.text(value).parse().ok()
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
            let mut intern = |text: &str| symbols.intern(text);
            all.push(Requirement::new(requirement, &mut intern)?);
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
                .all(|requirement| requirement.matches(&Known(symbols, labels))),
        }
    }

    /// The keys that it names.
    pub(crate) fn keys(&self) -> impl Iterator<Item = Symbol> {
        let all: &[Requirement] = match self {
            Self::Nothing => &[],
            Self::All(all) => all,
        };
        all.iter().map(Requirement::key)
    }

    /// Whether it is an absent one.
    pub(crate) const fn is_nothing(&self) -> bool {
        matches!(self, Self::Nothing)
    }

    /// Whether it is an empty one, which selects everything.
    pub(crate) fn is_everything(&self) -> bool {
        matches!(self, Self::All(all) if all.is_empty())
    }

    /// Whether it makes no demand at all: an absent or an empty selector.
    pub fn is_empty(&self) -> bool {
        matches!(self, Self::Nothing) || matches!(self, Self::All(all) if all.is_empty())
    }
}

/// Which nodes: any of the terms.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct NodeSelector(Box<[NodeTerm<Symbol>]>);

impl NodeSelector {
    /// Compiles a node selector.
    pub fn new(symbols: &mut Symbols, wire: &wire::NodeSelector) -> Result<Self, SelectorError> {
        let terms = wire.node_selector_terms.iter();
        let mut intern = |text: &str| symbols.intern(text);
        let terms: Result<_, _> = terms.map(|term| NodeTerm::new(term, &mut intern)).collect();
        Ok(Self(terms?))
    }

    /// The names of the only nodes that can be meant: `None` where some term does not say, or where there is no term.
    pub(crate) fn names(&self) -> Option<Vec<Symbol>> {
        let mut names = Vec::new();
        for term in &self.0 {
            names.extend(term.names()?);
        }
        (!self.0.is_empty()).then_some(names)
    }

    /// The values that labels must have, and names of nodes: "zone-a or zone-b". Empty if it asks in another way.
    pub(crate) fn values(&self, symbols: &Symbols) -> String {
        let values = self.0.iter().flat_map(NodeTerm::wanted);
        let values: Vec<&str> = values.map(|value| symbols.text(value)).collect();
        values.join(" or ")
    }

    /// Whether a node of this name and these labels is meant.
    pub fn matches(&self, symbols: &Symbols, name: Symbol, labels: &Labels) -> bool {
        self.0
            .iter()
            .any(|term| term.matches(name, &Known(symbols, labels)))
    }
}
