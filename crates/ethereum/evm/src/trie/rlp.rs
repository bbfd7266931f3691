//! How nodes are encoded.
//!
//! source  the yellow paper, appendices B (RLP), C (hex-prefix) and D (nodes)

use super::{Child, Key, Ref, nibble};

const EMPTY_STRING: u8 = 0x80;

/// Appends a leaf whose path is `key` from `depth` on.
pub(super) fn leaf(key: &Key, depth: usize, value: &[u8], out: &mut Vec<u8>) {
    let (path, len) = rest_of(key, depth);
    list_header(string_len(&path[..len]) + string_len(value), out);
    string(&path[..len], out);
    string(value, out);
}

/// Appends a leaf with these nibbles for a path.
pub(super) fn short_leaf(path: &[u8], value: &[u8], out: &mut Vec<u8>) {
    let (path, len) = hex_prefix(2, path.iter().copied(), path.len());
    list_header(string_len(&path[..len]) + string_len(value), out);
    string(&path[..len], out);
    string(value, out);
}

/// Appends an extension over `prefix` to the branch that `to` refers to.
pub(super) fn extension(prefix: &[u8], to: &Ref, out: &mut Vec<u8>) {
    let (path, len) = hex_prefix(0, prefix.iter().copied(), prefix.len());
    list_header(string_len(&path[..len]) + to.encoded().len(), out);
    string(&path[..len], out);
    out.extend_from_slice(to.encoded());
}

/// Appends a branch with what there is at each nibble.
pub(super) fn branch(references: &[Option<&Ref>; 16], out: &mut Vec<u8>) {
    let all = references.map(|reference| reference.unwrap_or(&Ref::EMPTY).encoded());
    list_header(1 + all.iter().map(|encoded| encoded.len()).sum::<usize>(), out);
    for encoded in all {
        match encoded.first_chunk::<33>() {
            // Of a size that is known: the copy is a few instructions then.
            Some(hash) => out.extend_from_slice(hash),
            None => out.extend_from_slice(encoded),
        }
    }
    // No key of a state's tries is another's beginning: a branch has no value.
    out.push(EMPTY_STRING);
}

/// The references to these children at their nibbles, those that are there by `mask`.
pub(super) fn spread<L>(mask: u16, children: &[Child<L>]) -> [Option<&Ref>; 16] {
    let mut children = children.iter();
    std::array::from_fn(|at| if mask & (1 << at) != 0 { children.next().map(Child::reference) } else { None })
}

/// The path of a leaf, `key` from `depth` on, with its flags: whole bytes of the key but for the first.
fn rest_of(key: &Key, depth: usize) -> ([u8; 33], usize) {
    let mut bytes = [0u8; 33];
    bytes[0] = if depth.is_multiple_of(2) { 0x20 } else { 0x30 | nibble(key, depth) };
    let rest = &key[depth.div_ceil(2)..];
    bytes[1..=rest.len()].copy_from_slice(rest);
    (bytes, 1 + rest.len())
}

/// A path with its flags: 0 for an extension, 2 for a leaf; odd paths begin in the first byte.
fn hex_prefix(flag: u8, path: impl Iterator<Item = u8>, count: usize) -> ([u8; 33], usize) {
    let mut bytes = [0u8; 33];
    let odd = count % 2;
    bytes[0] = (flag + odd as u8) << 4;
    // An even path begins in the second byte.
    let first = 2 - odd;
    for (digit, at) in path.zip(first..) {
        bytes[at / 2] |= if at.is_multiple_of(2) { digit << 4 } else { digit };
    }
    (bytes, 1 + count / 2)
}

fn string_len(bytes: &[u8]) -> usize {
    match bytes {
        [byte] if *byte < EMPTY_STRING => 1,
        _ => bytes.len() + header_len(bytes.len()),
    }
}

fn string(bytes: &[u8], out: &mut Vec<u8>) {
    if !matches!(bytes, [byte] if *byte < EMPTY_STRING) {
        header(EMPTY_STRING, bytes.len(), out);
    }
    out.extend_from_slice(bytes);
}

fn list_header(payload: usize, out: &mut Vec<u8>) {
    header(0xc0, payload, out);
}

fn header_len(payload: usize) -> usize {
    if payload < 56 { 1 } else { 1 + length_bytes(payload) }
}

fn length_bytes(payload: usize) -> usize {
    (payload.ilog2() / 8 + 1) as usize
}

fn header(offset: u8, payload: usize, out: &mut Vec<u8>) {
    if payload < 56 {
        out.push(offset + payload as u8);
    } else {
        let count = length_bytes(payload);
        out.push(offset + 55 + count as u8);
        out.extend_from_slice(&payload.to_be_bytes()[size_of::<usize>() - count..]);
    }
}
