//! Whatever a crash or a disk made of a segment: reading it ends, and a good record after it is found.
#![no_main]

use evictd_node::Scanner;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let json = r#"{"decision":"the last one"}"#;
    let record = format!(
        "{:08x} {} {json}\n",
        crc32fast::hash(json.as_bytes()),
        json.len()
    );
    let mut segment = bytes.to_vec();
    if !bytes.is_empty() {
        segment.push(b'\n');
    }
    segment.extend_from_slice(record.as_bytes());

    let mut scanner = Scanner::new(segment.as_slice());
    let mut last = None;
    while let Some(record) = scanner.next_record().expect("memory can be read") {
        serde_json::from_str::<serde_json::Value>(&record).expect("only JSON is a record");
        last = Some(record);
    }
    assert_eq!(last.as_deref(), Some(json));
    assert_eq!(scanner.position(), segment.len() as u64);
    assert_eq!(scanner.good_end(), segment.len() as u64);
    assert!(!scanner.unterminated());
    assert!(scanner.damaged_before_good_end() <= bytes.len() as u64 + 1);
});
