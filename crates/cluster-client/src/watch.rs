//! Follows a collection: lists it, then watches for changes.
//!
//! Each object is parsed directly into the follower's type, so that only what is needed of it is held in memory. If
//! an object cannot be parsed, the error is reported for that object and the watch goes on.

use super::{
    message::{self, Peer, answer},
    split::Splitter,
};
use http_body_util::BodyExt;
use kube::{
    Client,
    api::{ListParams, VersionMatch, WatchParams},
    client::Body,
    core::{Request, Status},
};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::value::RawValue;
use std::{borrow::Cow, time::Duration};
use tokio::time::timeout;

/// The most bytes of an object; etcd accepts 1.5 MB.
const LONGEST_LINE: usize = 8 << 20;
/// The longest that the server may take to begin its answer to a watch. It queues a request for a quarter of a minute at
/// most (API priority and fairness), and begins to answer before there is anything to report.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);
/// The annotation of the bookmark that ends a streamed list.
const LISTED: &str = "k8s.io/initial-events-end";

/// Receives the objects of a collection.
pub trait Follow {
    /// The part of an object that is parsed.
    type Object: DeserializeOwned;
    /// The object's `metadata.resourceVersion`.
    fn version(object: &Self::Object) -> &str;
    /// A list begins; known objects that are not part of it are gone when it ends.
    fn begin(&mut self);
    /// An object in its present state.
    fn applied(&mut self, object: Parsed<'_, Self::Object>);
    /// A deleted object in its last state.
    fn deleted(&mut self, object: Parsed<'_, Self::Object>);
    /// The list is complete, or the connection has shown a sign of life.
    fn up_to_date(&mut self);
}

/// An object, or its text and the parse error.
pub type Parsed<'a, T> = Result<T, Unparsable<'a>>;

/// An object that could not be parsed.
#[derive(Debug)]
pub struct Unparsable<'a> {
    /// The text as received.
    pub text: &'a str,
    /// Where the text differs from the type, and how.
    pub error: serde_json::Error,
}

/// The object in this text; the text itself if it cannot be parsed.
pub fn parse<T: DeserializeOwned>(text: &str) -> Parsed<'_, T> {
    serde_json::from_str(text).map_err(|error| Unparsable { text, error })
}

/// Why a watch ended early.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchError {
    /// The problem in a sentence.
    pub problem: String,
    /// The HTTP status of the server's answer, if there was one.
    pub code: Option<u16>,
}

/// A collection that is followed over any number of connections.
#[derive(Debug)]
pub struct Watch {
    path: &'static str,
    fields: String,
    /// Whether the server can stream lists (`sendInitialEvents`), as far as known.
    streaming: bool,
    /// The last resourceVersion; all changes up to it were reported.
    version: Option<String>,
}

impl Watch {
    /// The objects at this path (`/api/v1/pods`) that match the field selector.
    pub fn new(path: &'static str, fields: String) -> Self {
        Self {
            path,
            fields,
            streaming: true,
            version: None,
        }
    }

    /// Continues where the last call ended, until the connection ends; the server ends it after `lifetime`. `Ok`
    /// means that the connection ended, normally or early, and that this should be called again.
    pub async fn follow(
        &mut self,
        client: &Client,
        lifetime: Duration,
        follower: &mut impl Follow,
    ) -> Result<(), WatchError> {
        let ended = self.one_connection(client, lifetime, follower).await;
        let Err(WatchError { code, .. }) = &ended else {
            return ended;
        };
        match code {
            // The server no longer has the changes since our version. This is not an error: the next call lists
            // everything.
            Some(410) if self.version.take().is_some() => {
                self.one_connection(client, lifetime, follower).await
            }
            Some(400 | 404 | 422) => {
                self.version = None;
                ended
            }
            _ => ended,
        }
    }

