//! Plugin binpack: full nodes first (S6-137).

use crate::conf::Arguments;
use crate::session::snapshot::Node;
use crate::session::snapshot::resource::{Dim, Dims, Resource};
use evictd_placement::MAX_SCORE;

#[derive(Debug)]
pub(super) struct Binpack {
    weight: f64,
    by_dim: Vec<(Dim, f64)>,
}

impl Binpack {
    /// `None` where its weight is zero.
    pub(super) fn new(arguments: &Arguments, dims: &Dims) -> Option<Self> {
        // Something negative counts as the default.
        let number = |key: &str| {
            let weight = arguments.whole(key, 1.0);
            if weight < 0.0 { 1.0 } else { weight }
        };
        let weight = number("binpack.weight");
        let mut by_dim = vec![
            (Dim::CPU, number("binpack.cpu")),
            (Dim::MEMORY, number("binpack.memory")),
        ];
        let more = arguments.text("binpack.resources").unwrap_or_default();
        for name in more
            .split(',')
            .map(str::trim)
            .filter(|name| !name.is_empty())
        {
            let weight = number(&format!("binpack.resources.{name}"));
            // A resource that no pod and no node names has no weight.
            by_dim.extend(dims.find(name).map(|dim| (dim, weight)));
        }
        (weight > 0.0).then_some(Self { weight, by_dim })
    }

    /// How full the node becomes in the requested resources; zero if it has too little of one.
    pub(super) fn score(&self, node: &Node, request: &Resource) -> f64 {
        let (mut score, mut weights) = (0.0, 0.0);
        for (dim, weight) in &self.by_dim {
            let asked = request.get(*dim);
            // A resource that the task does not request has no weight either.
            if asked == 0.0 {
                continue;
            }
            let (there, used) = (node.allocatable.get(*dim), node.used.get(*dim) + asked);
            if there != 0.0 && *weight != 0.0 {
                // The task fits only after pending evictions, so the node is not full yet.
                if used > there {
                    return 0.0;
                }
                score += used * weight / there;
            }
            weights += weight;
        }
        if weights > 0.0 {
            score /= weights;
        }
        #[expect(clippy::cast_precision_loss, reason = "it is 100")]
        let most = MAX_SCORE as f64;
        score * most * self.weight
    }
}
