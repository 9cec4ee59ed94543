//! The parts of one decision, each on a processor of its own.

use evictd_scheduling::{Chunk, Parallelizer};
use std::num::NonZero;
use std::thread::{available_parallelism, scope};

/// As many parts as there are processors, at most four: more wait for each other longer than they work.
#[derive(Debug, Clone, Copy)]
pub struct Threads(usize);

const MOST: usize = 4;

impl Threads {
    /// As many as this process may use.
    pub fn new() -> Self {
        Self(available_parallelism().map_or(1, NonZero::get).min(MOST))
    }
}

impl Default for Threads {
    fn default() -> Self {
        Self::new()
    }
}

impl Parallelizer for Threads {
    fn count(&self) -> usize {
        self.0
    }

    fn run(&self, mut parts: Vec<Chunk<'_>>) {
        let own = parts.pop();
        scope(|threads| {
            for part in parts {
                threads.spawn(part);
            }
            if let Some(own) = own {
                own();
            }
        });
    }
}
