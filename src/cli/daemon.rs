//! Sends requests to the running daemon over its socket.

use anyhow::{Context, anyhow};
use clap::Args;
use evictd_command::Failure;
use evictd_node::socket::{DEFAULT_PATH, GROUP};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::{Request, StatusCode, header, http::request::Builder};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::net::UnixStream;
use tokio::time::{Instant, sleep};

/// A daemon that takes longer counts as stuck.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long to wait for figures that the daemon must measure first.
const MEASURED: Duration = Duration::from_secs(5);
const ASK_AGAIN: Duration = Duration::from_millis(200);

/// The address of the daemon.
#[derive(Debug, Clone, Args)]
pub(super) struct Daemon {
    /// The running daemon's socket.
    #[arg(long, value_name = "PATH", default_value = DEFAULT_PATH)]
    socket: PathBuf,
}

impl Daemon {
    /// The daemon on this socket.
    pub(super) fn at(socket: PathBuf) -> Self {
        Self { socket }
    }

    /// Gets the JSON document at `path`.
    pub(super) fn get(&self, path: &str) -> Result<Value, Failure> {
        let (code, answer) = self.answer(path)?;
        judged(code, answer)
    }

    /// The same; `None` if the daemon is of a version that has no such document.
    pub(super) fn get_if_served(&self, path: &str) -> Result<Option<Value>, Failure> {
        match self.answer(path)? {
            (StatusCode::NOT_FOUND, _) => Ok(None),
            (code, answer) => judged(code, answer).map(Some),
        }
    }

    fn answer(&self, path: &str) -> Result<(StatusCode, Value), Failure> {
        wait_for(async {
            let deadline = Instant::now() + MEASURED;
            loop {
                let (code, answer) = match self.ask(Request::get(path), Bytes::new()).await {
                    Err(Failure::Work(error)) if is_broken(&error) && Instant::now() < deadline => {
                        sleep(ASK_AGAIN).await;
                        continue;
                    }
                    asked => asked?,
                };
                // The daemon is measuring for the first time and says so; other answers are final.
                if code != StatusCode::SERVICE_UNAVAILABLE || Instant::now() > deadline {
                    return Ok((code, answer));
                }
                sleep(ASK_AGAIN).await;
            }
        })
    }

    /// Posts a JSON document to `path`; returns the JSON answer.
    pub(super) fn post(&self, path: &str, document: &Value) -> Result<Value, Failure> {
        wait_for(self.send(path, document))
    }

    /// The same inside a runtime.
    pub(super) async fn send(&self, path: &str, document: &Value) -> Result<Value, Failure> {
        let request = Request::post(path).header(header::CONTENT_TYPE, "application/json");
        let (code, answer) = self.ask(request, document.to_string().into()).await?;
        judged(code, answer)
    }

    async fn ask(&self, request: Builder, body: Bytes) -> Result<(StatusCode, Value), Failure> {
        let request = request
            .header(header::HOST, "evictd")
            .body(Full::new(body))?;
        let (code, answer) = tokio::time::timeout(PATIENCE, exchange(&self.socket, request))
            .await
            .unwrap_or_else(|_| {
                let socket = self.socket.display();
                Err(anyhow!("the daemon at {socket} did not answer within {} s; see `systemctl status evictd`", PATIENCE.as_secs()).into())
            })?;
        if code == StatusCode::NOT_FOUND && answer.is_empty() {
            return Ok((code, Value::Null));
        }
        let answer = serde_json::from_slice(&answer).with_context(|| {
            format!("{} answered {code} and not in JSON", self.socket.display())
        })?;
        Ok((code, answer))
    }
}

fn judged(code: StatusCode, answer: Value) -> Result<Value, Failure> {
    if code.is_success() {
        return Ok(answer);
    }
    let error = match answer["error"].as_str() {
        Some(reason) => anyhow!("the daemon refused: {reason}"),
        None => anyhow!("the daemon refused: {code}"),
    };
    // A refusal is about the question; anything else is a fault of the daemon.
    Err(if code.is_client_error() {
        Failure::Input(error)
    } else {
        Failure::Work(error)
    })
}

