//! Which of the node's directories share a filesystem, as far as a summary shows it.

use evictd_eviction::rules::FilesystemLayout;
use evictd_signals::{Observations, Signal};
use evictd_usage::Summary;

/// The layout, and its source.
pub(super) struct Assumed {
    pub(super) layout: FilesystemLayout,
    pub(super) because: &'static str,
}

/// The layout by the flags, or else by the figures. These show it only if the container filesystem is listed and
/// equals one of the other two. Otherwise a single filesystem is assumed, which most nodes have.
pub(super) fn assume(summary: &Summary, dedicated: Option<bool>, split: Option<bool>) -> Assumed {
    let of = |dedicated_image_fs, split_container_fs, because| Assumed {
        layout: FilesystemLayout {
            dedicated_image_fs,
            split_container_fs,
        },
        because,
    };
    if dedicated.is_some() || split.is_some() {
        let split = split.unwrap_or(false);
        return of(dedicated.unwrap_or(split), split, "as the flags say");
    }
    let seen = summary.observations();
    let node = Figures::of(&seen, Signal::NodefsAvailable, Signal::NodefsInodesFree);
    let image = Figures::of(&seen, Signal::ImagefsAvailable, Signal::ImagefsInodesFree);
    let container = Figures::of(
        &seen,
        Signal::ContainerfsAvailable,
        Signal::ContainerfsInodesFree,
    );
    match (node, image, container) {
        (Some(node), Some(image), _) if node.same(&image) => {
            of(false, false, "the node's and the images' figures agree")
        }
        (Some(node), Some(_), Some(container)) if node.same(&container) => of(
            true,
            true,
            "the containers' figures are the node's, the images' are not",
        ),
        (Some(_), Some(image), Some(container)) if image.same(&container) => of(
            true,
            false,
            "the containers' figures are the images', not the node's",
        ),
        (Some(_), Some(_), _) => of(
            false,
            false,
            "the figures do not show it; --dedicated-image-fs and --split-container-fs set it",
        ),
        _ => of(
            false,
            false,
            "the summary lacks the figures that would show it",
        ),
    }
}

/// Figures by which filesystems are compared.
struct Figures {
    capacity: i64,
    inodes: Option<i64>,
    available: i64,
}

impl Figures {
    fn of(seen: &Observations, bytes: Signal, inodes: Signal) -> Option<Self> {
        let bytes = seen.get(bytes).filter(|bytes| bytes.is_measured())?;
        Some(Self {
            capacity: bytes.capacity,
            inodes: seen.get(inodes).map(|inodes| inodes.capacity),
            available: bytes.available,
        })
    }

    /// The available amounts may differ a little, because each is measured at another moment.
    fn same(&self, other: &Self) -> bool {
        let moved = self.available.abs_diff(other.available);
        self.capacity == other.capacity
            && self.inodes == other.inodes
            && moved <= self.capacity.unsigned_abs() / 100
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s1_025_the_figures_show_the_layout() {
        let small = r#"{"availableBytes":50,"capacityBytes":1000,"inodesFree":1,"inodes":2}"#;
        let moved = r#"{"availableBytes":51,"capacityBytes":1000,"inodesFree":1,"inodes":2}"#;
        let large = r#"{"availableBytes":70,"capacityBytes":2000,"inodesFree":1,"inodes":2}"#;
        let nothing = r#"{"availableBytes":0,"capacityBytes":0}"#;
        let other = r#"{"availableBytes":90,"capacityBytes":1000,"inodesFree":1,"inodes":2}"#;
        let table = [
            (small, moved, moved, (false, false)),
            (small, moved, "null", (false, false)),
            (small, large, large, (true, false)),
            (small, other, other, (true, false)),
            (small, large, small, (true, true)),
            // A combination that no real node reports.
            (small, large, other, (false, false)),
            (small, large, "null", (false, false)),
            // Two filesystems of which nothing is known are not the same one.
            (small, nothing, nothing, (false, false)),
            ("null", large, large, (false, false)),
        ];
        for (node, image, container, expected) in table {
            let summary = format!(
                r#"{{"node":{{"fs":{node},"runtime":{{"imageFs":{image},"containerFs":{container}}}}}}}"#
            );
            let summary: Summary = serde_json::from_str(&summary).unwrap();
            let layout = assume(&summary, None, None).layout;
            let found = (layout.dedicated_image_fs, layout.split_container_fs);
            assert_eq!(found, expected, "{node} {image} {container}");
        }
    }

    #[test]
    fn the_flags_decide_when_given() {
        let summary = Summary::default();
        let table = [
            (Some(true), None, (true, false)),
            (Some(true), Some(true), (true, true)),
            (None, Some(true), (true, true)),
            (Some(false), None, (false, false)),
        ];
        for (dedicated, split, expected) in table {
            let layout = assume(&summary, dedicated, split).layout;
            let found = (layout.dedicated_image_fs, layout.split_container_fs);
            assert_eq!(found, expected);
        }
    }
}
