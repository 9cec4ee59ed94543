//! Calls that change something.

use super::answer::text;
use super::token_bucket::{CallRate, TokenBucket};
use super::{ApiError, Peer};
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
}

impl Actions {
    /// With this client, which must not retry by itself.
    pub fn new(client: Client) -> Self {
        Self {
            client,
            peer: Peer::ApiServer,
            limiter: None,
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
        let call = async {
            let request = request.map_err(kube::Error::HttpError)?;
            client.request(request).await
        };
        self.call(what, within, call).await
    }

    /// The same for a server that is not trusted: at most so many bytes of the answer are read.
    pub async fn request_at_most<T: DeserializeOwned>(
        &self,
        what: &str,
        (within, longest): (Duration, usize),
        request: http::Result<http::Request<Vec<u8>>>,
    ) -> Result<T, ApiError> {
        let client = self.client();
        let call = async {
            let request = request.map_err(kube::Error::HttpError)?;
            let text = text(client, request, longest).await?;
            serde_json::from_str(&text).map_err(kube::Error::SerdeError)
        };
        self.call(what, within, call).await
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
        if let Some(limiter) = &self.limiter
            && !limiter.turn().await
        {
            let what = what.to_owned();
            return Err(ApiError::Stopped { what });
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
