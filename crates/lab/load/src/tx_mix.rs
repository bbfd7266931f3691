//! Kinds of transactions with weights, like `transfer=8,swap=2`.
//!
//! reads   text
//! writes  the kind of a transaction, chosen by a number that looks random
//! memory  a few bytes per kind

use std::fmt;
use std::str::FromStr;

/// A chain's kinds of transactions.
pub trait TxKinds: Copy + Eq + 'static {
    /// All kinds of the chain.
    const ALL: &'static [Self];

    /// Returns its name on the command line.
    fn name(self) -> &'static str;
}

/// Why a text is not a mix of kinds.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("`{text}` is not a kind: expected {known}, or several with weights, as {first}=8,{last}=2")]
pub struct NoMix {
    /// The text that was given.
    text: String,
    /// Names of the chain's kinds, for the message.
    known: String,
    first: &'static str,
    last: &'static str,
}

impl NoMix {
    fn of<K: TxKinds>(text: &str) -> Self {
        let names: Vec<_> = K::ALL.iter().map(|kind| kind.name()).collect();
        let (last, others) = names.split_last().expect("a chain has a kind");
        Self { text: text.into(), known: format!("{} or {last}", others.join(", ")), first: names[0], last }
    }
}

/// Kinds with their weights, at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mix<K>(Vec<(K, u32)>);

impl<K> From<K> for Mix<K> {
    fn from(kind: K) -> Self {
        Self(vec![(kind, 1)])
    }
}

impl<K: TxKinds> FromStr for Mix<K> {
    type Err = NoMix;

    fn from_str(text: &str) -> Result<Self, NoMix> {
        let wrong = || NoMix::of::<K>(text);
        let mut parts: Vec<(K, u32)> = vec![];
        for part in text.split(',') {
            let (name, weight) = part.split_once('=').unwrap_or((part, "1"));
            let kind = K::ALL.iter().copied().find(|kind| kind.name() == name.trim()).ok_or_else(wrong)?;
            let weight = weight.trim().parse().ok().filter(|weight| (1..=10_000).contains(weight)).ok_or_else(wrong)?;
            if parts.iter().any(|(other, _)| *other == kind) {
                return Err(wrong());
            }
            parts.push((kind, weight));
        }
        Ok(Self(parts))
    }
}

impl<K: TxKinds> Mix<K> {
    /// Returns whether the mix contains this kind.
    pub fn has(&self, kind: K) -> bool {
        self.0.iter().any(|(other, _)| *other == kind)
    }

    /// Returns the weighted mean of a figure over the kinds, rounded up.
    pub fn mean(&self, figure: impl Fn(K) -> u64) -> u64 {
        let (sum, weights) = self.0.iter().fold((0, 0), |(sum, weights), (kind, weight)| {
            (sum + figure(*kind) * u64::from(*weight), weights + u64::from(*weight))
        });
        sum.div_ceil(weights)
    }

    /// Returns the kind that this number selects.
    pub fn pick(&self, number: u64) -> K {
        let sum: u64 = self.0.iter().map(|(_, weight)| u64::from(*weight)).sum();
        let mut left = number % sum;
        for &(kind, weight) in &self.0 {
            match left.checked_sub(weight.into()) {
                None => return kind,
                Some(rest) => left = rest,
            }
        }
        unreachable!("less than the sum of the weights")
    }
}

impl<K: TxKinds> fmt::Display for Mix<K> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [(kind, _)] = self.0[..] {
            return out.write_str(kind.name());
        }
        let parts: Vec<_> = self.0.iter().map(|(kind, weight)| format!("{}={weight}", kind.name())).collect();
        out.write_str(&parts.join(","))
    }
}

/// Hashes these two into a number that looks random (splitmix64).
pub(super) fn scatter(account: u64, nonce: u64) -> u64 {
    let mut x = account.wrapping_add(nonce.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
