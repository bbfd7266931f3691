//! Writes the blocks of the test `verdicts` for `oracle/blocks`, which lets Agave judge them.
//!
//! reads   nothing: the blocks are the same each time
//! writes  to standard output, a line for each block: its name, a tab, its batches in hexadecimal with commas between
//!         them

#[path = "../tests/verdicts/blocks.rs"]
mod blocks;

fn main() {
    for (name, batches) in blocks::all() {
        let hex = |batch: &Vec<u8>| batch.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        println!("{name}\t{}", batches.iter().map(hex).collect::<Vec<_>>().join(","));
    }
}
