//! `console.log` of contracts: what they send to Hardhat's console, as Hardhat prints it.
//!
//! reads   calls to [`CONSOLE`]
//! writes  lines
//! memory  the selectors of all overloads, once; the lines of one execution
//! drops   calls that are no `log(…)`
//! source  `console.sol` of Hardhat 2 and forge-std; Node.js's `util.format` for `%`

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::LazyLock;

use alloy_primitives::{Address, I256, U256, hex};
use hearth_crypto::keccak::keccak256;
use hearth_evm::exec::CONSOLE;
use revm::Inspector;
use revm::context_interface::ContextTr;
use revm::interpreter::{CallInputs, CallOutcome};

/// Arguments of one call, at most.
const ARGUMENTS_MAX: usize = 4;
/// Maximum bytes shown of one call: sending more costs a contract little.
const SHOWN_MAX: usize = 16 << 10;

/// The type of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Text,
    Uint,
    Int,
    Bool,
    Address,
    Bytes,
    /// A byte array of this length.
    Fixed(usize),
}

/// The types whose combinations have overloads, by all their names: old versions of `console.sol` computed selectors
/// with `uint` and `int`.
const COMBINED: [(&str, Kind); 8] = [
    ("string", Kind::Text),
    ("uint256", Kind::Uint),
    ("int256", Kind::Int),
    ("bool", Kind::Bool),
    ("address", Kind::Address),
    ("bytes", Kind::Bytes),
    ("uint", Kind::Uint),
    ("int", Kind::Int),
];

/// The types of the arguments, by selector.
static OVERLOADS: LazyLock<HashMap<[u8; 4], Vec<Kind>>> = LazyLock::new(|| {
    let mut lists: Vec<(String, Vec<Kind>)> = vec![(String::new(), Vec::new())];
    let mut overloads = HashMap::new();
    let mut add = |names: &str, kinds: &[Kind]| {
        let hash = keccak256(format!("log({names})").as_bytes());
        overloads.insert([hash[0], hash[1], hash[2], hash[3]], kinds.to_vec());
    };
    add("", &[]);
    for length in 1..=ARGUMENTS_MAX {
        let mut longer = Vec::new();
        for (names, kinds) in &lists {
            for (name, kind) in COMBINED {
                let separator = if length == 1 { "" } else { "," };
                let list = (format!("{names}{separator}{name}"), [&kinds[..], &[kind]].concat());
                add(&list.0, &list.1);
                longer.push(list);
            }
        }
        lists = longer;
    }
    for bytes in 1..=32 {
        add(&format!("bytes{bytes}"), &[Kind::Fixed(bytes)]);
    }
    overloads
});

/// Formats an argument as it is printed.
fn shown(arguments: &[u8], index: usize, kind: Kind) -> Option<String> {
    let word = |at: usize| arguments.get(at..at.checked_add(32)?);
    let number = |at: usize| word(at).map(U256::from_be_slice);
    let own = word(32 * index)?;
    let dynamic = || {
        let at = usize::try_from(number(32 * index)?).ok()?;
        let length = usize::try_from(number(at)?).ok()?;
        let start = at.checked_add(32)?;
        let bytes = arguments.get(start..start.checked_add(length)?)?;
        Some(&bytes[..bytes.len().min(SHOWN_MAX)])
    };
    Some(match kind {
        Kind::Text => String::from_utf8_lossy(dynamic()?).into_owned(),
        Kind::Uint => U256::from_be_slice(own).to_string(),
        Kind::Int => I256::from_raw(U256::from_be_slice(own)).to_string(),
        Kind::Bool => (!U256::from_be_slice(own).is_zero()).to_string(),
        Kind::Address => hex::encode_prefixed(Address::from_slice(&own[12..])),
        Kind::Bytes => hex::encode_prefixed(dynamic()?),
        Kind::Fixed(bytes) => hex::encode_prefixed(&own[..bytes]),
    })
}

/// Returns what a call to the console prints; `None` if it is no `log(…)`.
pub fn line(input: &[u8]) -> Option<String> {
    let (selector, arguments) = input.split_first_chunk::<4>()?;
    let kinds = OVERLOADS.get(selector)?;
    let arguments = kinds.iter().enumerate().map(|(index, kind)| shown(arguments, index, *kind));
    Some(format(&arguments.collect::<Option<Vec<_>>>()?))
}

/// Joins the arguments with spaces; those for which the first has a `%` are put there.
fn format(arguments: &[String]) -> String {
    let Some((first, rest)) = arguments.split_first() else { return String::new() };
    let mut rest = rest.iter();
    let (mut out, mut left) = (String::with_capacity(first.len()), first.as_str());
    while let Some((before, after)) = left.split_once('%') {
        out.push_str(before);
        match after.chars().next() {
            Some('%') if arguments.len() > 1 => out.push('%'),
            Some('s' | 'd' | 'i' | 'f' | 'j' | 'o' | 'O') if rest.len() > 0 => {
                out.push_str(rest.next().map_or("", String::as_str));
            }
            // No place for an argument.
            _ => {
                out.push('%');
                left = after;
                continue;
            }
        }
        left = &after[1..];
    }
    out.push_str(left);
    rest.for_each(|one| {
        let _ = write!(out, " {one}");
    });
    out
}

