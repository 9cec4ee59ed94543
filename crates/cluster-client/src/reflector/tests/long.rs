//! Objects that are long, or large.

use super::*;

/// An event of a thing with a field of so many bytes that is not kept.
fn long_event(name: &str, version: u32, megabytes: usize) -> Vec<Bytes> {
    let object = thing(name, name, version).to_string();
    let object = object.trim_end_matches('}');
    let head = format!("{{\"type\":\"MODIFIED\",\"object\":{object}}},\"spec\":{{\"env\":\"");
    let megabyte: Bytes = "\\u003c".repeat((1 << 20) / 6).into();
    let filling = std::iter::repeat_n(megabyte, megabytes);
    let parts = std::iter::once(head.into()).chain(filling);
    parts.chain(["\"}}}\n".into()]).collect()
}

fn with_long(before: &[String], long: Vec<Bytes>, after: &[String]) -> Answer {
    let Answer(code, mut parts, ends) = Answer::events(before);
    parts.extend(long);
    parts.extend(Answer::events(after).1);
    Answer(code, parts, ends)
}

#[tokio::test(start_paused = true)]
async fn an_object_of_20_mib_passes_and_a_longer_one_is_skipped_and_named() {
    let there = [
        event("ADDED", &thing("a", "a", 1)),
        event("ADDED", &thing("b", "b", 2)),
        bookmark(2, true),
    ];
    let after = [event("ADDED", &thing("last", "last", 6))];
    let mut events = long_event("a", 3, 20);
    events.extend(long_event("b", 4, 40));
    events.extend(long_event("c", 5, 40));
    let running = run(Script::of([with_long(&there, events, &after).cut()]));
    let log = running.log.until("new last/last@6").await;
    let expected = [
        "a/a@1 -> a/a@3",
        "stays shop/b@4",
        "unknown shop/c@5",
        "new last/last@6",
    ];
    assert_eq!(log[3..7], expected);
    sleep(SECOND).await;
    // Nothing is sent twice: the next watch begins behind them.
    assert_eq!(running.script.asked(), ["stream", "watch 6"]);
    let state = &running.watches.states()[0];
    assert_eq!((state.skipped, state.broken), (2, false));
}

#[tokio::test(start_paused = true)]
async fn an_object_of_many_small_parts_is_skipped() {
    let parts = format!("[{}{{}}]", "{},".repeat(200_000));
    let object = thing("a", "1", 1).to_string();
    let object = format!("{},\"spec\":{parts}}}", object.strip_suffix('}').unwrap());
    let line = format!("{{\"type\":\"ADDED\",\"object\":{object}}}\n");
    let running = run(Script::of([with_long(
        &[],
        vec![line.into()],
        &[bookmark(2, true)],
    )]));
    let log = running.log.until("up to date").await;
    assert_eq!(log, ["unknown shop/a@1", "up to date"]);
}

#[tokio::test(start_paused = true)]
async fn a_list_has_long_items_too() {
    let item = |name: &str, bytes: usize| {
        let mut item = thing(name, name, 1);
        item["spec"] = json!("<".repeat(bytes));
        item
    };
    let items = [item("a", 10), item("b", 33 << 20), item("c", 1 << 20)];
    let list = json!({"metadata": {"resourceVersion": "7"}, "items": items}).to_string();
    let parts = list.into_bytes();
    let parts = parts.chunks(1 << 20).map(Bytes::copy_from_slice).collect();
    let running = run(Script::of([
        Answer::refusal(422),
        Answer(200, parts, true),
        Answer::events(&[]),
    ]));
    let log = running.log.until("up to date").await;
    assert_eq!(
        log[..4],
        ["new a/a@1", "unknown shop/b@1", "new c/c@1", "up to date"]
    );
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_watch_event_starts_a_new_list() {
    let there = [event("ADDED", &thing("a", "1", 1)), bookmark(1, true)];
    let damaged = ["{\"type\":\"MODIFIED\",\"obj".to_owned()];
    let nameless = r#"{"type":"ADDED","object":"#.to_owned() + &"[".repeat(200_000);
    for damage in [damaged, [nameless]] {
        let running = run(Script::of([
            Answer::events(&[&there[..], &damage[..]].concat()),
            Answer::events(&there),
        ]));
        running.log.until("up to date").await;
        running.log.until("up to date").await;
        assert_eq!(running.script.asked(), ["stream", "stream"]);
        assert_eq!(running.watches.states()[0].problem, None);
    }
}

#[tokio::test(start_paused = true)]
async fn the_rest_of_a_long_object_is_waited_for_as_long_as_others_may_wait() {
    let mut stalled = long_event("a", 3, 1);
    stalled.pop();
    let running = run(Script::of([with_long(&[bookmark(1, true)], stalled, &[])]));
    let problem = "lost: the rest of an object did not come within 20 s";
    running.log.until(problem).await;
}

#[tokio::test(start_paused = true)]
async fn large_objects_are_kept_up_to_the_budget_and_each_namespace_has_a_share() {
    let log = Log::default();
    let mut reflector = Reflector::new(PODS, log.clone(), &Budget::of(1 << 20));
    let large = |name: &str, version: u32| parse::<Thing>(&thing(name, name, version).to_string());
    for name in ["a", "b", "c"] {
        reflector.applied(large(name, 1), 100 << 10);
    }
    assert_eq!(log.take(), ["new a/a@1", "new b/b@1", "unknown shop/c@1"]);
    // One that grows too much stays as it was; small ones are not counted.
    reflector.applied(large("a", 2), 200 << 10);
    reflector.applied(large("small", 3), 1000);
    assert_eq!(log.take(), ["stays shop/a@2", "new small/small@3"]);
    reflector.deleted(large("a", 3));
    reflector.applied(large("c", 4), 100 << 10);
    assert_eq!(log.take(), ["gone a/a@1", "new c/c@4"]);
    // One that is not listed any more gives its room back, too.
    reflector.begin();
    reflector.up_to_date();
    log.take();
    for name in ["d", "e"] {
        reflector.applied(large(name, 5), 100 << 10);
    }
    assert_eq!(log.take(), ["new d/d@5", "new e/e@5"]);
}
