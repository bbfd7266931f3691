//! Asks a running node by its admin socket.
//!
//! reads   answers, one a line, of [`ANSWER_MAX`] at most
//! writes  requests

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use super::{AdminError, SOCKET_NAME, ShortPath};

/// Time limit for each read and write.
const PATIENCE: Duration = Duration::from_secs(10);
/// Maximum length of an answer in bytes.
const ANSWER_MAX: u64 = 1 << 20;

/// A connection to a node's admin socket.
pub struct AdminClient {
    stream: BufReader<UnixStream>,
    path: PathBuf,
}

impl AdminClient {
    /// Connects to the node whose ledger folder this is.
    ///
    /// # Errors
    ///
    /// No node listens there, or it is another user's.
    pub fn connect(folder: &Path) -> Result<Self, AdminError> {
        let path = folder.join(SOCKET_NAME);
        match connected(folder) {
            Ok(stream) => Ok(Self { stream: BufReader::new(stream), path }),
            Err(source) => Err(AdminError::NoNode { path, source }),
        }
    }

    /// Calls a method, and returns its result.
    ///
    /// # Errors
    ///
    /// The node refuses, or gives no answer.
    pub fn call(&mut self, method: &str) -> Result<Value, AdminError> {
        self.call_with(method, &[])
    }

    /// The same for a method that takes texts as parameters.
    ///
    /// # Errors
    ///
    /// The node refuses, or gives no answer.
    pub fn call_with(&mut self, method: &str, params: &[&str]) -> Result<Value, AdminError> {
        self.call_json(method, &json!(params))
    }

    /// The same for a method that takes other parameters, too: an array of them.
    ///
    /// # Errors
    ///
    /// The node refuses, or gives no answer.
    pub fn call_json(&mut self, method: &str, params: &Value) -> Result<Value, AdminError> {
        let no_answer =
            |path: &Path, why: String| AdminError::NoAnswer { path: path.to_owned(), method: method.to_owned(), why };
        let answer = self.exchange(method, params).map_err(|why| no_answer(&self.path, why.to_string()))?;
        if let Some(error) = answer.get("error") {
            let message = error["message"].as_str().unwrap_or("no reason is given").to_owned();
            let code = error["code"].as_i64().unwrap_or_default();
            return Err(AdminError::Refused { method: method.to_owned(), code, message });
        }
        let result = answer.get("result").filter(|_| answer["id"] == 1).cloned();
        result.ok_or_else(|| no_answer(&self.path, format!("it says {answer}")))
    }

    fn exchange(&mut self, method: &str, params: &Value) -> io::Result<Value> {
        let request = json!({ "jsonrpc": "2.0", "method": method, "params": params, "id": 1 });
        self.stream.get_mut().write_all(format!("{request}\n").as_bytes())?;
        let mut line = vec![];
        self.stream.by_ref().take(ANSWER_MAX).read_until(b'\n', &mut line)?;
        match line.is_empty() {
            true => Err(io::ErrorKind::UnexpectedEof.into()),
            false => Ok(serde_json::from_slice(&line)?),
        }
    }
}

fn connected(folder: &Path) -> io::Result<UnixStream> {
    let stream = UnixStream::connect(ShortPath::to(folder)?.join(SOCKET_NAME))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(stream)
}
