//! Datagrams that the kernel dropped because a socket's buffer was full.
//!
//! reads   `/proc/net/udp` of the namespace

use std::net::Ipv4Addr;

use super::nodes::Remote;

/// The drops of all sockets that a node has now.
pub fn of(node: Remote) -> u64 {
    let sockets = std::fs::read_to_string("/proc/net/udp").unwrap_or_default();
    sockets.lines().filter_map(parsed).filter(|(host, _)| *host == node.0).map(|(_, drops)| drops).sum()
}

/// A socket's address and its drops, the last column.
fn parsed(line: &str) -> Option<(Ipv4Addr, u64)> {
    let mut columns = line.split_whitespace();
    let (host, _) = columns.nth(1)?.split_once(':')?;
    let host = u32::from_str_radix(host, 16).ok()?;
    // The kernel prints the address as a number of the machine's byte order.
    Some((Ipv4Addr::from(host.to_ne_bytes()), columns.last()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_are_in_the_last_column() {
        let head = "   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode \
                    ref pointer drops";
        assert_eq!(parsed(head), None);
        let host = u32::from_ne_bytes([127, 0, 0, 2]);
        let line = format!(
            "  812: {host:08X}:2329 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 9 2 0 35000"
        );
        assert_eq!(parsed(&line), Some((Ipv4Addr::new(127, 0, 0, 2), 35_000)));
    }
}