/// An inspector that collects what is sent to the console.
#[derive(Default)]
pub struct Listener {
    /// The lines to print, in order.
    pub lines: Vec<String>,
}

impl<CTX: ContextTr> Inspector<CTX> for Listener {
    fn call(&mut self, context: &mut CTX, inputs: &mut CallInputs) -> Option<CallOutcome> {
        if inputs.bytecode_address == CONSOLE {
            let input = inputs.input.bytes(context);
            self.lines.extend(line(&input));
        }
        None
    }
}

/// Formats the output of one call or transaction: a head, and the lines below it.
pub fn text(what: &str, lines: &[String]) -> String {
    let mut text = format!("console.log of {what}:");
    for line in lines.iter().flat_map(|line| line.split('\n')) {
        text.push_str("\n    ");
        // Control characters are removed, so that a contract cannot steer the terminal.
        text.extend(
            line.chars().map(|one| if one.is_control() && one != '\t' { char::REPLACEMENT_CHARACTER } else { one }),
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(signature: &str, words: &[[u8; 32]], tail: &[u8]) -> Vec<u8> {
        [&keccak256(signature.as_bytes())[..4], &words.concat(), tail].concat()
    }

    fn number(number: u64) -> [u8; 32] {
        U256::from(number).to_be_bytes()
    }

    fn text_of(text: &str) -> Vec<u8> {
        let mut bytes = [&number(text.len() as u64)[..], text.as_bytes()].concat();
        bytes.resize(bytes.len().next_multiple_of(32), 0);
        bytes
    }

    #[test]
    fn overloads_are_decoded() {
        let who: Address = alloy_primitives::address!("f39fd6e51aad88f6f4ce6ab8827279cfffb92266");
        let words = [number(128), number(5), who.into_word().0, number(1)];
        let input = call("log(string,uint256,address,bool)", &words, &text_of("hello %s %d"));
        let shown = "hello 5 0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266 true";
        assert_eq!(line(&input).as_deref(), Some(shown));
        assert_eq!(line(&call("log()", &[], &[])).as_deref(), Some(""));
        let minus = I256::try_from(-8).unwrap().into_raw().to_be_bytes();
        assert_eq!(line(&call("log(int256)", &[minus], &[])).as_deref(), Some("-8"));
        assert_eq!(line(&call("log(int)", &[minus], &[])).as_deref(), Some("-8"));
        assert_eq!(line(&call("log(string,int256)", &[number(64), minus], &text_of("n"))).as_deref(), Some("n -8"));
        assert_eq!(line(&call("log(bytes4)", &[[0xab; 32]], &[])).as_deref(), Some("0xabababab"));
        assert_eq!(line(&call("log(bytes)", &[number(32)], &text_of("\x12\x34"))).as_deref(), Some("0x1234"));
        assert_eq!(line(&call("log(bool,bool)", &[number(0), number(1)], &[])).as_deref(), Some("false true"));
        let four = [number(1), number(2), number(3), number(4)];
        assert_eq!(line(&call("log(uint,uint,uint,uint)", &four, &[])).as_deref(), Some("1 2 3 4"));
    }

    #[test]
    fn other_calls_print_nothing() {
        for input in [&b""[..], b"log", &call("logs(uint256)", &[number(1)], &[]), &call("log(uint256)", &[], &[])] {
            assert_eq!(line(input), None);
        }
        // An offset and a length out of bounds.
        for word in [[0xff; 32], number(64)] {
            assert_eq!(line(&call("log(string)", &[word], &[0xff; 64])), None);
        }
    }

    #[test]
    fn places_are_filled_as_by_node() {
        let of = |arguments: &[&str]| format(&arguments.iter().map(|one| one.to_string()).collect::<Vec<_>>());
        assert_eq!(of(&["a %s b %s", "1"]), "a 1 b %s");
        assert_eq!(of(&["a %% %s", "1"]), "a % 1");
        assert_eq!(of(&["50%"]), "50%");
        assert_eq!(of(&["50%", "1"]), "50% 1");
        assert_eq!(of(&["%x %s", "1", "2"]), "%x 1 2");
        assert_eq!(of(&["%é", "1"]), "%é 1");
        assert_eq!(of(&["%s"]), "%s");
    }

    #[test]
    fn lines_are_below_a_head() {
        let text = text("eth_call", &["one".into(), "two\nthree".into()]);
        assert_eq!(text, "console.log of eth_call:\n    one\n    two\n    three");
        assert_eq!(super::text("x", &["a\x1b[2Jb".into()]), "console.log of x:\n    a\u{fffd}[2Jb");
    }
}
