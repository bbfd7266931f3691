//! Filters of the kernel's traffic control, in the namespace's loopback: loss, a partition between the nodes, a stop
//! of what one of them sends to a port.
//!
//! writes  a filter on `lo`, by `tc`
//! drops   UDP datagrams only: RPC is TCP, and goes on

use std::process::Command;

use super::nodes::OURS;
use crate::run;

/// An instruction of a classic BPF program: code, jump if true, jump if false, operand.
type Instruction = [u32; 4];

// Codes of classic BPF.
const LOAD_32: u32 = 0x20;
const LOAD_16: u32 = 0x28;
const LOAD_8: u32 = 0x30;
const TO_X: u32 = 0x07;
const XOR_X: u32 = 0xac;
const AND: u32 = 0x54;
const IF_EQUAL: u32 = 0x15;
const IF_AT_LEAST: u32 = 0x35;
const RETURN: u32 = 0x06;

/// The offset at which the kernel gives a packet's protocol and a random number.
const PROTOCOL: u32 = 0xffff_f000;
const RANDOM: u32 = PROTOCOL + 56;
/// The offset of the header of IP, and places in it: the protocol, the last byte of source and of destination.
const IP: u32 = 0xfff0_0000;
const IP_PROTOCOL: u32 = IP + 9;
const SOURCE_LAST: u32 = IP + 15;
const DESTINATION_LAST: u32 = IP + 19;
/// The port behind a header of IP without options.
const DESTINATION_PORT: u32 = IP + 22;

const IPV4: u32 = 0x800;
const UDP: u32 = 17;

/// Actions of traffic control.
const PASS: Instruction = [RETURN, 0, 0, 0];
const DROP: Instruction = [RETURN, 0, 0, 2];

/// Loses so many of a hundred datagrams, in all directions.
pub fn lose(percent: u32) -> Result<(), String> {
    println!("{percent} % of all datagrams are lost from now on");
    filter(&loss(percent))
}

/// Cuts Agave's nodes, which have odd addresses, from ours.
pub fn cut() -> Result<(), String> {
    println!("the two kinds of nodes do not reach each other from now on");
    filter(&partition())
}

/// Loses what our first node sends to a port.
pub fn withhold(port: u16) -> Result<(), String> {
    println!("what {} sends to port {port} is lost from now on", OURS.0);
    filter(&withheld(port))
}

/// Removes loss, partition and what is withheld.
pub fn heal() -> Result<(), String> {
    println!("no datagram is lost from now on");
    clear()
}

fn clear() -> Result<(), String> {
    run::run(Command::new("tc").args(["filter", "del", "dev", "lo", "egress"]))
}

fn filter(program: &[Instruction]) -> Result<(), String> {
    let why =
        |error: String| format!("{error}; `tc` and the kernel's options NET_SCH_INGRESS and NET_CLS_BPF are needed");
    run::run(Command::new("tc").args(["qdisc", "replace", "dev", "lo", "clsact"])).map_err(why)?;
    clear()?;
    let mut add = Command::new("tc");
    add.args(["filter", "add", "dev", "lo", "egress", "bpf", "bytecode", &bytecode(program), "da"]);
    run::run(&mut add).map_err(why)
}

/// The form that `tc` reads: the number of instructions, then each.
fn bytecode(program: &[Instruction]) -> String {
    let instructions = program.iter().map(|[code, yes, no, operand]| format!(",{code} {yes} {no} {operand}"));
    format!("{}{}", program.len(), instructions.collect::<String>())
}

fn loss(percent: u32) -> Vec<Instruction> {
    let below = u32::try_from(u64::from(percent) * (1 << 32) / 100).unwrap_or(u32::MAX);
    vec![
        [LOAD_16, 0, 0, PROTOCOL],
        [IF_EQUAL, 0, 5, IPV4],
        [LOAD_8, 0, 0, IP_PROTOCOL],
        [IF_EQUAL, 0, 3, UDP],
        [LOAD_32, 0, 0, RANDOM],
        [IF_AT_LEAST, 1, 0, below],
        DROP,
        PASS,
    ]
}

