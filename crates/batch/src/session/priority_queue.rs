//! A priority queue whose order may change while items wait in it, exactly as Volcano's: a binary heap that is repaired
//! only along the path of a push or pop (S6-097).

/// Indices in the order of a comparison that each call brings along.
#[derive(Debug, Clone)]
pub(crate) struct PriorityQueue<T>(Vec<T>);

impl<T> Default for PriorityQueue<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: Copy> PriorityQueue<T> {
    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds one; `before(a, b)` says whether `a` comes before `b`.
    pub(crate) fn push(&mut self, item: T, before: impl Fn(T, T) -> bool) {
        self.0.push(item);
        let mut at = self.0.len() - 1;
        while at > 0 {
            let parent = (at - 1) / 2;
            if !before(self.0[at], self.0[parent]) {
                break;
            }
            self.0.swap(parent, at);
            at = parent;
        }
    }

    /// Takes the first.
    pub(crate) fn pop(&mut self, before: impl Fn(T, T) -> bool) -> Option<T> {
        let last = self.0.len().checked_sub(1)?;
        self.0.swap(0, last);
        let mut at = 0;
        loop {
            let left = 2 * at + 1;
            if left >= last {
                break;
            }
            let right = left + 1;
            let child = if right < last && before(self.0[right], self.0[left]) {
                right
            } else {
                left
            };
            if !before(self.0[child], self.0[at]) {
                break;
            }
            self.0.swap(at, child);
            at = child;
        }
        self.0.pop()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s6_097_the_first_item_is_popped_first() {
        let mut waiting = PriorityQueue::default();
        for item in [5, 1, 4, 1, 9, 0, 7] {
            waiting.push(item, |a, b| a < b);
        }
        let popped: Vec<usize> = std::iter::from_fn(|| waiting.pop(|a, b| a < b)).collect();
        assert_eq!(popped, [0, 1, 1, 4, 5, 7, 9]);
        assert!(waiting.is_empty());
    }
}
