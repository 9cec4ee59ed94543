//! Whether pods of several sizes fit on a few nodes together. Largest first on the first node with room does not always
//! work; this also tries the other ways, within a limit.

use crate::session::snapshot::resource::{Resource, Unnamed};

/// The limit of attempts.
const STEPS: usize = 5000;
/// More nodes, or pods, are not tried.
const MOST: usize = 64;

/// A node that has room for some of the pods.
#[derive(Debug)]
pub(crate) struct Bin {
    pub(crate) room: Resource,
    /// Of each size, whether the node takes such pods.
    pub(crate) takes: Vec<bool>,
}

/// Pods of one size.
#[derive(Debug)]
pub(crate) struct Size<'s> {
    pub(crate) request: &'s Resource,
    pub(crate) count: usize,
}

/// The result.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Packed {
    /// The size of each pod and the place of its bin.
    Fits(Vec<(usize, usize)>),
    /// There are too many pods of at least this size.
    TooMany(usize),
    /// It is too much to try.
    Unknown,
}

/// Packs all pods into bins; earlier sizes are tried first. `slots` returns how many pods of a size fit into the free
/// room of a bin.
pub(crate) fn pack(
    bins: &mut [Bin],
    sizes: &[Size<'_>],
    slots: impl Fn(&Resource, &Resource) -> usize,
) -> Packed {
    for (at, size) in sizes.iter().enumerate() {
        let (which, counts): (Vec<usize>, Vec<usize>) = sizes
            .iter()
            .enumerate()
            .filter(|(_, other)| size.request.within(other.request, Unnamed::Zero))
            .map(|(at, other)| (at, other.count))
            .unzip();
        let open = |bin: &&Bin| which.iter().any(|at| bin.takes[*at]);
        // Each of them takes at least the place of one of this size.
        let places = bins.iter().filter(open).fold(0_usize, |sum, bin| {
            sum.saturating_add(slots(size.request, &bin.room))
        });
        // A cheap proof of failure, before the search begins.
        if counts.into_iter().sum::<usize>() > places {
            return Packed::TooMany(at);
        }
    }
    let counts = sizes.iter().enumerate();
    let pods = counts.flat_map(|(at, size)| std::iter::repeat_n(at, size.count));
    let pods: Vec<usize> = pods.collect();
    if pods.len() > MOST || bins.len() > MOST {
        return Packed::Unknown;
    }
    let mut search = Search {
        bins,
        sizes,
        pods,
        operations: 0,
        chosen: Vec::new(),
    };
    if search.place() {
        let pods = search.pods.into_iter();
        return Packed::Fits(pods.zip(search.chosen).collect());
    }
    if search.operations < STEPS {
        Packed::TooMany(0)
    } else {
        Packed::Unknown
    }
}

struct Search<'s> {
    bins: &'s mut [Bin],
    sizes: &'s [Size<'s>],
    /// The size of each pod.
    pods: Vec<usize>,
    operations: usize,
    /// The bins of the first pods.
    chosen: Vec<usize>,
}

impl Search<'_> {
    /// Places the remaining pods. Pods of one size use the bin of the one before, or a later one.
    fn place(&mut self) -> bool {
        let at = self.chosen.len();
        let Some(size) = self.pods.get(at).copied() else {
            return true;
        };
        let same = at > 0 && self.pods[at - 1] == size;
        let first = if same { self.chosen[at - 1] } else { 0 };
        let request = self.sizes[size].request;
        for bin in first..self.bins.len() {
            if self.operations >= STEPS {
                return false;
            }
            self.operations += 1;
            let free = &mut self.bins[bin];
            if !free.takes[size] || !request.within(&free.room, Unnamed::Zero) {
                continue;
            }
            free.room.sub(request);
            self.chosen.push(bin);
            if self.place() {
                return true;
            }
            self.chosen.pop();
            self.bins[bin].room.add(request);
        }
        false
    }
}
