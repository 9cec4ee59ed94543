//! Parts of one decision at the same time. This crate starts no threads: whoever calls it says how parts are run.

use std::ops::Range;

/// From so many nodes on a decision is split. Below, threads take longer to start than they spare: 5000 nodes are looked at in
/// 0.3 ms, and a thread begins 0.1 ms after it was asked to.
pub(crate) const WORTH_SPLITTING: usize = 20_000;

/// A part of a decision.
pub type Chunk<'p> = Box<dyn FnOnce() + Send + 'p>;

/// Runs the parts of a decision.
pub trait Parallelizer: Send + Sync {
    /// How many parts are run at a time.
    fn count(&self) -> usize;

    /// Runs all of them, each once, and returns when all have ended.
    fn run(&self, parts: Vec<Chunk<'_>>);
}

/// One part after the other.
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

/// What `work` makes of the numbers below `count`, a range after the other; split among the workers if that is worth it. The
/// first part works with `own`, the others each with what `make` makes.
pub(crate) fn split<S: Send, T: Send>(
    parallelizer: &dyn Parallelizer,
    count: usize,
    own: &mut S,
    make: &(dyn Fn() -> S + Sync),
    work: &(dyn Fn(&mut S, Range<usize>) -> Vec<T> + Sync),
) -> Vec<T> {
    if parallelizer.count() < 2 || count < WORTH_SPLITTING {
        return work(own, 0..count);
    }
    let size = count.div_ceil(parallelizer.count());
    let mut own = Some(own);
    let mut results: Vec<Vec<T>> = Vec::new();
    results.resize_with(count.div_ceil(size), Vec::new);
    let parts = results.iter_mut().zip(0..).map(|(result, part)| {
        let range = part * size..((part + 1) * size).min(count);
        let own = own.take();
        let part: Chunk<'_> = Box::new(move || {
            *result = match own {
                Some(own) => work(own, range),
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
    fn parts_are_put_together_in_order() {
        let parallelizer = Three(AtomicUsize::new(0));
        for (count, parts) in [(WORTH_SPLITTING - 1, 0), (WORTH_SPLITTING + 1, 3)] {
            let mut own = 1_usize;
            let made = split(&parallelizer, count, &mut own, &|| 1, &|one, range| {
                range.map(|index| index + *one).collect()
            });
            assert!(made.into_iter().eq(1..=count));
            assert_eq!(parallelizer.0.load(Ordering::Relaxed), parts);
        }
    }
}
