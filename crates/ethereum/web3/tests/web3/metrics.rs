//! What Prometheus reads.

use std::io::Write;

use hearth_evm::chain::BlockTime;

use crate::node::{Node, connect, read_answer};

#[test]
fn metrics_tell_of_blocks_and_requests() {
    let node = Node::new(BlockTime::Manual);
    node.chain.mine_many(2, None).unwrap();
    let mut stream = connect(&node.server);
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let (status, text) = read_answer(&stream);
    assert_eq!(status, 200);
    for line in ["hearth_evm_head 2", "hearth_evm_blocks_total 2", "hearth_web3_connections_open 2"] {
        assert!(text.lines().any(|known| known == line), "{line} in {text}");
    }
    assert!(text.contains("hearth_evm_block_seconds_total{part=\"evm_commit\"} "), "{text}");
}
