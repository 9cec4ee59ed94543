//! Following a collection: listed once, then every change as the server tells it.
//!
//! Each object is read once, into what the follower wants of it, so that no more of it is in memory than what is kept. One
//! that is not understood costs that object and not the watch.

use super::{
    split::Splitter,
    words::{self, Peer, answer},
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

/// No object is larger: etcd takes 1.5 MB.
const LONGEST_LINE: usize = 8 << 20;
/// Marks the end of a streamed list.
const LISTED: &str = "k8s.io/initial-events-end";

/// Whoever follows a collection.
pub trait Follow {
    /// What is read of an object.
    type Object: DeserializeOwned;
    /// The object's `metadata.resourceVersion`.
    fn version(object: &Self::Object) -> &str;
    /// A list begins; what will not have been in it at its end is gone.
    fn begin(&mut self);
    /// An object as it is now.
    fn applied(&mut self, object: Parsed<'_, Self::Object>);
    /// An object as it last was.
    fn deleted(&mut self, object: Parsed<'_, Self::Object>);
    /// Everything there is was told; also said again, as a sign of life.
    fn up_to_date(&mut self);
}

/// An object, or its text and why it is not understood.
pub type Parsed<'a, T> = Result<T, NotUnderstood<'a>>;

/// An object that is not of the expected form.
#[derive(Debug)]
pub struct NotUnderstood<'a> {
    /// As it came.
    pub text: &'a str,
    /// What is wrong with it.
    pub error: serde_json::Error,
}

/// Reads an object.
pub fn parse<T: DeserializeOwned>(text: &str) -> Parsed<'_, T> {
    serde_json::from_str(text).map_err(|error| NotUnderstood { text, error })
}

/// Why a watch ended before its time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// In a sentence.
    pub problem: String,
    /// The server's answer, where it gave one.
    pub code: Option<u16>,
}

/// A collection that is followed over as many connections as it takes.
#[derive(Debug)]
pub struct Watch {
    path: &'static str,
    fields: String,
    /// Whether the server streams lists, as far as is known.
    streaming: bool,
    /// Everything up to this version was told.
    version: Option<String>,
}

impl Watch {
    /// The objects at this path (`/api/v1/pods`) of which the field selector holds.
    pub fn new(path: &'static str, fields: String) -> Self {
        Self {
            path,
            fields,
            streaming: true,
            version: None,
        }
    }

