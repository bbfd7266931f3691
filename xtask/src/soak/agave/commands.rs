//! The commands of `solana` that are compared.
//!
//! A command is split at its spaces. `@NAME` stands for the file of a key, `%NAME` for its address, `$NAME` for
//! something that an earlier command printed or a file: see [`Words`].

/// Commands that change the chain. Each node gets all of them, with keys of its own.
pub const WRITES: [&str; 30] = [
    "transfer --allow-unfunded-recipient %other 3.5",
    "transfer --allow-unfunded-recipient --with-memo hello %other 0.1",
    "transfer --allow-unfunded-recipient --with-compute-unit-price 1000 %other 0.1",
    "transfer --allow-unfunded-recipient --no-wait %other 0.2",
    "transfer --allow-unfunded-recipient --use-tpu-client %other 0.3",
    "transfer %other 1000000000",
    "create-nonce-account @nonce 1",
    "new-nonce %nonce",
    "withdraw-from-nonce-account %nonce %other 0.5",
    "create-vote-account @vote @other %payer --commission 7",
    "vote-update-commission %vote 9 @payer",
    "vote-authorize-voter %vote @other %payer",
    "create-stake-account @stake 10",
    "delegate-stake --force %stake %vote",
    "split-stake %stake @stake2 4 --rent-exempt-reserve-sol 0.1",
    "stake-authorize %stake2 --new-stake-authority %other",
    "deactivate-stake %stake",
    "withdraw-stake %stake %other 1",
    "address-lookup-table create",
    "address-lookup-table extend $table --addresses %other",
    "program deploy $counter --program-id @program",
    "program show %program",
    "program deploy $by-ten --program-id @program",
    "program write-buffer $counter --buffer @buffer",
    "program upgrade %buffer %program",
    "program extend %program 20480",
    "program write-buffer $by-ten --buffer @buffer2",
    "program close %buffer2",
    "program dump %program dumped.so",
    "program close %program --bypass-warning",
];

/// Commands that only read. Both nodes get the same ones, at the same time, and again until the outputs are equal or
/// the time is up: an output may name a slot, and Agave finalizes a slot one block before other nodes, since it counts
/// its own vote before that has landed.
pub const READS: [&str; 36] = [
    "cluster-version",
    "genesis-hash",
    "epoch",
    "epoch-info",
    "slot",
    "block-height",
    "block-time $slot",
    "cluster-date",
    "first-available-block",
    "gossip",
    "validators",
    "balance %payer",
    "account %payer",
    "confirm -v $signature",
    "transaction-history %payer",
    "transaction-history -v --limit 2 %payer",
    "transaction-count",
    "block $slot",
    "block-production",
    "leader-schedule",
    "feature status",
    "inflation",
    "supply",
    "supply --print-accounts",
    "largest-accounts",
    "rent 165",
    "stakes",
    "stake-history",
    "recent-prioritization-fees",
    "nonce %nonce",
    "nonce-account %nonce",
    "vote-account %vote",
    "stake-account %stake",
    "stake-minimum-delegation",
    "address-lookup-table get $table",
    "validator-info get",
];

/// Commands whose outputs may differ, and why.
pub const ALLOWED: [(&str, &str); 2] = [
    ("cluster-version", "each node names its own version"),
    ("first-available-block", "the nodes joined the chain at different slots"),
];

/// Lines that are not compared, by their begins, and why.
const OWN_LINES: [(&str, &str, &str); 1] =
    [("epoch-info", "Epoch Completed Time:", "the length of a slot is of the node's own performance samples")];

/// Commands whose lines are compared without their order, which is that of a hash table.
const UNORDERED: [&str; 2] = ["gossip", "supply --print-accounts"];

/// Returns the part of a reading command's output that is compared.
pub fn comparable(command: &str, text: &str) -> String {
    let is_own =
        |line: &str| OWN_LINES.iter().any(|(of, begin, _)| *of == command && line.trim_start().starts_with(*begin));
    let mut lines: Vec<&str> = text.lines().filter(|line| !is_own(line)).collect();
    if UNORDERED.contains(&command) {
        lines.sort_unstable();
    }
    lines.join("\n")
}

