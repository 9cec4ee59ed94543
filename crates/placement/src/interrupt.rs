//! A way to end an attempt from outside. No core reads a clock: its caller passes a question that is asked now and then, such
//! as whether the time for an attempt is over.

use core::fmt;
use core::sync::atomic::{AtomicBool, Ordering};

/// The reason of every node from the moment on at which an attempt is to end.
pub const INTERRUPTED: &str = "the attempt took too long and was ended";

/// Whether the attempt that is under way is to end. Once it is, every check of a node fails at once, so that all loops over
/// nodes, members and victims soon end by themselves. What they have found then counts for nothing.
#[derive(Default)]
pub struct Interrupt {
    ask: Option<Box<dyn Fn() -> bool + Send + Sync>>,
    /// Whether an attempt is under way that may be ended.
    armed: bool,
    raised: AtomicBool,
}

impl Interrupt {
    /// Has attempts end where this says so.
    pub fn ask(&mut self, ask: impl Fn() -> bool + Send + Sync + 'static) {
        self.ask = Some(Box::new(ask));
    }

    /// An attempt begins.
    pub fn begin(&mut self) {
        self.armed = true;
        *self.raised.get_mut() = false;
    }

    /// It is over; whether it was ended.
    pub fn end(&mut self) -> bool {
        self.armed = false;
        std::mem::take(self.raised.get_mut())
    }

    /// Whether the attempt is to end, as far as that is known.
    pub fn is_raised(&self) -> bool {
        self.raised.load(Ordering::Relaxed)
    }

    /// Asks whether the attempt is to end.
    pub fn look(&self) -> bool {
        let is_over = self.is_raised() || self.armed && self.ask.as_ref().is_some_and(|ask| ask());
        if is_over {
            self.raised.store(true, Ordering::Relaxed);
        }
        is_over
    }
}

impl fmt::Debug for Interrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Interrupt")
            .field("armed", &self.armed)
            .field("raised", &self.raised)
            .finish_non_exhaustive()
    }
}
