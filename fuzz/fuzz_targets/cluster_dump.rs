//! Whatever is taken for a dump of a cluster is read the same in one piece and in small ones; whatever is not is told why.
#![no_main]

use evictd_pod::compatibility::Compatibility;
use evictd_scheduler::dump::{Loaded, Nominations, Source, load};
use libfuzzer_sys::fuzz_target;
use std::io::{self, Read};

/// Gives away a few bytes at a time.
struct Drip<'t>(&'t [u8]);

impl Read for Drip<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = buffer.len().min(1 + self.0.len() % 7);
        self.0.read(&mut buffer[..count])
    }
}

/// What was read, as far as it can be compared.
fn outcome(text: impl Read) -> Result<Vec<String>, String> {
    let name = "fuzz".to_owned();
    let source = Source::new(name, text);
    let loaded = load([source], None, Nominations::All, Compatibility::default());
    let loaded = loaded.map_err(|error| error.to_string())?;
    let Loaded {
        cluster,
        budgets,
        objects,
        ..
    } = loaded;
    let pods = cluster.nodes().iter().flat_map(|node| &node.pods);
    let pods = pods.map(|pod| cluster.full_name(pod));
    let nodes = cluster
        .node_ids()
        .map(|id| cluster.node_name(id).to_owned());
    let budgets = budgets.iter().map(|budget| budget.name.clone());
    Ok(pods
        .chain(nodes)
        .chain(budgets)
        .chain(objects.assumptions.lines())
        .collect())
}

fuzz_target!(|text: &[u8]| {
    let whole = outcome(text);
    assert_eq!(whole, outcome(Drip(text)));
    if let Err(error) = whole {
        assert!(error.starts_with("fuzz"), "{error}");
    }
});
