//! The line numbers of tables and keys in a file, and duplicates.
//!
//! reads   TOML line by line, even if it is invalid
//! writes  line numbers, from 1, and a sentence

/// A line that opens a table or sets a key.
struct NamedLine {
    line: usize,
    /// The full path: `layout.affinity`.
    path: String,
    is_table: bool,
}

fn named(text: &str) -> Vec<NamedLine> {
    let mut table = String::new();
    let mut found = vec![];
    for (number, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        let plain = |key: &str| key.replace(['"', ' '], "");
        if let Some(header) = line.strip_prefix('[').and_then(|l| l.strip_suffix(']')) {
            // `[[table]]` opens one of several.
            let header = header.strip_prefix('[').and_then(|header| header.strip_suffix(']')).unwrap_or(header);
            table = plain(header);
            found.push(NamedLine { line: number + 1, path: table.clone(), is_table: true });
        } else if let Some((key, _)) = line.split_once('=') {
            found.push(NamedLine { line: number + 1, path: join(&table, &plain(key)), is_table: false });
        }
    }
    found
}

/// `layout.affinity` from `layout` and `affinity`; outside of tables the key alone.
pub(super) fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

/// The rest of a path below a table.
fn below<'a>(path: &'a str, table: &str) -> Option<&'a str> {
    path.strip_prefix(table)?.strip_prefix('.')
}

pub(super) fn line_of(text: &str, offset: usize) -> usize {
    1 + text.as_bytes()[..offset.min(text.len())].iter().filter(|b| **b == b'\n').count()
}

/// The line of a key such as `layout.affinity`, by its table's header and its last part; 1 if it is missing.
pub(super) fn line_of_key(text: &str, path: &str) -> usize {
    let is_it = |named: &&NamedLine| {
        let (outer, inner) = if named.is_table { (path, &named.path[..]) } else { (&named.path[..], path) };
        named.path == path || below(inner, outer).is_some()
    };
    named(text).iter().find(is_it).map_or(1, |named| named.line)
}

/// Explains a duplicate key that the TOML parser reports in this line: the lines of both, and which to change. A
/// table's key before its table's header, `layout.affinity` before `[layout]`, is one.
pub(super) fn twice(text: &str, line: usize) -> Option<String> {
    let named = named(text);
    let second = named.iter().find(|named| named.line == line)?;
    let earlier = || named.iter().filter(|named| named.line < line);
    if let Some(first) = earlier().find(|first| first.path == second.path && first.is_table == second.is_table) {
        let (path, first) = (&second.path, first.line);
        return Some(match second.is_table {
            true => format!("`[{path}]` begins in line {first} and again in line {line}: put its keys under one"),
            false => format!("`{path}` is set in line {first} and again in line {line}: keep one"),
        });
    }
    let key = match second.is_table {
        true => earlier().find(|key| !key.is_table && below(&key.path, &second.path).is_some())?,
        false => second,
    };
    let (path, from) = (&key.path, key.line);
    if let Some(other) = named.iter().find(|other| other.line > from && !other.is_table && other.path == *path) {
        let to = other.line;
        return Some(format!("`{path}` is set in line {from} and again in line {to}: keep the one in line {to}"));
    }
    let tables = named.iter().filter(|table| table.is_table);
    let home = tables.filter(|table| below(path, &table.path).is_some()).max_by_key(|table| table.path.len())?;
    let (table, rest) = (&home.path, below(path, &home.path)?);
    Some(format!("`{path}` in line {from} belongs under `[{table}]`, line {}: move it there as `{rest}`", home.line))
}
