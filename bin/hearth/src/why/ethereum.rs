//! `hearth why 0x…`: the fate of a transaction of the Ethereum chain, or of the UTXO ledger next to it.
//!
//! reads   an EVM node's answer to `hearth_transactionFate` and, for details, to methods that every such node serves
//! writes  the fate, in the format of `getTransactionFate` on a Solana node
//! memory  one answer at a time

use hearth_command::node_rpc::{self, Rpc, RpcError};
use hearth_node::config::LocalNode;
use serde_json::{Value, json};

use super::{NONE_HERE, WhyError, place};
use crate::local_nodes;

/// Digits of a transaction's hash.
const HASH_DIGITS: usize = 64;
/// Digits of an address.
const ADDRESS_DIGITS: usize = 40;
/// Default address of `hearth evm run`.
const USUAL: &str = "http://127.0.0.1:8545";

/// Whether an argument is meant for this chain; refused where it is, and is no hash.
pub fn is_hash(text: &str) -> Result<bool, WhyError> {
    let Some(digits) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) else { return Ok(false) };
    let is_hexadecimal = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    match digits.len() {
        HASH_DIGITS if is_hexadecimal => Ok(true),
        ADDRESS_DIGITS if is_hexadecimal => Err(WhyError::EthereumAddress(text.into())),
        _ => Err(WhyError::Hash(text.into())),
    }
}

/// Returns the URL of the node to ask when no option names one: the only Ethereum node that runs here.
pub fn usual_place(node: &LocalNode) -> Result<String, WhyError> {
    let running: Vec<String> = local_nodes::running(node).into_iter().filter(|name| name.starts_with("evm-")).collect();
    match &running[..] {
        [] => Ok(USUAL.into()),
        [name] => Ok(format!("http://{}", place(&node.named(name), true)?)),
        _ => Err(WhyError::SeveralEthereum(running)),
    }
}

/// Asks the node at `url` for the fate of the transaction.
pub fn fate(url: &str, hash: &str) -> Result<Value, WhyError> {
    Question { url, hash, rpc: node_rpc::at(url).map_err(|_| WhyError::Url(url.into()))? }.fate()
}

struct Question<'a> {
    url: &'a str,
    hash: &'a str,
    rpc: Rpc,
}

