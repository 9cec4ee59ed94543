//! Faults that a test injects.

use crate::call::Call;
use crate::status::Status;
use std::time::Duration;

/// A fault for some requests, some number of times.
///
/// ```
/// use evictd_testkit::Fault;
/// let twice = Fault::answer(503).on("patch", "pods/status").times(2);
/// let slow = Fault::delay(std::time::Duration::from_secs(3)).on("list", "*");
/// ```
#[derive(Debug, Clone)]
pub struct Fault {
    effect: Effect,
    verb: String,
    what: String,
    left: u64,
}

#[derive(Debug, Clone)]
pub(crate) enum Effect {
    Delay(Duration),
    Answer(Status),
    CutAfter(usize),
    Garbage,
}

impl Fault {
    fn new(effect: Effect) -> Self {
        Self {
            effect,
            verb: "*".to_owned(),
            what: "*".to_owned(),
            left: u64::MAX,
        }
    }

    /// The answer comes later. A very long delay is a server that hangs.
    pub fn delay(by: Duration) -> Self {
        Self::new(Effect::Delay(by))
    }

    /// The server answers with this code and does nothing else.
    pub fn answer(code: u16) -> Self {
        let (reason, message) = match code {
            401 => ("Unauthorized", "Unauthorized"),
            403 => ("Forbidden", "forbidden on command"),
            409 => (
                "Conflict",
                "Operation cannot be fulfilled: conflict on command",
            ),
            410 => ("Expired", "too old on command"),
            429 => (
                "TooManyRequests",
                "too many requests, please try again later",
            ),
            503 => (
                "ServiceUnavailable",
                "the server is currently unable to handle the request",
            ),
            504 => ("Timeout", "timeout on command"),
            _ => (
                "InternalError",
                "an error on the server has prevented the request from succeeding",
            ),
        };
        Self::refuse(Status::new(code, reason, message))
    }

    /// The same in words of the test's own, as an admission policy has them.
    pub fn refuse(status: Status) -> Self {
        Self::new(Effect::Answer(status))
    }

    /// The request is carried out, and the connection is cut after so many bytes of the answer's body; with 0 before
    /// its head. A watch is cut after the first line that reaches as far.
    pub fn cut_after(bytes: usize) -> Self {
        Self::new(Effect::CutAfter(bytes))
    }

    /// A list begins with an object that has a wrong shape.
    pub fn garbage() -> Self {
        Self::new(Effect::Garbage)
    }

    /// With the header `Retry-After`, in seconds.
    #[must_use]
    pub fn retry_after(mut self, seconds: u32) -> Self {
        if let Effect::Answer(status) = &mut self.effect {
            status.retry_after = Some(seconds);
        }
        self
    }

    /// Only for a verb on a resource, such as `patch` and `pods/status`; `*` for any.
    #[must_use]
    pub fn on(mut self, verb: &str, what: &str) -> Self {
        verb.clone_into(&mut self.verb);
        what.clone_into(&mut self.what);
        self
    }

    /// Only so often.
    #[must_use]
    pub fn times(mut self, times: u64) -> Self {
        self.left = times;
        self
    }

    fn meets(&self, call: Option<&Call>) -> bool {
        let fits = |wanted: &str, given: &str| wanted == "*" || wanted == given;
        let (verb, what) = call.map_or(("", String::new()), |call| (call.verb, call.what()));
        self.left > 0 && fits(&self.verb, verb) && fits(&self.what, &what)
    }
}

/// The faults of this request. Each fault that fits is used up by one.
pub(crate) fn met(faults: &mut Vec<Fault>, call: Option<&Call>) -> Vec<Effect> {
    let mut effects = Vec::new();
    for fault in faults.iter_mut().filter(|fault| fault.meets(call)) {
        fault.left -= 1;
        effects.push(fault.effect.clone());
    }
    faults.retain(|fault| fault.left > 0);
    effects
}
