//! The columns of the table of keys: name, default, reason, when a change takes effect, and how a value is read and
//! shown.

use super::{
    effective::{Effective, Kind},
    value::Value,
};
use evictd_configuration::{Fault, Node};
use evictd_signals::Signal;
use serde_json::Value as Json;
use std::collections::BTreeMap;

/// One setting.
pub(super) struct Key {
    /// The key with those above it, joined by dots.
    pub(super) path: &'static str,
    /// The purpose in one line.
    pub(super) why: &'static str,
    /// The default in an `EvictionConfiguration`, in YAML; `None` if it has no such key.
    pub(super) default: Option<&'static str>,
    /// Whether and how it applies in a `KubeletConfiguration`.
    pub(super) kubelet: Kubelet,
    pub(super) effect: Effect,
    pub(super) field: Field,
}

/// How a setting behaves in a `KubeletConfiguration`.
pub(super) enum Kubelet {
    /// It has this key too.
    Key {
        name: &'static str,
        default: &'static str,
    },
    /// It has no such key; the kubelet always does this.
    Rule(&'static str),
    /// The setting is evictd's own, with the same default.
    Same,
}

/// When a changed value takes effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    /// As soon as the file is read again.
    Reload,
    /// At the next start, because sources, paths and addresses are opened once.
    Restart,
}

/// How a key is read into the configuration and shown from it.
pub(super) enum Field {
    /// One value.
    One {
        read: fn(&mut Effective, &Node) -> Result<(), Vec<Fault>>,
        show: fn(&Effective) -> Json,
        /// The values that the reader accepts, as a JSON Schema.
        schema: fn() -> Json,
    },
    /// A map by signal; entries of several files are merged.
    Signals {
        map: fn(&mut Effective) -> &mut BTreeMap<String, String>,
        get: fn(&Effective) -> &BTreeMap<String, String>,
        /// The value that `null` means, if an entry can be switched off.
        off: Option<&'static str>,
        /// The values that an entry of this signal accepts, as a JSON Schema.
        schema: fn(Signal) -> Json,
    },
}

impl Key {
    /// The name in a file of this kind; `None` if such files have no such key.
    pub(super) fn name(&self, kind: Kind) -> Option<&'static str> {
        match (&self.kubelet, kind) {
            (_, Kind::Evictd) => self.default.map(|_| self.path),
            (Kubelet::Key { name, .. }, Kind::Kubelet) => Some(name),
            (Kubelet::Rule(_) | Kubelet::Same, Kind::Kubelet) => None,
        }
    }

    /// The present value in the form of a configuration file.
    pub(super) fn show(&self, effective: &Effective) -> Json {
        match self.field {
            Field::One { show, .. } => show(effective),
            Field::Signals { get, .. } => get(effective).show(),
        }
    }
}

/// A single value at this field of [`Effective`], read and shown by its type or by the named module.
macro_rules! one {
    ($($field:ident).+) => {
        one!($($field).+, Value, || schema_of(|effective| &effective.$($field).+))
    };
    ($($field:ident).+, $with:ident) => { one!($($field).+, $with, $with::schema) };
    ($($field:ident).+, $with:ident, $schema:expr) => {
        Field::One {
            read: |effective, node| {
                effective.$($field).+ = $with::read(node)?;
                Ok(())
            },
            show: |effective| $with::show(&effective.$($field).+),
            schema: $schema,
        }
    };
}
pub(super) use one;

/// The schema of the type of the field that this finds.
pub(super) fn schema_of<T: Value>(_: for<'a> fn(&'a Effective) -> &'a T) -> Json {
    T::schema()
}

/// One of the threshold maps.
macro_rules! signals {
    ($map:ident, $off:expr, $schema:expr) => {
        Field::Signals {
            map: |effective| &mut effective.maps.$map,
            get: |effective| &effective.maps.$map,
            off: $off,
            schema: $schema,
        }
    };
}
pub(super) use signals;

/// A key of an `EvictionConfiguration`.
pub(super) const fn key(
    path: &'static str,
    default: &'static str,
    kubelet: Kubelet,
    effect: Effect,
    field: Field,
    why: &'static str,
) -> Key {
    Key {
        path,
        why,
        default: Some(default),
        kubelet,
        effect,
        field,
    }
}

/// A key that only a `KubeletConfiguration` has.
pub(super) const fn only(
    path: &'static str,
    kubelet: Kubelet,
    effect: Effect,
    field: Field,
    why: &'static str,
) -> Key {
    Key {
        path,
        why,
        default: None,
        kubelet,
        effect,
        field,
    }
}

/// The same key in a kubelet's file, with another name or default.
pub(super) const fn too(name: &'static str, default: &'static str) -> Kubelet {
    Kubelet::Key { name, default }
}
