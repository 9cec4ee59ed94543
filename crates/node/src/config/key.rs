//! What the table of keys says of each: name, default, reason, when a change takes effect, and how it is read and
//! shown.

use super::{
    effective::{Effective, Kind},
    mistake::Fault,
    node::Node,
    value::Value,
};
use evictd_eviction::Signal;
use serde_json::Value as Json;
use std::collections::BTreeMap;

/// One setting.
pub(super) struct Key {
    /// With the keys above it, joined by points.
    pub(super) path: &'static str,
    /// Why it is there, in a line.
    pub(super) why: &'static str,
    /// What an `EvictionConfiguration` takes by default, in YAML; `None`: it has no such key.
    pub(super) default: Option<&'static str>,
    /// What it is under a `KubeletConfiguration`.
    pub(super) kubelet: Kubelet,
    pub(super) effect: Effect,
    pub(super) field: Field,
}

/// What a key is under a `KubeletConfiguration`.
pub(super) enum Kubelet {
    /// A key there too.
    Key {
        name: &'static str,
        default: &'static str,
    },
    /// No key; what the kubelet always does.
    Rule(&'static str),
    /// None of its business: ours, with our default.
    Same,
}

/// When a running daemon goes by a changed value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    /// As soon as the file is read again.
    Reload,
    /// At the next start: sources, paths and addresses are opened once.
    Restart,
}

/// How a key is read into the configuration and shown from it.
pub(super) enum Field {
    /// One value.
    One {
        read: fn(&mut Effective, &Node) -> Result<(), Vec<Fault>>,
        show: fn(&Effective) -> Json,
        /// What a reader takes, as a JSON Schema.
        schema: fn() -> Json,
    },
    /// A map by signal, whose entries are merged.
    Signals {
        map: fn(&mut Effective) -> &mut BTreeMap<String, String>,
        get: fn(&Effective) -> &BTreeMap<String, String>,
        /// What `null` stands for, where an entry can be switched off.
        off: Option<&'static str>,
        /// What an entry of this signal takes, as a JSON Schema.
        schema: fn(Signal) -> Json,
    },
}

impl Key {
    /// The name in a file of this kind; `None` where such files have no such key.
    pub(super) fn name(&self, kind: Kind) -> Option<&'static str> {
        match (&self.kubelet, kind) {
            (_, Kind::Evictd) => self.default.map(|_| self.path),
            (Kubelet::Key { name, .. }, Kind::Kubelet) => Some(name),
            (Kubelet::Rule(_) | Kubelet::Same, Kind::Kubelet) => None,
        }
    }

    /// The present value, as it would be written.
    pub(super) fn show(&self, effective: &Effective) -> Json {
        match self.field {
            Field::One { show, .. } => show(effective),
            Field::Signals { get, .. } => get(effective).show(),
        }
    }
}

/// One value at this field of [`Effective`], read and shown by its type or by the module named.
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

/// A key that an `EvictionConfiguration` does not have.
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

/// The same key in a kubelet's file.
pub(super) const fn too(name: &'static str, default: &'static str) -> Kubelet {
    Kubelet::Key { name, default }
}
