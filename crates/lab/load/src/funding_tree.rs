//! Distributes money as a tree, so that thousands of accounts take a few levels.
//!
//! reads   all balances, as found by the caller
//! writes  the transfers of one level
//! memory  32 B per account
//!
//! An account with more than its own amount pays others with the rest, before the rich account does. This forms the
//! tree, and lets an interrupted funding resume.

/// Accounts sorted by balance: those that are short, and those that can pay others.
#[derive(Debug, PartialEq, Eq)]
pub struct Survey<A> {
    /// Accounts with less than the amount.
    pub short: Vec<A>,
    /// Accounts with more, and how many others each can pay for.
    pub payers: Vec<(A, usize)>,
}

/// A transfer of one level. It carries the money of several accounts, the receiver's among them.
#[derive(Debug, PartialEq, Eq)]
pub struct Transfer<A> {
    /// The payer; none is the rich account.
    pub from: Option<A>,
    /// The account that receives the money.
    pub to: A,
    /// Number of accounts that it pays for.
    pub accounts: usize,
}

impl<A: Copy> Survey<A> {
    /// Sorts accounts, each with the number of others that it can pay for; none if it is short itself.
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

    /// Returns how many accounts the payers cannot cover.
    pub fn beyond(&self) -> usize {
        let paid = self.payers.iter().fold(0usize, |sum, (_, enough_for)| sum.saturating_add(*enough_for));
        self.short.len().saturating_sub(paid)
    }

    /// Returns the transfers of this level: every payer pays at most `fan` others, and gives them what they pass on. A
    /// payer's transfers are adjacent.
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

    /// The amount, and what an account costs its payer: a fee more.
    const AMOUNT: u64 = 1_000;
    const EACH: u64 = 1_005;

    fn survey(balances: &[u64]) -> Survey<usize> {
        let enough_for = |has: u64| has.checked_sub(AMOUNT).map(|surplus| (surplus / EACH) as usize);
        Survey::of(balances.iter().map(|has| enough_for(*has)).enumerate())
    }

    /// Counts the levels until every account has the amount, if the first holds all the money or the rich account pays.
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
