//! What Prometheus reads.

use hearth_evm::chain::BlockTime;
use hearth_rpc_client::http::{self, Patience};

use crate::node::{DEADLINE, Node};

#[test]
fn metrics_tell_of_blocks_and_requests() {
    let node = Node::new(BlockTime::Manual);
    node.chain.mine_many(2, None).unwrap();
    let agent = http::direct(Patience::Step(DEADLINE));
    let text = http::get(&agent, &format!("http://{}/metrics", node.server.address()), 1 << 20).unwrap();
    for line in
        ["hearth_evm_head 2", "hearth_evm_blocks_total 2", "hearth_evm_states 3", "hearth_web3_connections_open 1"]
    {
        assert!(text.lines().any(|known| known == line), "{line} in {text}");
    }
    assert!(text.contains("hearth_evm_block_seconds_total{part=\"evm_commit\"} "), "{text}");
}
