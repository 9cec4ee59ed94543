//! Retries after errors that may pass.

use super::spare::SpareFiles;
use super::{KillError, Retryable};
use std::path::Path;
use std::time::Duration;
use tokio::task::yield_now;
use tokio::time::{Instant, sleep};

/// The first retry is immediate; later ones follow after this pause.
const PAUSE: Duration = Duration::from_millis(3);
/// A permission that is refused for this long is taken as missing.
const PERMISSION_TIMEOUT: Duration = Duration::from_millis(250);

/// The errors since the last success.
pub(super) struct Retry<'a> {
    spare: &'a SpareFiles,
    since: Option<Instant>,
    tries: u32,
    last: Option<KillError>,
}

impl<'a> Retry<'a> {
    pub(super) fn new(spare: &'a SpareFiles) -> Self {
        Self {
            spare,
            since: None,
            tries: 0,
            last: None,
        }
    }

    /// Returns when it is time to retry; or returns the error if a retry cannot help.
    pub(super) async fn retry_after(&mut self, error: KillError) -> Result<(), KillError> {
        let since = *self.since.get_or_insert_with(Instant::now);
        let is_final = match error.retryable() {
            Retryable::Yes => false,
            Retryable::Rarely => since.elapsed() >= PERMISSION_TIMEOUT,
            Retryable::No => true,
        };
        if is_final {
            return Err(error);
        }
        self.spare.release_if_exhausted(&error);
        // One line is enough, because a kill may be tried for long.
        if self.tries == 0 {
            tracing::debug!(%error, "tried again");
        }
        self.tries += 1;
        self.last = Some(error);
        // The cause may be a process that exits just now.
        if self.tries == 1 {
            yield_now().await;
        } else {
            sleep(PAUSE).await;
        }
        Ok(())
    }

    pub(super) fn reset(&mut self) {
        *self = Self::new(self.spare);
    }

    /// The error to report at the deadline; `None` if the last step succeeded.
    pub(super) fn take_error(&mut self, cgroup: &Path) -> Option<KillError> {
        let source = self.last.take()?;
        Some(KillError::GaveUp {
            cgroup: cgroup.to_owned(),
            tries: self.tries,
            over: self.since.map_or(Duration::ZERO, |since| since.elapsed()),
            source: Box::new(source),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cgroup::CgroupError;
    use std::io;

    fn failed(errno: i32) -> KillError {
        KillError::Cgroup(CgroupError::Read {
            path: "pod/cgroup.procs".into(),
            source: io::Error::from_raw_os_error(errno),
        })
    }

    async fn retried_for(error: impl Fn() -> KillError) -> Option<Duration> {
        let spare = SpareFiles::default();
        let mut retry = Retry::new(&spare);
        let start = Instant::now();
        while start.elapsed() < Duration::from_mins(1) {
            if retry.retry_after(error()).await.is_err() {
                return Some(start.elapsed());
            }
        }
        None
    }

    #[tokio::test(start_paused = true)]
    async fn transient_errors_are_retried_and_permanent_ones_are_not() {
        use rustix::io::Errno;
        for errno in [
            Errno::MFILE,
            Errno::NFILE,
            Errno::NOMEM,
            Errno::IO,
            Errno::AGAIN,
            Errno::INTR,
        ] {
            assert_eq!(
                retried_for(|| failed(errno.raw_os_error())).await,
                None,
                "{errno}"
            );
        }
        for errno in [Errno::ACCESS, Errno::PERM] {
            let until = retried_for(|| failed(errno.raw_os_error())).await.unwrap();
            assert!(
                until >= PERMISSION_TIMEOUT && until < PERMISSION_TIMEOUT * 2,
                "{errno}: {until:?}"
            );
        }
        let never = || KillError::ForeignPidNamespace {
            cgroup: "pod".into(),
        };
        assert_eq!(retried_for(never).await, Some(Duration::ZERO));
    }

    #[tokio::test(start_paused = true)]
    async fn a_retry_in_vain_is_reported_with_its_count_and_duration() {
        let spare = SpareFiles::default();
        let mut retry = Retry::new(&spare);
        assert!(retry.take_error(Path::new("pod")).is_none());
        for _ in 0..11 {
            retry.retry_after(failed(5)).await.unwrap();
        }
        let error = retry.take_error(Path::new("pod")).unwrap();
        assert_eq!(
            error.to_string(),
            "cannot kill cgroup pod: 11 attempts in 0.030 s failed"
        );
        retry.retry_after(failed(5)).await.unwrap();
        retry.reset();
        assert!(retry.take_error(Path::new("pod")).is_none());
    }
}
