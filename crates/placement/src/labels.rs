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

    /// Gives back the references that [`Labels::new`] has taken, where no other object holds them.
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
        // Few labels: looking at each is quicker than halving.
        let pair = self.0.iter().find(|(own, _)| *own == key);
        pair.map(|(_, value)| *value)
    }

    /// Key and value of each.
    pub fn iter(&self) -> impl Iterator<Item = (Symbol, Symbol)> {
        self.0.iter().copied()
    }

    /// Those whose keys are wanted.
    pub(crate) fn only(&self, wanted: impl Fn(Symbol) -> bool) -> Self {
        Self(self.iter().filter(|(key, _)| wanted(*key)).collect())
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
