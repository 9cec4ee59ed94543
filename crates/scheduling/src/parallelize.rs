//! Evaluates nodes in parallel. This crate starts no threads: the caller provides a [`Parallelizer`].

use std::ops::Range;

/// The number of nodes from which a decision is split into chunks. Below it threads take longer to start than they save: 5000
/// nodes take 0.3 ms, and a thread starts after 0.1 ms.
pub(crate) const MIN_PARALLEL_NODES: usize = 20_000;

/// A function that evaluates some of the nodes.
pub type Chunk<'p> = Box<dyn FnOnce() + Send + 'p>;

/// Runs the chunks of a decision (`Parallelizer` in kube-scheduler).
pub trait Parallelizer: Send + Sync {
    /// How many chunks run at a time.
    fn count(&self) -> usize;

    /// Runs each chunk once, and returns when all have ended.
    fn run(&self, parts: Vec<Chunk<'_>>);
}

/// Runs one chunk after the other.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sequential;

impl Parallelizer for Sequential {
    fn count(&self) -> usize {
        1
    }

    fn run(&self, parts: Vec<Chunk<'_>>) {
        for part in parts {
            part();
        }
    }
}

/// The results of `work` for the numbers below `count`, in order. The numbers are split into ranges for the parallelizer if
/// there are enough. The first range gets the `scratch` of the caller, and each other one a new scratch from `make`.
pub(crate) fn split<S: Send, T: Send>(
    parallelizer: &dyn Parallelizer,
    count: usize,
    scratch: &mut S,
    make: &(dyn Fn() -> S + Sync),
    work: &(dyn Fn(&mut S, Range<usize>) -> Vec<T> + Sync),
) -> Vec<T> {
    if parallelizer.count() < 2 || count < MIN_PARALLEL_NODES {
        return work(scratch, 0..count);
    }
    let size = count.div_ceil(parallelizer.count());
    let mut scratch = Some(scratch);
    let mut results: Vec<Vec<T>> = Vec::new();
    results.resize_with(count.div_ceil(size), Vec::new);
    let parts = results.iter_mut().zip(0..).map(|(result, part)| {
        let range = part * size..((part + 1) * size).min(count);
        let scratch = scratch.take();
        let part: Chunk<'_> = Box::new(move || {
            *result = match scratch {
                Some(scratch) => work(scratch, range),
                None => work(&mut make(), range),
            }
        });
        part
    });
    parallelizer.run(parts.collect());
    results.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    struct Three(AtomicUsize);

    impl Parallelizer for Three {
        fn count(&self) -> usize {
            3
        }

        fn run(&self, parts: Vec<Chunk<'_>>) {
            self.0.fetch_add(parts.len(), Ordering::Relaxed);
            // In any order.
            parts.into_iter().rev().for_each(|part| part());
        }
    }

    #[test]
    fn chunks_are_joined_in_order() {
        let parallelizer = Three(AtomicUsize::new(0));
        for (count, parts) in [(MIN_PARALLEL_NODES - 1, 0), (MIN_PARALLEL_NODES + 1, 3)] {
            let mut scratch = 1_usize;
            let made = split(&parallelizer, count, &mut scratch, &|| 1, &|one, range| {
                range.map(|index| index + *one).collect()
            });
            assert!(made.into_iter().eq(1..=count));
            assert_eq!(parallelizer.0.load(Ordering::Relaxed), parts);
        }
    }
}
