//! Interned texts as numbers. Symbols are reference-counted: a text without references is freed and its number is
//! reused.

use hashbrown::{DefaultHashBuilder, HashTable};
use std::hash::BuildHasher;

/// An interned text. Equal texts have equal symbols. A symbol is valid as long as the object that it comes from is in
/// the cluster. The default is the empty text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Symbol(u32);

/// The references that an object holds from its construction until its release.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Held(Box<[Symbol]>);

/// All texts in use.
#[derive(Debug)]
pub struct Symbols {
    /// Symbols by the hash of their texts, which are in `slots`.
    known: HashTable<Symbol>,
    hasher: DefaultHashBuilder,
    slots: Vec<Slot>,
    free: Vec<Symbol>,
    /// References taken since the last [`Symbols::hold`], for the object under construction.
    given: Vec<Symbol>,
}

#[derive(Debug)]
struct Slot {
    text: Box<str>,
    references: usize,
}

impl Default for Symbols {
    fn default() -> Self {
        let mut symbols = Self {
            known: HashTable::new(),
            hasher: DefaultHashBuilder::default(),
            slots: Vec::new(),
            free: Vec::new(),
            given: Vec::new(),
        };
        // The first symbol is the default one and is never freed.
        symbols.intern("");
        symbols.keep();
        symbols
    }
}

impl Symbols {
    /// Interns a text and takes a reference.
    pub(crate) fn intern(&mut self, text: &str) -> Symbol {
        let symbol = match self.get(text) {
            Some(symbol) => symbol,
            None => self.insert(text),
        };
        self.slots[symbol.0 as usize].references += 1;
        self.given.push(symbol);
        symbol
    }

    fn insert(&mut self, text: &str) -> Symbol {
        // The machine cannot hold 2^32 texts in memory, so the fallback is never used.
        let next = Symbol(u32::try_from(self.slots.len()).unwrap_or(u32::MAX));
        let slot = Slot {
            text: text.into(),
            references: 0,
        };
        let symbol = self.free.pop().unwrap_or(next);
        if symbol == next {
            self.slots.push(slot);
        } else {
            self.slots[symbol.0 as usize] = slot;
        }
        let (slots, hasher) = (&self.slots, &self.hasher);
        self.known
            .insert_unique(hasher.hash_one(text), symbol, |other| {
                hasher.hash_one(&*slots[other.0 as usize].text)
            });
        symbol
    }

    /// Takes another reference to a symbol in use.
    pub(crate) fn hold_again(&mut self, symbol: Symbol) {
        self.slots[symbol.0 as usize].references += 1;
    }

    /// Returns the references of the object that was just built, each symbol once.
    pub(crate) fn hold(&mut self) -> Held {
        let mut given = std::mem::take(&mut self.given);
        given.sort_unstable();
        let mut held = Vec::with_capacity(given.len());
        for symbol in given.drain(..) {
            if held.last() == Some(&symbol) {
                self.release(symbol);
            } else {
                held.push(symbol);
            }
        }
        // Keeps the buffer for the next object.
        self.given = given;
        Held(held.into())
    }

    /// Leaves the references to the object that was just built. The object must release each symbol.
    pub(crate) fn keep(&mut self) {
        self.given.clear();
    }

    /// Releases the references of an object that was not built after all.
    pub(crate) fn give_back(&mut self) {
        while let Some(symbol) = self.given.pop() {
            self.release(symbol);
        }
    }

    /// Releases the references of a removed object.
    pub(crate) fn release_held(&mut self, held: &Held) {
        for symbol in &held.0 {
            self.release(*symbol);
        }
    }

    /// Releases a reference; the last one frees the text.
    pub(crate) fn release(&mut self, symbol: Symbol) {
        let slot = &mut self.slots[symbol.0 as usize];
        slot.references -= 1;
        if slot.references == 0 {
            let text = std::mem::take(&mut slot.text);
            let hash = self.hasher.hash_one(&*text);
            if let Ok(entry) = self.known.find_entry(hash, |known| *known == symbol) {
                entry.remove();
            }
            self.free.push(symbol);
        }
    }

    /// The symbol of a text, if it is in use.
    pub fn get(&self, text: &str) -> Option<Symbol> {
        let hash = self.hasher.hash_one(text);
        let is_it = |known: &Symbol| *self.slots[known.0 as usize].text == *text;
        self.known.find(hash, is_it).copied()
    }

    /// The text of a symbol; empty for a freed symbol.
    pub fn text(&self, symbol: Symbol) -> &str {
        self.slots
            .get(symbol.0 as usize)
            .map_or("", |slot| slot.text.as_ref())
    }

    /// How many texts are in use.
    pub(crate) fn count(&self) -> usize {
        self.known.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_reference_frees_a_text_and_its_number_is_reused() {
        let mut symbols = Symbols::default();
        let (one, again) = (symbols.intern("one"), symbols.intern("one"));
        assert_eq!(one, again);
        let first = symbols.hold();
        assert_eq!(symbols.intern("one"), one);
        let second = symbols.hold();
        symbols.release_held(&first);
        assert_eq!(symbols.text(one), "one");
        symbols.release_held(&second);
        assert_eq!(
            (symbols.get("one"), symbols.text(one), symbols.count()),
            (None, "", 1)
        );
        assert_eq!(symbols.intern("two"), one);
        symbols.give_back();
        assert_eq!(symbols.count(), 1);
    }
}
