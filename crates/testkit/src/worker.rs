//! A thread with a runtime of its own, which ends when it is dropped.

use std::io;
use std::thread::JoinHandle;
use tokio::sync::oneshot;

#[derive(Debug)]
pub(crate) struct Worker {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    pub(crate) fn start<W, F>(name: &str, work: W) -> io::Result<Self>
    where
        W: FnOnce() -> F + Send + 'static,
        F: Future<Output = ()>,
    {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || {
                runtime.block_on(async {
                    tokio::select! {
                        () = work() => {}
                        _ = stopped => {}
                    }
                });
            })?;
        Ok(Self {
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // The only error is a panic, and its message is on stderr already.
            let _ = thread.join();
        }
    }
}
