//! One object on its way: held as text while it is short, parsed while it arrives if it is long.

use super::Outline;
use super::budget::Budget;
use super::outline::Scanner;
use serde::de::DeserializeOwned;
use std::io::{self, Read};
use std::sync::{Mutex, MutexGuard, PoisonError, mpsc as std_mpsc};
use std::thread;
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};

/// A longer object is parsed while it arrives.
const SHORT: usize = 64 << 10;
/// A longer object is skipped. etcd takes 1.5 MiB, and each byte may take six in JSON.
const LONGEST: usize = 32 << 20;
/// An object of more objects and lists is skipped: `{}` may take a hundred times its length in memory.
const MOST_PARTS: usize = 32 << 10;
/// Parts that wait for the parser.
const WAITING: usize = 4;

/// An object that arrives in parts.
#[derive(Debug)]
pub(super) struct Incoming<T> {
    is_event: bool,
    budget: Budget,
    bytes: usize,
    state: State<T>,
}

#[derive(Debug)]
enum State<T> {
    Short(Vec<u8>),
    Long(Box<Long<T>>),
}

/// An object that has arrived.
#[derive(Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "it is taken apart where it is made"
)]
pub(super) enum Arrived<T> {
    /// Its text.
    Short(Vec<u8>),
    /// Its length, and the parsed object.
    Long(usize, Result<T, TooLong>),
}

/// A long object that was not parsed.
#[derive(Debug)]
pub(super) struct TooLong {
    /// The type of the event.
    pub(super) event: String,
    pub(super) outline: Box<Outline>,
    pub(super) problem: String,
}

impl<T: DeserializeOwned + Send + 'static> Incoming<T> {
    /// The next object, or event of a watch.
    pub(super) fn new(is_event: bool, budget: &Budget) -> Self {
        Self {
            is_event,
            budget: budget.clone(),
            bytes: 0,
            state: State::Short(Vec::new()),
        }
    }

    /// Whether a long object has begun, for which others wait.
    pub(super) const fn is_long(&self) -> bool {
        matches!(self.state, State::Long(_))
    }

    pub(super) async fn push(&mut self, part: &[u8]) {
        self.bytes += part.len();
        match &mut self.state {
            State::Short(text) => {
                text.extend_from_slice(part);
                if text.len() > SHORT {
                    let text = std::mem::take(text);
                    let scanner = if self.is_event {
                        Scanner::of_event()
                    } else {
                        Scanner::default()
                    };
                    let mut long = Box::new(Long::begin(scanner, &self.budget).await);
                    long.push(text, self.bytes).await;
                    self.state = State::Long(long);
                }
            }
            State::Long(long) => long.push(part.to_vec(), self.bytes).await,
        }
    }

    /// The object is complete; the next one begins.
    pub(super) async fn end(&mut self) -> Arrived<T> {
        let bytes = std::mem::take(&mut self.bytes);
        let next = State::Short(Vec::new());
        match std::mem::replace(&mut self.state, next) {
            State::Short(text) => Arrived::Short(text),
            State::Long(long) => Arrived::Long(bytes, long.end().await),
        }
    }

    /// Gives the room of a short text back for the next one.
    pub(super) fn recycle(&mut self, mut text: Vec<u8>) {
        if let State::Short(next) = &mut self.state {
            text.clear();
            text.shrink_to(4096);
            *next = text;
        }
    }
}

#[derive(Debug)]
struct Long<T> {
    scanner: Scanner,
    parser: Option<Parser<T>>,
    /// Why it is skipped.
    problem: Option<String>,
}

/// A thread that parses the parts sent to it. The turn bounds the parsers of a program to one.
#[derive(Debug)]
struct Parser<T> {
    parts: mpsc::Sender<Vec<u8>>,
    parsed: oneshot::Receiver<serde_json::Result<T>>,
}

impl<T: DeserializeOwned + Send + 'static> Parser<T> {
    fn start(turn: Option<OwnedSemaphorePermit>) -> io::Result<Self> {
        let (parts, received) = mpsc::channel(WAITING);
        let (done, parsed) = oneshot::channel();
        on_parsing_thread(Box::new(move || {
            // The watch may have ended meanwhile.
            let _ = done.send(parse(received));
            turn
        }))?;
        Ok(Self { parts, parsed })
    }
}

