//! The objects of a dump: those of a List, of Lists inside it, of several documents, or a single one.

use super::scan::{Scanner, Stop};
use crate::mistake::{Mistake, Place, Step};
use crate::yaml;
use serde_json::Value;
use std::fmt::Write;
use std::io::{self, Read};

/// The deepest nesting of Lists.
pub(super) const DEEPEST: usize = 16;

/// One object of the text.
pub(super) struct Found<'a> {
    /// Its kind; in a typed list without kinds, the one that the list implies.
    pub(super) kind: &'a str,
    /// Its apiVersion; empty if it has none.
    pub(super) api_version: &'a str,
    /// Its JSON.
    pub(super) text: &'a [u8],
    /// The place of a value in it, or of the object itself where the path is empty.
    pub(super) place: &'a dyn Fn(&[Step]) -> Option<Place>,
    /// Its index in the list, and that of the list in the one around it.
    pub(super) path: &'a [usize],
    /// Its value, where it came from YAML.
    pub(super) value: Option<&'a Value>,
}

impl Found<'_> {
    /// `items[3]`, for an object without a name; empty for one that is in no list.
    pub(super) fn position(&self) -> String {
        position(self.path)
    }
}

/// Receives the objects.
pub(super) trait Sink {
    /// Receives an object.
    fn take(&mut self, found: Found<'_>);
    /// Receives a mistake.
    fn refuse(&mut self, mistake: Mistake);
    /// The kind of an object in a list where neither has a kind.
    fn kind_in_lists(&self) -> Option<&'static str> {
        None
    }
    /// Whether there are so many mistakes that reading should stop.
    fn has_enough(&self) -> bool;
}

/// Passes every object of a JSON text to `sink`, and as a mistake the place from which the text cannot be read.
pub(super) fn read<R: Read, S: Sink>(scanner: &mut Scanner<R>, sink: &mut S) -> io::Result<()> {
    let mut reader = Reader {
        scanner,
        sink,
        path: Vec::new(),
    };
    match reader.documents() {
        Ok(()) => Ok(()),
        Err(Stop::Read(error)) => Err(error),
        Err(Stop::Syntax(message)) => {
            let place = reader.scanner.place();
            reader.refuse(Some(place), message);
            Ok(())
        }
    }
}

struct Reader<'r, R, S> {
    scanner: &'r mut Scanner<R>,
    sink: &'r mut S,
    path: Vec<usize>,
}

/// The kind of a list's items, as far as the list implies it.
#[derive(Clone, Copy)]
pub(super) enum Items<'a> {
    /// They are of this kind unless they say another.
    Of(&'a str),
    /// Each names its kind.
    Any,
    /// Not yet known: the list's kind may follow.
    Unknown,
}

/// An object of a list whose kind is not known yet.
struct Waiting {
    text: Vec<u8>,
    place: Option<Place>,
    path: Vec<usize>,
}

pub(super) const NO_KIND: &str = "is not a Kubernetes object, because it has no kind";

