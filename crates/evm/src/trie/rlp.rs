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
    list_header(string_len(&path[..len]) + reference_len(to), out);
    string(&path[..len], out);
    reference(to, out);
}

/// Appends a branch with these children, those that are there by `mask`.
pub(super) fn branch<L>(mask: u16, children: &[Child<L>], out: &mut Vec<u8>) {
    let empty = 17 - children.len();
    list_header(empty + children.iter().map(|child| reference_len(child.reference())).sum::<usize>(), out);
    let mut there = children.iter();
    for at in 0..16 {
        match there.as_slice().first() {
            Some(child) if mask & (1 << at) != 0 => {
                reference(child.reference(), out);
                there.next();
            }
            _ => out.push(EMPTY_STRING),
        }
    }
    // No key of a state's tries is another's beginning: a branch has no value.
    out.push(EMPTY_STRING);
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

fn reference_len(to: &Ref) -> usize {
    to.bytes().len() + usize::from(!to.is_short())
}

fn reference(to: &Ref, out: &mut Vec<u8>) {
    if to.is_short() {
        return out.extend_from_slice(to.bytes());
    }
    let mut whole = [EMPTY_STRING + 32; 33];
    whole[1..].copy_from_slice(to.bytes());
    out.extend_from_slice(&whole);
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
