//! A place in a text, and a path in a tree.

/// A place in a text. Line and column start at 1; columns count characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Line.
    pub line: u64,
    /// Column.
    pub column: u64,
}

impl Place {
    /// Where a text begins.
    pub const START: Self = Self { line: 1, column: 1 };

    /// The place after `text`, starting here.
    #[must_use]
    pub fn after(self, text: &str) -> Self {
        let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        let last_line = text.rsplit_once('\n').map_or(text, |(_, last)| last);
        let column = count(last_line.chars().count());
        match count(text.matches('\n').count()) {
            0 => Self {
                line: self.line,
                column: self.column + column,
            },
            lines => Self {
                line: self.line + lines,
                column: column + 1,
            },
        }
    }

    /// Converts a place within a part to a place in the whole text, in which the part begins at `start`.
    #[must_use]
    pub const fn within(self, start: Self) -> Self {
        let column = if self.line == 1 {
            self.column + start.column - 1
        } else {
            self.column
        };
        Self {
            line: self.line + start.line - 1,
            column,
        }
    }
}

/// A step of the path to a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Into a map.
    Key(String),
    /// Into a list.
    Index(usize),
}

impl Step {
    /// The steps of a path as it is printed: `profiles[0].name`.
    pub fn path(text: &str) -> Vec<Self> {
        let mut way = Vec::new();
        for part in text.split('.').filter(|part| !part.is_empty()) {
            let mut names = part.split('[');
            let key = names.next().filter(|name| !name.is_empty());
            way.extend(key.map(|name| Self::Key(name.to_owned())));
            let indices = names.filter_map(|index| index.trim_end_matches(']').parse().ok());
            way.extend(indices.map(Self::Index));
        }
        way
    }

    /// A path in print.
    pub fn print(way: &[Self]) -> String {
        let mut text = String::new();
        for step in way {
            match step {
                Self::Key(key) if text.is_empty() => text.push_str(key),
                Self::Key(key) => {
                    text.push('.');
                    text.push_str(key);
                }
                Self::Index(index) => {
                    text.push('[');
                    text.push_str(&index.to_string());
                    text.push(']');
                }
            }
        }
        text
    }
}