    /// Goes on from where the last call ended, until the connection does; the server ends it after `lifetime`. `Ok`: it has
    /// ended, be it so or before its time; to be called again.
    pub async fn follow(
        &mut self,
        client: &Client,
        lifetime: Duration,
        follower: &mut impl Follow,
    ) -> Result<(), Broken> {
        let ended = self.one_connection(client, lifetime, follower).await;
        let Err(Broken { code, .. }) = &ended else {
            return ended;
        };
        match code {
            // It has forgotten what came since then: nothing is wrong, and a list tells everything.
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
    ) -> Result<(), Broken> {
        if self.version.is_none() && self.streaming {
            match self.stream(client, lifetime, follower).await {
                // Before 1.27, or with the feature switched off.
                Err(Broken {
                    code: Some(400 | 422),
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

    async fn list(&mut self, client: &Client, follower: &mut impl Follow) -> Result<(), Broken> {
        // What the server has at hand: the node's pods are few, and the watch goes on from there.
        let parameters = ListParams {
            field_selector: Some(self.fields.clone()),
            resource_version: Some("0".to_owned()),
            version_match: Some(VersionMatch::NotOlderThan),
            ..ListParams::default()
        };
        let request = Request::new(self.path)
            .list(&parameters)
            .map_err(|error| broken(&error))?;
        let list = objects(open(client, request, Peer::ApiServer).await?, follower).await?;
        follower.up_to_date();
        self.version = Some(list.resource_version);
        Ok(())
    }

    /// A watch from the known version on; without one it begins with everything there is.
    async fn stream(
        &mut self,
        client: &Client,
        lifetime: Duration,
        follower: &mut impl Follow,
    ) -> Result<(), Broken> {
        let parameters = WatchParams {
            field_selector: Some(self.fields.clone()),
            timeout: u32::try_from(lifetime.as_secs()).ok(),
            bookmarks: true,
            send_initial_events: self.version.is_none(),
            ..WatchParams::default()
        };
        let from = self.version.as_deref().unwrap_or("0");
        let request = Request::new(self.path).watch(&parameters, from);
        let mut lines = Lines::new(
            open(
                client,
                request.map_err(|error| broken(&error))?,
                Peer::ApiServer,
            )
            .await?,
        );
        if self.version.is_none() {
            follower.begin();
        } else {
            follower.up_to_date();
        }
        while let Some(line) = lines.next().await? {
            let line = std::str::from_utf8(line).map_err(|error| broken(&error))?;
            self.event(line, follower)?;
        }
        Ok(())
    }

    fn event<F: Follow>(&mut self, line: &str, follower: &mut F) -> Result<(), Broken> {
        // Nearly every event is of an object that is understood: it is read in one pass.
        let event: Event<'_, F::Object> = match serde_json::from_str(line) {
            Ok(event) => event,
            Err(_) => return self.other_event(line, follower),
        };
        let applied = match event.kind.as_ref() {
            "ADDED" | "MODIFIED" => true,
            "DELETED" => false,
            _ => return self.other_event(line, follower),
        };
        // While a list is being streamed its versions are those of the objects, in no order.
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

    /// A bookmark, an error, or an object that is not understood, which is the follower's to report.
    fn other_event<F: Follow>(&mut self, line: &str, follower: &mut F) -> Result<(), Broken> {
        let event: Event<'_, &RawValue> = serde_json::from_str(line).map_err(|error| {
            self.version = None;
            not_understood(&error)
        })?;
        let object = event.object.get();
        let head: Head<'_> = serde_json::from_str(object).unwrap_or_default();
        let bookmark = event.kind == "BOOKMARK";
        // Only a bookmark is the server's own; the annotations of any other object are whoever's may write them.
        let listed = self.version.is_some() || (bookmark && head.ends_the_list());
        match event.kind.as_ref() {
            "ADDED" | "MODIFIED" => follower.applied(parse(object)),
            "DELETED" => follower.deleted(parse(object)),
            "BOOKMARK" if listed => follower.up_to_date(),
            "BOOKMARK" => {}
            "ERROR" => {
                let status: Status =
                    serde_json::from_str(object).map_err(|error| not_understood(&error))?;
                return Err(refused(&status));
            }
            other => {
                return Err(broken(&format!("an event of the unknown type {other:?}")));
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

/// Tells of every object in a kubelet's list at this path as it arrives; that it is whole, is the caller's to tell.
pub(super) async fn read_list(
    client: Client,
    path: &str,
    follower: &mut impl Follow,
) -> Result<(), Broken> {
    let request = hyper::Request::get(path).body(Vec::new());
    let request = request.map_err(|error| broken(&error))?;
    let body = open(&client, request, Peer::Kubelet).await?;
    objects(body, follower).await.map(drop)
}

/// The objects of a list as it arrives; then the list without them.
async fn objects(mut body: Body, follower: &mut impl Follow) -> Result<ListEnd, Broken> {
    follower.begin();
    let mut splitter = Splitter::new(LONGEST_LINE);
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| broken(&error))?;
        let data = frame.into_data().unwrap_or_default();
        let fed = splitter.feed(&data, |object| follower.applied(parse(object)));
        fed.map_err(|error| broken(&error))?;
    }
    serde_json::from_slice::<List>(splitter.rest())
        .map(|list| list.metadata)
        .map_err(|error| not_understood(&error))
}

/// A list whose items were taken out.
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

/// The body of an answer that is no refusal.
async fn open(
    client: &Client,
    request: hyper::Request<Vec<u8>>,
    peer: Peer,
) -> Result<Body, Broken> {
    let response = client.send(request.map(Body::from)).await;
    let response = response.map_err(|error| broken(&words::of(&error, peer)))?;
    let code = response.status();
    if code.is_success() {
        return Ok(response.into_body());
    }
    let text = whole(response.into_body()).await.unwrap_or_default();
    let status = serde_json::from_str::<Status>(&text).unwrap_or_default();
    Err(Broken {
        code: Some(code.as_u16()),
        ..refused(&status.with_code(code.as_u16()))
    })
}

async fn whole(body: Body) -> Result<String, Broken> {
    let bytes = body
        .collect()
        .await
        .map_err(|error| broken(&error))?
        .to_bytes();
    String::from_utf8(bytes.into()).map_err(|error| broken(&error))
}

/// The lines of a body as they arrive.
struct Lines {
    body: Body,
    buffer: Vec<u8>,
    /// Length of the line handed out last.
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

    /// The next one; `None` where the body ends, be it in the middle of a line: what is missing comes with the next watch.
    async fn next(&mut self) -> Result<Option<&[u8]>, Broken> {
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
                return Err(broken(&format!("a line of more than {LONGEST_LINE} bytes")));
            }
            self.buffer.shrink_to(4096);
            match self.body.frame().await {
                Some(Ok(frame)) => {
                    let data = frame.into_data().unwrap_or_default();
                    self.buffer.extend_from_slice(&data);
                }
                // A connection may end at any time; whether the server is gone the next one tells.
                Some(Err(_)) | None => return Ok(None),
            }
        }
    }
}

fn refused(status: &Status) -> Broken {
    Broken {
        problem: answer(status),
        code: Some(status.code),
    }
}

fn broken(problem: &dyn ToString) -> Broken {
    Broken {
        problem: problem.to_string(),
        code: None,
    }
}

fn not_understood(error: &serde_json::Error) -> Broken {
    broken(&format!("an answer that is not understood: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts what it is told.
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
