//! The beginning of a scenario's chain: by `hearth genesis create`, or by `solana-genesis`.
//!
//! reads   docs/features.md, for the features that a chain must not have
//! writes  a ledger folder, and the files that the two programs read

use std::path::Path;
use std::process::Command;

use serde_json::json;

use super::Lab;
use crate::run;

/// The lamports of a whole stake.
pub const STAKE: u64 = 1_000_000_000_000_000;
/// Lamports of an identity: its votes' fees for days.
const IDENTITY_LAMPORTS: u64 = 500_000_000_000;
const FAUCET_LAMPORTS: &str = "500000000000000000";
/// Ticks per slot in the chains of both programs.
pub const TICKS_PER_SLOT: u64 = 64;

/// A supported feature that chains begin with and that one scenario leaves pending: it moves no stakes and changes no
/// block.
pub const PENDING: &str = "bn2oPgpkzQPT3tohMaAsMVGjhDmmDa4jCaVPqCFmtxM";
/// The owner of feature accounts.
const FEATURE_PROGRAM: &str = "Feature111111111111111111111111111111111111";
/// Nine bytes of zeros in base64: a feature without the slot since which it is active.
const PENDING_DATA: &str = "AAAAAAAAAAAA";
/// The minimum balance of such an account: 6,960 lamports for each of 128 + 9 bytes.
const PENDING_LAMPORTS: u64 = 6_960 * (128 + 9);

/// A validator with stake from the beginning. Its keys are `NAME-id`, `NAME-vote` and `NAME-stake`.
#[derive(Clone, Copy)]
pub struct Staked {
    pub name: &'static str,
    pub lamports: u64,
}

impl Staked {
    pub const fn new(name: &'static str, lamports: u64) -> Self {
        Self { name, lamports }
    }
}

/// The parameters of a chain's genesis.
pub struct Genesis<'a> {
    /// The first begins the cluster.
    pub staked: &'a [Staked],
    pub epoch_slots: u64,
    /// Whether [`PENDING`] is pending. Only [`Genesis::by_hearth`] knows this.
    pub has_pending: bool,
}

impl Genesis<'_> {
    /// By `hearth genesis create`, with the cluster's programs and SPL's.
    pub fn by_hearth(&self, lab: &Lab, ledger: &Path) -> Result<(), String> {
        let mut command = Command::new(&lab.hearth);
        command.args(["genesis", "create", "--usual-programs"]);
        if self.has_pending {
            let account = json!({ PENDING: {
                "balance": PENDING_LAMPORTS, "owner": FEATURE_PROGRAM, "data": PENDING_DATA, "executable": false,
            }});
            let file = lab.written("pending.json", &account.to_string())?;
            command.args(["--deactivate-feature", PENDING, "--primordial-accounts-file"]).arg(file);
        }
        run::run(self.options(lab, ledger, &mut command)?)
    }

    /// By `solana-genesis`, without the features that we do not support. The chain has few programs, not even that of
    /// stakes.
    pub fn by_solana(&self, lab: &Lab, ledger: &Path) -> Result<(), String> {
        let mut command = Command::new(lab.programs.join("solana-genesis"));
        for feature in unsupported_features()? {
            command.args(["--deactivate-feature", &feature]);
        }
        run::run(self.options(lab, ledger, &mut command)?)
    }

    /// The options that both programs have in common.
    fn options<'c>(&self, lab: &Lab, ledger: &Path, command: &'c mut Command) -> Result<&'c mut Command, String> {
        let first = self.staked.first().ok_or("a genesis needs a node with stake")?;
        command.arg("--ledger").arg(ledger).args(["--cluster-type", "development", "--hashes-per-tick", "sleep"]);
        command.args(["--slots-per-epoch", &self.epoch_slots.to_string()]);
        command.args(["--target-tick-duration", &(lab.slot_ms * 1_000 / TICKS_PER_SLOT).to_string()]);
        command.args(["--faucet-pubkey", &lab.address("faucet")?, "--faucet-lamports", FAUCET_LAMPORTS]);
        command.args(["--bootstrap-validator-stake-lamports", &first.lamports.to_string()]);
        command.args(["--bootstrap-validator-lamports", &IDENTITY_LAMPORTS.to_string()]);
        let (equal, others): (Vec<Staked>, Vec<Staked>) =
            self.staked.iter().copied().partition(|staked| staked.lamports == first.lamports);
        for staked in equal {
            command.arg("--bootstrap-validator").args(addresses(lab, staked)?);
        }
        if !others.is_empty() {
            command.arg("--validator-accounts-file").arg(lab.written("validators.yml", &accounts(lab, &others)?)?);
        }
        Ok(command)
    }
}

/// The addresses of identity, vote account and stake account.
fn addresses(lab: &Lab, staked: Staked) -> Result<[String; 3], String> {
    let address = |kind: &str| lab.address(&format!("{}-{kind}", staked.name));
    Ok([address("id")?, address("vote")?, address("stake")?])
}

/// The file of nodes whose stake is not that of the first.
fn accounts(lab: &Lab, staked: &[Staked]) -> Result<String, String> {
    let mut text = "validator_accounts:\n".to_owned();
    for staked in staked {
        let [identity, vote, stake] = addresses(lab, *staked)?;
        text += &format!(
            "- balance_lamports: {IDENTITY_LAMPORTS}\n  stake_lamports: {}\n  identity_account: {identity}\n  \
             vote_account: {vote}\n  stake_account: {stake}\n",
            staked.lamports,
        );
    }
    Ok(text)
}

/// The features of docs/features.md that a chain of ours must not have.
fn unsupported_features() -> Result<Vec<String>, String> {
    let page = run::root().join("docs/features.md");
    let text = std::fs::read_to_string(&page).map_err(|error| format!("{}: {error}", page.display()))?;
    Ok(features(&text, "not supported"))
}

/// The second column of each row whose third is `support`.
fn features(page: &str, support: &str) -> Vec<String> {
    let rows = page.lines().filter_map(|line| {
        let mut cells = line.split('|').map(str::trim).skip(2);
        let feature = cells.next()?.strip_prefix('`')?.strip_suffix('`')?;
        (cells.next()? == support).then(|| feature.to_owned())
    });
    rows.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_are_not_supported_are_found() {
        let page = "- *not supported*: it must not be active.\n| Slots become shorter | not supported |\n\
                    | `alpenglow` | `a1pen` | not supported | – | another consensus |\n| `x` | `y` | implemented | – | |\n";
        assert_eq!(features(page, "not supported"), ["a1pen"]);
        assert!(unsupported_features().is_ok_and(|features| !features.is_empty()));
    }

    #[test]
    fn pending_feature_may_become_active() {
        let page = std::fs::read_to_string(run::root().join("docs/features.md")).unwrap();
        assert!(features(&page, "implemented").iter().any(|feature| feature == PENDING));
    }
}
