//! Calls that change something.

use super::answer::text;
use super::requests::Requests;
use super::token_bucket::{CallRate, TokenBucket};
use super::{ApiError, Peer};
use http::Method;
use kube::Client;
use serde::de::DeserializeOwned;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Mutex, watch};
use tokio::time::{Instant, sleep};

/// The usual time limit of a call.
pub const CALL_TIMEOUT: Duration = Duration::from_secs(5);

/// Makes calls to the API server that change something: each is sent once and has a time limit.
#[derive(Clone)]
pub struct Actions {
    pub(crate) client: Client,
    pub(crate) peer: Peer,
    pub(crate) limiter: Option<Arc<Limiter>>,
    /// Where delays by the rate are noted.
    pub(crate) requests: Option<Requests>,
}

impl Actions {
    /// With this client, which must not retry by itself.
    pub fn new(client: Client) -> Self {
        Self {
            client,
            peer: Peer::ApiServer,
            limiter: None,
            requests: None,
        }
    }

    /// The same with a limit of their own. Clones share it.
    #[must_use]
    pub fn limited(&self, rate: Option<CallRate>) -> Self {
        Self {
            limiter: rate.map(|rate| Arc::new(Limiter::new(rate))),
            ..self.clone()
        }
    }

    /// Begins no call any more that the rate would delay, and fails those that are delayed now.
    pub fn end_delays(&self) {
        if let Some(limiter) = &self.limiter {
            limiter.stopped.send_replace(true);
        }
    }

    /// The client, to build an `Api` from; pass its calls to [`Self::call`].
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// Sends one request and parses its answer; the limits are those of [`Self::call`].
    pub async fn request<T: DeserializeOwned>(
        &self,
        what: &str,
        within: Duration,
        request: http::Result<http::Request<Vec<u8>>>,
    ) -> Result<T, ApiError> {
        let client = self.client();
        let verb = verb(&request);
        let call = async {
            let request = request.map_err(kube::Error::HttpError)?;
            client.request(request).await
        };
        self.call_as(verb.as_ref(), what, within, call).await
    }

    /// The same for a server that is not trusted: at most so many bytes of the answer are read.
    pub async fn request_at_most<T: DeserializeOwned>(
        &self,
        what: &str,
        (within, longest): (Duration, usize),
        request: http::Result<http::Request<Vec<u8>>>,
    ) -> Result<T, ApiError> {
        let client = self.client();
        let verb = verb(&request);
        let call = async {
            let request = request.map_err(kube::Error::HttpError)?;
            let text = text(client, request, longest).await?;
            serde_json::from_str(&text).map_err(kube::Error::SerdeError)
        };
        self.call_as(verb.as_ref(), what, within, call).await
    }

    /// Makes one call with a time limit, since the client itself would wait for ever on a connection that is half
    /// open. `what` describes the call in an operator's words, for the error. The limit does not
    /// include the delay by the rate.
    pub async fn call<T>(
        &self,
        what: &str,
        within: Duration,
        call: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, ApiError> {
        self.call_as(None, what, within, call).await
    }

    /// The same for a call whose verb is known, under which the delay by the rate is observed.
    pub(crate) async fn call_as<T>(
        &self,
        verb: Option<&Method>,
        what: &str,
        within: Duration,
        call: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, ApiError> {
        if let Some(limiter) = &self.limiter {
            let asked = Instant::now();
            if !limiter.turn().await {
                let what = what.to_owned();
                return Err(ApiError::Stopped { what });
            }
            if let (Some(requests), Some(verb)) = (&self.requests, verb) {
                requests.delayed(verb, asked.elapsed());
            }
        }
        match tokio::time::timeout(within, call).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(cause)) => Err(ApiError::Call {
                what: what.to_owned(),
                cause: Box::new(cause),
                peer: self.peer,
            }),
            Err(_) => Err(ApiError::TimedOut {
                what: what.to_owned(),
                within,
            }),
        }
    }
}

/// The verb of a request; `None` if it could not be built.
pub(crate) fn verb<E>(request: &Result<http::Request<Vec<u8>>, E>) -> Option<Method> {
    request
        .as_ref()
        .ok()
        .map(|request| request.method().clone())
}

/// Delays calls, so that they keep to a rate.
pub(crate) struct Limiter {
    /// The call that waits for a token holds the lock, so that calls begin in their order.
    bucket: Mutex<TokenBucket>,
    start: Instant,
    stopped: watch::Sender<bool>,
}

impl Limiter {
    fn new(rate: CallRate) -> Self {
        Self {
            bucket: Mutex::new(TokenBucket::of(rate)),
            start: Instant::now(),
            stopped: watch::Sender::new(false),
        }
    }

