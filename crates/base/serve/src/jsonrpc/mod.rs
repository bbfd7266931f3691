//! JSON-RPC 2.0: parses a request or a batch, and formats the answers, independent of the methods.
//!
//! reads   the text of a request
//! writes  the text of an answer; nothing for notifications
//! memory  a few words for each request of a batch, which point into its text, for at most one more than
//!         [`Bounds::batch_read`]; the answers, at most [`Bounds::batch_bytes`], and one answer
//! drops   invalid requests, and answers that do not fit: each gets an error in the [`Dialect`]'s terms, counted
//! source  jsonrpc.org/specification
//!
//! Data flow: `request` parses the text, the [`Answerer`] answers each call, and `answers` writes the results.
//! Parameters are not parsed in between: the answerer gets their text. Where the specification leaves a choice, clients
//! depend on the behaviour of their chain's nodes: these choices are the constants of a [`Dialect`].

mod answers;
mod error;
mod request;
#[cfg(test)]
mod tests;

use std::iter::Peekable;
use std::sync::atomic::Ordering::Relaxed;

use crate::counters::{CountedEvent, Counts, count};
use answers::Answers;
pub use error::{
    ErrorObject, INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, Malformed, PARSE_ERROR, kind,
};
pub use request::Call;
use request::Request;

/// A method's error type, and the behaviour of a chain's nodes where the specification leaves a choice.
pub trait Dialect: Into<ErrorObject> + Send {
    /// Whether an answer's id stands before its result, or after it.
    const ID_FIRST: bool;
    /// Whether `true` and `false` are ids.
    const BOOLEAN_IDS: bool;
    /// Whether the answer to a text that is not admitted has the id of its first request that wants an answer, in a
    /// list if the text is a batch. Otherwise it is one answer without an id.
    const REFUSALS_HAVE_IDS: bool;
    /// Whether nothing more of a batch is executed after an answer that does not fit.
    const STOPS_WHEN_FULL: bool;

    /// The error for a text, or a part of it, that is no request.
    fn malformed(why: Malformed<'_>) -> Self;

    /// Returns the error in place of an answer that exceeds its limit by `over` bytes.
    fn too_long(over: usize) -> Self;
}

/// A server's methods, and its say on how many requests it takes at once.
pub trait Answerer: Sync {
    /// Error type of the calls.
    type Failure: Dialect;

    /// Admits or rejects this number of requests in one text. It may exceed [`Bounds::batch_read`], but at most one
    /// more was read.
    fn admit(&self, requests: usize) -> Result<(), Self::Failure>;

    /// Returns the result of a call, as JSON.
    fn call(&self, call: Call<'_>) -> impl Future<Output = Result<String, Self::Failure>> + Send;

    /// Returns `Some` if this call and adjacent similar ones should be answered by one [`Answerer::call_together`]: the
    /// maximum bytes of each answer besides its id. The calls are not made if the answers might not fit.
    fn burst(&self, _call: &Call<'_>) -> Option<usize> {
        None
    }

    /// Returns the results of calls that make a burst, one for each.
    fn call_together(&self, _calls: Vec<Call<'_>>) -> impl Future<Output = Vec<Result<String, Self::Failure>>> + Send {
        std::future::ready(Vec::new())
    }
}

/// Limits for a text's answers.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Requests of a batch that are read; one more is, too, so that the answerer sees that there are more.
    pub batch_read: usize,
    /// Bytes of the answer to a batch.
    pub batch_bytes: usize,
    /// Bytes of the answer to a request that is alone.
    pub answer_bytes: usize,
}

/// The answer to a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Text to send; `None` if no request wants an answer.
    pub text: Option<String>,
    /// The code of the error with which the whole text was refused.
    pub refused: Option<i64>,
}

/// Answers a text: a request or a batch.
pub async fn answer<A: Answerer>(text: &[u8], bounds: Bounds, counts: &dyn Counts, answerer: &A) -> Reply {
    let is_batch = text.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[');
    let read = match is_batch {
        true => request::read_batch(text, bounds.batch_read, A::Failure::BOOLEAN_IDS),
        false => request::read_one(text, A::Failure::BOOLEAN_IDS).map(|request| vec![request]),
    };
    let requests = match read {
        Ok(requests) => requests,
        Err(why) => return refused(A::Failure::malformed(Malformed::NotJson(why)), "null", false, counts),
    };
    if requests.is_empty() {
        return refused(A::Failure::malformed(Malformed::EmptyBatch), "null", false, counts);
    }
    if let Err(failure) = answerer.admit(requests.len()) {
        let id = requests.iter().find_map(|request| request.id).filter(|_| A::Failure::REFUSALS_HAVE_IDS);
        let in_list = is_batch && A::Failure::REFUSALS_HAVE_IDS;
        return refused(failure, id.unwrap_or("null"), in_list, counts);
    }
    counts.word(CountedEvent::Requests).fetch_add(requests.len() as u64, Relaxed);
    let bytes_max = if is_batch { bounds.batch_bytes } else { bounds.answer_bytes };
    let mut answers = Answers::new(is_batch, bytes_max, counts);
    answer_each(requests, &mut answers, answerer).await;
    Reply { text: answers.end(), refused: None }
}

async fn answer_each<A: Answerer>(requests: Vec<Request<'_>>, answers: &mut Answers<'_, A::Failure>, answerer: &A) {
    let mut rest = requests.into_iter().peekable();
    while let Some(Request { id, call }) = rest.next() {
        let call = match call {
            Ok(_) if answers.are_full() => {
                answers.refuse(id);
                continue;
            }
            Ok(call) => call,
            Err(why) => {
                answers.push(id, Err(A::Failure::malformed(why)));
                continue;
            }
        };
        let Some(bytes_each) = answerer.burst(&call) else {
            let result = answerer.call(call).await;
            answers.push(id, result);
            continue;
        };
        let (ids, calls) = take_burst((id, call), &mut rest, answerer);
        // Make no call whose answer could not be sent.
        if !answers.reserve(&ids, bytes_each) {
            ids.into_iter().for_each(|id| answers.refuse(id));
            continue;
        }
        let results = answerer.call_together(calls).await;
        assert_eq!(results.len(), ids.len(), "each call of a burst has a result");
        for (id, result) in ids.into_iter().zip(results) {
            answers.push(id, result);
        }
    }
}

/// Takes the requests that are answered together with the one before them.
fn take_burst<'a, A: Answerer>(
    (id, call): (Option<&'a str>, Call<'a>),
    rest: &mut Peekable<std::vec::IntoIter<Request<'a>>>,
    answerer: &A,
) -> (Vec<Option<&'a str>>, Vec<Call<'a>>) {
    let (mut ids, mut calls) = (vec![id], vec![call]);
    while let Some(next) = rest.next_if(|next| next.call.as_ref().is_ok_and(|call| answerer.burst(call).is_some())) {
        ids.push(next.id);
        calls.extend(next.call);
    }
    (ids, calls)
}

/// Builds the answer to a text that is rejected as a whole.
fn refused<F: Dialect>(failure: F, id: &str, in_list: bool, counts: &dyn Counts) -> Reply {
    count(counts.word(CountedEvent::Requests));
    count(counts.word(CountedEvent::Errors));
    let error: ErrorObject = failure.into();
    let code = error.code();
    let mut text = String::new();
    answers::push_answer(&mut text, F::ID_FIRST, id, Err(error));
    let text = if in_list { format!("[{text}]") } else { text };
    Reply { text: Some(text), refused: Some(code) }
}

/// Returns the text of a notification, whose parameters are JSON.
pub fn notification(method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{params}}}"#)
}