impl Question<'_> {
    fn fate(&mut self) -> Result<Value, WhyError> {
        let known = self.ask("hearth_transactionFate", json!([self.hash]))?;
        let reason = known["reason"].as_str();
        match known["status"].as_str() {
            Some("included") => self.landed(&known),
            Some("pending") => self.pending(&known),
            Some("dropped") => {
                let why = reason.unwrap_or("the node does not say why");
                Ok(self.answer("dropped", format!("It did not land: the pool gave it up. {}", sentence(why)), None))
            }
            Some("unknown") => Ok(self.answer(
                "unknown",
                "The node has no transaction of this hash: not in a block, not in a pool, and not among those that its \
                 pool gave up lately."
                    .into(),
                Some("Was it sent to this node, and did the node answer with this hash?"),
            )),
            _ => Err(WhyError::Answer(self.url.into(), "it has no status".into())),
        }
    }

    fn landed(&mut self, known: &Value) -> Result<Value, WhyError> {
        let receipt = self.ask("eth_getTransactionReceipt", json!([self.hash]))?;
        let at = &if receipt.is_null() { known } else { &receipt }["blockNumber"];
        let block = quantity(at).ok_or_else(|| WhyError::Answer(self.url.into(), "it names no block".into()))?;
        let (explanation, err) = if receipt.is_null() {
            (format!("It landed in block {block}, in the ledger of outputs."), Value::Null)
        } else if receipt["status"] == "0x0" {
            let why = self.failure()?;
            (format!("It landed in block {block} and failed; the gas was paid. {}", sentence(&why)), why.into())
        } else {
            (format!("It landed in block {block} and succeeded."), Value::Null)
        };
        let mut answer = self.answer("landed", explanation, None);
        answer["block"] = json!(u64::try_from(block).ok());
        answer["err"] = err;
        Ok(answer)
    }

    /// Why a transaction in a block failed: the node executes it again.
    fn failure(&mut self) -> Result<String, WhyError> {
        let tracer = json!({ "tracer": "callTracer", "tracerConfig": { "onlyTopCall": true } });
        let traced = match self.ask("debug_traceTransaction", json!([self.hash, tracer])) {
            Err(WhyError::Refused(_, why)) => return Ok(format!("Why is not known any more: {why}")),
            traced => traced?,
        };
        let error = traced["error"].as_str().unwrap_or("the node names no error");
        Ok(match (traced["revertReason"].as_str(), traced["output"].as_str()) {
            (Some(said), _) => format!("{error}: {said}"),
            (None, Some(output)) if output != "0x" => format!("{error}, with {output}"),
            _ => error.into(),
        })
    }

    /// Says what a transaction in a pool waits for.
    fn pending(&mut self, known: &Value) -> Result<Value, WhyError> {
        if let Some(reason) = known["reason"].as_str() {
            let hint = match known.get("waitsForNonce") {
                Some(_) => {
                    "Send the transaction that is missing; this one is executed after all of its account's before it."
                }
                None => {
                    "Send the one that pays too little again, with the same nonce and a higher fee. Waiting helps only \
                         while blocks come: they lower the base fee."
                }
            };
            return Ok(self.answer("pending", format!("It is in the pool. {}", sentence(reason)), Some(hint)));
        }
        let tx = self.ask("eth_getTransactionByHash", json!([self.hash]))?;
        let pays = quantity(&tx["maxFeePerGas"]).or_else(|| quantity(&tx["gasPrice"]));
        let head = self.ask("eth_getBlockByNumber", json!(["latest", false]))?;
        let explanation = match (pays, quantity(&head["baseFeePerGas"])) {
            (Some(pays), Some(costs)) if pays < costs => {
                let words = format!(
                    "It is in the pool and waits for cheaper gas: it pays at most {pays} wei for each, and the newest \
                     block's base fee is {costs}."
                );
                let hint = "Send it again with the same nonce and a higher fee. Waiting helps only while blocks come: they \
                            lower the base fee.";
                return Ok(self.answer("pending", words, Some(hint)));
            }
            _ => "It is in the pool, nothing is missing, and it waits for the next block.",
        };
        Ok(self.answer("pending", explanation.into(), None))
    }

    fn answer(&self, fate: &str, explanation: String, hint: Option<&str>) -> Value {
        json!({
            "hash": self.hash,
            "fate": fate,
            "block": null,
            "err": null,
            "explanation": explanation,
            "hint": hint,
        })
    }

    fn ask(&mut self, method: &str, params: Value) -> Result<Value, WhyError> {
        let url = || self.url.to_owned();
        self.rpc.call(method, &params).map_err(|why| match why {
            RpcError::Url { .. } | RpcError::Host(_) => WhyError::Url(url()),
            RpcError::Refused { code: NONE_HERE, .. } if method == "hearth_transactionFate" => {
                WhyError::OtherChain { url: url(), what: "a hash of the Ethereum chain", node: "hearth evm run" }
            }
            RpcError::Refused { message, .. } => WhyError::Refused(url(), message),
            why => WhyError::NoEthereumNode(url(), why.reason()),
        })
    }
}

/// A number as JSON-RPC writes it.
fn quantity(value: &Value) -> Option<u128> {
    u128::from_str_radix(value.as_str()?.strip_prefix("0x")?, 16).ok()
}

