//! Network interfaces: queues, losses, and which cores their interrupts go to.
//!
//! reads   `/sys/class/net`, `/proc/irq`, `/proc/interrupts`, `/proc/net/route`, `/proc/net/if_inet6`
//! source  sysfs-class-net, irq-affinity.rst of the kernel's documentation

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde::Serialize;

use crate::Root;

const FOLDER: &str = "/sys/class/net";

/// A network interface, as `/sys/class/net` describes it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Interface {
    /// Name, such as `eth0`.
    pub name: String,
    /// Whether it stands for a device, as `lo` and bridges do not.
    pub is_device: bool,
    /// Link state: `up`, `down` or `unknown`.
    pub state: String,
    /// Driver name; empty if there is none.
    pub driver: String,
    /// Speed in Mbit/s, if the device reports it.
    pub speed_mbit: Option<u64>,
    /// The NUMA node it hangs on.
    pub node: Option<usize>,
    /// Number of receive queues.
    pub receive_queues: usize,
    /// Number of transmit queues.
    pub send_queues: usize,
    /// Packets that the device had no room for since it came up.
    pub missed: u64,
    /// Interrupts of the interface.
    pub interrupts: Vec<Interrupt>,
}

/// An interrupt of a network interface.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Interrupt {
    /// The interrupt's number, as `/proc/irq` has it.
    pub number: usize,
    /// The driver's name for it.
    pub name: String,
    /// Cores that it may go to.
    pub allowed: Vec<usize>,
    /// Cores that it is delivered to, if the kernel reports them.
    pub effective: Vec<usize>,
}

impl Interrupt {
    /// The file that sets where it goes.
    pub fn file(&self) -> String {
        format!("/proc/irq/{}/smp_affinity_list", self.number)
    }

    /// Cores that it is delivered to, or may be if the kernel does not report that.
    pub fn cores(&self) -> &[usize] {
        if self.effective.is_empty() { &self.allowed } else { &self.effective }
    }
}

/// Reads the interfaces from the kernel.
pub fn read(root: &Root) -> Vec<Interface> {
    let table = root.text("/proc/interrupts").unwrap_or_default();
    root.names(FOLDER).into_iter().map(|name| interface(root, name, &table)).collect()
}

fn interface(root: &Root, name: String, table: &str) -> Interface {
    let file = |path: &str| format!("{FOLDER}/{name}/{path}");
    let queues = |kind: &str| root.names(file("queues")).iter().filter(|queue| queue.starts_with(kind)).count();
    let lost = |kind: &str| root.value::<u64>(file(&format!("statistics/{kind}"))).unwrap_or(0);
    let driver = std::fs::read_link(root.path(file("device/driver"))).ok();
    let driver = driver.and_then(|path| Some(path.file_name()?.to_str()?.to_owned()));
    let device = std::fs::canonicalize(root.path(file("device"))).ok();
    let device = device.and_then(|path| Some(path.file_name()?.to_str()?.to_owned()));
    // A virtio device's interrupts are those of the device around it.
    let mut numbers = root.numbered(file("device/msi_irqs"), "");
    numbers.extend(root.numbered(file("device/../msi_irqs"), ""));
    let named = |(_, label): &(usize, String)| {
        let begins = |word: &str| label.strip_prefix(word).is_some_and(|rest| !rest.starts_with(char::is_alphanumeric));
        begins(&name) || device.as_deref().is_some_and(begins)
    };
    let of_table: Vec<(usize, String)> = labels(table);
    numbers.extend(of_table.iter().filter(|one| named(one)).map(|(number, _)| *number));
    numbers.sort_unstable();
    numbers.dedup();
    let interrupt = |number: usize| Interrupt {
        number,
        name: of_table.iter().find(|(n, _)| *n == number).map(|(_, label)| label.clone()).unwrap_or_default(),
        allowed: root.cores(format!("/proc/irq/{number}/smp_affinity_list")),
        effective: root.cores(format!("/proc/irq/{number}/effective_affinity_list")),
    };
    Interface {
        is_device: device.is_some(),
        state: root.text(file("operstate")).unwrap_or_default(),
        driver: driver.unwrap_or_default(),
        // A device reports -1 for unknown.
        speed_mbit: root.value::<u64>(file("speed")),
        node: root.value(file("device/numa_node")),
        receive_queues: queues("rx-"),
        send_queues: queues("tx-"),
        missed: lost("rx_missed_errors") + lost("rx_fifo_errors"),
        // An interrupt that no driver has requested has no line in the table, and is not delivered.
        interrupts: numbers.into_iter().map(interrupt).filter(|i| !i.name.is_empty()).collect(),
        name,
    }
}