/// The source of the values for the words of a command that begin with a sign.
pub trait Words {
    /// The file of a key.
    fn key_file(&self, name: &str) -> Result<String, String>;
    /// The address of a key.
    fn address(&self, name: &str) -> Result<String, String>;
    /// Something that an earlier command printed, or a file.
    fn known(&self, name: &str) -> Result<String, String>;
}

/// The words of a command.
pub fn words(command: &str, with: &impl Words) -> Result<Vec<String>, String> {
    let word = |word: &str| match (word.strip_prefix('@'), word.strip_prefix('%'), word.strip_prefix('$')) {
        (Some(name), ..) => with.key_file(name),
        (_, Some(name), _) => with.address(name),
        (.., Some(name)) => with.known(name),
        _ => Ok(word.to_owned()),
    };
    command.split_whitespace().map(word).collect()
}

/// The output without what must differ between two runs with other keys: addresses, signatures and hashes become
/// `KEY`, numbers `N`.
pub fn masked(text: &str) -> String {
    let line = |line: &str| line.split_whitespace().map(masked_word).collect::<Vec<_>>().join(" ");
    text.lines().map(line).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
}

fn masked_word(word: &str) -> String {
    const KEY_MIN: usize = 32;
    let is_long = |part: &str| part.len() >= KEY_MIN && part.chars().all(char::is_alphanumeric);
    if word.split(|c: char| !c.is_alphanumeric()).any(is_long) {
        return "KEY".to_owned();
    }
    let mut masked = String::new();
    for c in word.chars() {
        let is_number = c.is_ascii_digit() || (c == '.' && masked.ends_with('N'));
        match (is_number, masked.ends_with('N')) {
            (true, true) => {}
            (true, false) => masked.push('N'),
            (false, _) => masked.push(c),
        }
    }
    masked
}

/// The first line in which two outputs differ.
pub fn first_difference(ours: &str, theirs: &str) -> Option<String> {
    let mut here = ours.lines();
    let mut there = theirs.lines();
    loop {
        match (here.next(), there.next()) {
            (None, None) => return None,
            (ours, theirs) if ours == theirs => {}
            (ours, theirs) => {
                let shown = |line: Option<&str>| line.unwrap_or("nothing").trim().to_owned();
                return Some(format!("Hearth: {}; Agave: {}", shown(ours), shown(theirs)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Side;

    impl Words for Side {
        fn key_file(&self, name: &str) -> Result<String, String> {
            Ok(format!("{name}.json"))
        }

        fn address(&self, name: &str) -> Result<String, String> {
            Ok(name.to_uppercase())
        }

        fn known(&self, name: &str) -> Result<String, String> {
            Err(format!("no {name}"))
        }
    }

    #[test]
    fn signs_are_replaced() {
        assert_eq!(words("a @b %c d", &Side).unwrap(), ["a", "b.json", "C", "d"]);
        assert_eq!(words("a $e", &Side), Err("no e".into()));
    }

    #[test]
    fn values_that_depend_on_keys_are_masked() {
        let text = "Signature: 5VERv8NMvzbJMEkV8xnrLkEaWRtSz9CosKDYjCJjBRnbJLgp8uirBgmQpjKhoR4tjF3ZpRzrFmBV6UjKdiSZkQU\n\n\
                    Balance: 1.50 SOL at slot 42\n";
        assert_eq!(masked(text), "Signature: KEY\nBalance: N SOL at slot N");
    }

    #[test]
    fn own_lines_and_the_order_of_rows_are_not_compared() {
        let time = "  Epoch Completed Time: 44s\nEpoch: 1\n";
        assert_eq!(comparable("epoch-info", time), "Epoch: 1");
        assert_eq!(comparable("epoch", time), time.trim_end());
        assert_eq!((comparable("gossip", "b\na"), comparable("slot", "b\na")), ("a\nb".into(), "b\na".into()));
        let known = |command: &str| READS.contains(&command);
        assert!(OWN_LINES.iter().all(|(command, ..)| known(command)) && UNORDERED.into_iter().all(known));
    }

    #[test]
    fn first_line_that_differs_is_named() {
        assert_eq!(first_difference("a\nb", "a\nb"), None);
        assert_eq!(first_difference("a\nb", "a\nc"), Some("Hearth: b; Agave: c".into()));
        assert_eq!(first_difference("a\nb", "a"), Some("Hearth: b; Agave: nothing".into()));
    }
}
