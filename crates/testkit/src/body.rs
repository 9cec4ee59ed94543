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
pub(crate) struct Streamed(mpsc::Receiver<Result<Bytes, Cut>>);

impl Streamed {
    pub(crate) fn new() -> (Lines, Self) {
        let (lines, received) = mpsc::channel(64);
        (lines, Self(received))
    }
}

impl Body for Streamed {
    type Data = Bytes;
    type Error = Cut;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Cut>>> {
        let line = self.0.poll_recv(context);
        line.map(|line| line.map(|line| line.map(Frame::data)))
    }
}
