//! hash_query: queries other nodes about a differing bank hash, on its own thread, since the node may be stopped
//! meanwhile.
//!
//! reads   the findings of that thread
//! writes  the error with which the node ends
//! memory  one question
//! drops   an answer that arrives after the node was stopped

use std::sync::mpsc::{Receiver, TryRecvError};

use hearth_wire::Hash;
use hearth_wire::base58::encode_32;
use parking_lot::{Mutex, MutexGuard};

use super::DivergenceError;

/// Used instead of an answer if the node ends first.
const UNKNOWN: &str = "Which account differs first is not known: the node ended before others had said";
/// Used instead of an answer if there can be none.
const NOT_ASKED: &str = "Which account differs first is not known: the thread that asks other nodes could not run";

/// A slot whose bank hash differs from the cluster's.
pub struct HashMismatch {
    /// The slot of the block with two hashes.
    pub slot: u64,
    /// The bank hash that the cluster voted for.
    pub theirs: Hash,
    /// The bank hash of its execution here.
    pub ours: Hash,
    /// Receives a sentence about the first account that differs.
    pub differs: Receiver<String>,
}

impl HashMismatch {
    fn error(self, differs: String) -> DivergenceError {
        let [theirs, ours] = [self.theirs, self.ours].map(|hash| encode_32(&hash).to_string());
        DivergenceError::Mismatch { slot: self.slot, theirs, ours, differs }
    }
}

/// The pending question, if there is one.
#[derive(Default)]
pub struct HashQuery(Mutex<Option<HashMismatch>>);

impl HashQuery {
    fn question(&self) -> MutexGuard<'_, Option<HashMismatch>> {
        self.0.lock()
    }

    /// Starts waiting for the answer to this question.
    pub fn begin(&self, question: HashMismatch) {
        *self.question() = Some(question);
    }

    /// Whether an answer is pending.
    pub fn is_open(&self) -> bool {
        self.question().is_some()
    }

    /// Returns the error with the answer, once it has arrived.
    pub fn poll(&self) -> Option<DivergenceError> {
        let mut open = self.question();
        let question = open.take()?;
        match question.differs.try_recv() {
            Ok(differs) => Some(question.error(differs)),
            Err(TryRecvError::Disconnected) => Some(question.error(NOT_ASKED.into())),
            Err(TryRecvError::Empty) => {
                *open = Some(question);
                None
            }
        }
    }

    /// Returns the error now, with or without the answer.
    pub fn end(&self) -> Option<DivergenceError> {
        self.poll().or_else(|| self.question().take().map(|question| question.error(UNKNOWN.into())))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};

    use super::*;

    fn asking() -> (HashQuery, Sender<String>) {
        let (sender, differs) = channel();
        let asking = HashQuery::default();
        asking.begin(HashMismatch { slot: 7, theirs: [1; 32], ours: [2; 32], differs });
        (asking, sender)
    }

    fn answer(error: Option<DivergenceError>) -> Option<String> {
        match error {
            Some(DivergenceError::Mismatch { slot: 7, differs, .. }) => Some(differs),
            _ => None,
        }
    }

    #[test]
    fn error_comes_with_the_answer() {
        let (asking, sender) = asking();
        assert!(asking.poll().is_none() && asking.is_open());
        sender.send("an account".into()).unwrap();
        assert_eq!(answer(asking.poll()).as_deref(), Some("an account"));
        assert!(!asking.is_open() && asking.end().is_none(), "once");
    }

    #[test]
    fn stopped_node_does_not_wait_for_the_answer() {
        let (asking, _sender) = asking();
        assert_eq!(answer(asking.end()).as_deref(), Some(UNKNOWN));
        assert!(!asking.is_open());
    }

    #[test]
    fn thread_that_ends_without_an_answer_is_not_waited_for() {
        let (asking, sender) = asking();
        drop(sender);
        assert_eq!(answer(asking.poll()).as_deref(), Some(NOT_ASKED));
    }
}
