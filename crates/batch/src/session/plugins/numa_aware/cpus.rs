//! Which processors of a node a container gets, as the kubelet's static policy assigns them.

use crate::session::snapshot::numa::{CpuSet, NumaTopology, Place};
use std::collections::{BTreeMap, BTreeSet};

/// The processors that are left of a machine while some are taken.
struct Accumulator<'t> {
    machine: &'t NumaTopology,
    left: BTreeMap<u32, Place>,
    needed: usize,
    taken: CpuSet,
}

/// The matching processors of a machine, or of those that are left.
fn select(places: &BTreeMap<u32, Place>, matches: impl Fn(Place) -> bool) -> CpuSet {
    let places = places.iter().filter(|(_, place)| matches(**place));
    places.map(|(cpu, _)| *cpu).collect()
}

/// Sorts by moving each element forward while it precedes the one before it. The order is not always transitive, so the
/// algorithm decides the result.
fn sort_by_insertion(list: &mut [u32], precedes: impl Fn(u32, u32) -> bool) {
    for end in 1..list.len() {
        let mut at = end;
        while at > 0 && precedes(list[at], list[at - 1]) {
            list.swap(at, at - 1);
            at -= 1;
        }
    }
}

impl Accumulator<'_> {
    fn take(&mut self, cpus: CpuSet) {
        self.needed = self.needed.saturating_sub(cpus.len());
        self.left.retain(|cpu, _| !cpus.contains(cpu));
        self.taken.extend(cpus);
    }

    /// Takes whole parts of a size while as many processors are needed. Whether that was enough.
    fn take_whole(&mut self, size: usize, parts: Vec<u32>, of: fn(Place) -> u32) -> bool {
        if self.needed < size {
            return false;
        }
        for part in parts {
            self.take(select(&self.left, |place| of(place) == part));
            if self.needed == 0 {
                return true;
            }
            if self.needed < size {
                break;
            }
        }
        false
    }

    fn sockets(&self) -> BTreeSet<u32> {
        self.left.values().map(|place| place.socket).collect()
    }

    /// The numbers of sockets and cores are compared with those of processors, as Volcano does.
    fn free_sockets(&self) -> Vec<u32> {
        let sockets = self.sockets().into_iter();
        sockets
            .filter(|socket| self.left.contains_key(socket))
            .collect()
    }

    fn cores_of(&self, socket: u32) -> BTreeSet<u32> {
        let places = self.left.values().filter(|place| place.socket == socket);
        let cores = places.map(|place| place.core);
        cores.filter(|core| self.left.contains_key(core)).collect()
    }

    /// The cores of the socket with the fewest come first.
    fn free_cores(&self) -> Vec<u32> {
        let mut sockets: Vec<u32> = self.sockets().into_iter().collect();
        sort_by_insertion(&mut sockets, |one, other| {
            self.cores_of(one).len() < self.cores_of(other).len() || one < other
        });
        let cores = sockets.into_iter().flat_map(|socket| self.cores_of(socket));
        cores.collect()
    }

    /// Single processors: on sockets where some were taken, then on sockets and cores with few left.
    fn free_cpus(&self) -> Vec<u32> {
        let cores: BTreeSet<u32> = self.left.values().map(|place| place.core).collect();
        let all = &self.machine.places;
        let ranks: BTreeMap<u32, (u32, usize, usize, usize)> = cores
            .iter()
            .map(|core| {
                let mut of_core = all.values().filter(|place| place.core == *core);
                let socket = of_core.next().map_or(0, |place| place.socket);
                let on_socket = select(all, |place| place.socket == socket);
                let taken = on_socket.intersection(&self.taken).count();
                let left = select(&self.left, |place| place.socket == socket).len();
                let of_core = select(&self.left, |place| place.core == *core).len();
                (*core, (socket, taken, left, of_core))
            })
            .collect();
        let mut cores: Vec<u32> = cores.into_iter().collect();
        sort_by_insertion(&mut cores, |one, other| {
            let (left, right) = (ranks[&one], ranks[&other]);
            left.1 > right.1
                || left.2 < right.2
                || left.3 < right.3
                || left.0 < right.0
                || one < other
        });
        let cpus = cores.into_iter();
        cpus.flat_map(|core| select(&self.left, |place| place.core == core))
            .collect()
    }
}

/// So many of the available processors: whole sockets, whole cores, single ones. `None` if there are too few.
pub(super) fn take(machine: &NumaTopology, available: &CpuSet, count: usize) -> Option<CpuSet> {
    let places = machine.places.iter();
    let left: BTreeMap<u32, Place> = places
        .filter(|(cpu, _)| available.contains(cpu))
        .map(|(cpu, place)| (*cpu, *place))
        .collect();
    let mut accumulator = Accumulator {
        machine,
        left,
        needed: count,
        taken: CpuSet::new(),
    };
    if count == 0 {
        return Some(CpuSet::new());
    }
    if count > accumulator.left.len() {
        return None;
    }
    let all = machine.places.len();
    let per_socket = all / machine.sockets().max(1);
    let sockets = accumulator.free_sockets();
    if accumulator.take_whole(per_socket, sockets, |place| place.socket) {
        return Some(accumulator.taken);
    }
    let per_core = all / machine.cores().max(1);
    let cores = accumulator.free_cores();
    if accumulator.take_whole(per_core, cores, |place| place.core) {
        return Some(accumulator.taken);
    }
    for cpu in accumulator.free_cpus() {
        accumulator.take(CpuSet::from([cpu]));
        if accumulator.needed == 0 {
            return Some(accumulator.taken);
        }
    }
    None
}
