//! HTTP: an answer out of a file, piece by piece.
//!
//! reads   the file, 64 KiB ahead of the client and no further
//! writes  an answer with its length
//! memory  two pieces a download, [`Downloads::at_once`] downloads
//! drops   downloads beyond these (503), those of a client that takes no piece for so long: the connection ends short
//!         of the length that was announced

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::http::{HeaderValue, Response, StatusCode, header};
use hyper::body::{Frame, SizeHint};
use tokio::sync::{Semaphore, mpsc};

use crate::body::plain;

/// Maximum bytes of a file that are read, and held, at a time.
const PIECE: usize = 64 * 1024;

/// Serves files, a few at a time.
#[derive(Clone)]
pub struct Downloads {
    places: Arc<Semaphore>,
    patience: Duration,
}

impl Downloads {
    /// Allows `count` concurrent downloads, each of which a client may stall for at most `patience`.
    pub fn at_once(count: usize, patience: Duration) -> Self {
        Self { places: Arc::new(Semaphore::new(count)), patience }
    }

    /// The answer with the file at `path`: 404 where it is gone, 503 where too many are under way.
    pub async fn file(&self, path: &Path) -> Response<Body> {
        let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else {
            return plain(StatusCode::SERVICE_UNAVAILABLE, "too many downloads are under way; try again\n");
        };
        let Some((size, mut file)) = opened(path) else { return not_found() };
        let (sender, pieces) = mpsc::channel(1);
        let patience = self.patience;
        tokio::spawn(async move {
            let mut left = size;
            while left > 0 {
                let read = tokio::task::spawn_blocking(move || {
                    let piece = piece_of(&mut file, left);
                    (file, piece)
                });
                let Ok((back, piece)) = read.await else { break };
                file = back;
                left -= piece.as_ref().map_or(left, |piece| piece.len() as u64);
                // The client has gone, or stands.
                if !matches!(tokio::time::timeout(patience, sender.send(piece)).await, Ok(Ok(()))) {
                    break;
                }
            }
            drop(place);
        });
        announced(Body::new(Pieces { pieces, left: size }), size)
    }

    /// The answer to a HEAD request for the file at `path`: that to a GET request, without its body.
    pub fn head(&self, path: &Path) -> Response<Body> {
        opened(path).map_or_else(not_found, |(size, _)| announced(Body::empty(), size))
    }
}

/// The file and its length in bytes, if it is a regular one.
fn opened(path: &Path) -> Option<(u64, File)> {
    let file = File::open(path).ok()?;
    let about = file.metadata().ok().filter(Metadata::is_file)?;
    Some((about.len(), file))
}

fn not_found() -> Response<Body> {
    plain(StatusCode::NOT_FOUND, "there is no such file, or no more\n")
}

fn announced(body: Body, size: u64) -> Response<Body> {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from(size));
    response
}

/// The next piece; an error where the file has become shorter than was announced.
fn piece_of(file: &mut File, left: u64) -> io::Result<Bytes> {
    let mut piece = Vec::with_capacity(PIECE);
    file.take(left.min(PIECE as u64)).read_to_end(&mut piece)?;
    if piece.is_empty() { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(piece.into()) }
}

struct Pieces {
    pieces: mpsc::Receiver<io::Result<Bytes>>,
    left: u64,
}

impl HttpBody for Pieces {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let piece = std::task::ready!(self.pieces.poll_recv(context));
        Poll::Ready(match piece {
            Some(Ok(piece)) => {
                self.left -= piece.len() as u64;
                Some(Ok(Frame::data(piece)))
            }
            Some(Err(why)) => Some(Err(why)),
            None if self.left > 0 => Some(Err(io::ErrorKind::TimedOut.into())),
            None => None,
        })
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn all(response: Response<Body>) -> Result<Vec<u8>, axum::Error> {
        let (mut body, mut bytes) = (response.into_body(), vec![]);
        while let Some(frame) = std::future::poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
            bytes.extend_from_slice(&frame?.into_data().expect("there are no trailers"));
        }
        Ok(bytes)
    }

    #[tokio::test]
    async fn a_file_comes_whole_and_so_many_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let bytes: Vec<u8> = (0..5 * PIECE as u32 / 2).map(|n| (n / 7) as u8).collect();
        let path = folder.path().join("it");
        std::fs::write(&path, &bytes).unwrap();
        let downloads = Downloads::at_once(1, Duration::from_secs(60));
        let first = downloads.file(&path).await;
        assert_eq!(first.headers()[header::CONTENT_LENGTH], bytes.len().to_string());
        assert_eq!(downloads.file(&path).await.status(), StatusCode::SERVICE_UNAVAILABLE);
        let head = downloads.head(&path);
        assert_eq!(
            (head.status(), &head.headers()[header::CONTENT_LENGTH]),
            (StatusCode::OK, &first.headers()[header::CONTENT_LENGTH])
        );
        assert!(all(head).await.unwrap().is_empty(), "and it needs no place");
        assert!(all(first).await.unwrap() == bytes);
        // A separate task returns the place.
        while downloads.places.available_permits() == 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(downloads.file(&folder.path().join("no")).await.status(), StatusCode::NOT_FOUND);
        assert_eq!(downloads.file(folder.path()).await.status(), StatusCode::NOT_FOUND);
        assert_eq!(downloads.head(folder.path()).status(), StatusCode::NOT_FOUND);
    }

    #[tokio::test]
    async fn a_file_that_was_cut_is_no_whole_answer() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("it");
        std::fs::write(&path, vec![7; 4 * PIECE]).unwrap();
        let response = Downloads::at_once(1, Duration::from_secs(60)).file(&path).await;
        std::fs::write(&path, [7; 10]).unwrap();
        assert!(all(response).await.is_err());
    }

    #[tokio::test]
    async fn stalled_download_frees_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("it");
        std::fs::write(&path, vec![7; 9 * PIECE]).unwrap();
        let downloads = Downloads::at_once(1, Duration::from_millis(1));
        let response = downloads.file(&path).await;
        drop(downloads.places.acquire().await.unwrap());
        assert!(all(response).await.is_err());
    }
}
