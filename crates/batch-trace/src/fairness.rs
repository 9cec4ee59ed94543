//! How evenly queues get the amounts that they are entitled to.

/// A queue's claim at a moment, in parts of the cluster (0 to 1).
#[derive(Debug, Clone, Copy)]
pub(super) struct Claim {
    pub(super) weight: f64,
    /// The amount that its pods hold or wait for.
    pub(super) wants: f64,
    /// The amount that its pods hold.
    pub(super) holds: f64,
}

/// Jain's index of the queues' allocations in proportion to their entitlements. It is 1/n if one of n queues has
/// everything, and 1 if all have the same part. `None` if fewer than two queues have demand, or no pod holds anything.
pub(super) fn index(claims: &[Claim]) -> Option<f64> {
    let claims: Vec<Claim> = claims
        .iter()
        .copied()
        .filter(|claim| claim.wants > 0.0)
        .collect();
    // A single queue has no other one to be compared with.
    if claims.len() < 2 {
        return None;
    }
    let entitled = entitled(&claims);
    let ratios = claims
        .iter()
        .zip(entitled)
        .map(|(claim, part)| claim.holds / part);
    jain(ratios)
}

/// `(Σx)² / (n·Σx²)`.
fn jain(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (mut count, mut sum, mut squares) = (0.0, 0.0, 0.0);
    for value in values {
        count += 1.0;
        sum += value;
        squares += value * value;
    }
    (squares > 0.0).then(|| sum * sum / (count * squares))
}

/// The entitlement of each queue: the cluster is divided by weight, a queue gets at most its demand, and the rest is
/// divided again (weighted max-min fairness). All queues have demand.
fn entitled(claims: &[Claim]) -> Vec<f64> {
    let mut parts = vec![None; claims.len()];
    let mut left = 1.0_f64;
    loop {
        let open = || claims.iter().zip(&parts).filter(|(_, part)| part.is_none());
        let weights: f64 = open().map(|(claim, _)| claim.weight).sum();
        // The part for each unit of weight, if every open queue wanted it.
        let level = left / weights;
        let content: Vec<bool> = claims
            .iter()
            .zip(&parts)
            .map(|(claim, part)| part.is_none() && claim.wants <= level * claim.weight)
            .collect();
        if !content.contains(&true) {
            let parts = parts.iter().zip(claims);
            return parts
                .map(|(part, claim)| part.unwrap_or(level * claim.weight))
                .collect();
        }
        for ((claim, part), content) in claims.iter().zip(&mut parts).zip(content) {
            if content {
                *part = Some(claim.wants);
                // The rest of its part is divided among the others in the next round.
                left -= claim.wants;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn claim(weight: f64, wants: f64, holds: f64) -> Claim {
        Claim {
            weight,
            wants,
            holds,
        }
    }

    fn near(one: f64, other: f64) -> bool {
        (one - other).abs() < 1e-9
    }

    #[test]
    fn a_queue_that_wants_less_than_its_part_leaves_the_rest_to_the_others() {
        for (claims, wanted) in [
            (vec![(1.0, 1.0), (1.0, 1.0)], vec![0.5, 0.5]),
            (vec![(3.0, 1.0), (1.0, 1.0)], vec![0.75, 0.25]),
            (
                vec![(1.0, 0.1), (1.0, 1.0), (2.0, 1.0)],
                vec![0.1, 0.3, 0.6],
            ),
            (vec![(1.0, 0.1), (1.0, 0.2)], vec![0.1, 0.2]),
            (vec![(1.0, 0.5), (1.0, 0.5)], vec![0.5, 0.5]),
        ] {
            let claims: Vec<Claim> = claims.iter().map(|(w, d)| claim(*w, *d, 0.0)).collect();
            let found = entitled(&claims);
            let same = found
                .iter()
                .zip(&wanted)
                .all(|(one, other)| near(*one, *other));
            assert!(same, "{found:?} is not {wanted:?}");
        }
    }

    #[test]
    fn the_index_is_low_if_one_queue_has_everything() {
        let fair = [claim(3.0, 1.0, 0.75), claim(1.0, 1.0, 0.25)];
        assert!(near(index(&fair).unwrap(), 1.0));
        let greedy = [claim(1.0, 1.0, 1.0), claim(1.0, 1.0, 0.0)];
        assert!(near(index(&greedy).unwrap(), 0.5));
        // Nobody to compare with, or nothing to compare.
        assert_eq!(index(&[claim(1.0, 1.0, 1.0), claim(1.0, 0.0, 0.0)]), None);
        assert_eq!(index(&[claim(1.0, 1.0, 0.0), claim(1.0, 1.0, 0.0)]), None);
    }

    proptest! {
        #[test]
        fn the_index_lies_between_one_nth_and_one(
            claims in prop::collection::vec((1_u32..10, 0.001_f64..1.0, 0.0_f64..1.0), 2..9)
        ) {
            let claims: Vec<Claim> = claims.iter()
                .map(|(weight, wants, part)| claim(f64::from(*weight), *wants, wants * part)).collect();
            let count = f64::from(u32::try_from(claims.len()).unwrap());
            if let Some(index) = index(&claims) {
                prop_assert!(index >= 1.0 / count - 1e-9 && index <= 1.0 + 1e-9, "{}", index);
            }
            let parts = entitled(&claims);
            prop_assert!(parts.iter().sum::<f64>() <= 1.0 + 1e-9);
            for (part, claim) in parts.iter().zip(&claims) {
                prop_assert!(*part > 0.0 && *part <= claim.wants + 1e-9);
            }
        }
    }
}
