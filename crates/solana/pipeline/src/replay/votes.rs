//! votes: reads what the transactions of a block vote for.
//!
//! reads   transactions; the vote accounts
//! writes  votes
//! memory  none
//! drops   votes not signed by the account's authorized voter

use hearth_ledger::{Ledger, VoteState};
use hearth_wire::Txn;
use hearth_wire::vote::{VoteTarget, voted_for};

/// Returns what a transaction votes for, if the account's authorized voter is a signer. Does not verify signatures.
pub fn cast(ledger: &Ledger, txn: &Txn<'_>) -> Option<VoteTarget> {
    let voted = voted_for(txn)?;
    let epoch = ledger.clock().epoch;
    let state = ledger.account(&voted.account)?;
    let voter = VoteState::read(state.data())?.voter(epoch)?;
    txn.signer_keys().contains(&voter).then_some(voted)
}

#[cfg(test)]
mod tests {
    use hearth_crypto::ed25519::SigningKey;
    use hearth_ledger::genesis::funded_account_key;
    use hearth_ledger::{Genesis, GenesisConfig, LedgerConfig, stakes};
    use hearth_wire::vote::{Lockout, TowerSync, VotedBlock};

    use super::*;

    /// Anyone can send a transaction that claims to be another node's vote.
    #[test]
    fn only_the_authorized_voter_counts() {
        let [node, stranger] = [1, 2].map(funded_account_key);
        let (account, stake) = ([7; 32], [8; 32]);
        let extra_accounts = stakes::genesis_accounts(&account, &stake, &node.public_key()).to_vec();
        let development = GenesisConfig::development(node.public_key(), [2; 32], 1_700_000_000);
        let genesis = Genesis::create(GenesisConfig { extra_accounts, ..development }, |_| {}).unwrap();
        let ledger = Ledger::new(&genesis, LedgerConfig::default());
        let votes = [Lockout { slot: 3, confirmation_count: 1 }];
        let sync = TowerSync { votes: &votes, root: None, timestamp: None, is_switch: false };
        let block = VotedBlock { slot: 3, bank_hash: [3; 32], block_id: [4; 32], blockhash: *ledger.genesis_hash() };
        let by =
            |key: &SigningKey| sync.message(&key.public_key(), &account, &block).sign_with(|_, bytes| key.sign(bytes));
        let voted = VoteTarget { account, slot: 3, bank_hash: [3; 32], block_id: [4; 32] };
        assert_eq!(cast(&ledger, &Txn::parse(&by(&node)).unwrap()), Some(voted));
        let forged = by(&stranger);
        assert_eq!(voted_for(&Txn::parse(&forged).unwrap()), Some(voted), "it looks like one");
        assert_eq!(cast(&ledger, &Txn::parse(&forged).unwrap()), None);
    }
}
