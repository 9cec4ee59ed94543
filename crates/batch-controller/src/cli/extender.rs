//! The server of plugin extender, which commands ask only where that is wanted.

use clap::Args;
use evictd_batch::conf::Conf;
use evictd_batch::session::{ExtenderCalls, Setting};
use evictd_cluster_client::BlockingCalls;
use evictd_command::warn;
use std::sync::Arc;
use std::time::Duration;

/// How long one session waits for all its calls together, as in the scheduler.
const OF_SESSION: Duration = Duration::from_secs(5);

#[derive(Debug, Args)]
pub(super) struct ExtenderFlag {
    /// Asks and notifies the server of plugin extender, as the scheduler does. Without it the plugin is left out.
    #[arg(long)]
    ask_extender: bool,
}

#[derive(Debug)]
struct HttpCalls(BlockingCalls);

impl ExtenderCalls for HttpCalls {
    fn begin(&self) {
        self.0.begin();
    }

    fn is_over(&self) -> bool {
        self.0.is_over()
    }

    fn post(&self, url: &str, within: Duration, body: Vec<u8>) -> Result<String, String> {
        let answer = self.0.post(url, within, body);
        if let Err(problem) = &answer {
            warn("evictd-batch", &format!("extender {url}: {problem}"));
        }
        answer
    }
}

impl ExtenderFlag {
    /// The settings of sessions with the way to the server, if it is to be asked.
    pub(super) fn setting(&self, setting: Setting) -> Setting {
        let calls = || Arc::new(HttpCalls(BlockingCalls::new(OF_SESSION)));
        Setting {
            extender: self.ask_extender.then(|| calls() as Arc<dyn ExtenderCalls>),
            ..setting
        }
    }

    /// Says that the server of a configuration is not asked.
    pub(super) fn warn(&self, conf: &Conf) {
        if let Some(url) = conf.extender().filter(|_| !self.ask_extender) {
            warn("evictd-batch", &not_asked(url, "--ask-extender asks it"));
        }
    }
}

/// The warning about a server that is not asked.
pub(super) fn not_asked(url: &str, advice: &str) -> String {
    format!("plugin extender has no say, because its server {url} is not asked; {advice}")
}
