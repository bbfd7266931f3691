//! others: what tower exchanges with those parts of the node that are threads, or have sockets of their own.
//!
//! reads   votes and slots that gossip heard; proofs of duplicates; answers to questions for ancestors
//! writes  votes, to gossip; those questions; slots that shred asks for or sends again
//! memory  that of [`Asker`]
//! drops   what gossip lost, counted
//! source  –

use std::sync::Arc;

use hearth_ledger::Ledger;
use hearth_pipeline::tower::{Core, Output, Peers};

use super::ancestors::Asker;
use crate::peers::gossip::Seen;
use crate::say::note;

/// Gossip, shred, and a socket for questions.
pub struct Others {
    /// The chain, for stakes.
    pub ledger: Arc<Ledger>,
    /// Gossip.
    pub seen: Arc<Seen>,
    /// Who asks others for the ancestors of what cannot be executed here.
    pub asker: Asker,
}

impl Peers for Others {
    fn hear(&mut self, core: &mut Core) -> bool {
        let duplicates = self.seen.views.reports.take_duplicates();
        duplicates.iter().for_each(|duplicate| core.on_duplicate(duplicate.slot));
        let heard = self.seen.talk.heard();
        heard.votes.iter().for_each(|transaction| core.on_vote(transaction));
        heard.slots.iter().for_each(|(node, slots)| core.on_slots(node, slots));
        let chain = self.asker.turn(&self.seen.views.newest().repair, &self.ledger);
        chain.iter().for_each(|chain| core.on_ancestors(chain));
        let asked = self.asker.counters();
        core.count.asked_ancestors = asked.asked;
        core.count.told_ancestors = asked.answers;
        core.count.lost_messages = self.seen.talk.lost();
        !(duplicates.is_empty() && heard.votes.is_empty() && heard.slots.is_empty() && chain.is_none())
    }

    fn take(&mut self, output: Output) {
        let Self { seen, asker, .. } = self;
        match output {
            Output::Gossip(transaction) => seen.talk.say(transaction),
            Output::Want(slot) => seen.views.reports.voted(slot),
            Output::Resend(slot) => seen.views.reports.resend(slot),
            Output::AskAncestors(slot) => {
                note(format_args!(
                    "the cluster has a block for slot {slot} that is not executed here: asking which ones it is built on"
                ));
                asker.ask(slot);
            }
            Output::Root(slot) => {
                seen.talk.set_root(slot);
                asker.set_root(slot);
            }
            Output::Confirmed(id) => seen.views.confirmed.push(id),
            Output::Replay(_) | Output::Sign { .. } | Output::Vote(_) => unreachable!("the tile has links for them"),
        }
    }
}
