//! The port to the server of plugin `extender`.

use std::fmt::Debug;
use std::time::Duration;

/// Sends the calls of plugin `extender` to its server (S6-224). A session waits for each of them, so an implementation bounds
/// their time together, and the size of answers.
pub trait ExtenderCalls: Debug + Send + Sync {
    /// A session begins, and with it the time for all its calls.
    fn begin(&self);

    /// Whether no further call of the session can succeed: a call had no answer in time, or all took too long together.
    fn is_over(&self) -> bool;

    /// Sends a POST request with a JSON body. Returns the text of an answer with status 200.
    ///
    /// # Errors
    /// There is no such answer in time. The text says why, and does not name the URL.
    fn post(&self, url: &str, within: Duration, body: Vec<u8>) -> Result<String, String>;
}
