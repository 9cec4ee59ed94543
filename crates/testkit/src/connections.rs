//! Connections of one server, each in a task of its own.

use std::future::Future;
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinSet,
};

/// Never ends; dropped, it ends every connection.
pub(crate) async fn serve<Task>(listener: TcpListener, task: impl Fn(TcpStream) -> Task)
where
    Task: Future<Output: Send + 'static> + Send + 'static,
{
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = connections.join_next() => continue,
        };
        let Ok((stream, _)) = accepted else { continue };
        // Else a small answer in two pieces waits for the client's delayed acknowledgement.
        let _ = stream.set_nodelay(true);
        connections.spawn(task(stream));
    }
}