fn partition() -> Vec<Instruction> {
    vec![
        [LOAD_16, 0, 0, PROTOCOL],
        [IF_EQUAL, 0, 9, IPV4],
        [LOAD_8, 0, 0, IP_PROTOCOL],
        [IF_EQUAL, 0, 7, UDP],
        [LOAD_8, 0, 0, SOURCE_LAST],
        [TO_X, 0, 0, 0],
        [LOAD_8, 0, 0, DESTINATION_LAST],
        [XOR_X, 0, 0, 0],
        [AND, 0, 0, 1],
        [IF_EQUAL, 1, 0, 0],
        DROP,
        PASS,
    ]
}

fn withheld(port: u16) -> Vec<Instruction> {
    let [.., ours] = OURS.0.octets();
    vec![
        [LOAD_16, 0, 0, PROTOCOL],
        [IF_EQUAL, 0, 7, IPV4],
        [LOAD_8, 0, 0, IP_PROTOCOL],
        [IF_EQUAL, 0, 5, UDP],
        [LOAD_8, 0, 0, SOURCE_LAST],
        [IF_EQUAL, 0, 3, u32::from(ours)],
        [LOAD_16, 0, 0, DESTINATION_PORT],
        [IF_EQUAL, 0, 1, u32::from(port)],
        DROP,
        PASS,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A datagram as the kernel's filter sees it.
    struct Datagram {
        protocol: u32,
        random: u32,
        addresses: [u32; 2],
        port: u32,
    }

    /// Runs a program; whether the datagram passes.
    fn passes(program: &[Instruction], datagram: &Datagram) -> bool {
        let (mut a, mut x, mut at) = (0u32, 0u32, 0usize);
        loop {
            let [code, yes, no, operand] = program[at];
            at += 1;
            match code {
                LOAD_8 | LOAD_16 | LOAD_32 => {
                    a = match operand {
                        PROTOCOL => IPV4,
                        RANDOM => datagram.random,
                        IP_PROTOCOL => datagram.protocol,
                        SOURCE_LAST => datagram.addresses[0],
                        DESTINATION_LAST => datagram.addresses[1],
                        DESTINATION_PORT => datagram.port,
                        other => panic!("nothing is at {other:x}"),
                    }
                }
                TO_X => x = a,
                XOR_X => a ^= x,
                AND => a &= operand,
                IF_EQUAL => at += [no, yes][usize::from(a == operand)] as usize,
                IF_AT_LEAST => at += [no, yes][usize::from(a >= operand)] as usize,
                _ => return operand == 0,
            }
        }
    }

    #[test]
    fn five_of_a_hundred_datagrams_are_lost() {
        let passes =
            |protocol: u32, random: u32| passes(&loss(5), &Datagram { protocol, random, addresses: [1, 2], port: 0 });
        let below = u32::MAX / 20;
        assert!(!passes(UDP, 0) && !passes(UDP, below - 1));
        assert!(passes(UDP, below + 2) && passes(UDP, u32::MAX));
        assert!(passes(6, 0), "TCP is not lost");
    }

    #[test]
    fn odd_and_even_addresses_are_apart() {
        let passes =
            |addresses: [u32; 2]| passes(&partition(), &Datagram { protocol: UDP, random: 0, addresses, port: 0 });
        assert!(!passes([1, 2]) && !passes([4, 3]));
        assert!(passes([1, 3]) && passes([2, 4]));
    }

    #[test]
    fn only_what_our_node_sends_to_the_port_is_withheld() {
        let passes = |protocol: u32, source: u32, port: u32| {
            passes(&withheld(8_002), &Datagram { protocol, random: 0, addresses: [source, 1], port })
        };
        assert!(!passes(UDP, 2, 8_002));
        assert!(passes(UDP, 4, 8_002) && passes(UDP, 2, 8_003) && passes(6, 2, 8_002));
    }

    #[test]
    fn program_is_written_as_tc_reads_it() {
        assert_eq!(bytecode(&[[LOAD_8, 0, 0, IP_PROTOCOL], DROP]), "2,48 0 0 4293918729,6 0 0 2");
    }
}
