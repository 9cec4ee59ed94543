//! Follows a collection: lists it, then watches for changes.
//!
//! Each object is parsed directly into the follower's type, so that only its needed parts are held in memory. If an
//! object cannot be parsed, the error is reported for that object and the watch continues.

use super::body::{next_data, open, refused, unparsable, watch_error};
use super::health::Handle;
use super::incoming::{Arrived, Incoming, TooLong};
use super::list::objects;
use super::split::{Lines, Piece, Split};
use super::{Follow, Unreadable, WatchError, Watches, parse};
use crate::message::Peer;
use kube::{
    Client,
    api::{ListParams, VersionMatch, WatchParams},
    client::Body,
    core::{Request, Status},
};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::{borrow::Cow, pin::pin, time::Duration};
use tokio::time::timeout;

/// The longest time in which the server must begin its answer to a watch. It queues a request for a quarter of a minute
/// at most (API priority and fairness), and begins to answer before there is anything to report.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);
/// The annotation of the bookmark that ends a streamed list.
const LISTED: &str = "k8s.io/initial-events-end";

/// A collection that is followed over any number of connections.
#[derive(Debug)]
pub struct Watch {
    path: &'static str,
    fields: String,
    /// Whether the server can stream lists (`sendInitialEvents`), if known.
    streaming: bool,
    /// The last resourceVersion; all changes up to it were reported.
    version: Option<String>,
    health: Handle,
}

impl Watch {
    /// The objects at this path (`/api/v1/pods`) that match the field selector.
    pub fn new(path: &'static str, fields: String, watches: &Watches) -> Self {
        Self {
            path,
            streaming: true,
            version: None,
            health: watches.add(path, &fields),
            fields,
        }
    }

    /// There is nothing to watch, and that is known: the server has no such kind.
    pub(super) fn is_absent(&mut self) {
        self.version = None;
        self.health.works();
    }

    /// No connection was made.
    pub(super) fn failed(&self, problem: &str) {
        self.health.fails(problem);
    }

    /// Continues where the last call ended, until the connection ends; the server ends it after `lifetime`. `Ok`
    /// means that the connection ended, normally or early, and that this should be called again.
    pub async fn follow(
        &mut self,
        client: &Client,
        lifetime: Duration,
        follower: &mut impl Follow,
    ) -> Result<(), WatchError> {
        let mut ended = self.one_connection(client, lifetime, follower).await;
        // The server no longer has the changes since our version. This is not an error: everything is listed anew.
        if matches!(
            ended,
            Err(WatchError {
                code: Some(410),
                ..
            })
        ) && self.version.take().is_some()
        {
            ended = self.one_connection(client, lifetime, follower).await;
        }
        if let Err(WatchError { code, problem, .. }) = &ended {
            if matches!(code, Some(400 | 404 | 410 | 422)) {
                self.version = None;
            }
            self.health.fails(problem);
        }
        ended
    }

