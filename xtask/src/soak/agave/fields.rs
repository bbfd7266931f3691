//! Answers of both nodes, field by field.
//!
//! reads   the answers to the same questions for the same slot
//! writes  one line for each field that differs, with an example
//! memory  the answers, one example for each field

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::{Value, json};

use super::nodes::{AGAVE, OURS, Remote};

/// Fields that may differ, and why: the end of a field's path.
const ALLOWED: [(&str, &str); 1] = [("context.apiVersion", "each program names its own version")];

/// Questions are asked again so often until both nodes have answered for the same slot.
const TRIES: usize = 150;
const TRY_EVERY: Duration = Duration::from_millis(100);
/// Blocks and transactions that are compared.
const BLOCKS: usize = 40;
const TRANSACTIONS: usize = 40;

/// The answers that were compared, and the fields that differ.
#[derive(Debug, Default)]
pub struct Differences {
    /// Answers compared, by method.
    compared: BTreeMap<String, u64>,
    /// By field: how often it differs, and the first example.
    fields: BTreeMap<String, (u64, String)>,
}

impl Differences {
    /// Compares the answers of both nodes to one call.
    pub fn compare(&mut self, method: &str, ours: &Value, theirs: &Value) {
        *self.compared.entry(method.to_owned()).or_default() += 1;
        self.walk(method.to_owned(), ours, theirs);
    }

    fn walk(&mut self, path: String, ours: &Value, theirs: &Value) {
        match (ours, theirs) {
            (Value::Object(here), Value::Object(there)) => {
                for (key, value) in here {
                    self.walk(format!("{path}.{key}"), value, there.get(key).unwrap_or(&Value::Null));
                }
                for (key, value) in there.iter().filter(|(key, _)| !here.contains_key(*key)) {
                    self.walk(format!("{path}.{key}"), &Value::Null, value);
                }
            }
            (Value::Array(here), Value::Array(there)) if here.len() == there.len() => {
                here.iter().zip(there).for_each(|(here, there)| self.walk(format!("{path}[]"), here, there));
            }
            (here, there) if here == there => {}
            _ => {
                let example = || format!("Hearth {}, Agave {}", short(ours), short(theirs));
                self.fields.entry(path).or_insert_with(|| (0, example())).0 += 1;
            }
        }
    }

    /// Notes that a method could not be compared.
    pub fn failed(&mut self, method: &str, why: &str) {
        self.fields.entry(format!("{method}: no answer")).or_insert_with(|| (0, why.to_owned())).0 += 1;
    }

    /// The fields that differ and may not.
    pub fn wrong(&self) -> Vec<String> {
        self.lines().filter(|(_, allowed)| allowed.is_none()).map(|(line, _)| line).collect()
    }

    /// Prints each field that differs.
    pub fn print(&self) {
        println!("answers compared: {}", json!(self.compared));
        for (line, allowed) in self.lines() {
            println!("{line}{}", allowed.map(|why| format!(" (allowed: {why})")).unwrap_or_default());
        }
    }

    /// A line for each field that differs, and why it may.
    fn lines(&self) -> impl Iterator<Item = (String, Option<&'static str>)> {
        self.fields.iter().map(|(field, (count, example))| {
            let allowed = ALLOWED.iter().find(|(end, _)| field.ends_with(*end)).map(|(_, why)| *why);
            (format!("{field} differs {count} times: {example}"), allowed)
        })
    }

    /// The figures of a row: the answers compared, and the fields that differ and may not.
    pub fn figures(&self) -> Value {
        json!({ "answers": self.compared.values().sum::<u64>(), "fields_that_differ": self.wrong() })
    }
}

