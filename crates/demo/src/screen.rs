//! Shows a scene while it is played: as a picture on a terminal, else as lines of progress. A thread of its own draws, so
//! that nothing waits for a slow terminal.

use super::{
    picture::{self, LEAST, TALLEST},
    scene::{Fate, Scene, Stage},
};
use ratatui::{
    Terminal, TerminalOptions, Viewport, backend::CrosstermBackend, crossterm::terminal,
    layout::Position,
};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use std::{
    env,
    io::{self, IsTerminal, Stdout, Write},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

/// Fifteen frames a second.
const FRAME: Duration = Duration::from_millis(66);

/// Whoever shows the scene.
pub struct Screen {
    over: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Screen {
    /// Begins to show it.
    pub fn start(stage: Stage) -> io::Result<Self> {
        let over = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&over);
        let thread = thread::Builder::new()
            .name("screen".to_owned())
            .spawn(move || show(&stage, &ends))?;
        Ok(Self { over, thread })
    }

    /// Shows the scene a last time.
    pub fn finish(self) {
        self.over.store(true, Ordering::Release);
        self.thread.thread().unpark();
        // A picture that failed is no reason for the play to fail.
        let _ = self.thread.join();
    }
}

fn show(stage: &Stage, over: &AtomicBool) {
    let mut canvas = Canvas::open();
    loop {
        let last = over.load(Ordering::Acquire);
        let scene = stage.scene().clone();
        // Nobody can be told that the terminal is gone.
        let _ = canvas.show(&scene);
        if last {
            return;
        }
        thread::park_timeout(FRAME);
    }
}

enum Canvas {
    Picture(Box<Picture>),
    Lines(Progress),
}

impl Canvas {
    fn open() -> Self {
        match Picture::open() {
            Some(picture) => Self::Picture(Box::new(picture)),
            None => Self::Lines(Progress::default()),
        }
    }

    fn show(&mut self, scene: &Scene) -> io::Result<()> {
        match self {
            Self::Picture(picture) => picture.show(scene),
            Self::Lines(progress) => progress.show(scene),
        }
    }
}

/// A part of the terminal below what is there already, so that the last frame stays.
struct Picture {
    terminal: Terminal<CrosstermBackend<Stdout>>,
    colour: bool,
    _quiet: Quiet,
}

impl Picture {
    /// `None` where the picture has no room, or nothing to be drawn on.
    fn open() -> Option<Self> {
        let dumb = env::var_os("TERM").is_none_or(|term| term == "dumb");
        if dumb || !io::stdout().is_terminal() {
            return None;
        }
        let (columns, rows) = terminal::size().ok()?;
        if columns < LEAST.0 || rows <= LEAST.1 {
            return None;
        }
        let quiet = Quiet::begin();
        let viewport = Viewport::Inline((rows - 1).min(TALLEST));
        let backend = CrosstermBackend::new(io::stdout());
        let terminal = Terminal::with_options(backend, TerminalOptions { viewport }).ok()?;
        Some(Self {
            terminal,
            colour: env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
            _quiet: quiet,
        })
    }

    fn show(&mut self, scene: &Scene) -> io::Result<()> {
        let colour = self.colour;
        self.terminal.draw(|frame| {
            let area = frame.area();
            picture::draw(scene, area, frame.buffer_mut());
            if !colour {
                picture::without_colour(frame.buffer_mut());
            }
        })?;
        Ok(())
    }
}

impl Drop for Picture {
    fn drop(&mut self) {
        let bottom = self.terminal.get_frame().area().bottom();
        let below = Position::new(0, bottom.saturating_sub(1));
        let _ = self.terminal.set_cursor_position(below);
        let _ = self.terminal.show_cursor();
        let _ = writeln!(io::stdout());
    }
}

/// Keys are not shown while this lives; Ctrl-C still ends the demo.
struct Quiet(Option<Termios>);

impl Quiet {
    fn begin() -> Self {
        let found = tcgetattr(io::stdin()).ok();
        if let Some(found) = &found {
            let mut quiet = found.clone();
            quiet.local_modes.remove(LocalModes::ECHO);
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, &quiet);
        }
        Self(found)
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        if let Some(found) = &self.0 {
            let _ = tcsetattr(io::stdin(), OptionalActions::Flush, found);
        }
    }
}

/// What has been told already.
#[derive(Default)]
struct Progress {
    begun: bool,
    crossed: bool,
    decided: usize,
    gone: usize,
}

impl Progress {
    fn show(&mut self, scene: &Scene) -> io::Result<()> {
        let mut out = io::stdout().lock();
        let mut tell = |line: &str| {
            let at = scene.now.duration_since(scene.started).as_secs_f64();
            writeln!(out, "{at:6.2} s  {line}")
        };
        if !self.begun && !scene.signals.is_empty() {
            self.begun = true;
            tell(&format!(
                "{} pods run; {}",
                scene.pods.len(),
                scene.scenario.story()
            ))?;
        }
        let mut marks = scene.signals.iter().flat_map(|signal| &signal.marks);
        if !self.crossed && marks.any(|mark| mark.crossed_since.is_some()) {
            self.crossed = true;
            tell(&format!("{} is below its threshold", scene.signal()))?;
        }
        for act in scene.acts.iter().skip(self.decided) {
            let decision = &act.decision;
            let who = decision.eviction.as_ref().map_or("nobody", |it| &it.pod);
            tell(&format!("{who} goes: {}", decision.why))?;
        }
        self.decided = scene.acts.len();
        let gone = |pod: &&super::scene::PodLine| pod.fate == Fate::Gone;
        let all: Vec<_> = scene.pods.iter().filter(gone).collect();
        if all.len() > self.gone {
            self.gone = all.len();
            let names: Vec<&str> = all.iter().map(|pod| pod.pod.as_str()).collect();
            tell(&format!("gone: {}", names.join(", ")))?;
        }
        out.flush()
    }
}
