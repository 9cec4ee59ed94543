//! The calls of plugin extender in batch sessions.

use evictd_batch::session::ExtenderCalls;
use evictd_cluster_client::BlockingCalls;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tracing::{debug, info, warn};

/// A session waits no longer for all its calls together, because pods of profiles wait meanwhile.
const OF_SESSION: Duration = Duration::from_secs(5);

/// Calls over HTTP, with the first failure in the log.
#[derive(Debug)]
pub(super) struct HttpCalls {
    calls: BlockingCalls,
    failed: AtomicBool,
}

impl HttpCalls {
    pub(super) fn new() -> Self {
        Self {
            calls: BlockingCalls::new(OF_SESSION),
            failed: AtomicBool::new(false),
        }
    }
}

impl ExtenderCalls for HttpCalls {
    fn begin(&self) {
        self.calls.begin();
    }

    fn is_over(&self) -> bool {
        self.calls.is_over()
    }

    fn post(&self, url: &str, within: Duration, body: Vec<u8>) -> Result<String, String> {
        let answer = self.calls.post(url, within, body);
        let failed = self.failed.swap(answer.is_err(), Ordering::Relaxed);
        match &answer {
            Ok(_) if failed => info!("the extender answers again: {url}"),
            Ok(_) => {}
            Err(problem) if failed => debug!("extender {url}: {problem}"),
            Err(problem) => warn!("extender {url}: {problem}"),
        }
        answer
    }
}
