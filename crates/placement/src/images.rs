//! Container images: their size and the number of nodes that have them.

use crate::symbol::Symbol;
use hashbrown::HashMap;

/// The images of all nodes, by name.
#[derive(Debug, Default)]
pub(crate) struct Images(HashMap<Symbol, Image>);

/// An image under one of its names.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Image {
    /// Bytes, as the first node reported.
    pub(crate) size: i64,
    /// How many nodes have it.
    pub(crate) nodes: usize,
}

impl Images {
    /// Counts the images of a node. Returns each name once; the node holds references to the names.
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

    /// Removes the images of a node.
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
