//! Network cards: rings, channels, offloads.
//!
//! reads   `/sys/class/net`, the output of `ethtool`
//! source  ethtool(8); "Segmentation Offloads" of the kernel's documentation

use std::process::Command;

use super::{Fault, MachineRequirements, Remedy, StageVerdict};
use crate::network::{Interface, listening};
use crate::{Machine, Root};

pub fn look(root: &Root, machine: &Machine, wants: &MachineRequirements) -> StageVerdict {
    let names = listening(root, &machine.network, wants.listens);
    if names.is_empty() {
        return StageVerdict::Well(format!(
            "the node listens on {} (tiles.net.bind_address): no network card is involved",
            wants.listens
        ));
    }
    let cards = machine.network.iter().filter(|card| card.is_device && names.contains(&card.name));
    let faults = cards.flat_map(|card| card_faults(root, card, wants)).collect();
    StageVerdict::of(faults, format!("{}: rings, channels and offloads as the node wants them", names.join(", ")))
}

fn card_faults(root: &Root, card: &Interface, wants: &MachineRequirements) -> Vec<Fault> {
    let name = &card.name;
    let Some(ask) = Tool::find(root) else {
        return vec![Fault {
            what: format!("ethtool is not there, so the rings, channels and offloads of {name} cannot be looked at"),
            costs: format!(
                "unknown; receiving queues of {name}: {}, packets that it missed: {}",
                card.receive_queues, card.missed
            ),
            remedy: Remedy::ByHand("sudo apt-get install ethtool".into()),
        }];
    };
    let channels = ask.pair("-l", name, "Combined");
    let ring = ask.pair("-g", name, "RX");
    let joins = ask.feature(name, "generic-receive-offload");
    let mut faults = vec![];
    // More channels than receiving tiles would only spread a tile's flows over more cores.
    if let Some((most, now)) = channels.filter(|(most, now)| now < most && *now < wants.net_tiles as u64) {
        let wanted = most.min(wants.net_tiles as u64);
        faults.push(Fault {
            what: format!("{name} has {now} of {most} channels for {} net tiles", wants.net_tiles),
            costs: "one core takes the interrupts of several net tiles, and limits them together".into(),
            remedy: set("-L", name, "combined", wanted, now),
        });
    }
    // A long ring costs cache, so recommend one only after losses.
    if let Some((most, now)) = ring.filter(|(most, now)| now < most && card.missed > 0) {
        faults.push(Fault {
            what: format!("{name} has a receiving ring of {now} of {most}, and has missed packets"),
            costs: format!("{} packets lost in the card since it came up; clients send them again", card.missed),
            remedy: set("-G", name, "rx", most, now),
        });
    }
    if joins == Some(false) {
        faults.push(Fault {
            what: format!("generic-receive-offload of {name} is off"),
            costs: "net takes datagrams one by one: 126 K/s rather than 1.21 M/s in runs of 32 (docs/performance.md)"
                .into(),
            remedy: set("-K", name, "gro", "on", "off"),
        });
    }
    faults
}

fn set(option: &str, name: &str, key: &str, wanted: impl ToString, now: impl ToString) -> Remedy {
    let command = |value: String| vec!["ethtool".into(), option.into(), name.into(), key.into(), value];
    Remedy::Run { command: command(wanted.to_string()), undo: command(now.to_string()), folder: None }
}

/// Returns the current value of a setting that a command of [`look`] sets; `None` if that cannot be seen.
pub fn now(root: &Root, command: &[String]) -> Option<String> {
    let [_, option, name, ..] = command else { return None };
    let ask = Tool::find(root)?;
    match option.as_str() {
        "-L" => Some(ask.pair("-l", name, "Combined")?.1.to_string()),
        "-G" => Some(ask.pair("-g", name, "RX")?.1.to_string()),
        "-K" => Some(if ask.feature(name, "generic-receive-offload")? { "on" } else { "off" }.into()),
        _ => None,
    }
}

struct Tool(std::path::PathBuf);

impl Tool {
    fn find(root: &Root) -> Option<Self> {
        root.program("ethtool").map(Self)
    }

    /// Returns the output of an option; `None` if the card lacks the setting.
    fn print(&self, option: &str, name: &str) -> Option<String> {
        let output = Command::new(&self.0).args([option, name]).env("LC_ALL", "C").output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// The most, and the value now, of a key that is printed under both headings.
    fn pair(&self, option: &str, name: &str, key: &str) -> Option<(u64, u64)> {
        let text = self.print(option, name)?;
        let value = |line: &str| line.split_once(':').filter(|(k, _)| k.trim() == key)?.1.trim().parse().ok();
        let mut values = text.lines().filter_map(value);
        Some((values.next()?, values.next()?))
    }

    /// Returns whether a feature is on; `None` if it cannot be changed.
    fn feature(&self, name: &str, key: &str) -> Option<bool> {
        let text = self.print("-k", name)?;
        let value = text.lines().find_map(|line| line.split_once(':').filter(|(k, _)| k.trim() == key))?.1;
        if value.contains("[fixed]") { None } else { Some(value.trim().starts_with("on")) }
    }
}
