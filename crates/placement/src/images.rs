//! Container images: how large each is, and how many nodes have it.

use crate::symbol::Symbol;
use hashbrown::HashMap;

/// The images of all nodes, by name.
#[derive(Debug, Default)]
pub(crate) struct Images(HashMap<Symbol, Image>);

/// An image under one of its names.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Image {
    /// Bytes, as the node said that had it first.
    pub(crate) size: i64,
    /// How many nodes have it.
    pub(crate) nodes: usize,
}

impl Images {
    /// Counts the images of a node; returns their names, each once. The node holds references to them.
    pub(crate) fn add(&mut self, images: impl Iterator<Item = (Symbol, i64)>) -> Box<[Symbol]> {
        let mut names = Vec::new();
        for (name, size) in images {
            if names.contains(&name) {
                continue;
            }
            names.push(name);
            let image = self.0.entry(name).or_insert(Image { size, nodes: 0 });
            image.nodes += 1;
        }
        names.into()
    }

    /// A node has these no more.
    pub(crate) fn remove(&mut self, names: &[Symbol]) {
        for name in names {
            if let Some(image) = self.0.get_mut(name) {
                image.nodes -= 1;
                if image.nodes == 0 {
                    self.0.remove(name);
                }
            }
        }
    }

    /// The image of that name, if some node has it.
    pub(crate) fn get(&self, name: Symbol) -> Option<Image> {
        self.0.get(&name).copied()
    }
}
