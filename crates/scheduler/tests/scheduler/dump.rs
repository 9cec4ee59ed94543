//! The reader of dumps with large inputs and with pieces of chosen sizes.

use evictd_pod::compatibility::Compatibility;
use evictd_scheduler::dump::{Loaded, Nominations, Source, load};
use serde_json::{Value, json};
use std::io::{self, Read};

fn read(text: impl Read) -> Result<Loaded, String> {
    let name = "dump".to_owned();
    let release = Compatibility::default();
    load([Source::new(name, text)], None, Nominations::All, release)
        .map_err(|error| error.to_string())
}

fn node(name: &str, notes: &str) -> Value {
    json!({
        "kind": "Node", "metadata": { "name": name, "annotations": { "notes": notes } },
        "status": { "allocatable": { "cpu": "1" } },
    })
}

/// Returns at most this many bytes at a time.
struct Drip<'t>(&'t [u8], usize);

impl Read for Drip<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = buffer.len().min(self.1);
        self.0.read(&mut buffer[..count])
    }
}

#[test]
fn a_dump_in_pieces_of_any_size_makes_the_same_cluster() {
    // Strings that look like structure, escapes at every offset, and an object larger than what is read at once.
    let odd = r#"}]{["\\"#;
    let nodes = [
        node("a", odd),
        node("b\u{e9}", &odd.repeat(100_000)),
        node("c", ""),
    ];
    let list = json!({ "kind": "List", "items": nodes });
    let text = format!("\u{feff}{list}");
    for size in [1, 2, 3, 7, 4096, usize::MAX] {
        let loaded = read(Drip(text.as_bytes(), size)).unwrap();
        let ids = loaded.cluster.node_ids();
        let names: Vec<&str> = ids.map(|id| loaded.cluster.node_name(id)).collect();
        assert_eq!(names, ["a", "b\u{e9}", "c"], "{size} bytes at a time");
    }
}

#[test]
fn places_are_those_of_the_whole_text() {
    let bad = "\n  {\"kind\":\"Node\",\"metadata\":{\"name\":\"x\"},\n  \"status\":7}";
    let good = node("good", &"\u{e9}\n".repeat(1000));
    let text = format!("{{\"items\":[{good},\n{bad}],\"kind\":\"List\"}}");
    let lines = text[..text.find("\"status\":7").unwrap()].lines().count();
    for size in [1, 100, usize::MAX] {
        let error = read(Drip(text.as_bytes(), size)).unwrap_err();
        assert!(
            error.starts_with(&format!("dump:{lines}:12: Node x: status: ")),
            "{error}"
        );
    }
}

#[test]
fn an_object_without_an_end_is_a_mistake() {
    let endless = br#"{"kind":"Node","metadata":{"name":""#.chain(io::repeat(b'x'));
    let error = read(endless).unwrap_err();
    assert!(
        error.ends_with("one object is larger than 64 MiB"),
        "{error}"
    );
}

#[test]
fn a_read_error_is_reported() {
    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("the cable is out"))
        }
    }
    let text = br#"{"kind":"List","items":["#.chain(Broken);
    assert_eq!(read(text).unwrap_err(), "dump: the cable is out");
}
