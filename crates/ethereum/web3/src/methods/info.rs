//! The node's rules and history: `eth_config`, `eth_capabilities`, `eth_baseFee`.
//!
//! reads   the forks of the genesis; the newest block; the oldest block and state that are kept
//! source  EIP-7910, 7892; the execution API of ethereum.org

use alloy_eips::{eip2935, eip4788, eip7002, eip7251};
use alloy_primitives::Address;
use hearth_evm::exec::SpecId;
use hearth_evm::genesis::Activation;
use revm::precompile::{PrecompileSpecId, Precompiles};

use super::Api;
use crate::json::{self, Object};

impl Api {
    /// Returns the base fee of the next block.
    pub(super) fn next_base_fee(&self) -> String {
        json::quantity(self.chain.pending_env().base_fee)
    }

    /// Returns the fork of the newest block, the next one that has a time, and the last.
    pub(super) fn fork_config(&self) -> String {
        let genesis = self.chain.genesis();
        let head = self.chain.head();
        let (number, time) = (head.number(), head.header.timestamp);
        // A change of only the blob parameters is a fork, too.
        let of_blobs = genesis.blobs.times().map(|time| (genesis.spec(u64::MAX, time), Activation::Time(time)));
        let mut scheduled: Vec<_> = genesis.forks.scheduled().iter().copied().chain(of_blobs).collect();
        // Stable: the forks by height stay first, and of those that begin together the bounds come after the rules.
        scheduled.sort_by_key(|(_, from)| begin_time(*from));
        let later: Vec<_> = scheduled.iter().filter(|(_, from)| !from.is_active(number, time)).collect();
        let current = scheduled.iter().rev().find(|(_, from)| from.is_active(number, time));
        json::object(|object| {
            for (name, fork) in
                [("current", current), ("next", later.first().copied()), ("last", later.last().copied())]
            {
                match fork {
                    Some((spec, from)) => object.object(name, |object| self.push_fork(object, *spec, *from)),
                    None => object.null(name),
                }
            }
        })
    }

    fn push_fork(&self, object: &mut Object<'_>, spec: SpecId, from: Activation) {
        let genesis = self.chain.genesis();
        let begins = begin_time(from);
        object.decimal("activationTime", begins);
        // Before Cancun there are no blobs. The schema has the object anyway.
        let (target, max, fraction) = match spec.is_enabled_in(SpecId::CANCUN) {
            true => {
                let params = genesis.blobs.params(spec, begins);
                (params.target_blob_count, params.max_blob_count, params.update_fraction)
            }
            false => (0, 0, 0),
        };
        object.object("blobSchedule", |object| {
            object.decimal("target", target);
            object.decimal("max", max);
            object.raw("baseFeeUpdateFraction", &fraction.to_string());
        });
        object.quantity("chainId", self.chain_id());
        let zero = self.chain.zero_hash();
        let (zero_time, blob_times) = (genesis.timestamp, genesis.blobs.times());
        let id = genesis.forks.id(&zero, zero_time, blob_times, u64::MAX, begins.max(zero_time));
        object.text("forkId", &format!("0x{id:08x}"));
        object.object("precompiles", |object| {
            let precompiles = Precompiles::new(PrecompileSpecId::from_spec_id(spec));
            let mut named: Vec<_> =
                precompiles.inner().iter().map(|(address, one)| (one.id().name(), address)).collect();
            named.sort_unstable();
            named.into_iter().for_each(|(name, address)| object.data(name, address.as_slice()));
        });
        object.object("systemContracts", |object| {
            let contracts = system_contracts(spec, genesis.deposit_contract);
            contracts.for_each(|(name, address)| object.data(name, address.as_slice()));
        });
    }

    /// Returns the head, and the first block of each kind of history that is kept.
    pub(super) fn capabilities(&self) -> String {
        let head = self.chain.head();
        let kept = self.chain.kept_states();
        // The state may be ahead of the head by a block.
        let states = kept.oldest.min(head.number());
        let earliest = self.earliest();
        json::object(|object| {
            object.object("head", |object| {
                object.quantity("number", head.number());
                object.data("hash", head.hash.as_slice());
            });
            let kinds = [
                ("state", states),
                ("tx", earliest),
                ("logs", earliest),
                ("receipts", earliest),
                ("blocks", earliest),
                ("stateproofs", states),
            ];
            for (name, oldest) in kinds {
                object.object(name, |object| {
                    object.flag("disabled", false);
                    object.quantity("oldestBlock", oldest);
                    if name.starts_with("state") && kept.blocks_max != u64::MAX {
                        object.object("deleteStrategy", |object| {
                            object.text("type", "window");
                            object.quantity("retentionBlocks", kept.blocks_max);
                        });
                    }
                });
            }
        })
    }
}

/// Seconds of the Unix epoch; 0 for a fork by height, all of which precede those by time.
fn begin_time(from: Activation) -> u64 {
    match from {
        Activation::Height(_) => 0,
        Activation::Time(time) => time,
    }
}

/// Names and addresses of the system contracts under these rules, and of the deposit contract.
fn system_contracts(spec: SpecId, of_deposits: Address) -> impl Iterator<Item = (&'static str, Address)> {
    let all = [
        ("BEACON_ROOTS_ADDRESS", eip4788::BEACON_ROOTS_ADDRESS, SpecId::CANCUN),
        ("CONSOLIDATION_REQUEST_PREDEPLOY_ADDRESS", eip7251::CONSOLIDATION_REQUEST_PREDEPLOY_ADDRESS, SpecId::PRAGUE),
        ("DEPOSIT_CONTRACT_ADDRESS", of_deposits, SpecId::PRAGUE),
        ("HISTORY_STORAGE_ADDRESS", eip2935::HISTORY_STORAGE_ADDRESS, SpecId::PRAGUE),
        ("WITHDRAWAL_REQUEST_PREDEPLOY_ADDRESS", eip7002::WITHDRAWAL_REQUEST_PREDEPLOY_ADDRESS, SpecId::PRAGUE),
    ];
    all.into_iter().filter(move |(.., from)| spec.is_enabled_in(*from)).map(|(name, address, _)| (name, address))
}
