//! leaders: QUIC connections to the leaders to come, and what waits for them.
//!
//! reads   transactions for an address; datagrams from there; signatures of handshakes
//! writes  datagrams; handshakes to be signed
//! memory  [`CONNECTIONS_MAX`] connections, each with [`WAITING_MAX`] transactions that wait for it
//! drops   the oldest transaction that waits for a connection where [`WAITING_MAX`] do, counted
//! source  `solana-quic-client`, `solana-send-transaction-service` 4.2.2

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use hearth_quic::{Client, ClientConnectionId};

/// Connections at a time.
pub(super) const CONNECTIONS_MAX: usize = 64;
/// Transactions that wait for one connection.
pub(super) const WAITING_MAX: usize = 128;
/// A connection that was not wanted for so long is closed: a leader that has several turns in a minute keeps it.
const KEPT_FOR: Duration = Duration::from_secs(60);

/// The connection to one address.
struct Leader {
    connection: ClientConnectionId,
    waiting: VecDeque<Vec<u8>>,
    wanted_at: Instant,
}

/// All connections.
pub(super) struct Leaders {
    pub client: Client,
    by_address: HashMap<SocketAddr, Leader>,
    /// Transactions that wait, for all of them.
    waiting: usize,
    /// Transactions dropped since they would have waited behind too many.
    pub dropped: u64,
}

impl Leaders {
    pub(super) fn new(client: Client) -> Self {
        Self { client, by_address: HashMap::new(), waiting: 0, dropped: 0 }
    }

    /// Connections there are, of which some are being made.
    pub(super) fn len(&self) -> usize {
        self.by_address.len()
    }

    /// Transactions that wait for a connection.
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Makes a connection to `address`, or keeps the one there is.
    pub(super) fn connect(&mut self, now: Instant, address: SocketAddr) {
        if let Some(leader) = self.by_address.get_mut(&address) {
            leader.wanted_at = now;
            return;
        }
        if self.by_address.len() == CONNECTIONS_MAX
            && let Some(oldest) = self.by_address.iter().min_by_key(|(_, leader)| leader.wanted_at).map(|(at, _)| *at)
        {
            self.close(now, oldest);
        }
        let connection = self.client.connect(now, address);
        self.by_address.insert(address, Leader { connection, waiting: VecDeque::new(), wanted_at: now });
    }

    /// Sends a transaction, at once or as soon as the connection takes it.
    pub(super) fn send(&mut self, now: Instant, address: SocketAddr, transaction: &[u8]) {
        self.connect(now, address);
        let leader = self.by_address.get_mut(&address).expect("it was made");
        if leader.waiting.is_empty() && self.client.send_transaction_on(leader.connection, transaction).is_ok() {
            return;
        }
        if leader.waiting.len() == WAITING_MAX {
            leader.waiting.pop_front();
            self.waiting -= 1;
            self.dropped += 1;
        }
        leader.waiting.push_back(transaction.to_vec());
        self.waiting += 1;
    }

    /// Sends what waits, where it can be sent now. Whether anything was.
    pub(super) fn send_waiting(&mut self) -> bool {
        let before = self.waiting;
        if before > 0 {
            for leader in self.by_address.values_mut() {
                while let Some(transaction) = leader.waiting.front()
                    && self.client.send_transaction_on(leader.connection, transaction).is_ok()
                {
                    leader.waiting.pop_front();
                    self.waiting -= 1;
                }
            }
        }
        self.waiting < before
    }

    /// Closes the connections that nobody has wanted for a while.
    pub(super) fn close_idle(&mut self, now: Instant) {
        let is_idle = |leader: &Leader| now.saturating_duration_since(leader.wanted_at) > KEPT_FOR;
        let idle: Vec<_> =
            self.by_address.iter().filter(|(_, leader)| is_idle(leader)).map(|(address, _)| *address).collect();
        idle.into_iter().for_each(|address| self.close(now, address));
    }

    fn close(&mut self, now: Instant, address: SocketAddr) {
        if let Some(leader) = self.by_address.remove(&address) {
            self.client.close(now, leader.connection);
            self.waiting -= leader.waiting.len();
            self.dropped += leader.waiting.len() as u64;
        }
    }
}

#[cfg(test)]
mod tests {
    use hearth_quic::ClientConfig;

    use super::*;

    fn address(number: usize) -> SocketAddr {
        SocketAddr::from(([10, 0, (number >> 8) as u8, number as u8], 8_009))
    }

    fn leaders() -> (Leaders, Instant) {
        (Leaders::new(Client::with_signer(ClientConfig::default(), [1; 32], &[2; 32]).unwrap()), Instant::now())
    }

    #[test]
    fn the_newest_transactions_wait_for_a_leader_that_does_not_answer() {
        let (mut leaders, now) = leaders();
        (0..=WAITING_MAX).for_each(|number| leaders.send(now, address(1), &number.to_le_bytes()));
        assert_eq!((leaders.len(), leaders.waiting(), leaders.dropped), (1, WAITING_MAX, 1));
        assert_eq!(leaders.by_address[&address(1)].waiting[0], 1usize.to_le_bytes());
        assert!(!leaders.send_waiting());
        leaders.close_idle(now + KEPT_FOR);
        assert_eq!(leaders.len(), 1);
        leaders.close_idle(now + KEPT_FOR + Duration::from_millis(1));
        assert_eq!((leaders.len(), leaders.waiting(), leaders.dropped), (0, 0, WAITING_MAX as u64 + 1));
    }

    #[test]
    fn the_connection_that_was_wanted_longest_ago_gives_way() {
        let (mut leaders, now) = leaders();
        let at = |number: usize| now + Duration::from_millis(number as u64);
        (0..CONNECTIONS_MAX).for_each(|number| leaders.connect(at(number), address(number)));
        leaders.connect(at(CONNECTIONS_MAX), address(0));
        leaders.send(at(CONNECTIONS_MAX + 1), address(1), b"waits");
        leaders.connect(at(CONNECTIONS_MAX + 2), address(1_000));
        assert_eq!(leaders.len(), CONNECTIONS_MAX);
        let is_there = |number: usize| leaders.by_address.contains_key(&address(number));
        assert_eq!([0, 1, 2, 3, 1_000].map(is_there), [true, true, false, true, true]);
    }
}
