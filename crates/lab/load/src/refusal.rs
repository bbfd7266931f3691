//! Classifies refusals. Nodes have no error codes for them, only messages.
//!
//! source  the messages of geth, anvil, hardhat, CometBFT's ledgers and ours

/// The meaning of a node's refusal, whatever its words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The node already has the transaction.
    Known,
    /// The pool has no room now.
    Full,
    /// The fee is below what a block requires.
    Fee,
    /// The nonce is used.
    NonceUsed,
    /// The nonce is above the next one, and this node queues nothing: Hardhat processes a batch in any order.
    NonceAhead,
    /// The account lacks the money.
    Funds,
    /// Any other reason, or words that are not known here.
    Other,
}

const KNOWN: [&str; 5] =
    ["already known", "known transaction", "already imported", "already in mempool", "tx already exists"];
const FULL: [&str; 5] = ["is full", "limit exceeded", "too many", "rate limit", "busy"];
const FEE: [&str; 4] = ["less than block base fee", "below base fee", "fee cap less than", "max fee per gas less than"];
const NONCE_AHEAD: [&str; 2] = ["nonce too high", "nonce is too high"];
const FUNDS: [&str; 4] = ["insufficient funds", "insufficient balance", "enough funds", "lack of funds"];
const NONCE_USED: [&str; 4] = ["nonce too low", "nonce is too low", "replacement", "nonce has already been used"];

impl Reason {
    /// Classifies a node's error message by the words that it contains.
    pub fn of(message: &str) -> Self {
        let message = message.to_ascii_lowercase();
        let any = |words: &[&str]| words.iter().any(|word| message.contains(word));
        match () {
            () if any(&KNOWN) => Self::Known,
            () if any(&FEE) => Self::Fee,
            () if any(&NONCE_USED) => Self::NonceUsed,
            // About the transaction's own gas: no block will ever have room for it.
            () if message.contains("gas limit") => Self::Other,
            () if any(&FUNDS) => Self::Funds,
            () if any(&NONCE_AHEAD) => Self::NonceAhead,
            // A full geth pool accepts only what pays more than its contents, and reports others as underpriced.
            () if any(&FULL) || message.contains("underpriced") => Self::Full,
            () => Self::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_in_the_words_of_nodes() {
        assert_eq!(Reason::of("already known"), Reason::Known);
        assert_eq!(Reason::of("transaction already imported"), Reason::Known);
        assert_eq!(Reason::of("txpool is full"), Reason::Full);
        assert_eq!(Reason::of("transaction underpriced"), Reason::Full);
        assert_eq!(Reason::of("transaction underpriced: gas tip cap 1, minimum needed 2"), Reason::Full);
        assert_eq!(Reason::of("mempool is full: number of txs 8000 (max: 8000)"), Reason::Full);
        assert_eq!(Reason::of("replacement transaction underpriced"), Reason::NonceUsed);
        assert_eq!(Reason::of("nonce too low: next nonce 5, tx nonce 4"), Reason::NonceUsed);
        assert_eq!(Reason::of("max fee per gas less than block base fee"), Reason::Fee);
        assert_eq!(Reason::of("insufficient funds for gas * price + value"), Reason::Funds);
        assert_eq!(Reason::of("Sender doesn't have enough funds to send tx."), Reason::Funds);
        assert_eq!(Reason::of("block gas limit exceeded"), Reason::Other);
        assert_eq!(Reason::of("nonce too high"), Reason::NonceAhead);
        assert_eq!(Reason::of("Nonce too high. Expected nonce to be 7 but got 8."), Reason::NonceAhead);
        assert_eq!(Reason::of("transaction type not supported"), Reason::Other);
    }
}
