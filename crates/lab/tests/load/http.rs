//! A server of HTTP on 127.0.0.1, a thread a connection, that may break off.
//!
//! reads   requests with a Content-Length
//! writes  what it is told to

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

/// What becomes of a request.
pub enum Reply {
    /// An answer.
    Answer(String),
    /// A status, and nothing else.
    Status(u16),
    /// The first half of an answer, and the connection is closed.
    Half(String),
    /// The connection is closed without a word.
    Silence,
}

/// Serves as long as the process lives; gives the URL.
pub fn serve(answer: impl Fn(&[u8]) -> Reply + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let answer = Arc::new(answer);
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let answer = answer.clone();
            thread::spawn(move || converse(stream, &*answer));
        }
    });
    url
}

/// One connection, to its end.
fn converse(stream: TcpStream, answer: &dyn Fn(&[u8]) -> Reply) -> Option<()> {
    let mut reader = BufReader::new(stream);
    loop {
        let body = read_body(&mut reader)?;
        let (status, text) = match answer(&body) {
            Reply::Answer(text) => (200, text),
            Reply::Status(status) => (status, String::new()),
            Reply::Half(text) => {
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", text.len());
                reader.get_mut().write_all(format!("{head}{}", &text[..text.len() / 2]).as_bytes()).ok()?;
                return None;
            }
            Reply::Silence => return None,
        };
        let head = format!("HTTP/1.1 {status} x\r\nContent-Length: {}\r\n\r\n", text.len());
        reader.get_mut().write_all(format!("{head}{text}").as_bytes()).ok()?;
    }
}

fn read_body(reader: &mut BufReader<TcpStream>) -> Option<Vec<u8>> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        if line == "\r\n" {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(body)
}
