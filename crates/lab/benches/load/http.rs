//! As much of an HTTP server as a sink needs, a thread a connection.
//!
//! reads   requests with a Content-Length
//! writes  answers

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

/// Serves as long as the process lives; gives the URL. An answer is written behind what the buffer has.
pub fn serve(answer: impl Fn(&[u8], &mut Vec<u8>) + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("it is bound"));
    let answer = Arc::new(answer);
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let answer = answer.clone();
            thread::spawn(move || converse(stream, &*answer));
        }
    });
    url
}

fn converse(mut stream: TcpStream, answer: &dyn Fn(&[u8], &mut Vec<u8>)) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let (mut buffer, mut chunk, mut out, mut text) = (vec![], vec![0; 256 << 10], vec![], vec![]);
    loop {
        let (head, length) = loop {
            if let Some(found) = head_of(&buffer) {
                break found;
            }
            buffer.extend_from_slice(read(&mut stream, &mut chunk)?);
        };
        while buffer.len() < head + length {
            buffer.extend_from_slice(read(&mut stream, &mut chunk)?);
        }
        text.clear();
        answer(&buffer[head..head + length], &mut text);
        out.clear();
        out.extend_from_slice(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", text.len()).as_bytes());
        out.extend_from_slice(&text);
        stream.write_all(&out).ok()?;
        buffer.drain(..head + length);
    }
}

fn read<'a>(stream: &mut TcpStream, chunk: &'a mut [u8]) -> Option<&'a [u8]> {
    let length = stream.read(chunk).ok().filter(|length| *length > 0)?;
    Some(&chunk[..length])
}

/// Where a request's head ends, and how long its body is.
fn head_of(buffer: &[u8]) -> Option<(usize, usize)> {
    let end = buffer.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let head = str::from_utf8(&buffer[..end]).ok()?.to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:"))?.trim().parse().ok()?;
    Some((end, length))
}
