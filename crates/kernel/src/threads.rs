//! The daemon's threads: created when it starts, and kept until it ends.
//!
//! On a node whose process ids are exhausted no thread can be created, and that is when this daemon is needed. So
//! all blocking calls have their threads in advance. Calls that end sooner or later (name resolution, files of
//! credentials, manifests) use tokio's `spawn_blocking`, whose threads [`fill`] starts and which tokio never ends.
//! Calls that may hang in the kernel for ever (a filesystem whose server is away) use a separate [`Pool`].

use nix::poll::{PollTimeout, poll};
use std::{
    collections::VecDeque,
    fmt, fs, io,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError,
        mpsc::{Sender, channel},
    },
    thread::Builder,
};
use tokio::{runtime::Handle, sync::oneshot};

/// Threads for calls that end sooner or later.
pub const BLOCKING_THREADS: usize = 4;
/// Threads for calls that may hang: the walks that hang, one walk that does not, and the three filesystems that are
/// watched.
const POOL_THREADS: usize = Pool::HANGING_WALKS + 4;
/// The most jobs that may wait for a thread. Every caller waits for its previous job first, so this is never
/// reached.
const QUEUE: usize = 64;
/// Stack size; a walk needs this much, and all of it may be locked into memory.
const STACK_BYTES: usize = 128 << 10;
/// How often, at intervals of a millisecond, to check whether an exited thread's id is free again.
const ID_CHECKS: usize = 1000;

/// The pool of the daemon.
static POOL: OnceLock<Pool> = OnceLock::new();

thread_local! {
    /// The pool of a thread of another program, such as a test: all that it starts shares one.
    static OF_THREAD: Pool = Pool::new();
}

/// Why a job cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum NoThread {
    /// The pool has no thread, and the kernel does not give one.
    #[error("no thread can be created (pids.max, TasksMax or threads-max is reached)")]
    None(#[source] io::Error),
    /// All threads are occupied by calls that hang.
    #[error("all threads for calls that may hang are hanging")]
    Busy,
}

type Job = Box<dyn FnOnce() + Send>;

/// Threads for calls that may hang. A call that hangs occupies its thread; the end of the program does not wait for
/// it.
#[derive(Debug, Clone)]
pub struct Pool(Arc<Owner>);

/// Dropping the last handle ends the idle threads.
#[derive(Debug)]
struct Owner(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    threads: usize,
    idle: usize,
    closed: bool,
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "State({} threads, {} idle)", self.threads, self.idle)
    }
}

impl Pool {
    /// How many directory walks may hang at once; each occupies a thread.
    pub const HANGING_WALKS: usize = 4;

    /// A pool without threads.
    fn new() -> Self {
        Self(Arc::new(Owner(Arc::new(Shared {
            state: Mutex::default(),
            wake: Condvar::new(),
        }))))
    }

    /// The daemon's pool, whose threads exist already. In other programs that of the calling thread, which starts
    /// threads when they are needed.
    pub fn of_this_process() -> Self {
        let of_thread = || OF_THREAD.with(Self::clone);
        POOL.get().cloned().unwrap_or_else(of_thread)
    }

    /// Whether no job waits or runs.
    pub fn is_idle(&self) -> bool {
        let state = self.0.0.lock();
        state.jobs.is_empty() && state.idle == state.threads
    }

    /// Starts threads until there are `threads`.
    fn start(&self, threads: usize) -> io::Result<()> {
        let shared = &self.0.0;
        let mut state = shared.lock();
        while state.threads < threads {
            shared.start_one(&mut state)?;
        }
        Ok(())
    }

    /// Runs a job; its result arrives at the returned receiver.
    pub fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Result<oneshot::Receiver<T>, NoThread> {
        let (answer, answered) = oneshot::channel();
        self.submit(move || {
            // The caller may have stopped waiting.
            let _ = answer.send(job());
        })?;
        Ok(answered)
    }

    /// Runs a job that delivers its result itself. Never blocks.
    pub fn submit(&self, job: impl FnOnce() + Send + 'static) -> Result<(), NoThread> {
        let shared = &self.0.0;
        let mut state = shared.lock();
        if state.jobs.len() >= QUEUE {
            return Err(NoThread::Busy);
        }
        let all_are_busy = state.jobs.len() >= state.idle;
        // A thread more is worth an attempt at each job: process ids may be free again by now.
        if all_are_busy
            && state.threads < POOL_THREADS
            && let Err(error) = shared.start_one(&mut state)
            && state.threads == 0
        {
            return Err(NoThread::None(error));
        }
        // Without a new thread the job waits for one of the others; only with none at all it is refused.
        state.jobs.push_back(Box::new(job));
        drop(state);
        shared.wake.notify_one();
        Ok(())
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start_one(self: &Arc<Self>, state: &mut State) -> io::Result<()> {
        let shared = Arc::clone(self);
        Builder::new()
            .name("may-hang".to_owned())
            .stack_size(STACK_BYTES)
            .spawn(move || shared.work())?;
        state.threads += 1;
        Ok(())
    }

    fn work(&self) {
        while let Some(job) = self.next() {
            job();
        }
    }

    fn next(&self) -> Option<Job> {
        let mut state = self.lock();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                return Some(job);
            }
            if state.closed {
                return None;
            }
            state.idle += 1;
            state = self
                .wake
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
        }
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.0.lock().closed = true;
        self.0.wake.notify_all();
    }
}

