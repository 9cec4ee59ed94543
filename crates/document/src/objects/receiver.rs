//! The users of the objects that a loader reads.

use super::items::Found;
use crate::finder::{mistakes_in_value, mistakes_of};
use crate::mistake::{Mistake, Place, Step};
use evictd_manifests::{KindVisitor, Object};
use serde::de::DeserializeOwned;

/// Uses the objects that a [`Loader`](super::Loader) reads.
pub trait Receiver {
    /// Takes an object: well-formed, with a name that no other object of its kind has, complete as if it were stored.
    ///
    /// # Errors
    /// If it cannot be used, with the field that prevents it.
    fn take(&mut self, object: Object) -> Result<(), InvalidField>;

    /// Takes an object of a kind that the loader does not know; `None` if it is not used, and is only counted.
    fn take_other(&mut self, _other: &OtherObject<'_>) -> Option<Result<(), Vec<Mistake>>> {
        None
    }

    /// Whether pods of other schedulers' groups are placed one by one. If so, an assumption says it.
    fn places_pods_alone(&self) -> bool {
        false
    }
}

/// An object of a kind that the loader does not know.
pub struct OtherObject<'f>(pub(super) &'f Found<'f>);

impl OtherObject<'_> {
    /// Its kind.
    pub fn kind(&self) -> &str {
        self.0.kind
    }

    /// Its version with the group; empty if it has none.
    pub fn api_version(&self) -> &str {
        self.0.api_version
    }

    /// A message about a field, such as `spec.groups[0].name`, with its place; of a missing field the object's.
    pub fn note(&self, title: String, key: &str, message: String) -> Mistake {
        let Self(found) = self;
        Mistake {
            place: (found.place)(&Step::path(key)).or_else(|| (found.place)(&[])),
            object: title,
            key: key.to_owned(),
            message,
        }
    }

    /// Parses it.
    ///
    /// # Errors
    /// Every mistake in it, with its place.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, Vec<Mistake>> {
        let Self(found) = self;
        serde_json::from_slice(found.text).map_err(|error| {
            let error = &error;
            Explain { found, error }.visit::<T>()
        })
    }
}

/// Why an object cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidField {
    /// Its path in the object, such as `spec.selector`.
    pub field: String,
    /// The mistake in it.
    pub message: String,
}

/// Keeps the objects.
impl Receiver for Vec<Object> {
    fn take(&mut self, object: Object) -> Result<(), InvalidField> {
        self.push(object);
        Ok(())
    }

    fn places_pods_alone(&self) -> bool {
        true
    }
}

/// Finds every mistake of an object that cannot be read.
pub(super) struct Explain<'f> {
    pub(super) found: &'f Found<'f>,
    pub(super) error: &'f serde_json::Error,
}

impl KindVisitor for Explain<'_> {
    type Output = Vec<Mistake>;

    fn visit<T: DeserializeOwned>(self) -> Vec<Mistake> {
        let Self { found, error } = self;
        let place = (found.place)(&[]);
        let position = found.position();
        let Ok(text) = std::str::from_utf8(found.text) else {
            return vec![Mistake {
                place,
                object: format!("{} {position}", found.kind),
                key: String::new(),
                message: "is not UTF-8 text".to_owned(),
            }];
        };
        let mut mistakes = if let Some(value) = found.value {
            mistakes_in_value::<T>(value, &position, found.place, error)
        } else {
            let start = place.unwrap_or(Place::START);
            mistakes_of::<T>(text, start, &position, error)
        };
        for mistake in &mut mistakes {
            mistake.object = format!("{} {}", found.kind, mistake.object);
        }
        mistakes
    }
}
