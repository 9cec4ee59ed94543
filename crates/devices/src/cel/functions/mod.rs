//! The functions of expressions, and what each costs: those of the language, of its strings, lists and sets libraries, and of
//! Kubernetes' own. A table says how each is called.

mod addresses;
mod convert;
mod kubernetes;
mod lists;
mod operators;
mod optional;
mod strings;

use super::meter::{Fault, Meter};
use super::pattern::Pattern;
use super::value::Value;
use std::sync::Arc;

/// A function. It charges what it costs before it does it.
pub(crate) type Function = fn(&mut Given<'_, '_>) -> Result<Value, Fault>;

/// What a function is called with.
pub(crate) struct Given<'e, 'm> {
    /// The target first, if there is one.
    pub(crate) args: Vec<Value>,
    /// A constant regular expression among them.
    pub(crate) pattern: Option<&'e Pattern>,
    pub(crate) meter: &'m mut Meter,
}

impl Given<'_, '_> {
    /// Charges one unit.
    fn plain(&mut self) -> Result<(), Fault> {
        self.meter.charge(1)
    }

    fn arg(&self, at: usize) -> &Value {
        self.args.get(at).unwrap_or(&Value::Null)
    }

    fn take(&mut self, at: usize) -> Value {
        self.args
            .get_mut(at)
            .map_or(Value::Null, |own| std::mem::replace(own, Value::Null))
    }

    fn text(&self, at: usize) -> Result<Arc<str>, Fault> {
        match self.arg(at) {
            Value::Text(own) => Ok(Arc::clone(own)),
            _ => Err(Fault::no_overload()),
        }
    }

    fn int(&self, at: usize) -> Result<i64, Fault> {
        match self.arg(at) {
            Value::Int(own) => Ok(*own),
            _ => Err(Fault::no_overload()),
        }
    }

    /// An argument that may be left out.
    fn int_or(&self, at: usize, absent: i64) -> Result<i64, Fault> {
        if at < self.args.len() {
            return self.int(at);
        }
        Ok(absent)
    }
}

/// How a function is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Called {
    /// On a target, which counts as its first argument.
    On,
    Alone,
    Either,
}

pub(crate) struct Entry {
    pub(crate) name: &'static str,
    called: Called,
    /// The fewest and the most arguments.
    arguments: (usize, usize),
    pub(crate) function: Function,
    /// The argument that is a regular expression.
    pub(crate) pattern: Option<usize>,
}

const fn entry(
    name: &'static str,
    called: Called,
    arguments: (usize, usize),
    function: Function,
) -> Entry {
    Entry {
        name,
        called,
        arguments,
        function,
        pattern: None,
    }
}

const fn with_pattern(entry: &Entry) -> Entry {
    Entry {
        pattern: Some(1),
        ..*entry
    }
}

const TABLES: [&[Entry]; 7] = [
    operators::TABLE,
    convert::TABLE,
    strings::TABLE,
    lists::TABLE,
    optional::TABLE,
    kubernetes::TABLE,
    addresses::TABLE,
];

/// A function that can be called with so many arguments.
pub(crate) fn find(name: &str, on_target: bool, count: usize) -> Option<&'static Entry> {
    let called = if on_target { Called::On } else { Called::Alone };
    let mut entries = TABLES.into_iter().flatten();
    entries.find(|own| {
        let (fewest, most) = own.arguments;
        own.name == name
            && (own.called == called || own.called == Called::Either)
            && (fewest..=most).contains(&count)
    })
}

pub(crate) fn is_known(name: &str) -> bool {
    let mut entries = TABLES.into_iter().flatten();
    entries.any(|own| own.name == name)
}

#[cfg(test)]
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    TABLES.into_iter().flatten().map(|own| own.name)
}
