//! The requests of a job that wait for the end of a round. A job of 20 000 pods may have as many of them, so that a request is
//! found by its hash.

use std::collections::{HashSet, VecDeque};
use std::hash::Hash;
use std::sync::Arc;

/// Requests in their order, each once.
#[derive(Debug)]
pub(super) struct Waiting<R> {
    order: VecDeque<Arc<R>>,
    known: HashSet<Arc<R>>,
}

impl<R: Clone + Eq + Hash> Waiting<R> {
    pub(super) fn new() -> Self {
        Self {
            order: VecDeque::new(),
            known: HashSet::new(),
        }
    }

    /// Adds a request at the end, unless it waits already.
    pub(super) fn push(&mut self, request: R) {
        let request = Arc::new(request);
        if self.known.insert(Arc::clone(&request)) {
            self.order.push_back(request);
        }
    }

    pub(super) fn pop(&mut self) -> Option<R> {
        let request = self.order.pop_front()?;
        self.known.remove(&request);
        Some(Arc::unwrap_or_clone(request))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.order.clear();
        self.known.clear();
    }

    /// Keeps only these requests.
    pub(super) fn retain(&mut self, mut keep: impl FnMut(&R) -> bool) {
        let known = &mut self.known;
        self.order.retain(|request| {
            let keeps = keep(request);
            if !keeps {
                known.remove(request);
            }
            keeps
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::hash::Hasher;

    thread_local! {
        static COMPARED: Cell<usize> = const { Cell::new(0) };
    }

    #[derive(Debug, Clone, Eq)]
    struct Counted(usize);

    impl PartialEq for Counted {
        fn eq(&self, other: &Self) -> bool {
            COMPARED.set(COMPARED.get() + 1);
            self.0 == other.0
        }
    }

    impl Hash for Counted {
        fn hash<H: Hasher>(&self, state: &mut H) {
            self.0.hash(state);
        }
    }

    #[test]
    fn each_request_waits_once_and_in_its_order() {
        let mut waiting = Waiting::new();
        for number in [3, 1, 3, 2, 1] {
            waiting.push(number);
        }
        waiting.retain(|number| *number != 1);
        waiting.push(1);
        let left: Vec<i32> = std::iter::from_fn(|| waiting.pop()).collect();
        assert_eq!(left, [3, 2, 1]);
        assert!(waiting.is_empty());
    }

    #[test]
    fn twenty_thousand_requests_are_not_compared_with_each_other() {
        let mut waiting = Waiting::new();
        for number in (0..20_000).chain(0..20_000) {
            waiting.push(Counted(number));
        }
        assert!(COMPARED.get() < 100_000, "{}", COMPARED.get());
    }
}
