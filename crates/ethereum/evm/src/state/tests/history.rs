//! More states than the last 128, and fewer where memory is short.

use std::time::Duration;

use super::*;

/// A history without a limit.
pub(super) const ALL: History = History { blocks: u64::MAX, bytes: u64::MAX };

/// A state, and the model of each of its blocks.
struct Modelled {
    state: State,
    model: Vec<AllAccounts>,
}

impl Modelled {
    fn new(history: Option<History>) -> Self {
        let mut state = State::open(None, &genesis()).expect("in memory");
        if let Some(history) = history {
            state.keep_history(history);
        }
        let model = vec![rebuild::everything(&state.head())];
        Self { state, model }
    }

    /// Commits a block whose changes depend on its number and `fork`: accounts, slots and codes, some removed, some
    /// again.
    fn commit(&mut self, fork: u8) {
        let number = self.model.len() as u64;
        let chance = hash_of(number, fork);
        let who = |at: usize| chance[at] % 24;
        let slots = |at: usize| (at..at + 4).map(|at| (chance[at] % 12, chance[at] / 12 % 4)).collect::<Vec<_>>();
        let mut block = vec![
            Change::Balance(who(0), number + 1),
            Change::Store(who(1), slots(8)),
            Change::Store(who(2), slots(16)),
        ];
        match chance[3] % 8 {
            0 => block.push(Change::Gone(who(4))),
            1 => block.push(Change::Again(who(5), slots(20))),
            2 => block.push(Change::Code(who(6), chance[7])),
            _ => {}
        }
        let mut all = self.model[self.model.len() - 1].clone();
        let changes = changes_of(&all, &block);
        rebuild::apply(&mut all, &changes);
        self.state.commit(number, hash_of(number, fork), changes).expect("it follows");
        self.model.push(all);
    }

    fn check(&self, numbers: impl IntoIterator<Item = u64>) {
        for number in numbers {
            let view = self.state.at(number).unwrap_or_else(|| panic!("block {number} is not kept"));
            check_view(&view, &self.model[number as usize]);
            check_proofs(&view, &self.model[number as usize]);
        }
    }
}

#[test]
fn an_archive_has_every_block_and_a_state_without_one_the_last_128() {
    let (mut usual, mut archive) = (Modelled::new(None), Modelled::new(Some(ALL)));
    for _ in 1..=400 {
        usual.commit(0);
        archive.commit(0);
    }
    assert!(usual.state.at(272).is_none() && usual.state.at(273).is_some());
    let kept = usual.state.handle().kept();
    assert_eq!((kept.oldest, kept.blocks, kept.blocks_max, kept.evicted), (273, 128, 128, 0));
    usual.check([273, 350, 400]);
    let kept = archive.state.handle().kept();
    assert_eq!((kept.oldest, kept.blocks, kept.blocks_max, kept.evicted), (0, 401, u64::MAX, 0));
    archive.check((0..=400).step_by(9));
    for number in 0..=400 {
        let (view, all) = (archive.state.at(number).expect("kept"), &archive.model[number as usize]);
        for who in (0..24).map(address) {
            assert_eq!(view.account(&who), all.get(&who).map(|(account, _)| *account), "block {number} {who}");
        }
    }
}

#[test]
fn a_history_has_as_many_blocks_as_it_is_to() {
    let mut history = Modelled::new(Some(History { blocks: 200, bytes: u64::MAX }));
    for _ in 1..=500 {
        history.commit(0);
    }
    let kept = history.state.handle().kept();
    assert_eq!((kept.oldest, kept.blocks, kept.evicted), (301, 200, 0));
    assert!(history.state.at(300).is_none());
    history.check([301, 302, 400, 500]);
}

#[test]
fn the_oldest_go_when_the_memory_is_used_up() {
    const BYTES: u64 = 512 << 10;
    let mut history = Modelled::new(Some(History { blocks: u64::MAX, bytes: BYTES }));
    for _ in 1..=5 {
        history.commit(0);
    }
    let held = history.state.head();
    for _ in 6..=1_000 {
        history.commit(0);
        let kept = history.state.handle().kept();
        assert!(kept.bytes <= BYTES, "{kept:?}");
    }
    let kept = history.state.handle().kept();
    assert!(kept.bytes > BYTES / 2, "nothing goes before it must: {kept:?}");
    assert_eq!((kept.oldest + kept.blocks, kept.evicted), (1_001, kept.oldest));
    assert!(kept.oldest > 5 && kept.blocks > 20, "{kept:?}");
    assert!(history.state.at(kept.oldest - 1).is_none());
    history.check([kept.oldest, kept.oldest + 1, 990, 1_000]);
    // A reader of an older version reads on, but has no proofs.
    check_view(&held, &history.model[5]);
    assert!(matches!(held.proof(&address(3), &[]), Err(StateError::NoProofs(5))));
    drop(held);
    // With no memory there is the newest alone, and nothing is left of the others.
    history.state.keep_history(History { blocks: u64::MAX, bytes: 0 });
    let kept = history.state.handle().kept();
    assert_eq!((kept.oldest, kept.blocks), (1_000, 1));
    assert_eq!(history.state.sizes().retired_bytes, 0);
    assert!(kept.bytes < 64 << 10, "{kept:?}");
    history.check([1_000]);
}

#[test]
fn going_back_drops_what_is_undone_and_keeps_what_was_before() {
    let mut history = Modelled::new(Some(ALL));
    for _ in 1..=200 {
        history.commit(0);
    }
    let (undone, model) = (history.state.at(150).expect("kept"), history.model[150].clone());
    history.state.rewind(60).expect("kept");
    history.model.truncate(61);
    assert!(history.state.at(61).is_none());
    history.check([0, 1, 30, 59, 60]);
    for _ in 61..=250 {
        history.commit(1);
    }
    history.check([0, 1, 30, 59, 60, 61, 62, 150, 250]);
    check_view(&undone, &model);
    check_proofs(&undone, &model);
    // And further than the last 128, more than once.
    history.state.rewind(3).expect("kept");
    history.model.truncate(4);
    history.commit(2);
    history.check(0..=4);
}

#[test]
fn a_start_begins_with_the_last_128() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut state = State::open(Some(dir.path()), &genesis()).expect("it opens");
    state.keep_history(ALL);
    let mut all = rebuild::everything(&state.head());
    let mut model = vec![all.clone()];
    for number in 1..=200 {
        let changes = changes_of(&all, &[Change::Balance((number % 24) as u8, number), Change::Store(1, vec![(3, 1)])]);
        rebuild::apply(&mut all, &changes);
        state.commit(number, hash_of(number, 0), changes).expect("it follows");
        model.push(all.clone());
    }
    check_view(&state.at(7).expect("kept"), &model[7]);
    state.shorten(Duration::from_secs(60)).expect("it can be written");
    drop(state);
    let mut state = State::open(Some(dir.path()), &genesis()).expect("it opens");
    state.keep_history(ALL);
    let kept = state.handle().kept();
    assert_eq!((kept.oldest, kept.blocks), (73, 128));
    for number in 201..=300 {
        let changes = changes_of(&all, &[Change::Balance((number % 24) as u8, number)]);
        rebuild::apply(&mut all, &changes);
        state.commit(number, hash_of(number, 0), changes).expect("it follows");
        model.push(all.clone());
    }
    assert!(state.at(72).is_none());
    for number in [73, 74, 200, 201, 300] {
        check_view(&state.at(number).expect("kept"), &model[number as usize]);
        check_proofs(&state.at(number).expect("kept"), &model[number as usize]);
    }
}
