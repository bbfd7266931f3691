//! temporary
#![allow(missing_docs)]
#[path = "../tests/common/mod.rs"]
mod common;
use common::*;
use hearth_rpc::{Limits, RpcConfig};
fn main() {
    let port: u16 = std::env::args().nth(1).unwrap().parse().unwrap();
    let slot_ms: u64 = std::env::args().nth(2).map_or(400, |t| t.parse().unwrap());
    let chain = Chain::start(RpcConfig::new(([127, 0, 0, 1], port).into()), Limits::default(), true).unwrap();
    let mut n = 0u64;
    loop {
        std::thread::sleep(std::time::Duration::from_millis(slot_ms));
        chain.durable_slots(1);
        n += 1;
        if n % 50 == 0 { eprintln!("{:?}", chain.server.counters().values()); }
    }
}
