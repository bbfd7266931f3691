//! Presents a parsed transaction to the engine without copying its bytes.
//!
//! reads   a parsed transaction, the addresses from its lookup tables
//! memory  120 bytes, and the addresses from lookup tables
//! source  `solana-svm-transaction` 4.2; which accounts are writable: `hearth_wire::txn`

use solana_hash::Hash;
use solana_message::AccountKeys;
use solana_message::v0::LoadedAddresses;
use solana_pubkey::Pubkey;
use solana_signature::Signature;
use solana_svm_transaction::instruction::SVMInstruction;
use solana_svm_transaction::message_address_table_lookup::SVMMessageAddressTableLookup;
use solana_svm_transaction::svm_message::{SVMMessage, SVMStaticMessage};
use solana_svm_transaction::svm_transaction::SVMTransaction;
use solana_transaction::versioned::TransactionVersion;

use hearth_ledger::bank::RuntimeTransaction;
use hearth_ledger::programs::is_reserved;
use hearth_wire::AccountSet;
use hearth_wire::Txn;
use hearth_wire::txn::{CompiledInstruction, Version};

/// A transaction in the form that the engine expects.
#[derive(Debug)]
pub(crate) struct Message<'a> {
    txn: &'a Txn<'a>,
    keys: &'a [Pubkey],
    loaded: Option<LoadedAddresses>,
    writes: AccountSet,
    programs: AccountSet,
}

impl<'a> Message<'a> {
    pub(crate) fn new(request: &RuntimeTransaction<'a>) -> Self {
        let (txn, loaded) = (request.txn, request.loaded);
        let addresses = |keys: &[hearth_wire::Pubkey]| bytemuck::cast_slice(keys).to_vec();
        Self {
            txn,
            keys: bytemuck::cast_slice(txn.account_keys()),
            loaded: (!loaded.all().is_empty()).then(|| LoadedAddresses {
                writable: addresses(loaded.writable()),
                readonly: addresses(loaded.readonly()),
            }),
            writes: txn.write_locks(loaded.all(), is_reserved),
            programs: txn.invoked_programs(),
        }
    }
}

fn instruction(instruction: CompiledInstruction<'_>) -> SVMInstruction<'_> {
    let CompiledInstruction { program_id_index, accounts, data } = instruction;
    SVMInstruction { program_id_index, accounts, data }
}

impl SVMStaticMessage for Message<'_> {
    fn version(&self) -> TransactionVersion {
        match self.txn.version() {
            Version::Legacy => TransactionVersion::LEGACY,
            Version::V0 => TransactionVersion::Number(0),
        }
    }

    fn num_transaction_signatures(&self) -> u64 {
        self.txn.signatures().len() as u64
    }

    fn num_write_locks(&self) -> u64 {
        (0..self.txn.account_count()).filter(|&index| self.txn.is_writable(index)).count() as u64
    }

    fn recent_blockhash(&self) -> &Hash {
        bytemuck::cast_ref(self.txn.recent_blockhash())
    }

    fn num_instructions(&self) -> usize {
        self.txn.instruction_count()
    }

    fn instructions_iter(&self) -> impl Iterator<Item = SVMInstruction<'_>> {
        self.txn.instructions().map(instruction)
    }

    fn program_instructions_iter(&self) -> impl Iterator<Item = (&Pubkey, SVMInstruction<'_>)> + Clone {
        self.txn.instructions().map(|one| (&self.keys[usize::from(one.program_id_index)], instruction(one)))
    }

    fn static_account_keys(&self) -> &[Pubkey] {
        self.keys
    }

    fn fee_payer(&self) -> &Pubkey {
        &self.keys[0]
    }

    fn num_lookup_tables(&self) -> usize {
        self.txn.address_table_lookups().len()
    }

    fn message_address_table_lookups(&self) -> impl Iterator<Item = SVMMessageAddressTableLookup<'_>> {
        self.txn.address_table_lookups().map(|lookup| SVMMessageAddressTableLookup {
            account_key: bytemuck::cast_ref(lookup.account_key),
            writable_indexes: lookup.writable_indexes,
            readonly_indexes: lookup.readonly_indexes,
        })
    }
}

impl SVMMessage for Message<'_> {
    fn account_keys(&self) -> AccountKeys<'_> {
        AccountKeys::new(self.keys, self.loaded.as_ref())
    }

    fn is_writable(&self, index: usize) -> bool {
        self.writes.contains(index)
    }

    fn is_signer(&self, index: usize) -> bool {
        self.txn.is_signer(index)
    }

    fn is_invoked(&self, index: usize) -> bool {
        self.programs.contains(index)
    }
}

/// Stands for the signature in the engine's interface: signatures are already verified, and the engine ignores them.
static NO_SIGNATURE: std::sync::LazyLock<Signature> = std::sync::LazyLock::new(Signature::default);

impl SVMTransaction for Message<'_> {
    fn signature(&self) -> &Signature {
        &NO_SIGNATURE
    }

    fn signatures(&self) -> &[Signature] {
        &[]
    }
}
