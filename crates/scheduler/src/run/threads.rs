//! Runs the parts of one decision in parallel.

use evictd_scheduling::{Chunk, Parallelizer};
use std::num::NonZero;
use std::thread::{available_parallelism, scope};

/// One thread for each processor, up to a limit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Threads(usize);

/// More threads wait for each other longer than they work.
const MAX_THREADS: usize = 4;

impl Threads {
    pub(crate) fn new() -> Self {
        let processors = available_parallelism().map_or(1, NonZero::get);
        Self(processors.min(MAX_THREADS))
    }
}

impl Parallelizer for Threads {
    fn count(&self) -> usize {
        self.0
    }

    fn run(&self, mut parts: Vec<Chunk<'_>>) {
        let last = parts.pop();
        // The caller's thread runs one part, because it would only wait otherwise.
        scope(|threads| {
            for part in parts {
                threads.spawn(part);
            }
            if let Some(last) = last {
                last();
            }
        });
    }
}
