//! Makes another block of a slot that a node leads, before the node's own is whole: for `cargo xtask soak agave`.
//!
//! reads   the node's identity key; the node's shreds: `tiles.shred.additional_shred_destinations` sends copies
//! writes  the shreds of a block of ticks to one address; the slot to standard output

use std::error::Error;
use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::time::{Duration, Instant};

use hearth_sim::hostile::Beginning;

/// More than a shred has.
const DATAGRAM_BYTES: usize = 2_048;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [key, listen, to, seconds, ticks] = args.as_slice() else {
        return Err("expected: KEY_FILE LISTEN_ADDRESS TO_ADDRESS SECONDS TICKS_PER_SLOT".into());
    };
    let identity = hearth_keys::read_private(Path::new(key))?;
    let socket = UdpSocket::bind(listen.as_str())?;
    let to: SocketAddr = to.parse()?;
    let ticks: u64 = ticks.parse()?;
    let Some(beginning) = first_of_a_block(&socket, Duration::from_secs(seconds.parse()?))? else {
        return Err("no block of the node began with a tick in time".into());
    };
    let sign = |root: &[u8; 32]| identity.keypair.sign(root);
    let shreds = beginning.block_of_ticks(ticks, sign).ok_or("a block of so many ticks cannot be made")?;
    for shred in &shreds {
        socket.send_to(shred, to)?;
    }
    println!("slot {}", beginning.slot);
    Ok(())
}

/// Waits for the first shred of a block that begins with a tick.
fn first_of_a_block(socket: &UdpSocket, within: Duration) -> std::io::Result<Option<Beginning>> {
    let start = Instant::now();
    let mut datagram = [0; DATAGRAM_BYTES];
    loop {
        let Some(left) = within.checked_sub(start.elapsed()).filter(|left| !left.is_zero()) else { return Ok(None) };
        socket.set_read_timeout(Some(left))?;
        match socket.recv(&mut datagram) {
            Ok(length) => {
                if let Some(beginning) = Beginning::of(&datagram[..length]) {
                    return Ok(Some(beginning));
                }
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => return Ok(None),
            Err(error) => return Err(error),
        }
    }
}
