//! Carries out an election against the API server.

use super::election::{Command, Election, Event, Moment, Role, Unreachable};
use super::memo::{Annotation, Memo, memo};
use super::record::Record;
use crate::{Actions, ApiError, chance};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::hash::{BuildHasher, RandomState};
use std::pin::Pin;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

/// The Lease on the API server, as this process knows it.
#[derive(Clone)]
pub struct LeaseLock {
    actions: Actions,
    namespace: String,
    name: String,
    /// How long a call may take.
    within: Duration,
    /// As it was last read or written, so that an update fails after a write of another client.
    known: Value,
    annotation: Option<Annotation>,
}

/// A name that no other process has: `HOSTNAME_UUID`.
pub fn identity(hostname: &str) -> String {
    // A new hasher is keyed with the system's random numbers.
    let [high, low] = [(); 2].map(|()| RandomState::new().hash_one(hostname));
    // Version 4, the variant of RFC 9562.
    let id = (u128::from(high) << 64 | u128::from(low)) & !(0xf << 76) & !(0x3 << 62)
        | (0x4 << 76)
        | (0x2 << 62);
    let digits = format!("{id:032x}");
    let parts = [0..8, 8..12, 12..16, 16..20, 20..32].map(|part| &digits[part]);
    format!("{hostname}_{}", parts.join("-"))
}

/// The result of a call: the event, and the new Lease if there is one.
type Answer = (Event, Option<Value>);
type Call = Pin<Box<dyn Future<Output = Answer> + Send>>;

/// Runs until the Lease is lost, or until `stop` and then until it is released. The role is in `roles` at once; it is
/// never the leader's after this future was dropped. `now` reads the clock.
pub async fn run(
    mut election: Election,
    mut lock: LeaseLock,
    roles: &watch::Sender<Role>,
    stop: impl Future<Output = ()>,
    now: impl Fn() -> Timestamp,
) {
    let began = Instant::now();
    let mut stop = std::pin::pin!(stop);
    let mut stopped = false;
    let mut wake = Some(began);
    let mut call: Option<Call> = None;
    loop {
        let event = tokio::select! {
            biased;
            () = &mut stop, if !stopped => {
                stopped = true;
                Event::Stop
            }
            () = until(wake) => {
                wake = None;
                Event::Wake
            }
            (event, news) = answer(&mut call) => {
                call = None;
                lock.learn(news);
                event
            }
        };
        let moment = Moment {
            elapsed: began.elapsed(),
            time: now(),
            chance: chance(),
        };
        for command in election.on_event(moment, event) {
            match command {
                Command::Read => call = Some(Box::pin(lock.clone().read())),
                Command::Create(record) => call = Some(Box::pin(lock.clone().create(record))),
                Command::Update(record) => call = Some(Box::pin(lock.clone().update(record))),
                Command::Wake(at) => wake = Some(began + at),
                Command::Role(role) => {
                    // A role that has ended never begins again.
                    let over = matches!(role, Role::Lost | Role::Released);
                    roles.send_replace(role);
                    if over {
                        return;
                    }
                }
            }
        }
    }
}

async fn until(wake: Option<Instant>) {
    match wake {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

async fn answer(call: &mut Option<Call>) -> Answer {
    match call {
        Some(call) => call.await,
        None => std::future::pending().await,
    }
}

impl LeaseLock {
    /// The Lease of this name; a call may take as long as `within`, which is half of the renew deadline by custom.
    pub fn new(actions: Actions, namespace: &str, name: &str, within: Duration) -> Self {
        Self {
            actions,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            within,
            known: Value::Null,
            annotation: None,
        }
    }

    /// Keeps a text of the leader in this annotation of the Lease.
    pub fn with_memo(mut self, key: &'static str) -> (Self, Memo) {
        let (memo, annotation) = memo(key);
        self.annotation = Some(annotation);
        (self, memo)
    }

    fn learn(&mut self, news: Option<Value>) {
        let Some(lease) = news else { return };
        if let Some(annotation) = &self.annotation {
            annotation.learn(&lease);
        }
        self.known = lease;
    }

    fn annotate(&self, lease: &mut Value) {
        if let Some(annotation) = &self.annotation {
            annotation.put(lease);
        }
    }

    fn path(&self, name: &str) -> String {
        let space = &self.namespace;
        format!("/apis/coordination.k8s.io/v1/namespaces/{space}/leases{name}")
    }

    async fn ask(
        &self,
        method: http::Method,
        path: String,
        body: &Value,
    ) -> Result<Value, ApiError> {
        let what = format!("{method} {path}");
        let body = if body.is_null() {
            Vec::new()
        } else {
            body.to_string().into_bytes()
        };
        let request = http::Request::builder()
            .method(method)
            .uri(path)
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(body);
        self.actions.request(&what, self.within, request).await
    }

    async fn read(self) -> Answer {
        let path = self.path(&format!("/{}", self.name));
        match self.ask(http::Method::GET, path, &Value::Null).await {
            Ok(lease) => {
                let record = serde_json::from_value(lease["spec"].clone());
                // An unreadable one has no holder; writing it anew mends it.
                (
                    Event::Found(Ok(Some(record.unwrap_or_default()))),
                    Some(lease),
                )
            }
            Err(error) if error.status().is_some_and(|status| status.code == 404) => {
                (Event::Found(Ok(None)), Some(Value::Null))
            }
            Err(error) => {
                tracing::warn!("the lease is not known: {error}");
                (Event::Found(Err(Unreachable)), None)
            }
        }
    }

    async fn create(self, record: Record) -> Answer {
        let mut lease = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"namespace": self.namespace, "name": self.name}, "spec": record,
        });
        self.annotate(&mut lease);
        let path = self.path("");
        written(self.ask(http::Method::POST, path, &lease).await)
    }

    /// Everything but the record and the leader's text stays as it was.
    async fn update(self, record: Record) -> Answer {
        let mut lease = self.known.clone();
        let fields = serde_json::to_value(record).unwrap_or_default();
        match (lease["spec"].as_object_mut(), fields) {
            (Some(spec), Value::Object(fields)) => spec.extend(fields),
            (_, fields) => lease["spec"] = fields,
        }
        self.annotate(&mut lease);
        let path = self.path(&format!("/{}", self.name));
        written(self.ask(http::Method::PUT, path, &lease).await)
    }
}

fn written(answer: Result<Value, ApiError>) -> Answer {
    match answer {
        Ok(lease) => (Event::Written(true), Some(lease)),
        Err(error) => {
            tracing::warn!("the lease is not written: {error}");
            (Event::Written(false), None)
        }
    }
}
