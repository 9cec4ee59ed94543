//! The smallest HTTP server.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;

/// The head and the body of a request.
pub(crate) type Request = (String, Vec<u8>);

/// Answers so many requests with a code and a body, each over a connection of its own; what is returned waits for the
/// last and gives them all.
pub(crate) fn serve(
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
