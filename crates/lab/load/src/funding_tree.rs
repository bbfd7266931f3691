//! Money as a tree: who pays whom, so that thousands of accounts take a few levels.
//!
//! reads   what everybody has, as whoever calls has found it
//! writes  the transfers of a level
//! memory  32 B an account
//!
//! Who has more than its own amount pays for others with the rest, before the rich account does: so the tree comes
//! about, and so a funding goes on that was cut short.

/// Accounts by what they have: those that are short, and those that can pay, with for how many others.
#[derive(Debug, PartialEq, Eq)]
pub struct Survey<A> {
    /// Who has less than the amount.
    pub short: Vec<A>,
    /// Who has more: enough for itself and so many others.
    pub payers: Vec<(A, usize)>,
}

/// A transfer of a level: so many accounts have their money with it, the receiver among them.
#[derive(Debug, PartialEq, Eq)]
pub struct Transfer<A> {
    /// Who pays; none is the rich account.
    pub from: Option<A>,
    /// Whom.
    pub to: A,
    /// For how many.
    pub accounts: usize,
}

impl<A: Copy> Survey<A> {
    /// Of accounts, with for how many others each has enough; none of one that is short itself.
    pub fn of(accounts: impl Iterator<Item = (A, Option<usize>)>) -> Self {
        let mut survey = Self { short: vec![], payers: vec![] };
        for (account, enough_for) in accounts {
            match enough_for {
                None => survey.short.push(account),
                Some(others) => survey.payers.extend((others > 0).then_some((account, others))),
            }
        }
        survey
    }

    /// For how many the accounts that can pay do not do.
    pub fn beyond(&self) -> usize {
        let paid = self.payers.iter().fold(0usize, |sum, (_, enough_for)| sum.saturating_add(*enough_for));
        self.short.len().saturating_sub(paid)
    }

    /// Who pays whom now: everybody who can pays `fan` others at the most, and gives them what they are to pass on. The
    /// transfers of one payer stand together.
    pub fn level(&self, fan: usize) -> Vec<Transfer<A>> {
        let beyond = self.beyond();
        let mut short = self.short.iter();
        let mut left = self.short.len() - beyond;
        let mut transfers = vec![];
        let payers = self.payers.iter().map(|&(from, enough_for)| (Some(from), enough_for)).chain([(None, beyond)]);
        for (from, enough_for) in payers {
            let share = if from.is_some() { enough_for.min(left) } else { beyond };
            left -= if from.is_some() { share } else { 0 };
            let children = share.min(fan);
            for (child, &to) in (0..children).zip(&mut short) {
                let accounts = share / children + usize::from(child < share % children);
                transfers.push(Transfer { from, to, accounts });
            }
        }
        transfers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The amount, and what an account costs whoever pays for it: a fee more.
    const AMOUNT: u64 = 1_000;
    const EACH: u64 = 1_005;

    fn survey(balances: &[u64]) -> Survey<usize> {
        let enough_for = |has: u64| has.checked_sub(AMOUNT).map(|surplus| (surplus / EACH) as usize);
        Survey::of(balances.iter().map(|has| enough_for(*has)).enumerate())
    }

    /// Levels until everybody has the amount when the first has what all need, or the rich one pays.
    fn levels(count: usize, fan: usize, first_is_rich: bool) -> usize {
        let mut balances = vec![0; count];
        if first_is_rich && count > 0 {
            balances[0] = AMOUNT + EACH * (count as u64 - 1);
        }
        for level in 0.. {
            let survey = survey(&balances);
            if survey.short.is_empty() {
                assert!(survey.payers.is_empty(), "nobody is given more than is needed");
                return level;
            }
            assert_eq!(survey.beyond() == 0, first_is_rich || level > 0, "level {level}");
            let transfers = survey.level(fan);
            let paid: usize = transfers.iter().map(|transfer| transfer.accounts).sum();
            assert_eq!(paid, survey.short.len(), "the money for everybody is on its way");
            assert!(transfers.chunk_by(|one, other| one.from == other.from).all(|of_one| of_one.len() <= fan));
            for Transfer { from, to, accounts } in transfers {
                let sum = AMOUNT + EACH * (accounts as u64 - 1);
                if let Some(from) = from {
                    balances[from] -= sum + (EACH - AMOUNT);
                }
                balances[to] += sum;
            }
        }
        unreachable!()
    }

    #[test]
    fn the_tree_pays_for_everybody() {
        assert_eq!([0, 1, 15, 16, 240, 241, 2_000].map(|count| levels(count, 15, false)), [0, 1, 1, 2, 2, 3, 3]);
        assert_eq!([0, 1, 320, 321, 10_000].map(|count| levels(count, 320, false)), [0, 1, 1, 2, 2]);
        assert_eq!([1, 321, 322, 10_000].map(|count| levels(count, 320, true)), [0, 1, 2, 2]);
    }

    #[test]
    fn a_surplus_pays_before_the_rich_account() {
        let mut balances = vec![0; 20];
        balances[0] = AMOUNT + 18 * EACH;
        let survey = survey(&balances);
        assert_eq!((survey.beyond(), &survey.payers[..]), (1, &[(0, 18)][..]));
        let transfers = survey.level(15);
        let of_rich: Vec<_> = transfers.iter().filter(|transfer| transfer.from.is_none()).collect();
        assert_eq!((transfers.len(), of_rich.len(), of_rich[0].accounts), (16, 1, 1));
    }
}
