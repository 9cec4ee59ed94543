//! Authentication and authorization of clients. The API server reviews them, and its answers are cached.

use super::certificate::Subject;
use crate::run::metrics::Metrics;
use evictd_cluster_client::{Actions, ApiError, CALL_TIMEOUT};
use hyper::Request;
use hyper::header::CONTENT_TYPE;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// The most answers of each kind. A full cache is emptied, so that guessed tokens do not fill the memory.
const MAX_CACHED: usize = 4096;
const MASTERS: &str = "system:masters";

/// How long answers are cached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CacheTimes {
    /// `--authentication-token-webhook-cache-ttl`.
    pub(crate) token: Duration,
    /// `--authorization-webhook-cache-authorized-ttl`.
    pub(crate) allowed: Duration,
    /// `--authorization-webhook-cache-unauthorized-ttl`.
    pub(crate) denied: Duration,
}

impl Default for CacheTimes {
    fn default() -> Self {
        let default = Duration::from_secs(10);
        Self {
            token: default,
            allowed: default,
            denied: default,
        }
    }
}

/// Clones share the caches.
#[derive(Clone)]
pub(crate) struct DelegatedAuth(Arc<Shared>);

struct Shared {
    /// By `--authentication-kubeconfig` or the pod's service account. Without either no token is accepted.
    authentication: Option<Actions>,
    /// By `--authorization-kubeconfig` or the pod's service account. Without either only `system:masters` may get the other paths.
    authorization: Option<Actions>,
    always_allowed: Vec<String>,
    times: CacheTimes,
    users: Cache<String, Option<User>>,
    rights: Cache<Right, bool>,
    metrics: OnceLock<Metrics>,
    outage: Outage,
}

/// Whether tokens cannot be reviewed now.
#[derive(Default)]
struct Outage(AtomicBool);

impl Outage {
    /// Notes whether a review failed. Returns whether that is new and bad, because each client with a guessed token fails one.
    fn begins(&self, fails: bool) -> bool {
        !self.0.swap(fails, Ordering::Relaxed) && fails
    }
}

/// A user's right to do `verb` on `path`.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Right {
    user: User,
    verb: String,
    path: String,
}

