//! Shows a scene during the scenario: as a picture on a terminal, else as lines of progress. It is drawn by a separate
//! thread, so that a slow terminal delays nothing.

use super::{
    picture::{self, LEAST, TALLEST},
    scene::{Fate, Scene, Stage},
};
use evictd_command::View;
use ratatui::{
    Terminal, TerminalOptions, Viewport,
    backend::CrosstermBackend,
    layout::{Position, Rect},
};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
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

/// The thread that shows the scene.
pub struct Screen {
    over: Arc<AtomicBool>,
    thread: JoinHandle<bool>,
}

impl Screen {
    /// Starts to show it.
    pub fn start(stage: Stage) -> io::Result<Self> {
        let over = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&over);
        let thread = thread::Builder::new()
            .name("screen".to_owned())
            .spawn(move || show(&stage, &ends))?;
        Ok(Self { over, thread })
    }

    /// Shows the final scene; returns whether it is a picture that stays visible.
    pub fn finish(self) -> bool {
        self.over.store(true, Ordering::Release);
        self.thread.thread().unpark();
        // If the picture fails, the scenario continues.
        self.thread.join().unwrap_or(false)
    }
}

fn show(stage: &Stage, over: &AtomicBool) -> bool {
    let mut canvas = Canvas::open();
    loop {
        let last = over.load(Ordering::Acquire);
        let scene = stage.scene().clone();
        // If the terminal is closed the error cannot be shown anywhere.
        let _ = canvas.show(&scene);
        if last {
            return matches!(canvas, Canvas::Picture(_));
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

/// Space for the summary line and the shell's prompt below the picture.
const BELOW: u16 = 2;

/// Draws at the top of the terminal, so that the last frame stays visible above the text that follows.
struct Picture {
    terminal: Terminal<CrosstermBackend<Stdout>>,
    colour: bool,
    _quiet: Quiet,
}

impl Picture {
    /// `None` if there is no terminal, or it is too small.
    fn open() -> Option<Self> {
        let dumb = env::var_os("TERM").is_none_or(|term| term == "dumb");
        if dumb || !io::stdout().is_terminal() {
            return None;
        }
        let size = tcgetwinsize(io::stdout()).ok()?;
        let (columns, rows) = (size.ws_col, size.ws_row);
        if columns < LEAST.0 || rows < LEAST.1 + BELOW {
            return None;
        }
        let quiet = Quiet::begin();
        // The old content is scrolled out of sight, so that the terminal need not be asked for its cursor position:
        // some do not answer.
        let mut out = io::stdout();
        out.write_all("\n".repeat(usize::from(rows)).as_bytes())
            .ok()?;
        let height = (rows - BELOW).min(TALLEST);
        let viewport = Viewport::Fixed(Rect::new(0, 0, columns, height));
        let backend = CrosstermBackend::new(out);
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

/// Switches off the echo of keys while it lives; Ctrl-C still works.
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

/// The part that was printed already.
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
            let line = View::of_stdout().hanging(&format!("{at:6.2} s  "), line);
            writeln!(out, "{line}")
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
            let who = decision.eviction.as_ref().map_or("no pod", |it| &it.pod);
            tell(&format!("{who} is evicted: {}", decision.why))?;
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