/// Number and last word of each line of `/proc/interrupts` that has a number.
fn labels(table: &str) -> Vec<(usize, String)> {
    let line = |line: &str| {
        let (number, rest) = line.split_once(':')?;
        Some((number.trim().parse().ok()?, rest.split_whitespace().next_back()?.to_owned()))
    };
    table.lines().filter_map(line).collect()
}

/// Returns the names of the interfaces that receive datagrams to `address`: all devices for an unspecified address,
/// none for a loopback one.
pub fn listening(root: &Root, interfaces: &[Interface], address: IpAddr) -> Vec<String> {
    if address.is_loopback() {
        return vec![];
    }
    let found = match address {
        IpAddr::V4(address) => by_route(&root.text("/proc/net/route").unwrap_or_default(), address),
        IpAddr::V6(address) => by_address(&root.text("/proc/net/if_inet6").unwrap_or_default(), address),
    };
    let devices = || interfaces.iter().filter(|i| i.is_device && i.state != "down").map(|i| i.name.clone()).collect();
    match found {
        Some(name) if !address.is_unspecified() => vec![name],
        _ => devices(),
    }
}

/// The interface of the narrowest network without a gateway that holds an address.
fn by_route(table: &str, address: Ipv4Addr) -> Option<String> {
    // The kernel prints the bytes as a word in its own byte order.
    let word = |text: &str| u32::from_str_radix(text, 16).ok().map(|word| u32::from_be_bytes(word.to_ne_bytes()));
    let networks = table.lines().skip(1).filter_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (network, gateway, mask) = (word(fields.get(1)?)?, word(fields.get(2)?)?, word(fields.get(7)?)?);
        let holds = gateway == 0 && mask != 0 && u32::from(address) & mask == network;
        holds.then(|| (mask, fields[0].to_owned()))
    });
    networks.max_by_key(|(mask, _)| *mask).map(|(_, name)| name)
}

fn by_address(table: &str, address: Ipv6Addr) -> Option<String> {
    let wanted: String = address.octets().iter().map(|byte| format!("{byte:02x}")).collect();
    let line = table.lines().find(|line| line.starts_with(&wanted))?;
    line.split_whitespace().next_back().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{board, guest, server};

    #[test]
    fn a_card_with_queues() {
        let made = server();
        let interfaces = read(&made.root);
        let names: Vec<_> = interfaces.iter().map(|i| i.name.as_str()).collect();
        assert_eq!(names, ["eth0", "lo"]);
        let card = &interfaces[0];
        assert!(card.is_device && !interfaces[1].is_device);
        assert_eq!((card.receive_queues, card.send_queues, card.speed_mbit), (2, 2, Some(25_000)));
        assert_eq!((card.node, card.missed, card.state.as_str()), (Some(0), 18, "up"));
        let interrupts: Vec<_> = card.interrupts.iter().map(|i| (i.number, i.name.as_str(), i.cores())).collect();
        assert_eq!(interrupts, [(70, "eth0-TxRx-0", &[0][..]), (71, "eth0-TxRx-1", &[3][..])]);
    }

    #[test]
    fn a_guest_calls_interrupts_by_the_device() {
        let interfaces = read(&guest().root);
        let card = interfaces.iter().find(|i| i.name == "eth0").unwrap();
        let names: Vec<_> = card.interrupts.iter().map(|i| i.name.as_str()).collect();
        assert_eq!(names, ["virtio2-input.0", "virtio2-output.0"]);
        assert_eq!((card.speed_mbit, card.node), (None, None));
    }

    #[test]
    fn where_datagrams_come_in() {
        let made = guest();
        let interfaces = read(&made.root);
        let at = |address: &str| listening(&made.root, &interfaces, address.parse().unwrap());
        assert!(at("127.0.0.1").is_empty() && at("::1").is_empty());
        assert_eq!(at("0.0.0.0"), ["eth0"]);
        assert_eq!(at("192.0.2.7"), ["eth0"], "its network is the interface's");
        assert_eq!(at("fe80::1"), ["eth0"]);
        assert!(read(&board().root).is_empty());
    }
}
