//! How much memory a long object takes while it is parsed from a watch. A program of its own, since it counts all allocations.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use cap::Cap;
use evictd_cluster_client::{Follow, Parsed, Watch, Watches};
use hyper::body::{Bytes, Frame};
use kube::Client;
use kube::client::Body;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::alloc::System;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

/// A part of a body as it comes from the network.
const PART: usize = 16 << 10;
/// Bytes allocated beside the object: received parts, and the longest line that counts as short.
const BESIDE: usize = 1 << 20;

/// A body whose parts are shared, so that they are not counted.
struct Parts(VecDeque<Bytes>);

impl hyper::body::Body for Parts {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.pop_front().map(|part| Ok(Frame::data(part))))
    }
}

#[derive(Deserialize)]
struct Metadata {
    name: String,
    #[serde(rename = "resourceVersion")]
    version: String,
}

trait Named {
    fn metadata(&self) -> &Metadata;
}

#[derive(Deserialize)]
struct NameOnly {
    metadata: Metadata,
}

#[derive(Deserialize)]
struct WithText {
    metadata: Metadata,
    text: String,
}

impl Named for NameOnly {
    fn metadata(&self) -> &Metadata {
        &self.metadata
    }
}

impl Named for WithText {
    fn metadata(&self) -> &Metadata {
        assert_eq!(self.text.len() % PART, 0);
        &self.metadata
    }
}

/// Keeps nothing of the objects but their names.
struct Names<T>(Vec<String>, PhantomData<T>);

impl<T: Named + DeserializeOwned + Send + 'static> Follow for Names<T> {
    type Object = T;

    fn version(object: &T) -> &str {
        &object.metadata().version
    }

    fn begin(&mut self) {}

    fn applied(&mut self, object: Parsed<T>, _: usize) {
        let object = object.unwrap_or_else(|object| panic!("{}", object.problem));
        self.0.push(object.metadata().name.clone());
    }

    fn deleted(&mut self, _: Parsed<T>) {}

    fn up_to_date(&mut self) {}
}

/// How many bytes are taken at most while an object with so many parts of `<` is parsed, each of which takes six bytes.
async fn peak<T: Named + DeserializeOwned + Send + 'static>(parts: usize) -> usize {
    let head =
        r#"{"type":"ADDED","object":{"metadata":{"name":"web","resourceVersion":"7"},"text":""#;
    let part: Bytes = "\\u003c".repeat(PART).into();
    let mut body: VecDeque<Bytes> = VecDeque::from([head.into()]);
    for _ in 0..parts {
        for from in (0..part.len()).step_by(PART) {
            body.push_back(part.slice(from..from + PART));
        }
    }
    body.push_back("\"}}\n".into());
    let body = Arc::new(Mutex::new(Some(Parts(body))));
    let service = tower::service_fn(move |_: hyper::Request<Body>| {
        let body = body.lock().unwrap().take().unwrap();
        async { Ok::<_, kube::Error>(hyper::Response::new(body)) }
    });
    let client = Client::new(service, "default");
    let mut watch = Watch::new("/api/v1/pods", String::new(), &Watches::default());
    let mut names = Names::<T>(Vec::new(), PhantomData);
    let before = ALLOCATOR.allocated();
    let ended = watch.follow(&client, Duration::from_mins(5), &mut names);
    ended.await.unwrap();
    assert_eq!(names.0, ["web"]);
    ALLOCATOR.max_allocated().saturating_sub(before)
}

/// One test, from the smallest peak to the largest, because the allocator reports only the highest peak.
#[tokio::test]
async fn a_long_object_takes_no_more_memory_than_its_kept_part() {
    // Of 30 MiB on the wire nothing is kept.
    let parts = 5 * 64;
    let nothing = peak::<NameOnly>(parts).await;
    assert!(nothing < BESIDE, "{nothing} bytes");
    // The kept text, and the buffers that it is assembled in.
    let text = parts * PART;
    let whole = peak::<WithText>(parts).await;
    assert!(whole < 3 * text + BESIDE, "{whole} bytes for {text}");
}
