//! leaders: QUIC connections to upcoming leaders, with queues of transactions for them.
//!
//! reads   transactions for an address; datagrams from there; signatures of handshakes
//! writes  datagrams; handshakes to be signed
//! memory  [`CONNECTIONS_MAX`] connections, each with [`SEND_WINDOW_BYTES`] in flight, and with [`VOTES_WAITING_MAX`]
//!         votes and [`WAITING_MAX`] transactions waiting
//! drops   the oldest vote or transaction in a full queue, those that have waited for [`WAITING_FOR`], and those whose
//!         connection is closed; the caller collects each from [`Leaders::take_dropped`]
//! source  `solana-quic-client`, `solana-send-transaction-service` 4.2.2

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use hearth_quic::{Client, ClientConfig, ClientConnectionId};

/// Maximum connections at a time.
pub(super) const CONNECTIONS_MAX: usize = 64;
/// Maximum transactions that wait for one connection.
pub(super) const WAITING_MAX: usize = 128;
/// Maximum votes that wait for one connection: a newer vote implies the older ones.
pub(super) const VOTES_WAITING_MAX: usize = 8;
/// Bytes that one connection keeps until they are acknowledged: enough for 2,000 full-sized transactions per second to
/// a leader that acknowledges within 100 ms.
pub(super) const SEND_WINDOW_BYTES: u64 = 256 << 10;
/// How long a transaction may wait: afterwards its leader's turn has passed, and its sender can send it again while its
/// blockhash is valid.
const WAITING_FOR: Duration = Duration::from_secs(10);
/// How long an unused connection is kept: a leader with several turns per minute keeps its connection.
const KEPT_FOR: Duration = Duration::from_secs(60);

/// The settings of all connections.
pub(super) fn client_config() -> ClientConfig {
    ClientConfig {
        // The net tile sends one datagram at a time: votes and transactions fill no more.
        segments_max: 1,
        send_window_bytes: SEND_WINDOW_BYTES,
        // If each lost packet shrank the window, most transactions would reach a distant leader after its turn.
        tolerates_loss: true,
        // A restarted leader does not respond on the old connection.
        idle_timeout: WAITING_FOR,
        ..ClientConfig::default()
    }
}

/// A waiting transaction, and since when it waits.
type WaitingTransaction = (Instant, Vec<u8>);

/// The connection to one address.
struct Leader {
    connection: ClientConnectionId,
    /// Waiting votes, which precede transactions.
    votes: VecDeque<WaitingTransaction>,
    transactions: VecDeque<WaitingTransaction>,
    wanted_at: Instant,
}

impl Leader {
    fn waiting(&self) -> usize {
        self.votes.len() + self.transactions.len()
    }
}

/// The connections to leaders, by address, and the transactions that wait for them.
pub(super) struct Leaders {
    pub client: Client,
    by_address: BTreeMap<SocketAddr, Leader>,
    /// Number of waiting transactions over all connections.
    waiting: usize,
    /// Transactions dropped since the caller last collected them.
    dropped: Vec<Vec<u8>>,
}

impl Leaders {
    pub(super) fn new(client: Client) -> Self {
        Self { client, by_address: BTreeMap::new(), waiting: 0, dropped: vec![] }
    }

    /// Number of connections, including those being established.
    pub(super) fn len(&self) -> usize {
        self.by_address.len()
    }