/// Starts one thread of each kind, the minimum for the daemon: three ids in all, including the main thread's. Call
/// it once, before any blocking call; `runtime` must not end idle threads.
pub fn start(runtime: &Handle) -> io::Result<()> {
    let pool = POOL.get_or_init(Pool::new);
    pool.start(1)?;
    // tokio panics if it has no thread and cannot create one, so try to create a thread first.
    try_thread()?;
    occupy(runtime, 1);
    Ok(())
}

/// Starts the other threads, as many as the kernel allows, before anything else runs. Missing ones are tried again
/// when they are needed. Returns how many are missing.
pub fn fill(runtime: &Handle) -> usize {
    let pool = POOL.get_or_init(Pool::new);
    // A failure is reported when the threads are needed.
    let _ = pool.start(POOL_THREADS);
    let before = count();
    occupy(runtime, BLOCKING_THREADS);
    // One was started before.
    let blocking = 1 + count().saturating_sub(before);
    POOL_THREADS + BLOCKING_THREADS - pool.0.0.lock().threads - blocking.min(BLOCKING_THREADS)
}

/// Occupies this many of tokio's blocking threads at once, so that tokio starts them.
fn occupy(runtime: &Handle, threads: usize) {
    let held: Vec<Sender<()>> = (0..threads)
        .map(|_| {
            let (release, released) = channel();
            runtime.spawn_blocking(move || released.recv());
            release
        })
        .collect();
    drop(held);
}

/// Starts a thread that exits at once, and waits until its id is free again.
fn try_thread() -> io::Result<()> {
    // An exited thread keeps its id for a moment, and that id may be the last one that is free.
    let before = count();
    Builder::new().spawn(|| {})?;
    for _ in 0..ID_CHECKS {
        if count() <= before {
            break;
        }
        let _ = poll(&mut [], PollTimeout::from(1_u8));
    }
    Ok(())
}

/// How many threads this process has.
fn count() -> usize {
    fs::read_dir("/proc/self/task").map_or(0, Iterator::count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{sync::mpsc, time::Duration};

    const SOON: Duration = Duration::from_secs(20);

    fn hang(until: &mpsc::Receiver<()>) {
        let _ = until.recv();
    }

    #[test]
    fn a_call_that_hangs_keeps_its_thread_and_no_other() {
        let pool = Pool::new();
        let (release, hanging) = mpsc::channel::<()>();
        pool.submit(move || hang(&hanging)).unwrap();
        for number in 0..10 {
            let answered = pool.run(move || number).unwrap();
            assert_eq!(answered.blocking_recv(), Ok(number));
        }
        assert!(pool.0.0.lock().threads <= POOL_THREADS);
        drop(release);
    }

    #[test]
    fn where_all_hang_jobs_wait_and_too_many_are_refused() {
        let pool = Pool::new();
        let (releases, (done, ended)) = (mpsc::channel(), mpsc::channel());
        for _ in 0..POOL_THREADS {
            let (release, hanging) = mpsc::channel::<()>();
            releases.0.send(release).unwrap();
            pool.submit(move || hang(&hanging)).unwrap();
        }
        let refused = (0..=QUEUE + POOL_THREADS).find_map(|_| {
            let done = done.clone();
            let job = move || done.send(()).unwrap_or_default();
            pool.submit(job).err()
        });
        assert!(matches!(refused, Some(NoThread::Busy)), "{refused:?}");
        drop(releases);
        // Some of the jobs that hang may have been waiting in the queue.
        for _ in POOL_THREADS..QUEUE {
            ended.recv_timeout(SOON).unwrap();
        }
    }

    #[test]
    fn threads_that_have_nothing_to_do_end_with_the_last_handle() {
        let pool = Pool::new();
        pool.start(2).unwrap();
        let shared = Arc::downgrade(&pool.0.0);
        drop(pool.clone());
        assert_eq!(pool.run(|| 1).unwrap().blocking_recv(), Ok(1));
        drop(pool);
        let gone = (0..20_000).any(|_| {
            let _ = poll(&mut [], PollTimeout::from(1_u8));
            shared.strong_count() == 0
        });
        assert!(gone);
    }

    #[test]
    fn threads_exist_before_they_are_needed() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .max_blocking_threads(BLOCKING_THREADS)
            .thread_keep_alive(SOON)
            .build()
            .unwrap();
        occupy(runtime.handle(), BLOCKING_THREADS);
        let (release, (answer, answers)) = (mpsc::channel(), mpsc::channel());
        for _ in 1..BLOCKING_THREADS {
            let (held, hanging) = mpsc::channel::<()>();
            release.0.send(held).unwrap();
            runtime.spawn_blocking(move || hanging.recv());
        }
        runtime.spawn_blocking(move || answer.send("another"));
        assert_eq!(answers.recv_timeout(SOON), Ok("another"));
    }
}
