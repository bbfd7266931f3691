//! Rule on tiles and protocol cores: the host gives time, chance and I/O.
//!
//! reads   the sources of the crates whose code runs on virtual time
//! writes  findings
//! memory  none of its own

use super::Found;
use super::code::{line_of, words};
use super::tree::{File, Tree};

/// Sources that take time, chance and I/O from their host.
const HOSTED: [&str; 5] = [
    "crates/solana/pipeline/src/",
    "crates/solana/quic/src/",
    "crates/solana/cluster/src/consensus/",
    "crates/solana/cluster/src/gossip/",
    "crates/solana/cluster/src/turbine/",
];

/// Sources whose job is I/O: sockets, the metrics' connections, the load's own, the files behind tower's `Files`.
const DOES_IO: [&str; 5] = [
    "crates/solana/pipeline/src/net/",
    "crates/solana/pipeline/src/metric/",
    "crates/solana/pipeline/src/benchs/",
    "crates/solana/pipeline/src/bencho/",
    "crates/solana/pipeline/src/tower/saved.rs",
];

const TIME_AND_CHANCE: [&str; 12] = [
    "Instant::now",
    "SystemTime::now",
    "UNIX_EPOCH.elapsed",
    "unix_time",
    "thread_rng",
    "rand::rng",
    "rand::random",
    "fastrand::u64",
    "Rng::new",
    "OsRng",
    "getrandom",
    "sys::random",
];

const IO: [&str; 11] = [
    "UdpSocket",
    "TcpStream",
    "TcpListener",
    "UnixStream",
    "UnixListener",
    "UnixDatagram",
    "std::fs",
    "File::open",
    "OpenOptions",
    "thread::sleep",
    "thread::park",
];

/// A call that asks the machine in place of the host, outside tests.
pub fn gives(tree: &Tree, found: &mut Found) {
    let hosted = |file: &&File| HOSTED.iter().any(|folder| file.path.starts_with(folder)) && !file.is_test();
    for file in tree.rust().filter(hosted) {
        let does_io = DOES_IO.iter().any(|folder| file.path.starts_with(folder));
        let calls = TIME_AND_CHANCE.iter().chain(IO.iter().filter(|_| !does_io));
        let tests_from = file.tests_from().unwrap_or(usize::MAX);
        for (call, at) in calls.flat_map(|call| words(&file.code, call).map(move |at| (call, at))) {
            let line = line_of(&file.code, at);
            if line < tests_from {
                found.at(&file.path, line, format!("`{call}`: the host gives time, chance and I/O"));
            }
        }
    }
}
