//! Model checks of wake-ups between a core that lends its tiles and the one that borrows them: with at most three
//! preemptions, the thread that holds the tiles sees whatever a producer publishes.
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test --release -p hearth-tile --lib`. A lost wake-up leaves all threads
//! asleep, which loom reports as a deadlock, because sleeps in these models never end. The threads lend and give back
//! by the same functions as those of `core/turns.rs`.

use std::sync::Arc;

use loom::thread;

use crate::shared::{CoreShared, give, give_back, lend};
use crate::sync::{AtomicBool, Ordering, fence};
use crate::wake::Waker;

const OWNER: usize = 0;
const BORROWER: usize = 1;

/// A message from the owner to the borrower.
#[derive(Debug)]
enum LendMessage {
    /// The owner's tiles, for the borrower to run.
    Tiles,
    /// It keeps them: the model ends.
    Kept,
}

struct World {
    shared_states: [CoreShared<LendMessage>; 2],
    /// Whether there is work on a link to the owner's tiles.
    work: AtomicBool,
}

impl World {
    fn new() -> Arc<Self> {
        let [owner, borrower] = [(); 2].map(|()| Waker::new().expect("a model has no descriptors to run out of"));
        owner.set_borrower(&borrower);
        let shared_states = [owner, borrower].map(|waker| CoreShared::new(waker, true));
        Arc::new(Self { shared_states, work: AtomicBool::new(false) })
    }

    fn publish(&self) {
        self.work.store(true, Ordering::Release);
        self.shared_states[OWNER].waker().wake();
    }

    fn has_work(&self) -> bool {
        self.work.load(Ordering::Acquire)
    }

    /// Parks core `own` until there is something to do.
    fn park(&self, own: usize, has_something: impl Fn(&Self) -> bool) {
        let waker = self.shared_states[own].waker();
        loop {
            waker.announce();
            if has_something(self) {
                waker.cancel();
                return;
            }
            waker.sleep(&[], 0);
        }
    }

    /// Sleeps as the owner until its tiles are back.
    fn sleep_while_lent(&self) {
        let shared_state = &self.shared_states[OWNER];
        while !shared_state.has_mail() {
            shared_state.waker().sleep_while_lent();
        }
        assert_eq!(shared_state.open().len(), 1);
    }

    /// As the owner: lends the tiles until they are back, or keeps them because there is work.
    fn lend(&self) {
        let [owner, borrower] = &self.shared_states;
        match lend(owner.waker(), borrower, || (!self.has_work()).then_some(LendMessage::Tiles)) {
            Ok(()) => self.sleep_while_lent(),
            Err(None) => give(LendMessage::Kept, borrower).expect("the borrower has not stopped"),
            Err(Some(_)) => panic!("the borrower has not stopped"),
        }
    }

    fn give_back(&self) {
        give_back(LendMessage::Tiles, &self.shared_states[OWNER]).expect("the owner has not stopped");
    }
}

fn model(body: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(body);
}

#[test]
fn no_wake_up_is_lost_while_tiles_are_lent() {
    model(|| {
        let world = World::new();
        let (producing, borrowing) = (Arc::clone(&world), Arc::clone(&world));
        let producer = thread::spawn(move || producing.publish());
        let borrower = thread::spawn(move || {
            borrowing.park(BORROWER, |world| world.shared_states[BORROWER].has_mail());
            if matches!(borrowing.shared_states[BORROWER].open()[..], [LendMessage::Tiles]) {
                borrowing.park(BORROWER, World::has_work);
                borrowing.give_back();
            }
        });
        world.lend();
        assert!(world.has_work());
        producer.join().unwrap();
        borrower.join().unwrap();
    });
}

/// The borrower publishes for tiles that may be on their way to it, in the pass before a sleep: it wakes their owner,
/// or has the tiles soon, but never signals itself.
#[test]
fn a_borrower_need_not_wake_itself() {
    model(|| {
        let world = World::new();
        let borrowing = Arc::clone(&world);
        let borrower = thread::spawn(move || {
            let [owner, own] = [OWNER, BORROWER].map(|core| borrowing.shared_states[core].waker());
            own.announce();
            borrowing.work.store(true, Ordering::Release);
            fence(Ordering::SeqCst);
            owner.wake_fenced(Some(own));
            // A pass that published is followed by another.
            own.cancel();
            borrowing.park(BORROWER, |world| world.shared_states[BORROWER].has_mail());
            if matches!(borrowing.shared_states[BORROWER].open()[..], [LendMessage::Tiles]) {
                borrowing.give_back();
            }
        });
        world.lend();
        assert!(world.has_work());
        borrower.join().unwrap();
    });
}

#[test]
fn no_wake_up_is_lost_while_tiles_are_given_back() {
    model(|| {
        let world = World::new();
        world.shared_states[OWNER].waker().set_lent(true);
        let (producing, borrowing) = (Arc::clone(&world), Arc::clone(&world));
        let producer = thread::spawn(move || producing.publish());
        // It does not see the work, and never checks again.
        let borrower = thread::spawn(move || borrowing.give_back());
        world.sleep_while_lent();
        world.park(OWNER, World::has_work);
        producer.join().unwrap();
        borrower.join().unwrap();
    });
}
