//! Lists. One that is put together of two others only refers to them, so that no expression makes a list that is larger than the
//! work it has paid for.

use super::meter::{Fault, Meter};
use super::value::Value;
use std::sync::Arc;

/// Lists of up to so many values are copied where they are put together.
const SHORT: u64 = 64;

#[derive(Debug, Clone)]
pub(crate) struct List {
    length: u64,
    content: Content,
}

#[derive(Debug, Clone)]
enum Content {
    Flat(Arc<Vec<Value>>),
    Both(Arc<(List, List)>),
}

impl From<Vec<Value>> for List {
    fn from(values: Vec<Value>) -> Self {
        Self {
            length: values.len() as u64,
            content: Content::Flat(Arc::new(values)),
        }
    }
}

impl List {
    pub(crate) const fn len(&self) -> u64 {
        self.length
    }

    /// This list and the other after it. One that nobody else refers to is extended, and short ones are copied.
    pub(crate) fn and(mut self, other: Self, meter: &mut Meter) -> Result<Self, Fault> {
        if other.length == 0 {
            return Ok(self);
        }
        if self.length == 0 {
            return Ok(other);
        }
        let length = self.length.saturating_add(other.length);
        if let (Content::Flat(own), Content::Flat(more)) = (&mut self.content, &other.content) {
            if let Some(own) = Arc::get_mut(own) {
                meter.handle_values(other.length)?;
                own.extend(more.iter().cloned());
                self.length = length;
                return Ok(self);
            }
            if length <= SHORT {
                meter.handle_values(length)?;
                let both = own.iter().chain(more.iter());
                return Ok(both.cloned().collect::<Vec<_>>().into());
            }
        }
        Ok(Self {
            length,
            content: Content::Both(Arc::new((self, other))),
        })
    }

    pub(crate) fn get(&self, index: u64) -> Option<Value> {
        let (mut list, mut index) = (self, index);
        loop {
            match &list.content {
                Content::Flat(own) => return own.get(usize::try_from(index).ok()?).cloned(),
                Content::Both(both) if index < both.0.length => list = &both.0,
                Content::Both(both) => {
                    index -= both.0.length;
                    list = &both.1;
                }
            }
        }
    }

    /// Whoever takes an element pays for it first: a list may have more than fit into memory.
    pub(crate) fn iter(&self) -> Elements<'_> {
        Elements {
            rest: vec![(self, 0)],
        }
    }

    pub(crate) fn equals(&self, other: &Self, meter: &mut Meter) -> Result<bool, Fault> {
        if self.length != other.length {
            return Ok(false);
        }
        for (one, other) in self.iter().zip(other.iter()) {
            meter.handle_values(1)?;
            if !one.equals(other, meter)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

pub(crate) struct Elements<'l> {
    /// Lists that are still to be read, the next one last, and from where on.
    rest: Vec<(&'l List, usize)>,
}

impl<'l> Iterator for Elements<'l> {
    type Item = &'l Value;

    fn next(&mut self) -> Option<&'l Value> {
        loop {
            let (list, at) = self.rest.pop()?;
            match &list.content {
                Content::Flat(own) => {
                    if let Some(value) = own.get(at) {
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
