//! Texts that repeat, as numbers.

use hashbrown::HashMap;
use std::sync::Arc;

/// A text that was seen; equal texts have equal symbols.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Symbol(u32);

/// Every text that was seen.
#[derive(Debug, Clone, Default)]
pub struct Symbols {
    known: HashMap<Arc<str>, Symbol>,
    texts: Vec<Arc<str>>,
}

impl Symbols {
    /// The symbol of a text, a new one if need be.
    pub fn intern(&mut self, text: &str) -> Symbol {
        if let Some(symbol) = self.known.get(text) {
            return *symbol;
        }
        // Four thousand million different texts do not fit into the memory of a machine that reads them.
        let symbol = Symbol(u32::try_from(self.texts.len()).unwrap_or(u32::MAX));
        let text: Arc<str> = text.into();
        self.texts.push(Arc::clone(&text));
        self.known.insert(text, symbol);
        symbol
    }

    /// The symbol of a text that was seen.
    pub fn get(&self, text: &str) -> Option<Symbol> {
        self.known.get(text).copied()
    }

    /// The text of a symbol; empty for one of another table.
    pub fn text(&self, symbol: Symbol) -> &str {
        self.texts
            .get(symbol.0 as usize)
            .map_or("", |text| text.as_ref())
    }
}
