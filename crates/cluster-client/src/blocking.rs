//! Calls to servers of others, from code that waits for each answer.

use crate::answer::text;
use crate::{Access, Actions, ApiError};
use hyper::{Request, Uri, header};
use std::collections::HashMap;
use std::io;
use std::sync::{Mutex, PoisonError, mpsc};
use std::time::Duration;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::Instant;

/// The most bytes of an answer.
const LONGEST_ANSWER: usize = 10 << 20;

/// How many callers may wait at once.
const CALLERS: usize = 64;

/// A request to a server.
#[derive(Debug)]
struct Call {
    url: String,
    within: Duration,
    /// The problem without an answer in time. It names the limit and not the time left, so that it is the same in each session.
    late: String,
    body: Vec<u8>,
    answer: mpsc::Sender<Result<String, Failure>>,
}

/// Why a request has no answer.
#[derive(Debug)]
struct Failure {
    problem: String,
    is_timeout: bool,
}

impl From<String> for Failure {
    fn from(problem: String) -> Self {
        Self {
            problem,
            is_timeout: false,
        }
    }
}

/// Sends POST requests on a separate thread, one after the other. All requests between two [`Self::begin`] share one time
/// limit, and after one without an answer in time no further one is sent: a silent server delays the caller once. The thread
/// begins with the first request, and ends when this is dropped.
#[derive(Debug)]
pub struct BlockingCalls {
    /// `None` before the first request, and as long as the system has no thread left.
    calls: Mutex<Option<Sender<Call>>>,
    /// How long the requests between two beginnings may take together.
    all_within: Duration,
    until: Mutex<Instant>,
}

impl BlockingCalls {
    /// Requests that take at most so long together.
    pub fn new(all_within: Duration) -> Self {
        Self {
            calls: Mutex::default(),
            all_within,
            until: Mutex::new(Instant::now() + all_within),
        }
    }

    /// The time limit of all requests starts anew.
    pub fn begin(&self) {
        let mut until = self.until.lock().unwrap_or_else(PoisonError::into_inner);
        *until = Instant::now() + self.all_within;
    }

    /// Whether no request is sent before the next [`Self::begin`].
    pub fn is_over(&self) -> bool {
        self.left().is_zero()
    }

