//! Numbers that look random and follow from a seed.

/// A `SplitMix64` generator.
#[derive(Debug, Clone)]
pub(super) struct Random(u64);

impl Random {
    pub(super) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    /// From 0 up to 1, which is left out.
    #[expect(clippy::cast_precision_loss, reason = "53 bits are exact")]
    pub(super) const fn part(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// With mean 0 and standard deviation 1 (Box and Muller).
    pub(super) fn normal(&mut self) -> f64 {
        let (one, other) = (1.0 - self.part(), self.part());
        (-2.0 * one.ln()).sqrt() * (std::f64::consts::TAU * other).cos()
    }

    /// One of several, each as often as its weight says.
    pub(super) fn pick<T: Copy>(&mut self, choices: &[(f64, T)]) -> Option<T> {
        let all: f64 = choices.iter().map(|(weight, _)| weight).sum();
        let mut left = self.part() * all;
        let choice = choices.iter().find(|(weight, _)| {
            left -= weight;
            left < 0.0
        });
        choice.or(choices.last()).map(|(_, choice)| *choice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_those_of_their_distributions() {
        let mut random = Random::new(1);
        let normal: Vec<f64> = (0..20_000).map(|_| random.normal()).collect();
        let mean = normal.iter().sum::<f64>() / 20_000.0;
        let variance = normal
            .iter()
            .map(|value| (value - mean).powi(2))
            .sum::<f64>()
            / 20_000.0;
        assert!(mean.abs() < 0.03, "{mean}");
        assert!((variance - 1.0).abs() < 0.05, "{variance}");
        let picked =
            (0..20_000).filter(|_| random.pick(&[(3.0, true), (1.0, false)]) == Some(true));
        let picked = picked.count();
        assert!((14_500..15_500).contains(&picked), "{picked}");
    }
}
