//! Texts that repeat, as numbers. They are counted by reference: a text that nothing alive refers to is freed, and its
//! number is given to another.

use hashbrown::{DefaultHashBuilder, HashTable};
use std::hash::BuildHasher;

/// A text that is in use; equal texts have equal symbols. It means something only as long as what it was read from is
/// in the cluster. The default is the empty text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Symbol(u32);

/// References to texts, one each, that an object holds from when it is built until it is released.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Held(Box<[Symbol]>);

/// Every text that is in use.
#[derive(Debug)]
pub struct Symbols {
    /// By the hash of their texts, which are in their slots.
    known: HashTable<Symbol>,
    hasher: DefaultHashBuilder,
    slots: Vec<Slot>,
    free: Vec<Symbol>,
    /// References that were given out since [`Symbols::hold`] was last asked, for the object that is being built.
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
        // The first, which is the default symbol, and which stays for ever.
        symbols.intern("");
        symbols.keep();
        symbols
    }
}

impl Symbols {
    /// The symbol of a text, a new one if need be, with one more reference to it.
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
        // Four thousand million different texts do not fit into the memory of a machine that reads them.
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
            .insert_unique(hasher.hash_one(text), symbol, |own| {
                hasher.hash_one(&*slots[own.0 as usize].text)
            });
        symbol
    }

    /// One more reference to a text that is in use.
    pub(crate) fn hold_again(&mut self, symbol: Symbol) {
        self.slots[symbol.0 as usize].references += 1;
    }

    /// Hands the references of the object that was just built over to it, each symbol once.
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
        // Its room is used for the next object.
        self.given = given;
        Held(held.into())
    }

    /// Keeps the references of the object that was just built. Whoever holds it releases each symbol.
    pub(crate) fn keep(&mut self) {
        self.given.clear();
    }

    /// Gives the references of an object back that was not built after all.
    pub(crate) fn give_back(&mut self) {
        while let Some(symbol) = self.given.pop() {
            self.release(symbol);
        }
    }

    /// Gives the references of an object back that is no more.
    pub(crate) fn release_held(&mut self, held: &Held) {
        for symbol in &held.0 {
            self.release(*symbol);
        }
    }

    /// Gives one reference back; with the last the text is freed.
    pub(crate) fn release(&mut self, symbol: Symbol) {
        let slot = &mut self.slots[symbol.0 as usize];
        slot.references -= 1;
        if slot.references == 0 {
            let text = std::mem::take(&mut slot.text);
            let hash = self.hasher.hash_one(&*text);
            if let Ok(entry) = self.known.find_entry(hash, |own| *own == symbol) {
                entry.remove();
            }
            self.free.push(symbol);
        }
    }

    /// The symbol of a text that is in use.
    pub fn get(&self, text: &str) -> Option<Symbol> {
        let hash = self.hasher.hash_one(text);
        let is_it = |own: &Symbol| *self.slots[own.0 as usize].text == *text;
        self.known.find(hash, is_it).copied()
    }

    /// The text of a symbol; empty for one that was freed.
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
    fn a_text_is_freed_with_its_last_reference_and_its_number_is_used_again() {
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