    async fn one_connection(
        &mut self,
        client: &Client,
        lifetime: Duration,
        follower: &mut impl Follow,
    ) -> Result<(), WatchError> {
        if self.version.is_none() && self.streaming {
            match self.stream(client, lifetime, follower).await {
                // The server is older than 1.27, or the feature is off, or its etcd is too old for it, which is told as an
                // error of the server.
                Err(WatchError {
                    code: Some(400 | 422 | 500),
                    ..
                }) => self.streaming = false,
                ended => return ended,
            }
        }
        if self.version.is_none() {
            self.list(client, follower).await?;
        }
        self.stream(client, lifetime, follower).await
    }

    async fn list(
        &mut self,
        client: &Client,
        follower: &mut impl Follow,
    ) -> Result<(), WatchError> {
        // Without a resourceVersion the server would read from etcd. Its cache will do, because the watch continues
        // from that version.
        let parameters = ListParams {
            field_selector: Some(self.fields.clone()),
            resource_version: Some("0".to_owned()),
            version_match: Some(VersionMatch::NotOlderThan),
            ..ListParams::default()
        };
        let request = Request::new(self.path)
            .list(&parameters)
            .map_err(|error| watch_error(&error))?;
        let list = objects(open(client, request, Peer::ApiServer).await?, follower).await?;
        follower.up_to_date();
        self.version = Some(list.resource_version);
        Ok(())
    }

    /// A watch from the known version on; without one it begins with a streamed list.
    async fn stream(
        &mut self,
        client: &Client,
        lifetime: Duration,
        follower: &mut impl Follow,
    ) -> Result<(), WatchError> {
        let parameters = WatchParams {
            field_selector: Some(self.fields.clone()),
            timeout: u32::try_from(lifetime.as_secs()).ok(),
            bookmarks: true,
            send_initial_events: self.version.is_none(),
            ..WatchParams::default()
        };
        let from = self.version.as_deref().unwrap_or("0");
        let request = Request::new(self.path)
            .watch(&parameters, from)
            .map_err(|error| watch_error(&error))?;
        let opened = timeout(ANSWER_TIMEOUT, open(client, request, Peer::ApiServer)).await;
        let body = opened.map_err(|_| {
            let seconds = ANSWER_TIMEOUT.as_secs();
            watch_error(&format!("no answer to a watch within {seconds} s"))
        })?;
        let mut lines = Lines::new(body?);
        if self.version.is_none() {
            follower.begin();
        } else {
            follower.up_to_date();
        }
        while let Some(line) = lines.next().await? {
            let line = std::str::from_utf8(line).map_err(|error| watch_error(&error))?;
            self.event(line, follower)?;
        }
        Ok(())
    }

    fn event<F: Follow>(&mut self, line: &str, follower: &mut F) -> Result<(), WatchError> {
        // Nearly every event contains an object that can be parsed, so this is tried first and needs one pass.
        let event: Event<'_, F::Object> = match serde_json::from_str(line) {
            Ok(event) => event,
            Err(_) => return self.other_event(line, follower),
        };
        let applied = match event.kind.as_ref() {
            "ADDED" | "MODIFIED" => true,
            "DELETED" => false,
            _ => return self.other_event(line, follower),
        };
        // During a streamed list the versions are those of the objects, in no order, and must not be kept.
        if let Some(version) = &mut self.version
            && let seen = F::version(&event.object)
            && !seen.is_empty()
        {
            seen.clone_into(version);
        }
        if applied {
            follower.applied(Ok(event.object));
        } else {
            follower.deleted(Ok(event.object));
        }
        Ok(())
    }

    /// A bookmark, an error, or an object that cannot be parsed, which is passed to the follower.
    fn other_event<F: Follow>(&mut self, line: &str, follower: &mut F) -> Result<(), WatchError> {
        let event: Event<'_, &RawValue> = serde_json::from_str(line).map_err(|error| {
            self.version = None;
            unparsable(&error)
        })?;
        let object = event.object.get();
        let head: Head<'_> = serde_json::from_str(object).unwrap_or_default();
        let bookmark = event.kind == "BOOKMARK";
        // Only bookmarks come from the server itself. The annotations of other objects can be written by users.
        let listed = self.version.is_some() || (bookmark && head.ends_the_list());
        match event.kind.as_ref() {
            "ADDED" | "MODIFIED" => follower.applied(parse(object)),
            "DELETED" => follower.deleted(parse(object)),
            "BOOKMARK" if listed => follower.up_to_date(),
            "BOOKMARK" => {}
            "ERROR" => {
                let status: Status =
                    serde_json::from_str(object).map_err(|error| unparsable(&error))?;
                return Err(refused(&status));
            }
            other => {
                return Err(watch_error(&format!(
                    "an event of the unknown type {other:?}"
                )));
            }
        }
        if listed && !head.metadata.resource_version.is_empty() {
            self.version = Some(head.metadata.resource_version.into_owned());
        }
        Ok(())
    }
}

