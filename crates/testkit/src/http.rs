//! A minimal HTTP server, for tests of clients of other servers than Kubernetes' own.
#![allow(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "in a test a panic is the report"
)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

/// The head and the body of a request.
pub type Request = (String, Vec<u8>);

/// Answers `count` requests with a code and a body, each over a separate connection. The returned function waits for the last
/// one and returns all requests.
pub fn serve(
    count: usize,
    reply: impl Fn(&str) -> (&'static str, String) + Send + 'static,
) -> (SocketAddr, impl FnOnce() -> Vec<Request>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let exchange = move |_| {
        let (stream, _) = listener.accept().unwrap();
        let mut reader = BufReader::new(stream);
        let request = read(&mut reader);
        let (code, body) = reply(request.0.lines().next().unwrap());
        let size = body.len();
        let text =
            format!("HTTP/1.1 {code}\r\nContent-Length: {size}\r\nConnection: close\r\n\r\n{body}");
        reader.get_mut().write_all(text.as_bytes()).unwrap();
        request
    };
    let server = thread::spawn(move || (0..count).map(exchange).collect());
    (address, || server.join().unwrap())
}

/// Answers every request until the test ends, each in a separate thread.
pub fn serve_all(
    reply: impl Fn(&str, &[u8]) -> (&'static str, String) + Send + Sync + 'static,
) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let reply = Arc::new(reply);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut reader, reply) = (BufReader::new(stream.unwrap()), Arc::clone(&reply));
            thread::spawn(move || {
                let (head, body) = read(&mut reader);
                let (code, body) = reply(head.lines().next().unwrap(), &body);
                let size = body.len();
                let text = format!(
                    "HTTP/1.1 {code}\r\nContent-Type: application/json\r\nContent-Length: {size}\r\n\
                     Connection: close\r\n\r\n{body}"
                );
                // The client may have closed the connection.
                let _ = reader.get_mut().write_all(text.as_bytes());
            });
        }
    });
    address
}

fn read(reader: &mut BufReader<TcpStream>) -> Request {
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        if line.trim().is_empty() {
            break;
        }
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        head += &line;
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    (head, body)
}
