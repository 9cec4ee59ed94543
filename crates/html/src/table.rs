//! Tables, whose rows may be in named groups.

/// Rows and columns.
#[derive(Debug, Clone)]
pub struct Table {
    pub(crate) columns: Vec<Column>,
    /// The heading of the group is empty if there is one group only.
    pub(crate) groups: Vec<(String, Vec<Vec<Cell>>)>,
}

/// The heading of a column.
#[derive(Debug, Clone)]
pub struct Column {
    pub(crate) name: String,
    pub(crate) is_figure: bool,
}

/// The content of a row in a column.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    /// A text, or a figure in the form for people.
    Text(String),
    /// A part of a whole: a bar, with the percentage in words.
    Share {
        /// The part.
        used: f64,
        /// The whole.
        of: f64,
    },
}

impl Table {
    /// A table of these rows.
    pub fn new(
        columns: impl IntoIterator<Item = Column>,
        rows: impl IntoIterator<Item = Vec<Cell>>,
    ) -> Self {
        Self {
            columns: columns.into_iter().collect(),
            groups: vec![(String::new(), rows.into_iter().collect())],
        }
    }

    /// A table of groups, each with its heading, which says how many rows it has.
    pub fn grouped(
        columns: impl IntoIterator<Item = Column>,
        groups: impl IntoIterator<Item = (String, Vec<Vec<Cell>>)>,
    ) -> Self {
        Self {
            columns: columns.into_iter().collect(),
            groups: groups.into_iter().collect(),
        }
    }

    pub(crate) fn rows(&self) -> usize {
        self.groups.iter().map(|(_, rows)| rows.len()).sum()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows() == 0
    }
}

impl Column {
    /// Of names and sentences.
    pub fn text(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            is_figure: false,
        }
    }

    /// Of numbers, which are aligned at their end and sorted by value.
    pub fn figure(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            is_figure: true,
        }
    }
}

/// The heading of a group: `3 nodes: Insufficient cpu`.
pub fn counted(count: usize, thing: &str, reason: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {thing}{plural}: {reason}")
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<usize> for Cell {
    fn from(count: usize) -> Self {
        Self::Text(count.to_string())
    }
}
