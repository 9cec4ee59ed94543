//! The parts of a collection that a program keeps, and how it handles changes.

use super::{Key, Keyed, Outline, Table, Unreadable};
use serde::de::DeserializeOwned;

/// Keeps the objects of one kind. A [`super::Reflector`] decides which objects have changed. The store decides which
/// part of an object is kept, and passes the change on.
///
/// Each change comes once: an object with its state before. An object that vanished while no watch was open counts as
/// deleted, in its last known state. A deleted object that was made anew meanwhile is one change, visible by its UID.
pub trait Store: Send + 'static {
    /// The part of an object that is parsed.
    type Object: DeserializeOwned + Send + 'static;
    /// As it is kept.
    type Kept: Keyed + Send;
    /// Where it is kept.
    type Table: Table<Self::Kept>;

    /// The key of an object.
    fn key(object: &Self::Object) -> Key<'_>;
    /// The key of an object if only its outline is known.
    fn key_of(outline: &Outline) -> Key<'_> {
        [&outline.namespace, &outline.name]
    }
    /// The outline of an object that is too large to be kept.
    fn outline(object: &Self::Object) -> Outline {
        let [namespace, name] = Self::key(object).map(str::to_owned);
        Outline {
            namespace,
            name,
            version: Self::version(object).to_owned(),
            ..Outline::default()
        }
    }
    /// `metadata.resourceVersion`
    fn version(object: &Self::Object) -> &str;
    /// Whether this state was kept. Never, if it has to be passed on again.
    fn has_version(kept: &Self::Kept, version: &str) -> bool;
    /// Whether the object with this UID was kept. Always, if UIDs are not.
    fn has_uid(kept: &Self::Kept, uid: &str) -> bool;

    /// Whether each object that cannot be read is logged; otherwise the store reports it.
    const LOGS: bool = true;

    /// A list begins.
    fn begin(&mut self) {}
    /// Drops the parts that are not kept, right after the object was parsed.
    fn tidy(&mut self, _object: &mut Self::Object) {}
    /// How many bytes the object takes. Only asked of an object with a long text, whose length is `bytes`.
    fn size(_object: &Self::Object, bytes: usize) -> usize {
        bytes
    }
    /// The object is new or has changed; returns the part that is kept.
    fn applied(&mut self, old: Option<Self::Kept>, new: Self::Object) -> Self::Kept;
    /// The object is deleted. `last` is the state in which it was deleted, if that was reported.
    fn gone(&mut self, old: Self::Kept, last: Option<Self::Object>);
    /// The object cannot be read. Returns the replacement for the kept object, which stays otherwise.
    fn unreadable(&mut self, _old: Option<&Self::Kept>, _new: &Unreadable) -> Option<Self::Kept> {
        None
    }
    /// The list is complete, or the connection has shown a sign of life.
    fn up_to_date(&mut self);
    /// Waits until the store has room for further changes: nothing more is read meanwhile.
    fn room(&mut self) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }
    /// Waits for a question about all objects. The future may be dropped at any time.
    fn asked(&mut self) -> impl Future<Output = ()> + Send {
        std::future::pending()
    }
    /// Answers the question from the known objects, each of which is in one of the tables.
    fn answer(&mut self, _known: &[&Self::Table]) {}
    /// The server does not answer.
    fn lost(&mut self, _problem: &str) {}
}
