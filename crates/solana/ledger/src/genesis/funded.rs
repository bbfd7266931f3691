//! The funded accounts of a development chain: their public seeds, keys and addresses.
//!
//! reads   a count
//! writes  addresses, derived on every core
//! memory  32 bytes per account

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use hearth_crypto::ed25519::SigningKey;
use hearth_crypto::sha256::sha256;
use hearth_wire::Pubkey;
use parking_lot::Mutex;

/// The seed of funded account `index`. It is public: the account exists for benchmarks and experiments.
pub fn funded_account_seed(index: usize) -> [u8; 32] {
    sha256(&[b"hearth funded account", &(index as u64).to_le_bytes()])
}

/// The key of funded account `index`.
pub fn funded_account_key(index: usize) -> SigningKey {
    SigningKey::from_seed(&funded_account_seed(index))
}

/// The addresses of the first `count` funded accounts, derived on every core. Calls `progress` with the number done,
/// from the calling thread, at intervals and at the end.
pub fn derive_funded_accounts(count: usize, mut progress: impl FnMut(usize)) -> Vec<Pubkey> {
    const PART: usize = 256;
    let mut funded = vec![[0; 32]; count];
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let parts = Mutex::new(funded.chunks_mut(PART).enumerate());
    let done = AtomicUsize::new(0);
    let (tell, finished) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            let (tell, parts, done) = (tell.clone(), &parts, &done);
            scope.spawn(move || {
                loop {
                    let part = parts.lock().next();
                    let Some((part, keys)) = part else { break };
                    let first = part * PART;
                    let count = keys.len();
                    keys.iter_mut().zip(first..).for_each(|(key, n)| *key = funded_account_key(n).public_key());
                    // The receiver outlives all senders.
                    let _ = tell.send(done.fetch_add(count, Relaxed) + count);
                }
            });
        }
        drop(tell);
        let mut most = 0;
        finished.iter().for_each(|done| {
            if done > most {
                most = done;
                progress(done);
            }
        });
    });
    funded
}
