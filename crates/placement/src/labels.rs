//! Labels as symbols.

use crate::symbol::{Symbol, Symbols};

/// Labels of one object, in the order of their keys' symbols.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Labels(Box<[(Symbol, Symbol)]>);

impl Labels {
    /// Interns every key and value.
    pub fn new<'a>(
        symbols: &mut Symbols,
        labels: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Self {
        let mut pairs: Box<[_]> = labels
            .into_iter()
            .map(|(key, value)| (symbols.intern(key), symbols.intern(value)))
            .collect();
        pairs.sort_unstable();
        Self(pairs)
    }

    /// Releases the references that [`Labels::new`] took, unless another object holds them.
    pub(crate) fn release(&self, symbols: &mut Symbols) {
        for (key, value) in self.iter() {
            symbols.release(key);
            symbols.release(value);
        }
    }

    /// A single label.
    pub(crate) fn one(key: Symbol, value: Symbol) -> Self {
        Self([(key, value)].into())
    }

    /// The value of a label.
    pub fn get(&self, key: Symbol) -> Option<Symbol> {
        // Objects have few labels, so a linear scan beats binary search.
        let pair = self.0.iter().find(|(known, _)| *known == key);
        pair.map(|(_, value)| *value)
    }

    /// All pairs of key and value.
    pub fn iter(&self) -> impl Iterator<Item = (Symbol, Symbol)> {
        self.0.iter().copied()
    }

    /// The labels whose keys match.
    pub(crate) fn only(&self, wanted: impl Fn(Symbol) -> bool) -> Self {
        Self(self.iter().filter(|(key, _)| wanted(*key)).collect())
    }

    /// Whether the object has no labels.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
