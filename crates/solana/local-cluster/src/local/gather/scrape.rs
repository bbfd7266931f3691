//! Scrapes the nodes' metrics.
//!
//! reads   `GET /metrics` of each, all in parallel
//! writes  [`ScrapedCounters`]
//! memory  one response per node, at most [`ANSWER_MAX`] bytes; a thread per node during a round
//! drops   responses that are late, too long or invalid: the node has no figures in this round
//! source  the Prometheus text exposition format, version 0.0.4

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use hearth_rpc_client::http::{self, Agent, Patience};

/// Time limit for all responses of a round.
const PATIENCE: Duration = Duration::from_millis(700);
/// Maximum size of a response in bytes.
const ANSWER_MAX: u64 = 4 << 20;

/// A node's counters since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScrapedCounters {
    /// The newest slot that it has executed; `None` before the first.
    pub slot: Option<u64>,
    /// Transactions of its own blocks whose shreds have left its shred tile.
    pub left: u64,
    /// Transactions that it has executed, in its own banks and in replayed blocks.
    pub executed: u64,
    /// Bytes of datagrams that net received.
    pub received_bytes: u64,
    /// Bytes of datagrams that net sent.
    pub sent_bytes: u64,
}

impl ScrapedCounters {
    /// Parses the metrics; counters of several tiles of a kind are summed.
    pub fn read(text: &str) -> Self {
        let mut found = Self::default();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let Some((series, value)) = line.rsplit_once(' ') else { continue };
            let word = match series.split('{').next().unwrap_or(series) {
                "hearth_shred_left_transactions_total" => &mut found.left,
                "hearth_bank_landed_total"
                | "hearth_bank_votes_total"
                | "hearth_bank_failed_total"
                | "hearth_replay_executed_transactions_total" => &mut found.executed,
                "hearth_net_received_bytes_total" => &mut found.received_bytes,
                "hearth_net_sent_bytes_total" => &mut found.sent_bytes,
                "hearth_replay_head_slot" => {
                    found.slot = value.parse().ok().filter(|slot| *slot > 0);
                    continue;
                }
                _ => continue,
            };
            *word += value.parse::<u64>().unwrap_or(0);
        }
        found
    }
}

/// Queries all nodes in parallel; returns for each the start time and the figures, `None` if it did not answer in time.
pub fn all(nodes: &[SocketAddr]) -> Vec<Option<(Instant, ScrapedCounters)>> {
    all_within(PATIENCE, nodes)
}

fn all_within(patience: Duration, nodes: &[SocketAddr]) -> Vec<Option<(Instant, ScrapedCounters)>> {
    let agent = &http::direct(Patience::Whole(patience));
    std::thread::scope(|scope| {
        let asked: Vec<_> = nodes.iter().map(|&node| scope.spawn(move || ask(agent, node))).collect();
        asked.into_iter().map(|asked| asked.join().expect("no thread panics")).collect()
    })
}

fn ask(agent: &Agent, node: SocketAddr) -> Option<(Instant, ScrapedCounters)> {
    let mut answer = agent.get(&format!("http://{node}/metrics")).call().ok()?;
    let at = Instant::now();
    let text = answer.body_mut().with_config().limit(ANSWER_MAX).read_to_string().ok()?;
    answer.status().is_success().then(|| (at, ScrapedCounters::read(&text)))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use hearth_testkit::http::{Reply, serve_on};

    use super::*;

    const METRICS: &str = "# HELP hearth_net_sent_bytes_total Bytes of the datagrams sent.\n\
        # TYPE hearth_net_sent_bytes_total counter\n\
        hearth_net_sent_bytes_total{tile=\"net:0\"} 1000\n\
        hearth_net_sent_bytes_total{tile=\"net:1\"} 24\n\
        hearth_net_received_bytes_total{tile=\"net:0\"} 7\n\
        hearth_shred_left_transactions_total{tile=\"shred:0\"} 300\n\
        hearth_bank_landed_total{tile=\"bank:0\"} 200\n\
        hearth_bank_failed_total{tile=\"bank:0\"} 3\n\
        hearth_bank_votes_total{tile=\"bank:0\"} 5\n\
        hearth_replay_executed_transactions_total{tile=\"replay:0\"} 40\n\
        hearth_replay_head_slot{tile=\"replay:0\"} 77\n\
        hearth_other_seconds 0.5\n";

    #[test]
    fn figures_are_sums_over_tiles() {
        let expected =
            ScrapedCounters { slot: Some(77), left: 300, executed: 248, received_bytes: 7, sent_bytes: 1024 };
        assert_eq!(ScrapedCounters::read(METRICS), expected);
        let before = METRICS.replace("} 77", "} 0");
        assert_eq!(ScrapedCounters::read(&before), ScrapedCounters { slot: None, ..expected });
        assert_eq!(ScrapedCounters::read("no metrics\n\n{} x\n"), ScrapedCounters::default());
    }

    fn served(reply: fn() -> Reply) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        serve_on(listener, move |_, _| reply());
        address
    }

    #[test]
    fn silent_node_delays_no_other() {
        // The kernel accepts connections for it, but nobody answers them.
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let cut = served(|| Reply::Half(METRICS.into()));
        let refused = served(|| Reply::Status(503));
        let whole = served(|| Reply::Answer(METRICS.into()));
        let nodes = [silent.local_addr().unwrap(), gone, cut, refused, whole];
        // The first never answers; it must be abandoned for the test to end.
        let answers = all_within(Duration::from_secs(5), &nodes);
        assert_eq!(answers.iter().map(Option::is_some).collect::<Vec<_>>(), [false, false, false, false, true]);
        assert_eq!(answers[4].unwrap().1, ScrapedCounters::read(METRICS));
    }
}