/// Returns a value's JSON, cut after 120 characters.
fn short(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(120) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// The answers of a node to one question while its slots went by.
#[derive(Default)]
struct Answers {
    /// The first answer for each slot.
    first: BTreeMap<u64, Value>,
    /// Slots for which there was a second answer.
    again: BTreeSet<u64>,
}

impl Answers {
    fn add(&mut self, slot: u64, answer: Value) {
        if self.first.contains_key(&slot) {
            self.again.insert(slot);
        } else {
            self.first.insert(slot, answer);
        }
    }

    /// The answers of both nodes for one slot. Those of Agave count for which there was a second one: while Agave moves
    /// its root it reads accounts at the new one, and names the old one (`scan_accounts` of `solana-accounts-db`).
    fn of_both(ours: &Self, theirs: &Self) -> Option<[Value; 2]> {
        let of = |slot: &u64| Some([ours.first.get(slot)?.clone(), theirs.first.get(slot)?.clone()]);
        theirs.again.iter().find_map(of)
    }
}

/// Asks both nodes the same until they have answered for the same slot, by `slot_of`, and compares those answers. They
/// need not do so at the same time: Agave finalizes a slot one block before others, since it counts its own vote before
/// that has landed.
fn same_slot(found: &mut Differences, method: &str, params: &Value, slot_of: fn(&Value) -> Option<u64>) {
    let mut why = "the nodes never answered for the same slot".to_owned();
    let mut answers = [Answers::default(), Answers::default()];
    for _ in 0..TRIES {
        for (node, answers) in [OURS, AGAVE].into_iter().zip(&mut answers) {
            match node.call(method, params.clone()) {
                Ok(answer) => {
                    if let Some(slot) = slot_of(&answer) {
                        answers.add(slot, answer);
                    }
                }
                Err(error) => why = error,
            }
        }
        if let Some([mut ours, mut theirs]) = Answers::of_both(&answers[0], &answers[1]) {
            sort_votes(&mut ours);
            sort_votes(&mut theirs);
            return found.compare(method, &ours, &theirs);
        }
        std::thread::sleep(TRY_EVERY);
    }
    found.failed(method, &why);
}

/// Sorts the lists of `getVoteAccounts`, which have no order of their own.
fn sort_votes(answer: &mut Value) {
    for kind in ["current", "delinquent"] {
        if let Some(votes) = answer.get_mut(kind).and_then(Value::as_array_mut) {
            votes.sort_by_key(|vote| vote["votePubkey"].as_str().unwrap_or_default().to_owned());
        }
    }
}

/// Compares the six methods that a client sees most: blocks and transactions of the newest finalized slots, accounts,
/// votes and the epoch.
pub fn compare(accounts: &[String]) -> Result<Differences, String> {
    let mut found = Differences::default();
    let finalized = json!({ "commitment": "finalized" });
    let context = |answer: &Value| answer["context"]["slot"].as_u64();
    for account in accounts {
        let params = json!([account, { "commitment": "finalized", "encoding": "base64" }]);
        same_slot(&mut found, "getAccountInfo", &params, context);
    }
    for program in ["Vote111111111111111111111111111111111111111", "Stake11111111111111111111111111111111111111"] {
        let options =
            json!({ "commitment": "finalized", "encoding": "base64", "withContext": true, "sortResults": true });
        same_slot(&mut found, "getProgramAccounts", &json!([program, options]), context);
    }
    same_slot(&mut found, "getEpochInfo", &json!([finalized]), |answer| answer["absoluteSlot"].as_u64());
    // The answer names no slot: the newest vote stands for it.
    same_slot(&mut found, "getVoteAccounts", &json!([finalized]), |answer| {
        answer["current"].as_array()?.iter().filter_map(|vote| vote["lastVote"].as_u64()).max()
    });
    blocks(&mut found)?;
    Ok(found)
}

/// The newest blocks that are final on both, whole, and some of their transactions alone.
fn blocks(found: &mut Differences) -> Result<(), String> {
    let end = [OURS, AGAVE].iter().filter_map(|node| node.slot("finalized")).min().ok_or("a node does not answer")?;
    let first = first_block(OURS)?.max(first_block(AGAVE)?).max(end.saturating_sub(2 * BLOCKS as u64));
    let slots = AGAVE.call("getBlocks", json!([first, end, { "commitment": "finalized" }]))?;
    let slots: Vec<u64> = slots.as_array().into_iter().flatten().filter_map(Value::as_u64).collect();
    let mut signatures = vec![];
    for slot in slots.iter().rev().take(BLOCKS) {
        let options = json!({
            "commitment": "finalized", "encoding": "json", "transactionDetails": "full", "rewards": true,
            "maxSupportedTransactionVersion": 0,
        });
        let params = json!([slot, options]);
        match (OURS.call("getBlock", params.clone()), AGAVE.call("getBlock", params)) {
            (Ok(ours), Ok(theirs)) => {
                found.compare("getBlock", &ours, &theirs);
                let transactions = theirs["transactions"].as_array().into_iter().flatten();
                signatures.extend(transactions.map(|one| one["transaction"]["signatures"][0].clone()));
            }
            (Err(why), _) | (_, Err(why)) => found.failed("getBlock", &format!("slot {slot}: {why}")),
        }
    }
    if slots.is_empty() {
        found.failed("getBlock", "there is no block that is final on both");
    }
    if signatures.is_empty() {
        found.failed("getTransaction", "these blocks have no transactions");
    }
    let every = signatures.len().div_ceil(TRANSACTIONS).max(1);
    for signature in signatures.iter().step_by(every) {
        let options = json!({ "commitment": "finalized", "encoding": "json", "maxSupportedTransactionVersion": 0 });
        let params = json!([signature, options]);
        match (OURS.call("getTransaction", params.clone()), AGAVE.call("getTransaction", params)) {
            (Ok(ours), Ok(theirs)) => found.compare("getTransaction", &ours, &theirs),
            (Err(why), _) | (_, Err(why)) => found.failed("getTransaction", &format!("{signature}: {why}")),
        }
    }
    Ok(())
}

fn first_block(node: Remote) -> Result<u64, String> {
    Ok(node.call("getFirstAvailableBlock", json!([]))?.as_u64().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_field_is_named_once() {
        let mut found = Differences::default();
        let ours = json!({ "a": [{ "b": 1, "c": 2 }, { "b": 3 }], "d": 4, "context": { "apiVersion": "1" } });
        let theirs = json!({ "a": [{ "b": 2, "c": 2 }, { "b": 4 }], "e": 4, "context": { "apiVersion": "2" } });
        found.compare("m", &ours, &theirs);
        let wrong = found.wrong();
        assert_eq!(wrong.len(), 3, "{wrong:?}");
        assert_eq!(wrong[0], "m.a[].b differs 2 times: Hearth 1, Agave 2");
        assert_eq!(wrong[1], "m.d differs 1 times: Hearth 4, Agave null");
        assert_eq!(wrong[2], "m.e differs 1 times: Hearth null, Agave 4");
    }

    #[test]
    fn answers_for_one_slot_are_found_though_one_node_is_ahead() {
        let [mut ours, mut theirs] = [Answers::default(), Answers::default()];
        for (slot, answer) in [(4, "a"), (5, "b"), (5, "c"), (6, "d")] {
            theirs.add(slot, json!(answer));
        }
        ours.add(4, json!("e"));
        assert_eq!(Answers::of_both(&ours, &theirs), None, "Agave may have moved its root");
        ours.add(5, json!("f"));
        assert_eq!(Answers::of_both(&ours, &theirs), Some([json!("f"), json!("b")]));
    }

    #[test]
    fn vote_accounts_are_sorted() {
        let mut votes = json!({ "current": [{ "votePubkey": "b" }, { "votePubkey": "a" }], "delinquent": [] });
        sort_votes(&mut votes);
        assert_eq!(votes["current"], json!([{ "votePubkey": "a" }, { "votePubkey": "b" }]));
    }

    #[test]
    fn arrays_of_other_lengths_differ_as_a_whole() {
        let mut found = Differences::default();
        found.compare("m", &json!([1, 2]), &json!([1]));
        assert_eq!(found.wrong(), ["m differs 1 times: Hearth [1,2], Agave [1]"]);
    }
}
