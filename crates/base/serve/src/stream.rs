//! A connection's socket, which other code may inspect while it is served, and which knows when an answer is sent.
//!
//! reads   the socket
//! writes  the socket
//!
//! An answer is in progress until the kernel has its last byte. The server's own buffer is empty when it flushes, so
//! the first flush after the end of a body is the end of the request.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, ready};

use axum::body::{Body, Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use crate::connection_slots::ConnectionSlot;

/// A connection's socket; a flush reports finished answers to the connection's slot.
pub(crate) struct Stream {
    socket: Arc<TcpStream>,
    place: Arc<ConnectionSlot>,
    answers: Arc<Answers>,
}

/// Answers whose body has ended and whose bytes may still be buffered.
#[derive(Default)]
pub(crate) struct Answers(AtomicUsize);

impl Stream {
    /// Over a socket; `answers` are those of [`Answer`].
    pub fn new(socket: Arc<TcpStream>, place: Arc<ConnectionSlot>, answers: Arc<Answers>) -> Self {
        Self { socket, place, answers }
    }
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            ready!(self.socket.poll_read_ready(cx))?;
            match self.socket.try_read(buffer.initialize_unfilled()) {
                Ok(count) => {
                    buffer.advance(count);
                    return Poll::Ready(Ok(()));
                }
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => {}
                Err(why) => return Poll::Ready(Err(why)),
            }
        }
    }
}

impl Stream {
    fn write(&self, cx: &mut Context<'_>, send: impl Fn() -> io::Result<usize>) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.socket.poll_write_ready(cx))?;
            match send() {
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => {}
                sent => return Poll::Ready(sent),
            }
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.write(cx, || self.socket.try_write(bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.write(cx, || self.socket.try_write_vectored(pieces))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // No buffer remains between this and the kernel.
        (0..self.answers.0.swap(0, SeqCst)).for_each(|_| self.place.end());
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(socket2::SockRef::from(&*self.socket).shutdown(std::net::Shutdown::Write))
    }
}

/// A request's body. While some of it is missing, the connection is idle: it may have to make room for another.
pub(crate) struct IncomingBody {
    body: Body,
    place: Arc<ConnectionSlot>,
    is_awaited: bool,
}

impl IncomingBody {
    /// The same body, of the connection with this place.
    pub fn track(body: Body, place: Arc<ConnectionSlot>) -> Body {
        Body::new(Self { body, place, is_awaited: false })
    }

    fn end(&mut self) {
        if std::mem::take(&mut self.is_awaited) {
            self.place.end_body();
        }
    }
}

impl Drop for IncomingBody {
    fn drop(&mut self) {
        self.end();
    }
}

impl HttpBody for IncomingBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        match &polled {
            Poll::Pending if !self.is_awaited => {
                self.is_awaited = true;
                self.place.begin_body();
            }
            Poll::Ready(None | Some(Err(_))) => self.end(),
            Poll::Pending | Poll::Ready(Some(Ok(_))) => {}
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A request under way, from its head to the end of its answer's body; from there to its last byte in [`Answers`].
pub(crate) struct Answer {
    answers: Arc<Answers>,
}

impl Answer {
    /// Begins a request, whose head has been read.
    pub fn begin(place: &ConnectionSlot, answers: &Arc<Answers>) -> Self {
        place.begin();
        Self { answers: Arc::clone(answers) }
    }

    /// The body that it ends with.
    pub fn with(self, body: Body) -> Body {
        Body::new(Tracked { body, _answer: self })
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        self.answers.0.fetch_add(1, SeqCst);
    }
}

/// An answer's body that reports its end.
struct Tracked {
    body: Body,
    _answer: Answer,
}

impl HttpBody for Tracked {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