/// The credentials of a request.
pub(super) struct Credentials<'a> {
    /// Of a client certificate that was verified.
    pub(super) presented: Option<Subject>,
    /// The header `Authorization`. Empty without one.
    pub(super) authorization: &'a str,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum Denied {
    #[error("Unauthorized")]
    Unknown,
    #[error("forbidden: User {user:?} cannot {verb} path {path:?}")]
    Forbidden {
        user: String,
        verb: String,
        path: String,
    },
    #[error("the request cannot be authorized: {0}")]
    Undecided(ApiError),
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Deserialize)]
#[serde(default)]
#[derive(Default)]
struct User {
    username: String,
    groups: Vec<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Review<T> {
    status: T,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct TokenStatus {
    authenticated: bool,
    user: User,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct AccessStatus {
    allowed: bool,
}

impl DelegatedAuth {
    /// `always_allowed`: paths (`--authorization-always-allow-paths`). A star at the end matches any rest.
    pub(crate) fn new(
        authentication: Option<Actions>,
        authorization: Option<Actions>,
        always_allowed: Vec<String>,
        times: CacheTimes,
    ) -> Self {
        Self(Arc::new(Shared {
            authentication,
            authorization,
            always_allowed,
            times,
            users: Cache::default(),
            rights: Cache::default(),
            metrics: OnceLock::new(),
            outage: Outage::default(),
        }))
    }

    /// The results are counted by these metrics.
    #[must_use]
    pub(crate) fn counted(self, metrics: Metrics) -> Self {
        // It is set once, before the port is served.
        let _ = self.0.metrics.set(metrics);
        self
    }

    pub(super) async fn check(
        &self,
        credentials: &Credentials<'_>,
        verb: &str,
        path: &str,
    ) -> Result<(), Denied> {
        let open = |allowed: &String| match allowed.strip_suffix('*') {
            Some(begin) => path.starts_with(begin),
            None => path == allowed,
        };
        let began = Instant::now();
        let user = self.user(credentials).await;
        if let Some(metrics) = self.0.metrics.get() {
            // As in kube-apiserver, an invalid token is an error: a client without credentials is anonymous.
            let result = if user.is_ok() { "success" } else { "error" };
            metrics.authentication_attempts.add([result], 1);
            let seconds = began.elapsed().as_secs_f64();
            metrics.authentication_duration.observe([result], seconds);
            if let Ok(user) = &user {
                let name = user_label(&user.username);
                metrics.authenticated_user_requests.add([name], 1);
            }
        }
        // A client that is refused is refused everywhere, also where a client without credentials is let in.
        let user = user?;
        if self.0.always_allowed.iter().any(open) {
            return Ok(());
        }
        let began = Instant::now();
        let allowed = if user.groups.iter().any(|group| group == MASTERS) {
            Ok(true)
        } else {
            self.is_authorized(&user, verb, path).await
        };
        if let Some(metrics) = self.0.metrics.get() {
            let result = match &allowed {
                Ok(true) => "allowed",
                // A review that allows nothing leaves it to other authorizers. Here there is none.
                Ok(false) => "no-opinion",
                Err(_) => "error",
            };
            metrics.authorization_attempts.add([result], 1);
            let seconds = began.elapsed().as_secs_f64();
            metrics.authorization_duration.observe([result], seconds);
        }
        if allowed? {
            return Ok(());
        }
        Err(Denied::Forbidden {
            user: user.username,
            verb: verb.to_owned(),
            path: path.to_owned(),
        })
    }

    async fn user(&self, credentials: &Credentials<'_>) -> Result<User, Denied> {
        if let Some(Subject { name, groups }) = credentials.presented.clone() {
            // kube-apiserver adds this group for every authenticated user, and roles may refer to it.
            let authenticated = "system:authenticated".to_owned();
            return Ok(User {
                username: name,
                groups: groups.into_iter().chain([authenticated]).collect(),
            });
        }
        let Some(token) = bearer(credentials.authorization) else {
            return Ok(User {
                username: "system:anonymous".to_owned(),
                groups: vec!["system:unauthenticated".to_owned()],
            });
        };
        let known = self.0.users.get(&token.to_owned());
        let user = match known {
            Some(user) => user,
            None => self.review_token(token).await?,
        };
        user.ok_or(Denied::Unknown)
    }

    async fn review_token(&self, token: &str) -> Result<Option<User>, Denied> {
        let Some(actions) = &self.0.authentication else {
            return Ok(None);
        };
        let review = json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview",
            "metadata": {}, "spec": {"token": token},
        });
        let path = "/apis/authentication.k8s.io/v1/tokenreviews";
        let answer: Result<Review<TokenStatus>, ApiError> = post(actions, path, &review).await;
        let begins = self.0.outage.begins(answer.is_err());
        let status = match answer {
            Ok(review) => review.status,
            Err(error) => {
                // As kube-apiserver: unauthenticated while TokenReview is down. That is not cached.
                if begins {
                    tracing::warn!("tokens cannot be reviewed: {error}");
                }
                return Err(Denied::Unknown);
            }
        };
        let user = Some(status.user).filter(|_| status.authenticated);
        let times = self.0.times;
        self.0
            .users
            .insert(token.to_owned(), user.clone(), times.token);
        Ok(user)
    }

    async fn is_authorized(&self, user: &User, verb: &str, path: &str) -> Result<bool, Denied> {
        let Some(actions) = &self.0.authorization else {
            return Ok(false);
        };
        let right = Right {
            user: user.clone(),
            verb: verb.to_owned(),
            path: path.to_owned(),
        };
        if let Some(known) = self.0.rights.get(&right) {
            return Ok(known);
        }
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "metadata": {},
            "spec": {
                "user": user.username, "groups": user.groups,
                "nonResourceAttributes": {"path": path, "verb": verb},
            },
        });
        let at = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
        let answer: Result<Review<AccessStatus>, ApiError> = post(actions, at, &review).await;
        let allowed = answer.map_err(Denied::Undecided)?.status.allowed;
        let times = self.0.times;
        let time = if allowed { times.allowed } else { times.denied };
        self.0.rights.insert(right, allowed, time);
        Ok(allowed)
    }
}

/// The label `username`: a name that is always the same, or one for all others.
fn user_label(name: &str) -> &str {
    match name {
        "admin"
        | "client"
        | "kube_proxy"
        | "kubelet"
        | "system:serviceaccount:kube-system:default" => name,
        _ if name.contains('@') => "email_id",
        _ => "other",
    }
}

fn bearer(authorization: &str) -> Option<&str> {
    let (scheme, token) = authorization.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

async fn post<T: serde::de::DeserializeOwned>(
    actions: &Actions,
    path: &str,
    review: &Value,
) -> Result<T, ApiError> {
    let request = Request::post(path)
        .header(CONTENT_TYPE, "application/json")
        .body(review.to_string().into_bytes());
    let what = format!("POST {path}");
    actions.request(&what, CALL_TIMEOUT, request).await
}

/// Answers with their time of expiry.
struct Cache<K, V>(Mutex<HashMap<K, (Instant, V)>>);

impl<K, V> Default for Cache<K, V> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Eq + Hash, V: Clone> Cache<K, V> {
    fn lock(&self) -> MutexGuard<'_, HashMap<K, (Instant, V)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn get(&self, key: &K) -> Option<V> {
        let cached = self.lock();
        let (until, value) = cached.get(key)?;
        (Instant::now() < *until).then(|| value.clone())
    }

    fn insert(&self, key: K, value: V, time: Duration) {
        let mut cached = self.lock();
        if cached.len() >= MAX_CACHED {
            cached.clear();
        }
        cached.insert(key, (Instant::now() + time, value));
    }
}

#[cfg(test)]
mod tests {
    use super::{Outage, user_label};

    #[test]
    fn an_outage_is_said_once_until_it_ends() {
        let outage = Outage::default();
        let failures = [true, true, false, true];
        assert_eq!(
            failures.map(|fails| outage.begins(fails)),
            [true, false, false, true]
        );
    }

    #[test]
    fn only_names_that_are_always_the_same_are_labels() {
        let labels = ["kubelet", "ann@example.com", "system:anonymous", ""].map(user_label);
        assert_eq!(labels, ["kubelet", "email_id", "other", "other"]);
    }
}
