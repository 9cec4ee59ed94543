//! Who asks, and whether they may: delegated to the API server, whose answers are kept for a while.

use super::certificate::Subject;
use evictd_cluster_client::{Actions, ApiError, CALL_TIMEOUT};
use hyper::Request;
use hyper::header::CONTENT_TYPE;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// Answers that are kept of each kind; then all are forgotten. Who guesses tokens fills no memory.
const MOST_KEPT: usize = 4096;
const MASTERS: &str = "system:masters";

/// How long answers are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheTimes {
    /// `--authentication-token-webhook-cache-ttl`.
    pub token: Duration,
    /// `--authorization-webhook-cache-authorized-ttl`.
    pub allowed: Duration,
    /// `--authorization-webhook-cache-unauthorized-ttl`.
    pub denied: Duration,
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

/// Decides who may see what. Clones share what is kept.
#[derive(Clone)]
pub struct Access(Arc<Shared>);

struct Shared {
    /// `--authentication-kubeconfig`; without it tokens are nobody's.
    authentication: Option<Actions>,
    /// `--authorization-kubeconfig`; without it only who is in `system:masters` may see what is not open.
    authorization: Option<Actions>,
    always_allowed: Vec<String>,
    times: CacheTimes,
    users: Cache<String, Option<User>>,
    rights: Cache<(User, String, String), bool>,
}

/// What a request says of who sent it.
pub(super) struct Credentials<'a> {
    /// Of a client certificate that was verified.
    pub(super) presented: Option<Subject>,
    /// The header; empty where there is none.
    pub(super) authorization: &'a str,
}

/// Why not.
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
    #[error("whether this may be seen is not known: {0}")]
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

impl Access {
    /// `always_allowed` are paths (`--authorization-always-allow-paths`); a star at the end stands for the rest.
    pub fn new(
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
        }))
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
        if self.0.always_allowed.iter().any(open) {
            return Ok(());
        }
        let user = self.user(credentials).await?;
        if user.groups.iter().any(|group| group == MASTERS) {
            return Ok(());
        }
        if self.may(&user, verb, path).await? {
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
            let everybody = "system:authenticated".to_owned();
            return Ok(User {
                username: name,
                groups: groups.into_iter().chain([everybody]).collect(),
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
        let answer: Result<Review<TokenStatus>, ApiError> = ask(actions, path, &review).await;
        let status = match answer {
            Ok(review) => review.status,
            Err(error) => {
                // A server of Kubernetes takes nobody for somebody while it cannot ask.
                tracing::warn!("a token cannot be reviewed: {error}");
                return Err(Denied::Unknown);
            }
        };
        let user = Some(status.user).filter(|_| status.authenticated);
        let times = self.0.times;
        self.0
            .users
            .keep(token.to_owned(), user.clone(), times.token);
        Ok(user)
    }

    async fn may(&self, user: &User, verb: &str, path: &str) -> Result<bool, Denied> {
        let Some(actions) = &self.0.authorization else {
            return Ok(false);
        };
        let key = (user.clone(), verb.to_owned(), path.to_owned());
        if let Some(known) = self.0.rights.get(&key) {
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
        let answer: Result<Review<AccessStatus>, ApiError> = ask(actions, at, &review).await;
        let allowed = answer.map_err(Denied::Undecided)?.status.allowed;
        let times = self.0.times;
        let time = if allowed { times.allowed } else { times.denied };
        self.0.rights.keep(key, allowed, time);
        Ok(allowed)
    }
}

fn bearer(authorization: &str) -> Option<&str> {
    let (scheme, token) = authorization.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

async fn ask<T: serde::de::DeserializeOwned>(
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

/// Answers, each until a time.
struct Cache<K, V>(Mutex<HashMap<K, (Instant, V)>>);

impl<K, V> Default for Cache<K, V> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Eq + Hash, V: Clone> Cache<K, V> {
    fn kept(&self) -> MutexGuard<'_, HashMap<K, (Instant, V)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn get(&self, key: &K) -> Option<V> {
        let kept = self.kept();
        let (until, value) = kept.get(key)?;
        (Instant::now() < *until).then(|| value.clone())
    }

    fn keep(&self, key: K, value: V, time: Duration) {
        let mut kept = self.kept();
        if kept.len() >= MOST_KEPT {
            kept.clear();
        }
        kept.insert(key, (Instant::now() + time, value));
    }
}
