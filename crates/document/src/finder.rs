//! Finds all mistakes of a document at once: it removes the offending value and parses the rest again.

use crate::{
    error::DocumentError,
    mistake::{Mistake, Mistakes, Place, Step},
    yaml,
};
use evictd_configuration::read_typed;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The search stops at this number of mistakes, because a person reads no more.
pub const ENOUGH: usize = 100;

/// Collects the mistakes of one document.
pub(crate) struct Finder {
    found: Mistakes,
}

impl Finder {
    pub(crate) fn new(name: &str) -> Self {
        Self {
            found: Mistakes {
                name: name.to_owned(),
                mistakes: Vec::new(),
                more: false,
            },
        }
    }

    /// Adds a mistake of `object` as a whole.
    pub(crate) fn add(&mut self, object: &str, message: String) {
        self.push(Mistake {
            place: None,
            object: object.to_owned(),
            key: String::new(),
            message,
        });
    }

    /// Adds a mistake in a field of the whole document.
    pub(crate) fn add_field(&mut self, place: Option<Place>, key: String, message: String) {
        self.push(Mistake {
            place,
            object: String::new(),
            key,
            message,
        });
    }

    /// Adds the error of the YAML parser.
    pub(crate) fn add_yaml(&mut self, error: &serde_saphyr::Error) {
        self.push(yaml::mistake(error));
    }

    fn push(&mut self, mistake: Mistake) {
        if self.is_enough() {
            self.found.more = true;
        } else {
            self.found.mistakes.push(mistake);
        }
    }

    fn is_enough(&self) -> bool {
        self.found.mistakes.len() >= ENOUGH
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.found.mistakes.is_empty()
    }

    pub(crate) fn into_error(self) -> DocumentError {
        self.found.into()
    }

    /// Finds why `part`, a slice of the JSON text `whole`, does not parse as `T`. `error` is the first attempt's error.
    pub(crate) fn find_in_json<T: DeserializeOwned>(
        &mut self,
        whole: &str,
        part: &str,
        object: &str,
        error: &serde_json::Error,
    ) {
        if self.is_enough() {
            self.found.more = true;
            return;
        }
        self.find_in_part::<T>(part, start_of(part, whole), object, error);
    }

    /// Finds the mistakes of JSON that starts at `start`.
    fn find_in_part<T: DeserializeOwned>(
        &mut self,
        part: &str,
        start: Place,
        object: &str,
        error: &serde_json::Error,
    ) {
        let before = self.found.mistakes.len();
        if error.is_data()
            && let Ok(value) = serde_json::from_str::<Value>(part)
        {
            let object = name_of(&value).unwrap_or_else(|| object.to_owned());
            let spans = yaml::spans(part);
            self.find_in_value::<T>(value, &object, |way| {
                let place = spans.first()?.place(way)?;
                Some(place.within(start))
            });
        }
        // The parser of values may accept what the typed one refuses; then its own message is all there is.
        if self.found.mistakes.len() == before {
            self.push(json_mistake(error, object, start));
        }
    }

    /// Parses the YAML `text` as `T`, or adds its mistakes.
    pub(crate) fn parse_yaml<T: DeserializeOwned>(&mut self, text: &str) -> Result<T, ()> {
        let value = yaml::parse(text).map_err(|error| self.add_yaml(&error))?;
        T::deserialize(&value).map_err(|error| {
            let name = name_of(&value).unwrap_or_default();
            let spans = yaml::spans(text);
            self.find_in_value::<T>(value, &name, |way| spans.first()?.place(way));
            if self.is_empty() {
                self.add(&name, error.to_string());
            }
        })
    }

    /// Finds every value that prevents parsing `value` as `T`, by removing one after the other. `place` returns the
    /// place of a value.
    pub(crate) fn find_in_value<T: DeserializeOwned>(
        &mut self,
        value: Value,
        object: &str,
        place: impl Fn(&[Step]) -> Option<Place>,
    ) {
        let before = self.found.mistakes.len();
        let room = ENOUGH.saturating_sub(before).max(1);
        for wrong in read_typed::<T>(value, room).1 {
            self.push(Mistake {
                place: place(&wrong.way),
                object: object.to_owned(),
                key: wrong.key,
                message: wrong.message,
            });
        }
        // Fields are read in the order of the type, but a reader goes through the file.
        let position = |mistake: &Mistake| mistake.place.map(|place| (place.line, place.column));
        self.found.mistakes[before..].sort_by_key(position);
    }
}

/// The place where `part`, a slice of `whole`, begins.
fn start_of(part: &str, whole: &str) -> Place {
    let offset = part.as_ptr().addr().saturating_sub(whole.as_ptr().addr());
    Place::START.after(&whole[..offset])
}

/// Finds every mistake that prevents parsing `part`, JSON that starts at `start`, as `T`. `error` is the first
/// attempt's error. The object is called `namespace/name` if it has them, else `object`.
pub fn mistakes_of<T: DeserializeOwned>(
    part: &str,
    start: Place,
    object: &str,
    error: &serde_json::Error,
) -> Vec<Mistake> {
    let mut finder = Finder::new("");
    finder.find_in_part::<T>(part, start, object, error);
    finder.found.mistakes
}

/// The same for a value that came from YAML; `place` returns the places of its values.
pub(crate) fn mistakes_in_value<T: DeserializeOwned>(
    value: &Value,
    object: &str,
    place: impl Fn(&[Step]) -> Option<Place>,
    error: &serde_json::Error,
) -> Vec<Mistake> {
    let mut finder = Finder::new("");
    let object = name_of(value).unwrap_or_else(|| object.to_owned());
    finder.find_in_value::<T>(value.clone(), &object, &place);
    if finder.is_empty() {
        finder.push(Mistake {
            place: place(&[]),
            ..json_mistake(error, &object, Place::START)
        });
    }
    finder.found.mistakes
}

/// Converts serde's error, which has a line but no key.
fn json_mistake(error: &serde_json::Error, object: &str, start: Place) -> Mistake {
    let (line, column) = (error.line(), error.column());
    let message = error.to_string();
    let suffix = format!(" at line {line} column {column}");
    let count = |number| u64::try_from(number).unwrap_or(u64::MAX);
    let place = Place {
        line: count(line),
        column: count(column.max(1)),
    };
    Mistake {
        place: (line > 0).then(|| place.within(start)),
        object: object.to_owned(),
        key: String::new(),
        message: message
            .strip_suffix(&suffix)
            .map_or(message.clone(), str::to_owned),
    }
}

/// `namespace/name` of a Kubernetes object, as far as it has them.
pub(crate) fn name_of(object: &Value) -> Option<String> {
    let metadata = object.get("metadata")?;
    let name = metadata.get("name")?.as_str()?;
    let namespace = metadata.get("namespace").and_then(Value::as_str);
    Some(namespace.map_or(name.to_owned(), |namespace| format!("{namespace}/{name}")))
}