#[derive(Deserialize)]
struct Event<'a, T> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    object: T,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Head<'a> {
    #[serde(borrow)]
    metadata: Metadata<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Metadata<'a> {
    #[serde(borrow)]
    resource_version: Cow<'a, str>,
    #[serde(borrow)]
    annotations: Option<&'a RawValue>,
}

impl Head<'_> {
    fn ends_the_list(&self) -> bool {
        let annotations = self.metadata.annotations;
        annotations.is_some_and(|annotations| annotations.get().contains(LISTED))
    }
}

/// Passes every object of the list at this path to the follower as it arrives; the caller then reports the end of
/// the list.
pub(super) async fn read_list(
    client: Client,
    path: &str,
    follower: &mut impl Follow,
) -> Result<(), WatchError> {
    let request = hyper::Request::get(path)
        .body(Vec::new())
        .map_err(|error| watch_error(&error))?;
    let body = open(&client, request, Peer::Kubelet).await?;
    objects(body, follower).await.map(drop)
}

/// Passes on the objects of a list; returns the list without them.
async fn objects(mut body: Body, follower: &mut impl Follow) -> Result<ListEnd, WatchError> {
    follower.begin();
    let mut splitter = Splitter::new(LONGEST_LINE);
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| watch_error(&error))?;
        let data = frame.into_data().unwrap_or_default();
        let fed = splitter.feed(&data, |object| follower.applied(parse(object)));
        fed.map_err(|error| watch_error(&error))?;
    }
    serde_json::from_slice::<List>(splitter.rest())
        .map(|list| list.metadata)
        .map_err(|error| unparsable(&error))
}

/// A list without its items.
#[derive(Deserialize)]
struct List {
    #[serde(default)]
    metadata: ListEnd,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ListEnd {
    resource_version: String,
}

/// The body of a successful answer.
async fn open(
    client: &Client,
    request: hyper::Request<Vec<u8>>,
    peer: Peer,
) -> Result<Body, WatchError> {
    let response = client
        .send(request.map(Body::from))
        .await
        .map_err(|error| watch_error(&message::of(&error, peer)))?;
    let code = response.status();
    if code.is_success() {
        return Ok(response.into_body());
    }
    let text = whole(response.into_body()).await.unwrap_or_default();
    let status = serde_json::from_str::<Status>(&text).unwrap_or_default();
    Err(WatchError {
        code: Some(code.as_u16()),
        ..refused(&status.with_code(code.as_u16()))
    })
}

async fn whole(body: Body) -> Result<String, WatchError> {
    let bytes = body
        .collect()
        .await
        .map_err(|error| watch_error(&error))?
        .to_bytes();
    String::from_utf8(bytes.into()).map_err(|error| watch_error(&error))
}

/// The lines of a body as they arrive.
struct Lines {
    body: Body,
    buffer: Vec<u8>,
    /// Length of the line that was returned last.
    taken: usize,
}

impl Lines {
    fn new(body: Body) -> Self {
        Self {
            body,
            buffer: Vec::new(),
            taken: 0,
        }
    }

