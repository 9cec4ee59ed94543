//! Label selectors, compiled to comparisons of symbols.

use crate::labels::Labels;
use crate::symbol::{Symbol, Symbols};
use evictd_pod::selector::{self, NodeTerm, SelectorError};
use evictd_pod::wire;

/// One requirement on labels.
pub type Requirement = selector::Requirement<Symbol>;

/// The labels of one object. The symbols resolve values that are compared as numbers.
struct Known<'a>(&'a Symbols, &'a Labels);

impl selector::Labels<Symbol> for Known<'_> {
    fn value(&self, key: Symbol) -> Option<Symbol> {
        self.1.get(key)
    }

    fn number(&self, value: Symbol) -> Option<i64> {
        self.0.text(value).parse().ok()
    }
}

/// The labels of an object without any.
struct WithoutLabels;

impl selector::Labels<Symbol> for WithoutLabels {
    fn value(&self, _: Symbol) -> Option<Symbol> {
        None
    }

    fn number(&self, _: Symbol) -> Option<i64> {
        None
    }
}

/// Whether only an object that has the label can meet a requirement.
pub(crate) fn needs_label(requirement: &Requirement) -> bool {
    !requirement.matches(&WithoutLabels)
}

/// A label selector.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Selector {
    /// An absent selector, which selects nothing.
    Nothing,
    /// All requirements must match; an empty list selects everything.
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

    /// Adds requirements. A selector that selects nothing stays so.
    #[must_use]
    pub fn and(self, more: impl IntoIterator<Item = Requirement>) -> Self {
        match self {
            Self::Nothing => Self::Nothing,
            Self::All(all) => Self::All(all.into_iter().chain(more).collect()),
        }
    }

    /// Whether the labels match.
    pub fn matches(&self, symbols: &Symbols, labels: &Labels) -> bool {
        match self {
            Self::Nothing => false,
            Self::All(all) => all
                .iter()
                .all(|requirement| requirement.matches(&Known(symbols, labels))),
        }
    }

    /// The label keys in its requirements.
    pub(crate) fn keys(&self) -> impl Iterator<Item = Symbol> {
        let all: &[Requirement] = match self {
            Self::Nothing => &[],
            Self::All(all) => all,
        };
        all.iter().map(Requirement::key)
    }

    /// How many requirements it has, and how many values are in them.
    pub(crate) fn size(&self) -> (usize, usize) {
        let all: &[Requirement] = match self {
            Self::Nothing => &[],
            Self::All(all) => all,
        };
        let values = all.iter().map(|requirement| requirement.values().len());
        (all.len(), values.sum())
    }

    /// Whether it is absent, so that it selects nothing.
    pub(crate) const fn is_nothing(&self) -> bool {
        matches!(self, Self::Nothing)
    }

    /// Whether it is empty, so that it selects everything.
    pub(crate) fn is_everything(&self) -> bool {
        matches!(self, Self::All(all) if all.is_empty())
    }

    /// Whether it is absent or empty.
    pub fn is_empty(&self) -> bool {
        matches!(self, Self::Nothing) || matches!(self, Self::All(all) if all.is_empty())
    }
}

/// A node selector: one of its terms must match.
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

    /// The node names to which it is limited; `None` if some term does not limit the name, or without terms.
    pub(crate) fn names(&self) -> Option<Vec<Symbol>> {
        let mut names = Vec::new();
        for term in &self.0 {
            names.extend(term.names()?);
        }
        (!self.0.is_empty()).then_some(names)
    }

    /// The required label values and node names, as in "zone-a or zone-b". Empty if it has other requirements.
    pub(crate) fn values(&self, symbols: &Symbols) -> String {
        let values = self.0.iter().flat_map(NodeTerm::wanted);
        let values: Vec<&str> = values.map(|value| symbols.text(value)).collect();
        values.join(" or ")
    }

    /// How many requirements its terms have, and how many values are in them.
    pub(crate) fn size(&self) -> (usize, usize) {
        let sizes = self.0.iter().map(NodeTerm::size);
        sizes.fold((0, 0), |sum, size| (sum.0 + size.0, sum.1 + size.1))
    }

    /// Whether a node of this name and these labels matches.
    pub fn matches(&self, symbols: &Symbols, name: Symbol, labels: &Labels) -> bool {
        self.0
            .iter()
            .any(|term| term.matches(name, &Known(symbols, labels)))
    }
}
