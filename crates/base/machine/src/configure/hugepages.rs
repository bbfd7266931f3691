//! Huge pages: reserved and mounted where the configuration asks, otherwise given by the kernel as it goes.
//!
//! reads   `/proc/mounts`, `/sys/kernel/mm`
//! source  hugetlbpage.rst, transhuge.rst of the kernel's documentation

use super::{Fault, MachineRequirements, Pages, Remedy, StageVerdict};
use crate::memory::{HugePages, file_system_of};
use crate::{Machine, Root};

const TRANSPARENT: &str = "/sys/kernel/mm/transparent_hugepage";

pub fn look(root: &Root, machine: &Machine, wants: &MachineRequirements) -> StageVerdict {
    match &wants.pages {
        Some(pages) => reserved(root, pages),
        None => transparent(machine),
    }
}

fn reserved(root: &Root, pages: &Pages) -> StageVerdict {
    let size = if pages.page_bytes == 1 << 30 { "1G" } else { "2M" };
    let mut faults = vec![];
    if file_system_of(root, &pages.mount).as_deref() != Some("hugetlbfs") {
        let path = pages.mount.display().to_string();
        // World-writable like /dev/shm, since the node's user creates its file there.
        let options = format!("pagesize={size},mode=1777");
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        faults.push(Fault {
            what: format!("no hugetlbfs is mounted at {path} (hugetlbfs.mount_path)"),
            costs: "the node does not start with these pages".into(),
            remedy: Remedy::Run {
                command: words(&["mount", "-t", "hugetlbfs", "-o", &options, "none", &path]),
                undo: words(&["umount", &path]),
                folder: Some(pages.mount.clone()),
            },
        });
    }
    let pool = HugePages::read(root, pages.page_bytes);
    let missing = pool.as_ref().map_or(0, |pool| pages.count.saturating_sub(pool.available()));
    if let Some(pool) = pool.as_ref().filter(|_| missing > 0 && !pages.held) {
        faults.push(Fault {
            what: format!("the workspace takes {} pages of {size}, and {} are free", pages.count, pool.available()),
            costs: "the node does not start with these pages; long after the machine's start the kernel may not find \
                    them in one piece any more"
                .into(),
            remedy: Remedy::Write {
                paths: vec![format!("{}/nr_hugepages", HugePages::folder(pages.page_bytes))],
                value: (pool.total + missing).to_string(),
            },
        });
    }
    if pool.is_none() {
        faults.push(Fault {
            what: format!("this kernel has no pages of {size}"),
            costs: "the node does not start with these pages".into(),
            remedy: Remedy::ByHand("set hugetlbfs.max_page_size to `normal` in the configuration".into()),
        });
    }
    StageVerdict::of(
        faults,
        format!("{} pages of {size} for the workspace, mounted at {}", pages.count, pages.mount.display()),
    )
}

/// Tiles ask the kernel for huge pages for their tables and the workspace, as advice.
fn transparent(machine: &Machine) -> StageVerdict {
    let fault = |file: &str, what: &str, value: &str, costs: &str| Fault {
        what: format!("{TRANSPARENT}/{file} is `never`: {what}"),
        costs: costs.into(),
        remedy: Remedy::Write { paths: vec![format!("{TRANSPARENT}/{file}")], value: value.into() },
    };
    let never = |mode: &Option<String>| mode.as_deref() == Some("never");
    let mut faults = vec![];
    if never(&machine.memory.transparent) {
        let what = "the tables of tiles get pages of 4 KiB, though they ask for larger ones";
        faults.push(fault("enabled", what, "madvise", TABLES_COST));
    }
    if never(&machine.memory.transparent_shared) {
        let what = "the workspace gets pages of 4 KiB, though it asks for larger ones";
        let costs = "more addresses for the processor to look up on every link; not measured";
        faults.push(fault("shmem_enabled", what, "advise", costs));
    }
    StageVerdict::of(faults, "hugetlbfs.max_page_size is `normal`; the kernel may give larger pages by itself")
}

const TABLES_COST: &str = "a look-up in a large table takes longer: 250 ns rather than 223 for a signature seen before \
                           (docs/performance.md)";