    /// Waits until the next call may begin. Returns whether it may. A dropped wait takes no token.
    async fn turn(&self) -> bool {
        let token = async {
            let mut bucket = self.bucket.lock().await;
            while let Err(wait) = bucket.take(self.start.elapsed()) {
                sleep(wait).await;
            }
        };
        let mut stopped = self.stopped.subscribe();
        tokio::select! {
            biased;
            _ = stopped.wait_for(|stopped| *stopped) => false,
            () = token => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::task::JoinSet;

    /// Begins calls in the order of their numbers, and returns when each has begun, in milliseconds.
    fn begin(actions: &Actions, count: u64) -> JoinSet<(u64, Result<u128, ApiError>)> {
        let (mut calls, start) = (JoinSet::new(), Instant::now());
        for number in 0..count {
            let actions = actions.clone();
            calls.spawn(async move {
                let call = async { Ok(start.elapsed().as_millis()) };
                let began = actions.call("a call", CALL_TIMEOUT, call).await;
                (number, began)
            });
        }
        calls
    }

    fn actions(qps: f64, burst: u32) -> Actions {
        let config = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
        let access = crate::Access::new("a test".into(), config);
        let actions = access.actions().unwrap();
        actions.limited(CallRate::of(Some(qps), Some(burst)))
    }

    #[tokio::test(start_paused = true)]
    async fn calls_keep_to_the_rate_in_their_order() {
        // 20 a second after 40 at once. The wait of the last ones is longer than the time limit of a call.
        let calls = begin(&actions(20.0, 40), 400).join_all().await;
        for (order, (number, began)) in (0..).zip(calls) {
            assert_eq!(number, order);
            let expected = 50 * u128::from((number + 1).saturating_sub(40));
            assert_eq!(began.unwrap(), expected, "call {number}");
        }
    }

    /// The server is not there, which does not matter to the delay.
    #[tokio::test(start_paused = true)]
    async fn the_delay_by_the_rate_is_observed_by_verb_and_only_with_a_limit() {
        let config = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
        let access = crate::Access::new("a test".into(), config);
        let unlimited = access.actions().unwrap();
        let limited = unlimited.limited(CallRate::of(Some(1.0), Some(1)));
        let binds = async |actions: &Actions| {
            let request = http::Request::post("/bind").body(Vec::new());
            let answer = actions.request("binding", CALL_TIMEOUT, request).await;
            answer.map(|_: serde_json::Value| ()).unwrap_err();
        };
        let shown = || {
            let mut registry = prometheus_client::registry::Registry::default();
            access.requests().register(&mut registry);
            let mut text = String::new();
            prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
            text
        };
        binds(&unlimited).await;
        assert!(!shown().contains("rate_limiter_duration_seconds_count"));
        binds(&limited).await;
        binds(&limited).await;
        let text = shown();
        for line in [
            r#"rate_limiter_duration_seconds_count{host="127.0.0.1:1",verb="POST"} 2"#,
            r#"rate_limiter_duration_seconds_sum{host="127.0.0.1:1",verb="POST"} 1.0"#,
        ] {
            assert!(text.contains(line), "{text}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_is_given_up_takes_no_token() {
        let actions = actions(1.0, 1);
        let mut first = begin(&actions, 3);
        assert!(matches!(first.join_next().await, Some(Ok((0, Ok(0))))));
        drop(first);
        let (_, began) = begin(&actions, 1).join_next().await.unwrap().unwrap();
        assert_eq!(began.unwrap(), 1000);
    }

    #[tokio::test(start_paused = true)]
    async fn a_stop_fails_the_calls_that_wait_and_other_rates_go_on() {
        let actions = actions(1.0, 2);
        let other = actions.limited(CallRate::of(Some(1.0), Some(2)));
        let (mut waiting, mut others) = (begin(&actions, 4), begin(&other, 4));
        for calls in [&mut waiting, &mut others] {
            for _ in 0..2 {
                calls.join_next().await.unwrap().unwrap().1.unwrap();
            }
        }
        actions.end_delays();
        for (_, ended) in waiting.join_all().await {
            let error = ended.unwrap_err();
            assert!(matches!(error, ApiError::Stopped { .. }) && !error.may_pass());
        }
        assert!(
            others
                .join_all()
                .await
                .iter()
                .all(|(_, ended)| ended.is_ok())
        );
        let unlimited = actions.limited(None);
        unlimited.end_delays();
        assert!(
            begin(&unlimited, 9)
                .join_all()
                .await
                .iter()
                .all(|(_, ended)| ended.is_ok())
        );
    }
}
