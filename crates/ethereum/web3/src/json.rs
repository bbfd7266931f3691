//! Writes JSON answers directly as text, without a tree of values.
//!
//! writes  JSON
//! memory  the text

use alloy_primitives::{U256, hex};

/// Appends bytes as quoted hexadecimal digits with `0x`.
pub fn push_data(out: &mut String, bytes: &[u8]) {
    out.push_str("\"0x");
    // Chunks on the stack: no second copy of long data.
    for chunk in bytes.chunks(512) {
        let mut buffer = [0; 1024];
        let digits = &mut buffer[..2 * chunk.len()];
        hex::encode_to_slice(chunk, digits).expect("two digits a byte");
        out.push_str(std::str::from_utf8(digits).expect("hex is ASCII"));
    }
    out.push('"');
}

/// Appends a number with `0x` and without leading zeros, quoted.
pub fn push_quantity(out: &mut String, number: u64) {
    use std::fmt::Write;
    write!(out, "\"{number:#x}\"").expect("a string takes all");
}

/// As [`push_quantity`], of a 256-bit number.
pub fn push_quantity_256(out: &mut String, number: &U256) {
    use std::fmt::Write;
    write!(out, "\"{number:#x}\"").expect("a string takes all");
}

/// Appends a text, quoted and escaped.
pub fn push_text(out: &mut String, text: &str) {
    out.push_str(&serde_json::to_string(text).expect("text is JSON"));
}

/// Returns bytes as JSON.
pub fn data(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(2 * bytes.len() + 4);
    push_data(&mut out, bytes);
    out
}

/// Returns a number as JSON.
pub fn quantity(number: u64) -> String {
    let mut out = String::new();
    push_quantity(&mut out, number);
    out
}

/// Returns a 256-bit number as JSON.
pub fn quantity_256(number: &U256) -> String {
    let mut out = String::new();
    push_quantity_256(&mut out, number);
    out
}

/// Returns a text as JSON.
pub fn text(text: &str) -> String {
    let mut out = String::new();
    push_text(&mut out, text);
    out
}

/// Returns an object as JSON.
pub fn object(build: impl FnOnce(&mut Object<'_>)) -> String {
    let mut out = String::with_capacity(256);
    push_object(&mut out, build);
    out
}

/// Appends an object with the fields that `build` adds.
pub fn push_object(out: &mut String, build: impl FnOnce(&mut Object<'_>)) {
    out.push('{');
    let mut object = Object { out, empty: true };
    build(&mut object);
    object.out.push('}');
}

/// Returns an array as JSON.
pub fn array<T>(items: impl IntoIterator<Item = T>, push: impl FnMut(&mut String, T)) -> String {
    let mut out = String::with_capacity(256);
    push_array(&mut out, items, push);
    out
}

/// Appends an array, with `push` for each item.
pub fn push_array<T>(out: &mut String, items: impl IntoIterator<Item = T>, mut push: impl FnMut(&mut String, T)) {
    out.push('[');
    for (index, item) in items.into_iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        push(out, item);
    }
    out.push(']');
}

/// An object that is being written.
pub struct Object<'a> {
    out: &'a mut String,
    empty: bool,
}

impl Object<'_> {
    /// Begins a field, whose value the caller appends. The name is not escaped.
    pub fn name(&mut self, name: &str) -> &mut String {
        if !std::mem::take(&mut self.empty) {
            self.out.push(',');
        }
        self.out.push('"');
        self.out.push_str(name);
        self.out.push_str("\":");
        self.out
    }

    /// Adds a field whose value is JSON already.
    pub fn raw(&mut self, name: &str, json: &str) {
        self.name(name).push_str(json);
    }

    /// Adds a number in hexadecimal behind `0x`, without leading zeros.
    pub fn quantity(&mut self, name: &str, number: u64) {
        push_quantity(self.name(name), number);
    }

    /// Adds a 256-bit number.
    pub fn quantity_256(&mut self, name: &str, number: &U256) {
        push_quantity_256(self.name(name), number);
    }

    /// Adds bytes in hexadecimal behind `0x`, two digits each.
    pub fn data(&mut self, name: &str, bytes: &[u8]) {
        push_data(self.name(name), bytes);
    }

    /// Adds bytes, or null.
    pub fn data_or_null(&mut self, name: &str, bytes: Option<&[u8]>) {
        match bytes {
            Some(bytes) => self.data(name, bytes),
            None => self.null(name),
        }
    }

    /// Adds a string, and escapes it.
    pub fn text(&mut self, name: &str, text: &str) {
        push_text(self.name(name), text);
    }

    /// Adds a decimal number.
    pub fn decimal(&mut self, name: &str, number: u64) {
        use std::fmt::Write;
        write!(self.name(name), "{number}").expect("a string takes all");
    }

    /// Adds `true` or `false`.
    pub fn flag(&mut self, name: &str, flag: bool) {
        self.raw(name, if flag { "true" } else { "false" });
    }

    /// Adds a field whose value is `null`.
    pub fn null(&mut self, name: &str) {
        self.raw(name, "null");
    }

    /// Adds a nested object.
    pub fn object(&mut self, name: &str, build: impl FnOnce(&mut Object<'_>)) {
        push_object(self.name(name), build);
    }

    /// Adds an array, with `push` for each item.
    pub fn array<T>(&mut self, name: &str, items: impl IntoIterator<Item = T>, push: impl FnMut(&mut String, T)) {
        push_array(self.name(name), items, push);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_valid_json() {
        let text = object(|object| {
            object.quantity("zero", 0);
            object.quantity_256("wide", &U256::MAX);
            object.data("none", &[]);
            object.data("long", &[0xab; 1_300]);
            object.text("text", "a \"quote\"\n");
            object.array("list", [1, 2], push_quantity);
            object.object("inner", |inner| inner.flag("yes", true));
            object.null("nothing");
        });
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!((&value["zero"], &value["none"]), (&"0x0".into(), &"0x".into()));
        assert_eq!(value["wide"], format!("0x{}", "f".repeat(64)));
        assert_eq!(value["long"], format!("0x{}", "ab".repeat(1_300)));
        assert_eq!(value["text"], "a \"quote\"\n");
        assert_eq!(value["list"][1], "0x2");
        assert_eq!(value["inner"]["yes"], true);
        assert!(value["nothing"].is_null());
    }
}