    async fn one_connection(
        &mut self,
        client: &Client,
        lifetime: Duration,
        follower: &mut impl Follow,
    ) -> Result<(), WatchError> {
        if self.version.is_none() && self.streaming {
            match self.stream(client, lifetime, follower).await {
                // The server is older than 1.27, or the feature is off, or its etcd is too old. The last of these is
                // reported as an error of the server.
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
        let body = open(client, request, Peer::ApiServer).await?;
        let list = objects(body, &self.health, follower).await?;
        self.up_to_date(follower);
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
        let body = body?;
        if self.version.is_none() {
            follower.begin();
        } else {
            self.up_to_date(follower);
        }
        let ended = self.events(body, follower).await;
        if matches!(ended, Err(WatchError { code: None, .. })) {
            // An unreadable answer would be repeated.
            self.version = None;
        }
        ended
    }

    fn up_to_date(&self, follower: &mut impl Follow) {
        self.health.works();
        follower.up_to_date();
    }

    /// Until the body ends, even in the middle of a line: the next watch repeats the missing part.
    async fn events<F: Follow>(
        &mut self,
        mut body: Body,
        follower: &mut F,
    ) -> Result<(), WatchError> {
        let mut lines = Lines::default();
        let mut incoming = Incoming::<Event<F::Object>>::new(true, self.health.budget());
        // A connection may end at any time. If the server has stopped, the next connection will fail.
        while let Some(Ok(data)) = answering(follower, next_data(&mut body, &incoming)).await? {
            let mut bytes = &*data;
            while let Some(piece) = lines.next(&mut bytes) {
                match piece {
                    Piece::Part(part) => incoming.push(part).await,
                    Piece::End => {
                        match incoming.end().await {
                            Arrived::Short(line) => {
                                self.short_event(&line, follower)?;
                                incoming.recycle(line);
                            }
                            Arrived::Long(length, event) => {
                                self.long_event(length, event, follower)?;
                            }
                        }
                        follower.room().await;
                    }
                }
            }
        }
        Ok(())
    }

    fn short_event<F: Follow>(&mut self, line: &[u8], follower: &mut F) -> Result<(), WatchError> {
        // Nearly every event contains an object that can be parsed, so this is tried first and needs one pass.
        match serde_json::from_slice::<Event<F::Object>>(line) {
            Ok(event) if event.kind.is_change() => self.change(event, line.len(), follower),
            _ => self.other_event(line, follower)?,
        }
        Ok(())
    }

    fn change<F: Follow>(&mut self, event: Event<F::Object>, bytes: usize, follower: &mut F) {
        self.advance(F::version(&event.object));
        if event.kind == EventKind::Deleted {
            follower.deleted(Ok(event.object));
        } else {
            follower.applied(Ok(event.object), bytes);
        }
    }

    /// Everything up to this version was reported. During a streamed list the versions are those of the objects, in no
    /// order, and must not be kept.
    fn advance(&mut self, seen: &str) {
        if let Some(version) = &mut self.version
            && !seen.is_empty()
        {
            seen.clone_into(version);
        }
    }

    /// A change of an object that cannot be read. The watch continues behind it.
    fn unreadable(&mut self, kind: &EventKind, object: Unreadable, follower: &mut impl Follow) {
        self.health.skipped();
        self.advance(&object.outline.version);
        if *kind == EventKind::Deleted {
            follower.deleted(Err(object));
        } else {
            follower.applied(Err(object), 0);
        }
    }

    fn long_event<F: Follow>(
        &mut self,
        length: usize,
        event: Result<Event<F::Object>, TooLong>,
        follower: &mut F,
    ) -> Result<(), WatchError> {
        match event {
            Ok(event) if event.kind.is_change() => self.change(event, length, follower),
            Ok(_) => return Err(watch_error(&format!("an event of {length} bytes"))),
            Err(TooLong {
                event,
                outline,
                problem,
            }) => match EventKind::from(event) {
                kind if kind.is_change() && !outline.name.is_empty() => {
                    self.unreadable(&kind, Unreadable { outline, problem }, follower);
                }
                _ => {
                    return Err(watch_error(&format!(
                        "an event of {length} bytes: {problem}"
                    )));
                }
            },
        }
        Ok(())
    }

    /// A bookmark, an error, or an object that cannot be parsed, which is passed to the follower.
    fn other_event<F: Follow>(&mut self, line: &[u8], follower: &mut F) -> Result<(), WatchError> {
        let event: Event<&RawValue> =
            serde_json::from_slice(line).map_err(|error| unparsable(&error))?;
        let object = event.object.get();
        match event.kind {
            kind if kind.is_change() => match parse(object) {
                Ok(object) => self.change(Event { kind, object }, line.len(), follower),
                Err(object) => self.unreadable(&kind, object, follower),
            },
            EventKind::Bookmark => {
                let head: Head<'_> = serde_json::from_str(object).unwrap_or_default();
                // Only bookmarks come from the server itself. The annotations of other objects can be written by users.
                if self.version.is_some() || head.ends_the_list() {
                    let version = head.metadata.resource_version;
                    if !version.is_empty() {
                        self.version = Some(version.into_owned());
                    }
                    self.up_to_date(follower);
                }
            }
            EventKind::Error => {
                let status: Status =
                    serde_json::from_str(object).map_err(|error| unparsable(&error))?;
                return Err(refused(&status));
            }
            kind => {
                return Err(watch_error(&format!(
                    "an event of the unknown type {kind:?}"
                )));
            }
        }
        Ok(())
    }
}

#[derive(Debug, Deserialize)]
struct Event<T> {
    #[serde(rename = "type")]
    kind: EventKind,
    object: T,
}

#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(from = "String")]
enum EventKind {
    Applied,
    Deleted,
    Bookmark,
    Error,
    Other(String),
}

impl From<String> for EventKind {
    fn from(kind: String) -> Self {
        match kind.as_str() {
            "ADDED" | "MODIFIED" => Self::Applied,
            "DELETED" => Self::Deleted,
            "BOOKMARK" => Self::Bookmark,
            "ERROR" => Self::Error,
            _ => Self::Other(kind),
        }
    }
}

impl EventKind {
    const fn is_change(&self) -> bool {
        matches!(self, Self::Applied | Self::Deleted)
    }
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

/// Answers questions about the objects until the future ends.
pub(super) async fn answering<T>(follower: &mut impl Follow, future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    loop {
        tokio::select! {
            biased;
            output = &mut future => return output,
            () = follower.asked() => follower.answer(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Parsed;

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

        fn applied(&mut self, object: Parsed<Self::Object>, _: usize) {
            self.applied.push(match object {
                Ok(object) => object["metadata"]["name"].to_string(),
                Err(wrong) => format!("{}: {}", wrong.outline.full_name(), wrong.problem),
            });
        }

        fn deleted(&mut self, _: Parsed<Self::Object>) {
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
        let mut watch = Watch::new("/api/v1/pods", String::new(), &Watches::default());
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
        let mut watch = Watch::new("/api/v1/pods", String::new(), &Watches::default());
        let mut told = Told::default();
        let object = |kind: &str, version: &str| {
            let marked =
                format!(r#"{{"resourceVersion":"{version}","annotations":{{"{LISTED}":"true"}}}}"#);
            format!(r#"{{"type":"{kind}","object":{{"metadata":{marked}}}}}"#)
        };
        for kind in ["ADDED", "MODIFIED", "DELETED"] {
            watch
                .short_event(object(kind, "7").as_bytes(), &mut told)
                .unwrap();
            assert_eq!((&watch.version, told.up_to_date), (&None, 0), "{kind}");
        }
        let sign_of_life = r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"8"}}}"#;
        watch
            .short_event(sign_of_life.as_bytes(), &mut told)
            .unwrap();
        assert_eq!((&watch.version, told.up_to_date), (&None, 0));
        watch
            .short_event(object("BOOKMARK", "9").as_bytes(), &mut told)
            .unwrap();
        assert_eq!((watch.version.as_deref(), told.up_to_date), (Some("9"), 1));
        watch
            .short_event(object("ADDED", "10").as_bytes(), &mut told)
            .unwrap();
        assert_eq!((watch.version.as_deref(), told.up_to_date), (Some("10"), 1));
    }
}
