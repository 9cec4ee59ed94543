//! A body that is sent line by line, and may be cut off.

use hyper::body::{Body, Bytes, Frame};
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::sync::mpsc;

/// Why an answer ends before its end: the connection was cut on command.
#[derive(Debug, thiserror::Error)]
#[error("cut on command")]
pub(crate) struct Cut;

/// What a task sends; an error cuts the connection.
pub(crate) type Lines = mpsc::Sender<Result<Bytes, Cut>>;

#[derive(Debug)]
pub(crate) struct Streamed {
    lines: mpsc::Receiver<Result<Bytes, Cut>>,
    /// That the connection is to be cut once what was sent before is out.
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
                // The server writes out what it has when it has to wait for more.
                self.cut = Some(cut);
                context.waker().wake_by_ref();
                Poll::Pending
            }
            line => line.map(|line| line.map(|line| line.map(Frame::data))),
        }
    }
}
