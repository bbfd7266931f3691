//! The mutator.

use hearth_fuzz::mutate::{BYTES_MAX, Mutator};

#[test]
fn a_seed_makes_the_same_inputs() {
    let corpus = [b"one file".to_vec(), vec![0; 300], Vec::new()];
    let run = |seed: u64| -> Vec<Vec<u8>> {
        let mut mutator = Mutator::new(seed, &corpus, &["token"]);
        let mut input = Vec::new();
        let mut next = || {
            mutator.next(&mut input);
            input.clone()
        };
        (0..2_000).map(|_| next()).collect()
    };
    let inputs = run(7);
    assert_eq!(inputs, run(7));
    assert_ne!(inputs, run(8));
    assert!(inputs.iter().any(|input| input.windows(5).any(|part| part == b"token")));
    assert!(inputs.iter().all(|input| input.len() <= BYTES_MAX));
}

#[test]
fn an_empty_corpus_makes_inputs() {
    let mut mutator = Mutator::new(1, &[], &[]);
    let mut input = Vec::new();
    let mut longest = 0;
    for _ in 0..1_000 {
        mutator.next(&mut input);
        longest = longest.max(input.len());
    }
    assert!(longest > 8, "{longest}");
}