    fn end(&self) {
        *self.until.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    fn left(&self) -> Duration {
        let until = *self.until.lock().unwrap_or_else(PoisonError::into_inner);
        until.saturating_duration_since(Instant::now())
    }

    /// Sends a JSON body. Returns the text of a successful answer of at most 10 MiB.
    ///
    /// # Errors
    /// The URL is no address, or there is no such answer in time. The text does not name the URL.
    pub fn post(&self, url: &str, within: Duration, body: Vec<u8>) -> Result<String, String> {
        let left = self.left();
        if left.is_zero() {
            return Err(
                "not asked, because earlier calls of this session took too long".to_owned(),
            );
        }
        let late = if left < within {
            let limit = self.all_within.as_secs_f64();
            format!("no answer within the {limit} s of this session")
        } else {
            format!("no answer within {} s", within.as_secs_f64())
        };
        let (answer, answered) = mpsc::channel();
        let call = Call {
            url: url.to_owned(),
            within: within.min(left),
            late,
            body,
            answer,
        };
        let no_thread = |error: io::Error| format!("there is no thread for the calls: {error}");
        let calls = self.thread().map_err(no_thread)?;
        // It is full, or the thread has ended.
        let not_sent = |_| "the thread for the calls takes no more of them".to_owned();
        calls.try_send(call).map_err(not_sent)?;
        // The thread has a time limit for each call, so that it always answers.
        let answer = answered.recv();
        let answer = answer.map_err(|_| "the thread for the calls has ended".to_owned())?;
        answer.map_err(|failure| {
            if failure.is_timeout {
                self.end();
            }
            failure.problem
        })
    }

    /// The thread, which is started if it does not run. A system without a thread now may have one later.
    fn thread(&self) -> io::Result<Sender<Call>> {
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        match calls.as_ref().filter(|calls| !calls.is_closed()) {
            Some(calls) => Ok(calls.clone()),
            None => Ok(calls.insert(start()?).clone()),
        }
    }
}

fn start() -> io::Result<Sender<Call>> {
    // Each caller waits for its answer.
    let (calls, received) = channel(CALLERS);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let thread = std::thread::Builder::new().name("extender-calls".to_owned());
    thread.spawn(move || runtime.block_on(serve(received)))?;
    Ok(calls)
}

async fn serve(mut calls: Receiver<Call>) {
    let mut servers = HashMap::new();
    while let Some(call) = calls.recv().await {
        let answer = send(&mut servers, &call).await;
        // The caller may have given up.
        let _ = call.answer.send(answer);
    }
}

/// Clients stay, so that their connections are used again. The servers are those of the configuration, which are few.
async fn send(servers: &mut HashMap<String, Actions>, call: &Call) -> Result<String, Failure> {
    let url: Uri = call.url.parse().map_err(|error| format!("{error}"))?;
    let path = url.path_and_query().map_or("/", |path| path.as_str());
    let origin = call.url.strip_suffix(path).unwrap_or(&call.url);
    if !servers.contains_key(origin) {
        let actions = connect(origin).await.map_err(|error| error.to_string())?;
        servers.insert(origin.to_owned(), actions);
    }
    let actions = servers.get(origin).ok_or_else(|| "no client".to_owned())?;
    let request = Request::post(path)
        .header(header::CONTENT_TYPE, "application/json")
        .body(call.body.clone());
    let client = actions.client();
    let answer = async {
        let request = request.map_err(kube::Error::HttpError)?;
        text(client, request, LONGEST_ANSWER).await
    };
    let what = "extender";
    let answer = actions.call(what, call.within, answer).await;
    answer.map_err(|error| {
        if matches!(error, ApiError::TimedOut { .. }) {
            return Failure {
                problem: call.late.clone(),
                is_timeout: true,
            };
        }
        let message = error.to_string();
        let problem = message.strip_prefix(what).unwrap_or(&message);
        problem.trim_start_matches(": ").to_owned().into()
    })
}

/// Without credentials, and with the certificates that this machine trusts.
async fn connect(origin: &str) -> Result<Actions, ApiError> {
    let cluster = serde_json::json!({ "server": origin });
    let user = serde_json::Value::Null;
    Access::to_server(origin, &cluster, &user).await?.actions()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    const SHORT: Duration = Duration::from_millis(300);

    #[test]
    fn requests_share_one_time_limit_until_it_starts_anew() {
        // Connections are accepted by the system, and nothing answers.
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/verb", silent.local_addr().unwrap());
        let calls = BlockingCalls::new(SHORT);
        let post = || {
            calls
                .post(&url, Duration::from_mins(1), Vec::new())
                .unwrap_err()
        };
        let late = "no answer within the 0.3 s of this session";
        assert_eq!(post(), late);
        assert!(calls.is_over());
        assert_eq!(
            post(),
            "not asked, because earlier calls of this session took too long"
        );
        calls.begin();
        assert!(!calls.is_over());
        assert_eq!(post(), late);
    }

    #[test]
    fn a_server_that_is_absent_or_no_address_is_an_error_of_that_request() {
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/verb", free.local_addr().unwrap());
        drop(free);
        let calls = BlockingCalls::new(Duration::from_mins(1));
        for url in [&*url, "http://a b/"] {
            let problem = calls.post(url, SHORT, Vec::new()).unwrap_err();
            assert!(
                !problem.is_empty() && !problem.contains("thread"),
                "{problem}"
            );
        }
        assert!(!calls.is_over());
    }

    #[test]
    fn a_thread_that_has_ended_is_started_again() {
        let calls = BlockingCalls::new(Duration::from_mins(1));
        let (ended, _) = channel(1);
        *calls.calls.lock().unwrap() = Some(ended);
        let problem = calls.post("http://a b/", SHORT, Vec::new()).unwrap_err();
        assert!(!problem.contains("thread"), "{problem}");
    }
}
