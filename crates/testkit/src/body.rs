//! A body that is sent line by line, and may be cut off.

use hyper::body::{Body, Bytes, Frame};
use serde_json::Value;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::sync::mpsc;

/// JSON as Go writes it. Characters that HTML and JavaScript would misread are escaped: `<` takes six bytes.
pub(crate) fn encoded(value: &Value) -> String {
    const ESCAPED: [(char, &str); 5] = [
        ('<', "\\u003c"),
        ('>', "\\u003e"),
        ('&', "\\u0026"),
        ('\u{2028}', "\\u2028"),
        ('\u{2029}', "\\u2029"),
    ];
    // Outside of texts JSON has none of them.
    let mut text = value.to_string();
    for (plain, escaped) in ESCAPED {
        if text.contains(plain) {
            text = text.replace(plain, escaped);
        }
    }
    text
}

/// Why an answer ends before its end: the connection was cut on command.
#[derive(Debug, thiserror::Error)]
#[error("cut on command")]
pub(crate) struct Cut;

/// Parts that a task sends; an error cuts the connection.
pub(crate) type Lines = mpsc::Sender<Result<Bytes, Cut>>;

#[derive(Debug)]
pub(crate) struct Streamed {
    lines: mpsc::Receiver<Result<Bytes, Cut>>,
    /// Cuts the connection once the parts sent before are written.
    cut: Option<Cut>,
}

impl Streamed {
    pub(crate) fn new() -> (Lines, Self) {
        let (lines, received) = mpsc::channel(64);
        let streamed = Self {
            lines: received,
            cut: None,
        };
        (lines, streamed)
    }
}

impl Body for Streamed {
    type Data = Bytes;
    type Error = Cut;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Cut>>> {
        if let Some(cut) = self.cut.take() {
            return Poll::Ready(Some(Err(cut)));
        }
        match self.lines.poll_recv(context) {
            Poll::Ready(Some(Err(cut))) => {
                // The server flushes its buffer when it has to wait for more.
                self.cut = Some(cut);
                context.waker().wake_by_ref();
                Poll::Pending
            }
            line => line.map(|line| line.map(|line| line.map(Frame::data))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn json_is_escaped_as_by_the_real_server_and_means_the_same() {
        let value = json!({"<key>": "a < b && c > d \u{2028}\u{2029} é \" \\ <"});
        let text = encoded(&value);
        assert_eq!(
            text,
            "{\"\\u003ckey\\u003e\":\"a \\u003c b \\u0026\\u0026 c \\u003e d \\u2028\\u2029 é \\\" \\\\ \\u003c\"}"
        );
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
    }
}
