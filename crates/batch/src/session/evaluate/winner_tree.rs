//! The best of many items whose scores change one at a time: a tournament tree, in which a change updates one path.

/// The rating of an item: its class first, then its score. Class 0 means excluded.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Rating {
    pub(crate) class: u8,
    pub(crate) score: f64,
}

impl Rating {
    pub(crate) const OUT: Self = Self {
        class: 0,
        score: 0.0,
    };

    const fn beats(self, other: Self) -> bool {
        self.class > other.class || (self.class == other.class && self.score > other.score)
    }
}

/// Ratings of a fixed number of items. The lowest index wins among equals.
#[derive(Debug)]
pub(crate) struct WinnerTree {
    ratings: Vec<Rating>,
    /// The winner of each comparison; the children of `i` are `2 i` and `2 i + 1`, and indices from `size` on are
    /// items.
    winners: Vec<u32>,
    size: usize,
}

impl WinnerTree {
    pub(crate) fn new(ratings: Vec<Rating>) -> Self {
        let size = ratings.len().next_power_of_two();
        let mut tree = Self {
            winners: vec![0; size],
            size,
            ratings,
        };
        for at in (1..size).rev() {
            tree.play(at);
        }
        tree
    }

    /// The winner at an index of the tree; items beyond the last one are excluded.
    fn winner(&self, at: usize) -> u32 {
        match at.checked_sub(self.size) {
            // The number of items fits into 32 bits.
            Some(thing) => u32::try_from(thing).unwrap_or(u32::MAX),
            None => self.winners[at],
        }
    }

    fn play(&mut self, at: usize) {
        let (left, right) = (self.winner(2 * at), self.winner(2 * at + 1));
        // A tie goes to the left child, which has the lower index.
        let better = self.at(right as usize).beats(self.at(left as usize));
        self.winners[at] = if better { right } else { left };
    }

    pub(crate) fn at(&self, thing: usize) -> Rating {
        self.ratings.get(thing).copied().unwrap_or(Rating::OUT)
    }

    pub(crate) fn set(&mut self, thing: usize, rating: Rating) {
        self.ratings[thing] = rating;
        // The parent of leaf `size + thing`.
        let mut at = usize::midpoint(self.size, thing);
        while at > 0 {
            self.play(at);
            at /= 2;
        }
    }

    /// The best that is not out.
    pub(crate) fn best(&self) -> Option<usize> {
        let best = if self.size > 1 {
            self.winners[1] as usize
        } else {
            0
        };
        (self.at(best).class > 0).then_some(best)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rated(class: u8, score: f64) -> Rating {
        Rating { class, score }
    }

    #[test]
    fn the_lowest_of_the_best_wins_after_every_change() {
        for count in [1_usize, 2, 3, 7, 8, 9] {
            let mut tree = WinnerTree::new(vec![Rating::OUT; count]);
            assert_eq!(tree.best(), None);
            tree.set(count - 1, rated(1, 5.0));
            assert_eq!(tree.best(), Some(count - 1));
            tree.set(0, rated(1, 5.0));
            assert_eq!(tree.best(), Some(0));
            tree.set(count / 2, rated(2, 1.0));
            assert_eq!(tree.best(), Some(count / 2));
            tree.set(count / 2, Rating::OUT);
            let left = (0..count).find(|thing| tree.at(*thing).class > 0);
            assert_eq!(tree.best(), left);
        }
        assert_eq!(WinnerTree::new(Vec::new()).best(), None);
    }
}
