//! `evictd top`: a live screen of signals, thresholds, and the pods that would be evicted next.

mod picture;

use super::daemon::Daemon;
use clap::Args;
use evictd_command::{Failure, View, write_to_stdout};
use picture::Picture;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyModifiers};
use std::env;
use std::io::{self, IsTerminal};
use std::time::Duration;

const REFRESH: Duration = Duration::from_secs(1);

const EXAMPLE: &str = "Example:
  evictd top
  evictd top | head -20    # not a terminal: one frame";

/// A live screen of signals, thresholds and the pods that would be evicted next; q quits.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct Arguments {
    #[command(flatten)]
    daemon: Daemon,
}

impl Arguments {
    pub(super) fn run(self) -> Result<(), Failure> {
        // At start an unreachable daemon is an error; later it is shown in the picture.
        let mut picture = Picture::take(&self.daemon)?;
        let view = View::of_stdout();
        let dumb = env::var_os("TERM").is_none_or(|term| term == "dumb");
        if dumb || !io::stdout().is_terminal() {
            return write_to_stdout(&picture.page(view));
        }
        let mut terminal = ratatui::try_init()?;
        let outcome = loop {
            if let Err(error) = terminal.draw(|frame| picture.draw(frame, view.has_colour())) {
                break Err(error);
            }
            match quit_within(REFRESH) {
                Ok(true) => break Ok(()),
                Ok(false) => {}
                Err(error) => break Err(error),
            }
            match Picture::take(&self.daemon) {
                Ok(next) => picture = next,
                // The last picture stays on the screen, because the daemon may come back.
                Err(failure) => picture.lost = Some(failure.to_string()),
            }
        };
        // The terminal is restored before an error is shown, which would be lost on the other screen.
        ratatui::try_restore()?;
        Ok(outcome?)
    }
}

/// Waits up to `time`; true if the user asked to quit. Any other event ends the wait early.
fn quit_within(time: Duration) -> io::Result<bool> {
    if !event::poll(time)? {
        return Ok(false);
    }
    Ok(match event::read()? {
        Event::Key(KeyEvent {
            code, modifiers, ..
        }) => {
            let interrupt = code == KeyCode::Char('c') && modifiers.contains(KeyModifiers::CONTROL);
            interrupt || matches!(code, KeyCode::Char('q') | KeyCode::Esc)
        }
        _ => false,
    })
}
