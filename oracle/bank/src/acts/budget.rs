//! The compute-budget program: limits, prices, heaps and loaded sizes, and what exceeds them.

use solana_compute_budget_interface::ComputeBudgetInstruction as Budget;
use solana_instruction::{AccountMeta, Instruction};
use solana_pubkey::Pubkey;
use solana_signer::Signer;
use solana_system_interface::instruction as system;

use crate::acts::Act;
use crate::block::Block;
use crate::programs::{MEMO_1, MEMO_3, TOKEN};
use crate::world::World;

/// Transactions with requests to the compute budget. The genesis deploys memo and token.
pub struct Budgets;

impl Act for Budgets {
    fn act(&mut self, block: &mut Block<'_>, world: &mut World) {
        let payer = world.user(block.rng);
        let to = world.user(block.rng).pubkey();
        let pay = system::transfer(&payer.pubkey(), &to, block.rng.below(1_000_000));
        let memo = memo(&payer.pubkey(), b"a memo with a budget");
        let limit = Budget::set_compute_unit_limit;
        let price = Budget::set_compute_unit_price;
        let heap = Budget::request_heap_frame;
        let loaded = Budget::set_loaded_accounts_data_size_limit;
        let touch = Instruction::new_with_bytes(MEMO_3, b"touch", vec![AccountMeta::new_readonly(TOKEN, false)]);
        let steps = match block.rng.below(22) {
            0 => vec![limit(0), pay],
            1 => vec![limit(149), pay],
            2 => vec![limit(150), pay],
            3 => vec![limit(2_000_000), price(1), pay],
            4 => vec![limit(300), price(1_000_000), pay],
            5 => vec![limit(1_400_000), price(999_999), pay],
            6 => vec![limit(1_400_000), price(u64::MAX), pay],
            7 => vec![price(3), pay],
            8 => vec![limit(500), limit(600), pay],
            9 => vec![heap(32 * 1024), memo],
            10 => vec![heap(256 * 1024), memo],
            11 => vec![heap(256 * 1024 + 1024), memo],
            12 => vec![heap(33_000), memo],
            13 => vec![loaded(0), pay],
            14 => vec![loaded(block.rng.between(1, 400_000) as u32), memo],
            15 => vec![loaded(64 * 1024 * 1024 + 1), price(2), memo],
            16 => vec![loaded(block.rng.between(74_000, 76_000) as u32), memo],
            17 => vec![limit(block.rng.between(1, 30_000) as u32), memo],
            18 => vec![loaded(150), pay],
            19 => vec![Instruction::new_with_bytes(solana_sdk_ids::compute_budget::id(), &[9, 9], vec![]), pay],
            20 => vec![loaded(120_000), price(7), touch],
            _ => vec![pay, limit(10_000), price(block.rng.below(5_000_000)), memo],
        };
        block.send(&steps, &[&payer]);
    }
}

/// A memo that `signer` signs.
pub fn memo(signer: &Pubkey, text: &[u8]) -> Instruction {
    Instruction::new_with_bytes(MEMO_3, text, vec![AccountMeta::new_readonly(*signer, true)])
}

/// Memos of the first program, which an older loader owns.
pub struct OldMemos;

impl Act for OldMemos {
    fn act(&mut self, block: &mut Block<'_>, world: &mut World) {
        let payer = world.user(block.rng);
        let size = block.rng.below(200) as usize;
        let text = if block.rng.chance(80) { vec![b'm'; size] } else { block.rng.bytes(size) };
        let accounts =
            if block.rng.chance(50) { vec![AccountMeta::new_readonly(payer.pubkey(), true)] } else { vec![] };
        block.send(&[Instruction::new_with_bytes(MEMO_1, &text, accounts)], &[&payer]);
    }
}