/// Words with a capital letter and a full stop.
fn sentence(words: &str) -> String {
    let mut letters = words.chars();
    let first = letters.next().map(|letter| letter.to_uppercase().to_string()).unwrap_or_default();
    let stop = if words.ends_with('.') { "" } else { "." };
    format!("{first}{}{stop}", letters.as_str())
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::net::TcpListener;

    use hearth_command::exit_code::{ExitCode, WRONG_USE};
    use hearth_testkit::http::serve_calls;

    use super::*;

    const HASH: &str = "0xabababababababababababababababababababababababababababababababab";

    /// The fate that a node's answers by method make; a method without one is not served.
    fn fate_by(answers: &[(&str, Value)]) -> Result<Value, WhyError> {
        let answers: HashMap<String, Value> =
            answers.iter().map(|(method, answer)| ((*method).to_owned(), answer.clone())).collect();
        let url = serve_calls(move |method, _| match answers.get(method) {
            Some(answer) => match answer["code"].as_i64() {
                Some(code) => Err((code, answer["message"].as_str().unwrap().to_owned())),
                None => Ok(answer.clone()),
            },
            None => Err((NONE_HERE, "no such method".into())),
        });
        fate(&url, HASH)
    }

    #[test]
    fn each_fate_says_where_and_why() {
        let words = |answers: &[(&str, Value)]| {
            let fate = fate_by(answers).unwrap();
            (fate["fate"].as_str().unwrap().to_owned(), fate["explanation"].as_str().unwrap().to_owned())
        };
        let status = |status: &str| ("hearth_transactionFate", json!({ "status": status, "blockNumber": "0x1f" }));
        let receipt = |status: &str| {
            ("eth_getTransactionReceipt", json!({ "status": status, "blockNumber": "0x20", "gasUsed": "0x5208" }))
        };
        let landed = words(&[status("included"), receipt("0x1")]);
        assert_eq!(landed, ("landed".into(), "It landed in block 32 and succeeded.".into()));
        let reverted = json!({ "error": "execution reverted", "revertReason": "no bread today" });
        let failed = [status("included"), receipt("0x0"), ("debug_traceTransaction", reverted)];
        assert!(words(&failed).1.ends_with("failed; the gas was paid. Execution reverted: no bread today."));
        assert_eq!(fate_by(&failed).unwrap()["err"], "execution reverted: no bread today");
        let old = json!({ "code": -32000, "message": "the state is not available" });
        let failed = words(&[status("included"), receipt("0x0"), ("debug_traceTransaction", old)]).1;
        assert!(failed.ends_with("Why is not known any more: the state is not available."), "{failed}");
        let outputs = words(&[status("included"), ("eth_getTransactionReceipt", Value::Null)]).1;
        assert_eq!(outputs, "It landed in block 31, in the ledger of outputs.");
        let gap = json!({
            "status": "pending",
            "waitsForNonce": "0x4",
            "reason": "it waits for a transaction of its account with nonce 4",
        });
        let hint = |known: &Value| fate_by(&[("hearth_transactionFate", known.clone())]).unwrap()["hint"].clone();
        assert!(hint(&gap).as_str().is_some_and(|hint| hint.contains("that is missing")));
        let cheap = json!({ "status": "pending", "reason": "it waits for its account's transaction with nonce 0" });
        assert!(hint(&cheap).as_str().is_some_and(|hint| hint.contains("a higher fee")));
        let gap = words(&[("hearth_transactionFate", gap)]);
        assert_eq!(gap.0, "pending");
        assert!(gap.1.ends_with("It waits for a transaction of its account with nonce 4."), "{}", gap.1);
        let tx = |fee: &str| ("eth_getTransactionByHash", json!({ "maxFeePerGas": fee }));
        let head = ("eth_getBlockByNumber", json!({ "baseFeePerGas": "0xa" }));
        let cheap = words(&[status("pending"), tx("0x9"), head.clone()]).1;
        assert!(cheap.contains("at most 9 wei") && cheap.contains("base fee is 10"), "{cheap}");
        assert!(words(&[status("pending"), tx("0xa"), head]).1.ends_with("waits for the next block."));
        let dropped = json!({ "status": "dropped", "reason": "nonce too low: next nonce 9, tx nonce 0" });
        let dropped = words(&[("hearth_transactionFate", dropped)]);
        assert_eq!(dropped.0, "dropped");
        assert!(dropped.1.ends_with("Nonce too low: next nonce 9, tx nonce 0."), "{}", dropped.1);
        assert_eq!(words(&[status("unknown")]).0, "unknown");
    }

    #[test]
    fn a_node_of_another_chain_is_named() {
        let error = fate_by(&[]).unwrap_err().to_string();
        assert!(error.contains("a hash of the Ethereum chain") && error.contains("hearth evm run"), "{error}");
        // Nothing listens on a port that was just released.
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let error = fate(&format!("http://{free}"), HASH).unwrap_err().to_string();
        assert!(error.contains("no answer") && error.contains("--url"), "{error}");
    }

    #[test]
    fn hashes_are_known_by_their_digits() {
        assert!(is_hash(HASH).unwrap() && is_hash(&HASH.to_uppercase()).unwrap());
        assert!(
            !is_hash("5VERv8NMvzbJMEkV8xnrLkEaWRtSz9CosKDYjCJjBRnbJLgp8uirBgmQpjKhoR4tjF3ZpRzrFmBV6UjKdiSZkQUW")
                .unwrap()
        );
        let address = format!("0x{}", "ab".repeat(20));
        assert!(is_hash(&address).unwrap_err().to_string().contains("is an address"));
        for wrong in ["0x", "0xabc", &format!("0x{}", "zz".repeat(32))] {
            let error = is_hash(wrong).unwrap_err();
            assert!(error.exit_code() == WRONG_USE && error.to_string().contains("64 hexadecimal digits"), "{error}");
        }
    }
}