impl<R: Read, S: Sink> Reader<'_, R, S> {
    /// One document after the other.
    fn documents(&mut self) -> Result<(), Stop> {
        while let Some(byte) = self.scanner.peek()? {
            self.go_on()?;
            match byte {
                b'{' => self.object(Items::Any, &mut Vec::new())?,
                b'[' => self.items(Items::Any).map(drop)?,
                // A file with a byte order mark may have been appended to another file.
                0xef => {
                    self.scanner.skip_byte_order_mark()?;
                    match self.scanner.peek()? {
                        None | Some(b'{' | b'[' | b'=') => {}
                        Some(_) => return Err(Stop::Syntax("expected an object")),
                    }
                }
                // `kubectl cluster-info dump` prints the logs of containers between the lists.
                b'=' => self.scanner.skip_log()?,
                _ => return Err(Stop::Syntax("expected an object")),
            }
        }
        Ok(())
    }

    /// An object, or a list with its items. One without a kind joins `waiting` if the list's kind may still follow.
    fn object(&mut self, inherited: Items<'_>, waiting: &mut Vec<Waiting>) -> Result<(), Stop> {
        self.scanner.keep();
        self.scanner.pass();
        let (mut kind, mut api_version) = (None, None);
        let mut undecided = Vec::new();
        let mut is_list = false;
        let mut first = true;
        while self.next(b'}', &mut first)? {
            if self.scanner.must_peek()? != b'"' {
                return Err(Stop::Syntax("expected a key"));
            }
            let name = self.scanner.string()?;
            let exported = exported_kind(name);
            let key = Key::of(name);
            self.scanner.expect(b':', "expected `:`")?;
            let next = self.scanner.must_peek()?;
            match (key, next) {
                (Key::Kind, b'"') => kind = Some(self.text()?),
                (Key::ApiVersion, b'"') => api_version = Some(self.text()?),
                (Key::Items, b'[') if kind.as_deref().is_none_or(is_a_list) => {
                    is_list = true;
                    self.scanner.forget();
                    let items = kind.as_deref().map_or(Items::Unknown, items_of);
                    undecided.extend(self.items(items)?);
                }
                // An empty list of a server written in Go.
                (Key::Items, b'n') if kind.as_deref().is_none_or(is_a_list) => {
                    is_list = true;
                    self.scanner.skip_value()?;
                }
                (_, b'[') if kind.is_none() && self.path.is_empty() && exported.is_some() => {
                    is_list = true;
                    self.scanner.forget();
                    self.items(exported.map_or(Items::Any, Items::Of))?;
                }
                _ => self.scanner.skip_value()?,
            }
        }
        if is_list {
            self.settle(undecided, kind.as_deref());
        } else {
            let api_version = api_version.unwrap_or_default();
            self.hand_over(kind.as_deref(), &api_version, inherited, waiting);
        }
        self.scanner.forget();
        Ok(())
    }

    /// The objects of a list; returns those without a kind, if the kind of the list decides theirs.
    fn items(&mut self, items: Items<'_>) -> Result<Vec<Waiting>, Stop> {
        if self.path.len() == DEEPEST {
            return Err(Stop::Syntax("Lists inside Lists, too deep"));
        }
        let mut waiting = Vec::new();
        self.scanner.pass();
        self.path.push(0);
        let mut first = true;
        while self.next(b']', &mut first)? {
            self.go_on()?;
            if self.scanner.must_peek()? == b'{' {
                self.object(items, &mut waiting)?;
            } else {
                let place = self.scanner.place();
                self.scanner.skip_value()?;
                self.refuse(Some(place), "is no object");
            }
            if let Some(index) = self.path.last_mut() {
                *index += 1;
            }
        }
        self.path.pop();
        Ok(waiting)
    }

    /// Stops after enough mistakes, because the text may be endless.
    fn go_on(&self) -> Result<(), Stop> {
        if self.sink.has_enough() {
            return Err(Stop::Syntax("the search for mistakes ends here"));
        }
        Ok(())
    }

    /// Whether something comes before the end of a list or an object.
    fn next(&mut self, end: u8, first: &mut bool) -> Result<bool, Stop> {
        let is_first = std::mem::take(first);
        match self.scanner.must_peek()? {
            byte if byte == end => {
                self.scanner.pass();
                Ok(false)
            }
            b',' if !is_first => {
                self.scanner.pass();
                Ok(true)
            }
            _ if is_first => Ok(true),
            _ => Err(Stop::Syntax("expected a comma or the end of what is open")),
        }
    }

    /// The object that is kept.
    fn hand_over(
        &mut self,
        kind: Option<&str>,
        api_version: &str,
        inherited: Items<'_>,
        waiting: &mut Vec<Waiting>,
    ) {
        let scanner = &*self.scanner;
        let place = |way: &[Step]| Some(place_in(scanner.kept(), scanner.kept_place(), way));
        let in_lists = self.sink.kind_in_lists().filter(|_| !self.path.is_empty());
        let kind = match (kind.filter(|kind| !kind.is_empty()), inherited, in_lists) {
            (Some(kind), ..) | (None, Items::Of(kind), _) | (None, Items::Any, Some(kind)) => kind,
            (None, Items::Any, None) => {
                let place = place(&[]);
                return self.refuse(place, NO_KIND);
            }
            // The kind of the list stands behind its items in some dumps.
            (None, Items::Unknown, _) => {
                return waiting.push(Waiting {
                    text: scanner.kept().to_vec(),
                    place: place(&[]),
                    path: self.path.clone(),
                });
            }
        };
        self.sink.take(Found {
            kind,
            api_version,
            text: scanner.kept(),
            place: &place,
            path: &self.path,
            value: None,
        });
    }

    /// Settles the waiting objects at the end of their list.
    fn settle(&mut self, waiting: Vec<Waiting>, kind: Option<&str>) {
        for Waiting { text, place, path } in waiting {
            let items = match (kind.map_or(Items::Any, items_of), self.sink.kind_in_lists()) {
                (Items::Any, Some(kind)) => Items::Of(kind),
                (items, _) => items,
            };
            match items {
                Items::Of(kind) => self.sink.take(Found {
                    kind,
                    api_version: "",
                    text: &text,
                    place: &|way| Some(place_in(&text, place?, way)),
                    path: &path,
                    value: None,
                }),
                _ => self.sink.refuse(mistake(place, &path, NO_KIND)),
            }
        }
    }

    fn text(&mut self) -> Result<String, Stop> {
        let text = self.scanner.string()?;
        Ok(String::from_utf8_lossy(text).into_owned())
    }

    fn refuse(&mut self, place: Option<Place>, message: &str) {
        self.sink.refuse(mistake(place, &self.path, message));
    }
}