impl<T: DeserializeOwned + Send + 'static> Long<T> {
    async fn begin(scanner: Scanner, budget: &Budget) -> Self {
        let (parser, problem) = match Parser::start(budget.turn().await) {
            Ok(parser) => (Some(parser), None),
            Err(error) => (None, Some(format!("no thread to parse it: {error}"))),
        };
        Self {
            scanner,
            parser,
            problem,
        }
    }

    async fn push(&mut self, part: Vec<u8>, bytes: usize) {
        self.scanner.feed(&part);
        if bytes > LONGEST {
            self.skip(format!("it has more than {} MiB", LONGEST >> 20));
        } else if self.scanner.opened() > MOST_PARTS {
            self.skip(format!(
                "it has more than {MOST_PARTS} objects and lists in it"
            ));
        } else if let Some(parser) = &self.parser {
            // A parser that has found a mistake takes no more.
            let _ = parser.parts.send(part).await;
        }
    }

    fn skip(&mut self, problem: String) {
        if self.parser.take().is_some() {
            self.problem = Some(problem);
        }
    }

    async fn end(self) -> Result<T, TooLong> {
        let Self {
            scanner,
            parser,
            problem,
        } = self;
        let mut problem = problem.unwrap_or_default();
        if let Some(Parser { parts, parsed }) = parser {
            drop(parts);
            match parsed.await {
                Ok(Ok(parsed)) => return Ok(parsed),
                Ok(Err(error)) => problem = error.to_string(),
                Err(_) => "the thread that parsed it has ended".clone_into(&mut problem),
            }
        }
        let (event, outline) = scanner.finish();
        Err(TooLong {
            event,
            outline: outline.into(),
            problem,
        })
    }
}

/// The parsing of one object. It returns the turn, so that the next object finds the thread idle.
type Job = Box<dyn FnOnce() -> Option<OwnedSemaphorePermit> + Send>;

/// Threads that have parsed an object and wait for the next one. Allocators keep the memory of a thread that has ended, so a
/// new thread for each object would take more and more.
static IDLE: Mutex<Vec<std_mpsc::Sender<Job>>> = Mutex::new(Vec::new());

fn idle_threads() -> MutexGuard<'static, Vec<std_mpsc::Sender<Job>>> {
    IDLE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a job on a thread of its own. It is not one of the runtime's threads for blocking calls, because all of those may
/// hang in a runtime of containers or on a disk.
fn on_parsing_thread(mut job: Job) -> io::Result<()> {
    loop {
        let idle = idle_threads().pop();
        let Some(thread) = idle else {
            break;
        };
        match thread.send(job) {
            Ok(()) => return Ok(()),
            Err(ended) => job = ended.0,
        }
    }
    let (sender, jobs) = std_mpsc::channel::<Job>();
    let thread = thread::Builder::new().name("parse".to_owned());
    thread.spawn(move || {
        let mut next = Some(job);
        while let Some(job) = next {
            let turn = job();
            idle_threads().push(sender.clone());
            drop(turn);
            next = jobs.recv().ok();
        }
    })?;
    Ok(())
}

fn parse<T: DeserializeOwned>(coming: mpsc::Receiver<Vec<u8>>) -> serde_json::Result<T> {
    let parts = Parts {
        coming,
        part: Vec::new(),
        read: 0,
    };
    let mut deserializer = serde_json::Deserializer::from_reader(io::BufReader::new(parts));
    let parsed = T::deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(parsed)
}

/// The parts one after the other.
struct Parts {
    coming: mpsc::Receiver<Vec<u8>>,
    part: Vec<u8>,
    read: usize,
}

impl Read for Parts {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.read == self.part.len() {
            match self.coming.blocking_recv() {
                Some(part) => (self.part, self.read) = (part, 0),
                None => return Ok(0),
            }
        }
        let rest = &self.part[self.read..];
        let length = rest.len().min(into.len());
        into[..length].copy_from_slice(&rest[..length]);
        self.read += length;
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use std::time::Duration;
    use tokio::runtime::Builder;
    use tokio::time::timeout;

    #[test]
    fn a_long_object_is_parsed_although_all_threads_for_blocking_calls_hang() {
        let mut runtime = Builder::new_current_thread();
        let runtime = runtime
            .max_blocking_threads(1)
            .enable_time()
            .build()
            .unwrap();
        let (release, hanging) = std_mpsc::channel::<()>();
        runtime.spawn_blocking(move || hanging.recv());
        let object = json!({ "metadata": { "name": "a" }, "spec": "x".repeat(2 * SHORT) });
        let arrived = runtime.block_on(async {
            let mut incoming = Incoming::<Value>::new(false, &Budget::default());
            incoming.push(object.to_string().as_bytes()).await;
            timeout(Duration::from_secs(30), incoming.end()).await
        });
        drop(release);
        match arrived.unwrap() {
            Arrived::Long(_, parsed) => assert_eq!(parsed.unwrap(), object),
            Arrived::Short(_) => panic!("the object is long"),
        }
    }
}
