//! Assumptions about incomplete input, each reported once for all objects concerned.

use std::fmt;

/// The most objects that are named for an assumption.
const NAMED: usize = 3;

/// Assumptions, in the order in which they were first made.
#[derive(Debug, Clone, Default)]
pub struct Doubts(Vec<Doubt>);

#[derive(Debug, Clone)]
struct Doubt {
    assumption: &'static str,
    count: usize,
    named: Vec<String>,
}

impl Doubts {
    /// Notes that `assumption` was made about an object; `name` is called only if the name is shown.
    pub fn add(&mut self, assumption: &'static str, object: impl FnOnce() -> String) {
        let known = self.0.iter().position(|own| own.assumption == assumption);
        let index = known.unwrap_or_else(|| {
            self.0.push(Doubt {
                assumption,
                count: 0,
                named: Vec::new(),
            });
            self.0.len() - 1
        });
        let doubt = &mut self.0[index];
        doubt.count += 1;
        if doubt.named.len() < NAMED {
            doubt.named.push(object());
        }
    }

    /// One line each.
    pub fn lines(&self) -> Vec<String> {
        self.0.iter().map(Doubt::to_string).collect()
    }
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let more = self.count - self.named.len();
        write!(f, "{}: {}", self.assumption, self.named.join(", "))?;
        if more > 0 {
            write!(f, " and {more} more")?;
        }
        Ok(())
    }
}