/// The keys of an object that are read before it is parsed.
enum Key {
    Kind,
    ApiVersion,
    Items,
    Other,
}

impl Key {
    fn of(text: &[u8]) -> Self {
        match text {
            b"kind" => Self::Kind,
            b"apiVersion" => Self::ApiVersion,
            b"items" => Self::Items,
            _ => Self::Other,
        }
    }
}

/// The kind of the objects under a key of an export of kube-scheduler-simulator, whose lists have no kind themselves.
pub(super) fn exported_kind(key: &[u8]) -> Option<&'static str> {
    Some(match key {
        b"pods" => "Pod",
        b"nodes" => "Node",
        b"pvs" => "PersistentVolume",
        b"pvcs" => "PersistentVolumeClaim",
        b"storageClasses" => "StorageClass",
        b"priorityClasses" => "PriorityClass",
        b"namespaces" => "Namespace",
        _ => return None,
    })
}

pub(super) fn is_a_list(kind: &str) -> bool {
    kind.is_empty() || kind.ends_with("List")
}

/// The kind of the items of a list of this kind.
pub(super) fn items_of(kind: &str) -> Items<'_> {
    match kind.strip_suffix("List").unwrap_or(kind) {
        "" => Items::Any,
        item => Items::Of(item),
    }
}

/// The place of a value in the JSON of an object that begins at `start`; `start` if the object is not readable.
fn place_in(text: &[u8], start: Place, way: &[Step]) -> Place {
    let text = std::str::from_utf8(text).unwrap_or_default();
    let inside = if way.is_empty() {
        None
    } else {
        yaml::spans(text).first().and_then(|span| span.place(way))
    };
    inside.map_or(start, |inside| inside.within(start))
}

fn position(path: &[usize]) -> String {
    let mut text = String::new();
    for (depth, index) in path.iter().enumerate() {
        let dot = if depth > 0 { "." } else { "" };
        let _ = write!(text, "{dot}items[{index}]");
    }
    text
}

pub(super) fn mistake(place: Option<Place>, path: &[usize], message: &str) -> Mistake {
    Mistake {
        place,
        object: position(path),
        key: String::new(),
        message: message.to_owned(),
    }
}
