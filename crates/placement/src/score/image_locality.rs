//! `ImageLocality`: nodes that already have the pod's images (S5-092).

use crate::cluster::Cluster;
use crate::filter::Here;
use crate::plugin::{MAX_SCORE, Score};
use crate::pod::Pod;
use crate::symbol::Symbol;
use evictd_pod::compatibility::Release;

const MIB: i64 = 1024 * 1024;
/// Images of a smaller total size score 0.
const LEAST: i64 = 23 * MIB;
/// The maximum size per container.
const MOST: i64 = 1000 * MIB;

struct ImageLocality {
    /// The pod's images that some node has, one entry per use, with their score.
    images: Box<[(Symbol, i64)]>,
    most: i64,
}

pub(crate) fn new(cluster: &Cluster, pod: &Pod) -> Box<dyn Score> {
    let template = cluster.template(pod);
    // Before 1.37 an image volume raised the sum, but not the most that counts (S7-224).
    let counts_volumes = cluster.compatibility().is_at_least(Release::V1_37);
    let volumes = template.image_volumes * i64::from(counts_volumes);
    let nodes = cluster.nodes().len();
    let images = template.images.iter().filter_map(|name| {
        let image = cluster.images().get(*name)?;
        // Scales an image's size by the share of nodes that have it, so that one node with the image does not attract
        // all pods. kube-scheduler uses floating-point numbers, too.
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            reason = "as kube-scheduler computes it"
        )]
        let counts = (image.size as f64 * (image.nodes as f64 / nodes as f64)) as i64;
        Some((*name, counts))
    });
    Box::new(ImageLocality {
        images: images.collect(),
        most: MOST.saturating_mul(template.containers.saturating_add(volumes)),
    })
}

impl Score for ImageLocality {
    fn is_local(&self) -> bool {
        true
    }

    fn is_normal(&self) -> bool {
        true
    }

    fn raw(&self, here: Here<'_>) -> i64 {
        let here = self
            .images
            .iter()
            .filter(|(name, _)| here.node.images.contains(name));
        let sum: i64 = here.map(|(_, counts)| counts).sum();
        let sum = sum.min(self.most).max(LEAST);
        MAX_SCORE * (sum - LEAST) / (self.most - LEAST)
    }
}
