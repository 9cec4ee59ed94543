//! Lists. A concatenation only refers to its parts, so that no expression creates a list larger than the work that it
//! has paid for.

use super::meter::{Fault, Meter};
use std::sync::Arc;

/// A concatenation up to this length is copied.
const SHORT: u64 = 64;

#[derive(Debug, Clone)]
pub(crate) struct List<T> {
    length: u64,
    content: Content<T>,
}

#[derive(Debug, Clone)]
enum Content<T> {
    Flat(Arc<Vec<T>>),
    Both(Arc<(List<T>, List<T>)>),
}

impl<T> From<Vec<T>> for List<T> {
    fn from(values: Vec<T>) -> Self {
        Self {
            length: values.len() as u64,
            content: Content::Flat(Arc::new(values)),
        }
    }
}

impl<T: Clone> List<T> {
    pub(crate) const fn len(&self) -> u64 {
        self.length
    }

    /// Concatenates two lists. A list without other references is extended in place, and short ones are copied.
    pub(crate) fn and(mut self, other: Self, meter: &mut Meter) -> Result<Self, Fault> {
        if other.length == 0 {
            return Ok(self);
        }
        if self.length == 0 {
            return Ok(other);
        }
        let length = self.length.saturating_add(other.length);
        if let (Content::Flat(values), Content::Flat(more)) = (&mut self.content, &other.content) {
            if let Some(values) = Arc::get_mut(values) {
                meter.handle_values(other.length)?;
                values.extend(more.iter().cloned());
                self.length = length;
                return Ok(self);
            }
            if length <= SHORT {
                meter.handle_values(length)?;
                let both = values.iter().chain(more.iter());
                return Ok(both.cloned().collect::<Vec<T>>().into());
            }
        }
        Ok(Self {
            length,
            content: Content::Both(Arc::new((self, other))),
        })
    }

    pub(crate) fn get(&self, index: u64) -> Option<T> {
        let (mut list, mut index) = (self, index);
        loop {
            match &list.content {
                Content::Flat(values) => return values.get(usize::try_from(index).ok()?).cloned(),
                Content::Both(both) if index < both.0.length => list = &both.0,
                Content::Both(both) => {
                    index -= both.0.length;
                    list = &both.1;
                }
            }
        }
    }

    /// The caller charges each element before it takes it, because a list may be larger than memory.
    pub(crate) fn iter(&self) -> Elements<'_, T> {
        Elements {
            rest: vec![(self, 0)],
        }
    }
}

pub(crate) struct Elements<'l, T> {
    /// The parts that are still to be read, the next one last, with the index of the next element.
    rest: Vec<(&'l List<T>, usize)>,
}

impl<'l, T> Iterator for Elements<'l, T> {
    type Item = &'l T;

    fn next(&mut self) -> Option<&'l T> {
        loop {
            let (list, at) = self.rest.pop()?;
            match &list.content {
                Content::Flat(values) => {
                    if let Some(value) = values.get(at) {
                        self.rest.push((list, at + 1));
                        return Some(value);
                    }
                }
                Content::Both(both) => {
                    self.rest.push((&both.1, 0));
                    self.rest.push((&both.0, 0));
                }
            }
        }
    }
}
