//! The content of a document: a verdict, and sections of blocks.

use crate::Table;

/// The colour of the verdict. Its words say the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// As wanted.
    Good,
    /// At a cost.
    Warning,
    /// Not possible, or lost.
    Bad,
    /// Neither.
    Plain,
}

/// A document.
#[derive(Debug, Clone)]
pub struct Page {
    pub(crate) title: String,
    pub(crate) tone: Tone,
    pub(crate) verdict: String,
    pub(crate) sections: Vec<Section>,
}

#[derive(Debug, Clone)]
pub(crate) struct Section {
    pub(crate) heading: String,
    pub(crate) blocks: Vec<Block>,
}

/// A part of a section.
#[derive(Debug, Clone)]
pub enum Block {
    /// A paragraph.
    Text(String),
    /// A list of sentences.
    List(Vec<String>),
    /// Names with their values.
    Facts(Vec<(String, String)>),
    /// Rows and columns.
    Table(Table),
    /// An SVG picture of ours, which is inserted as it is.
    Picture(String),
}

impl Page {
    /// A document with this title. The verdict is the answer in one or two sentences.
    pub fn new(title: &str, tone: Tone, verdict: &str) -> Self {
        Self {
            title: title.to_owned(),
            tone,
            // The sections follow below it.
            verdict: verdict.trim_end_matches(':').to_owned(),
            sections: Vec::new(),
        }
    }

    /// Adds a section. One without blocks is left out.
    pub fn section(&mut self, heading: &str, blocks: impl IntoIterator<Item = Block>) {
        let blocks: Vec<Block> = blocks
            .into_iter()
            .filter(|block| !block.is_empty())
            .collect();
        if !blocks.is_empty() {
            self.sections.push(Section {
                heading: heading.to_owned(),
                blocks,
            });
        }
    }
}

impl Block {
    fn is_empty(&self) -> bool {
        match self {
            Self::Text(text) | Self::Picture(text) => text.is_empty(),
            Self::List(lines) => lines.is_empty(),
            Self::Facts(facts) => facts.is_empty(),
            Self::Table(table) => table.is_empty(),
        }
    }
}