    /// The next line; `None` when the body ends, even in the middle of a line: the next watch repeats what is
    /// missing.
    async fn next(&mut self) -> Result<Option<&[u8]>, WatchError> {
        self.buffer.drain(..self.taken);
        self.taken = 0;
        let mut searched = 0;
        loop {
            let rest = &self.buffer[searched..];
            if let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                self.taken = searched + end + 1;
                return Ok(Some(&self.buffer[..self.taken]));
            }
            searched = self.buffer.len();
            if searched > LONGEST_LINE {
                return Err(watch_error(&format!(
                    "a line of more than {LONGEST_LINE} bytes"
                )));
            }
            self.buffer.shrink_to(4096);
            match self.body.frame().await {
                Some(Ok(frame)) => {
                    let data = frame.into_data().unwrap_or_default();
                    self.buffer.extend_from_slice(&data);
                }
                // A connection may end at any time. If the server is gone, the next connection will fail.
                Some(Err(_)) | None => return Ok(None),
            }
        }
    }
}

fn refused(status: &Status) -> WatchError {
    WatchError {
        problem: answer(status),
        code: Some(status.code),
    }
}

fn watch_error(problem: &dyn ToString) -> WatchError {
    WatchError {
        problem: problem.to_string(),
        code: None,
    }
}

fn unparsable(error: &serde_json::Error) -> WatchError {
    watch_error(&format!("an answer that cannot be parsed: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts the calls.
    #[derive(Debug, Default, PartialEq)]
    struct Told {
        begun: usize,
        applied: Vec<String>,
        deleted: usize,
        up_to_date: usize,
    }

    impl Follow for Told {
        type Object = serde_json::Value;

        fn version(object: &Self::Object) -> &str {
            let version = &object["metadata"]["resourceVersion"];
            version.as_str().unwrap_or_default()
        }

        fn begin(&mut self) {
            self.begun += 1;
        }

        fn applied(&mut self, object: Parsed<'_, Self::Object>) {
            self.applied.push(object.unwrap().to_string());
        }

        fn deleted(&mut self, _: Parsed<'_, Self::Object>) {
            self.deleted += 1;
        }

        fn up_to_date(&mut self) {
            self.up_to_date += 1;
        }
    }

    /// The request may be lost on its way, or the server may hang.
    #[tokio::test(start_paused = true)]
    async fn a_watch_that_gets_no_answer_ends_before_its_connection_is_given_up() {
        let service = tower::service_fn(|_: hyper::Request<Body>| {
            std::future::pending::<Result<hyper::Response<Body>, kube::Error>>()
        });
        let client = Client::new(service, "default");
        let mut watch = Watch::new("/api/v1/pods", String::new());
        let began = tokio::time::Instant::now();
        let ended = watch
            .follow(&client, Duration::from_mins(5), &mut Told::default())
            .await;
        let problem = ended.unwrap_err().problem;
        assert_eq!(problem, "no answer to a watch within 20 s");
        assert_eq!(began.elapsed(), ANSWER_TIMEOUT);
    }

    #[test]
    fn only_a_bookmark_ends_a_streamed_list() {
        let mut watch = Watch::new("/api/v1/pods", String::new());
        let mut told = Told::default();
        let object = |kind: &str, version: &str| {
            let marked =
                format!(r#"{{"resourceVersion":"{version}","annotations":{{"{LISTED}":"true"}}}}"#);
            format!(r#"{{"type":"{kind}","object":{{"metadata":{marked}}}}}"#)
        };
        for kind in ["ADDED", "MODIFIED", "DELETED"] {
            watch.event(&object(kind, "7"), &mut told).unwrap();
            assert_eq!((&watch.version, told.up_to_date), (&None, 0), "{kind}");
        }
        let sign_of_life = r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"8"}}}"#;
        watch.event(sign_of_life, &mut told).unwrap();
        assert_eq!((&watch.version, told.up_to_date), (&None, 0));
        watch.event(&object("BOOKMARK", "9"), &mut told).unwrap();
        assert_eq!((watch.version.as_deref(), told.up_to_date), (Some("9"), 1));
        watch.event(&object("ADDED", "10"), &mut told).unwrap();
        assert_eq!((watch.version.as_deref(), told.up_to_date), (Some("10"), 1));
    }
}
