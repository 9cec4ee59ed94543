//! Interrupts an attempt from outside. The pure core reads no clock: the caller passes a function that returns whether
//! the time is over.

use core::fmt;
use core::sync::atomic::{AtomicBool, Ordering};

/// The message of every node after an interrupt.
pub const INTERRUPTED: &str = "the attempt took too long and was ended";

/// The interrupt of an attempt. Once raised, every filter fails at once, so that loops over nodes, members and victims
/// end soon. The caller discards their result.
#[derive(Default)]
pub struct Interrupt {
    ask: Option<Box<dyn Fn() -> bool + Send + Sync>>,
    /// Whether an attempt runs that may be interrupted.
    armed: bool,
    raised: AtomicBool,
}

impl Interrupt {
    /// Sets the function that decides whether to interrupt.
    pub fn ask(&mut self, ask: impl Fn() -> bool + Send + Sync + 'static) {
        self.ask = Some(Box::new(ask));
    }

    /// Starts an attempt.
    pub fn begin(&mut self) {
        self.armed = true;
        *self.raised.get_mut() = false;
    }

    /// Ends an attempt. Returns whether it was interrupted.
    pub fn end(&mut self) -> bool {
        self.armed = false;
        std::mem::take(self.raised.get_mut())
    }

    /// Whether the interrupt was raised at the last look.
    pub fn is_raised(&self) -> bool {
        self.raised.load(Ordering::Relaxed)
    }

    /// Calls the function and returns whether the attempt is interrupted.
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