    /// Number of transactions that wait for a connection.
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Returns the transactions that were dropped because they waited too long or the queue was full.
    pub(super) fn take_dropped(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.dropped)
    }

    /// Connects to `address`, or keeps an existing connection.
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
        let leader = Leader { connection, votes: VecDeque::new(), transactions: VecDeque::new(), wanted_at: now };
        self.by_address.insert(address, leader);
    }

    /// Sends a transaction at once, or queues it until the connection can take it.
    pub(super) fn send(&mut self, now: Instant, address: SocketAddr, transaction: &[u8], is_vote: bool) {
        self.connect(now, address);
        let leader = self.by_address.get_mut(&address).expect("it was made");
        let ahead = if is_vote { leader.votes.len() } else { leader.waiting() };
        if ahead == 0 && self.client.send_transaction_on(leader.connection, transaction).is_ok() {
            return;
        }
        let (queue, max) = match is_vote {
            true => (&mut leader.votes, VOTES_WAITING_MAX),
            false => (&mut leader.transactions, WAITING_MAX),
        };
        if queue.len() == max {
            self.dropped.extend(queue.pop_front().map(|(_, oldest)| oldest));
            self.waiting -= 1;
        }
        queue.push_back((now, transaction.to_vec()));
        self.waiting += 1;
    }

    /// Sends waiting transactions as far as possible. Returns whether it sent any.
    pub(super) fn send_waiting(&mut self) -> bool {
        let before = self.waiting;
        if before > 0 {
            for leader in self.by_address.values_mut() {
                let Leader { connection, votes, transactions, .. } = leader;
                for queue in [votes, transactions] {
                    while let Some((_, transaction)) = queue.front()
                        && self.client.send_transaction_on(*connection, transaction).is_ok()
                    {
                        queue.pop_front();
                        self.waiting -= 1;
                    }
                }
            }
        }
        self.waiting < before
    }

    /// Drops transactions that have waited too long.
    pub(super) fn drop_old(&mut self, now: Instant) {
        for Leader { votes, transactions, .. } in self.by_address.values_mut() {
            for queue in [votes, transactions] {
                while let Some((_, old)) = queue.pop_front_if(|(since, _)| now >= *since + WAITING_FOR) {
                    self.dropped.push(old);
                    self.waiting -= 1;
                }
            }
        }
    }

    /// Closes the connection to every leader.
    pub(super) fn close_all(&mut self, now: Instant) {
        let all: Vec<_> = self.by_address.keys().copied().collect();
        all.into_iter().for_each(|address| self.close(now, address));
    }

    /// Makes all connections again, with another identity; what waits for them is dropped.
    pub(super) fn set_identity(&mut self, now: Instant, identity: [u8; 32]) {
        self.close_all(now);
        self.client.set_identity(identity);
    }

    /// Closes connections that were unused for a while.
    pub(super) fn close_idle(&mut self, now: Instant) {
        let is_idle = |leader: &Leader| now.saturating_duration_since(leader.wanted_at) > KEPT_FOR;
        let idle: Vec<_> =
            self.by_address.iter().filter(|(_, leader)| is_idle(leader)).map(|(address, _)| *address).collect();
        idle.into_iter().for_each(|address| self.close(now, address));
    }

    fn close(&mut self, now: Instant, address: SocketAddr) {
        if let Some(leader) = self.by_address.remove(&address) {
            self.client.close(now, leader.connection);
            self.waiting -= leader.waiting();
            let waiting = leader.votes.into_iter().chain(leader.transactions);
            self.dropped.extend(waiting.map(|(_, transaction)| transaction));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(number: usize) -> SocketAddr {
        SocketAddr::from(([10, 0, (number >> 8) as u8, number as u8], 8_009))
    }

    fn leaders() -> (Leaders, Instant) {
        (Leaders::new(Client::with_signer(ClientConfig::default(), [1; 32], &[2; 32]).unwrap()), Instant::now())
    }

    #[test]
    fn another_identity_makes_its_own_connections() {
        let (mut leaders, now) = leaders();
        leaders.send(now, address(1), &[7], true);
        let before = leaders.by_address[&address(1)].connection;
        leaders.set_identity(now, [3; 32]);
        assert_eq!((leaders.len(), leaders.take_dropped()), (0, vec![vec![7]]));
        leaders.connect(now, address(1));
        assert_ne!(leaders.by_address[&address(1)].connection, before);
    }

    #[test]
    fn newest_transactions_wait_for_a_silent_leader() {
        let (mut leaders, now) = leaders();
        (0..=WAITING_MAX).for_each(|number| leaders.send(now, address(1), &number.to_le_bytes(), false));
        assert_eq!((leaders.len(), leaders.waiting()), (1, WAITING_MAX));
        assert_eq!(leaders.take_dropped(), [0usize.to_le_bytes()]);
        assert_eq!(leaders.by_address[&address(1)].transactions[0], (now, 1usize.to_le_bytes().to_vec()));
        assert!(!leaders.send_waiting());
        leaders.close_idle(now + KEPT_FOR);
        assert_eq!(leaders.len(), 1);
        leaders.close_idle(now + KEPT_FOR + Duration::from_millis(1));
        assert_eq!((leaders.len(), leaders.waiting()), (0, 0));
        assert_eq!(leaders.take_dropped().len(), WAITING_MAX);
    }

    #[test]
    fn transaction_that_waits_too_long_is_dropped() {
        let (mut leaders, now) = leaders();
        let later = now + Duration::from_millis(1);
        leaders.send(now, address(1), b"old vote", true);
        leaders.send(now, address(2), b"old", false);
        leaders.send(later, address(2), b"newer", false);
        leaders.drop_old(now + WAITING_FOR - Duration::from_millis(1));
        assert_eq!(leaders.waiting(), 3);
        leaders.drop_old(now + WAITING_FOR);
        assert_eq!((leaders.take_dropped(), leaders.waiting()), (vec![b"old vote".to_vec(), b"old".to_vec()], 1));
        leaders.drop_old(later + WAITING_FOR);
        assert_eq!((leaders.take_dropped(), leaders.waiting()), (vec![b"newer".to_vec()], 0));
    }

    #[test]
    fn votes_and_transactions_wait_apart() {
        let (mut leaders, now) = leaders();
        (0..WAITING_MAX).for_each(|number| leaders.send(now, address(1), &number.to_le_bytes(), false));
        (0..=VOTES_WAITING_MAX).for_each(|number| leaders.send(now, address(1), &[number as u8], true));
        assert_eq!(leaders.waiting(), WAITING_MAX + VOTES_WAITING_MAX);
        assert_eq!(leaders.take_dropped(), [[0u8]], "the oldest vote made room, and no transaction did");
    }

    #[test]
    fn least_recently_wanted_connection_gives_way() {
        let (mut leaders, now) = leaders();
        let at = |number: usize| now + Duration::from_millis(number as u64);
        (0..CONNECTIONS_MAX).for_each(|number| leaders.connect(at(number), address(number)));
        leaders.connect(at(CONNECTIONS_MAX), address(0));
        leaders.send(at(CONNECTIONS_MAX + 1), address(1), b"waits", false);
        leaders.connect(at(CONNECTIONS_MAX + 2), address(1_000));
        assert_eq!(leaders.len(), CONNECTIONS_MAX);
        let is_there = |number: usize| leaders.by_address.contains_key(&address(number));
        assert_eq!([0, 1, 2, 3, 1_000].map(is_there), [true, true, false, true, true]);
    }
}