fn wait_for<T>(answer: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(answer)
}

/// Whether the connection ended before the answer. The daemon closes one whose request is late, as on a node that is
/// short of CPU; a `GET` can be sent again.
fn is_broken(error: &anyhow::Error) -> bool {
    error.is::<hyper::Error>()
}

async fn exchange(
    socket: &Path,
    request: Request<Full<Bytes>>,
) -> Result<(StatusCode, Bytes), Failure> {
    let stream = match UnixStream::connect(socket).await {
        Ok(stream) => stream,
        Err(error) => return Err(unreachable_daemon(socket, error)),
    };
    let broke = || {
        format!(
            "the daemon at {} closed the connection before it had answered",
            socket.display()
        )
    };
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
        .await
        .with_context(broke)?;
    // The request makes progress only while the connection is polled.
    tokio::spawn(connection);
    let response = sender.send_request(request).await.with_context(broke)?;
    let code = response.status();
    let body = response.into_body().collect().await.with_context(broke)?;
    Ok((code, body.to_bytes()))
}

fn unreachable_daemon(socket: &Path, error: std::io::Error) -> Failure {
    let path = socket.display();
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::ConnectionRefused => Failure::Work(anyhow!(
            "no daemon answers at {path}; start it with `systemctl start evictd` or `evictd run`, \
             or name its socket with --socket"
        )),
        ErrorKind::PermissionDenied => Failure::not_permitted(anyhow!(
            "{path} is only for root and the group `{}`; run this with sudo, or join the group \
             (`usermod --append --groups {GROUP} USER`) and log in again",
            group_of(socket)
        )),
        _ => Failure::Work(
            anyhow::Error::new(error).context(format!("cannot reach the daemon at {path}")),
        ),
    }
}

fn group_of(socket: &Path) -> String {
    // A package may have given the socket to another group than the usual one.
    let gid = std::fs::metadata(socket).map(|found| nix::unistd::Gid::from_raw(found.gid()));
    let group = gid
        .ok()
        .and_then(|gid| nix::unistd::Group::from_gid(gid).ok().flatten());
    group.map_or_else(|| GROUP.to_owned(), |group| group.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader, Write};
    use std::os::unix::net::UnixListener;
    use std::thread;

    /// A daemon that answers the last of `connections` with `answer` and closes the others; the thread returns the request line.
    fn daemon(
        connections: usize,
        answer: &'static str,
    ) -> (tempfile::TempDir, Daemon, thread::JoinHandle<String>) {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("evictd.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        let server = thread::spawn(move || {
            for _ in 1..connections {
                drop(listener.accept().unwrap());
            }
            let (mut stream, _) = listener.accept().unwrap();
            let mut line = String::new();
            BufReader::new(&stream).read_line(&mut line).unwrap();
            stream.write_all(answer.as_bytes()).unwrap();
            line
        });
        (directory, Daemon::at(socket), server)
    }

    #[test]
    fn a_question_is_asked_again_when_the_connection_was_closed() {
        let (_directory, daemon, server) =
            daemon(2, "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}");
        let answer = daemon.get("/v1/status").map_err(|_| ());
        assert_eq!(answer, Ok(serde_json::json!({})));
        assert_eq!(server.join().unwrap(), "GET /v1/status HTTP/1.1\r\n");
    }

    #[test]
    fn a_document_that_an_older_daemon_does_not_serve_is_no_failure() {
        let not_found = "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n";
        let (_directory, daemon, server) = daemon(1, not_found);
        let answer = daemon.get_if_served("/v1/near-misses").map_err(|_| ());
        assert_eq!(answer, Ok(None));
        server.join().unwrap();
    }
}
