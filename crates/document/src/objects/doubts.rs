//! Assumptions about incomplete input, each reported once for all objects concerned.

use std::borrow::Cow;
use std::fmt;

/// The most objects that are named for an assumption.
const NAMED: usize = 3;

/// Assumptions, in the order in which they were first made.
#[derive(Debug, Clone, Default)]
pub struct Doubts(Vec<Doubt>);

#[derive(Debug, Clone)]
struct Doubt {
    assumption: Cow<'static, str>,
    count: usize,
    named: Vec<String>,
}

impl Doubts {
    /// Notes that `assumption` was made about an object; `name` is called only if the name is shown.
    pub fn add(
        &mut self,
        assumption: impl Into<Cow<'static, str>>,
        object: impl FnOnce() -> String,
    ) {
        let doubt = self.doubt(assumption.into());
        doubt.count += 1;
        if doubt.named.len() < NAMED {
            doubt.named.push(object());
        }
    }

    /// Notes an assumption that names its object itself.
    pub fn note(&mut self, assumption: impl Into<Cow<'static, str>>) {
        self.doubt(assumption.into());
    }

    fn doubt(&mut self, assumption: Cow<'static, str>) -> &mut Doubt {
        let mut known = self.0.iter();
        let known = known.position(|doubt| doubt.assumption == assumption);
        let index = known.unwrap_or(self.0.len());
        if known.is_none() {
            self.0.push(Doubt {
                assumption,
                count: 0,
                named: Vec::new(),
            });
        }
        &mut self.0[index]
    }

    /// One line each.
    pub fn lines(&self) -> Vec<String> {
        self.0.iter().map(Doubt::to_string).collect()
    }
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let more = self.count - self.named.len();
        f.write_str(&self.assumption)?;
        if !self.named.is_empty() {
            write!(f, ": {}", self.named.join(", "))?;
        }
        if more > 0 {
            write!(f, " and {more} more")?;
        }
        Ok(())
    }
}
