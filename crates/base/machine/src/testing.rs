//! Made-up machines.
//!
//! writes  a folder that goes with the value

use std::fs;
use std::path::Path;

use tempfile::TempDir;

use crate::Root;

/// A fake machine: a temporary folder with `/proc` and `/sys`.
pub struct Tree {
    /// Root of the fake machine.
    pub root: Root,
    folder: TempDir,
}

impl Tree {
    /// Writes a file, folders and all.
    pub fn write(&self, path: &str, text: &str) {
        let path = self.folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Makes a symbolic link.
    pub fn link(&self, path: &str, to: &str) {
        let path = self.folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(to, path).unwrap();
    }

    /// Writes a program of the shell; `$ROOT` is this machine's folder.
    pub fn program(&self, path: &str, text: &str) {
        use std::os::unix::fs::PermissionsExt;
        self.write(path, &format!("#!/bin/sh\nROOT='{}'\n{text}\n", self.folder.path().display()));
        fs::set_permissions(self.folder.path().join(path), fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Returns a file's text; empty if it does not exist.
    pub fn read(&self, path: &str) -> String {
        fs::read_to_string(self.folder.path().join(path)).unwrap_or_default().trim().to_owned()
    }

    /// Takes a file away.
    pub fn remove(&self, path: &str) {
        fs::remove_file(self.folder.path().join(path)).unwrap();
    }

    /// The temporary folder itself.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
}

/// A machine of these files.
pub fn tree(files: &[(&str, &str)]) -> Tree {
    let folder = tempfile::tempdir().unwrap();
    let made = Tree { root: Root::new(folder.path()), folder };
    files.iter().for_each(|(path, text)| made.write(path, text));
    made
}

const LIMITS: &str = "Limit                     Soft Limit           Hard Limit           Units     \n\
    Max open files            1024                 1048576              files     \n\
    Max locked memory         8388608              unlimited            bytes     \n";

/// Two sockets of four physical cores with two hyperthreads each (0–7, siblings 8–15), a card of two queues.
pub fn server() -> Tree {
    let made = tree(&[
        (
            "proc/cpuinfo",
            "processor\t: 0\nmodel name\t: Intel(R) Xeon(R) Gold 6338 CPU @ 2.00GHz\nflags\t\t: fpu sse2 avx2 fma avx512f avx512bw avx512ifma sha_ni gfni\n",
        ),
        ("proc/meminfo", "MemTotal:       67108864 kB\nMemAvailable:   50331648 kB\n"),
        ("proc/mounts", "rootfs / ext4 rw 0 0\n"),
        ("proc/self/status", "Name:\thearth\nCpus_allowed_list:\t0-5,8-15\n"),
        ("proc/self/cgroup", "0::/user.slice\n"),
        ("proc/self/limits", LIMITS),
        (
            "proc/interrupts",
            "  CPU0 CPU1\n 70: 5 0 PCI-MSI 1-edge eth0-TxRx-0\n 71: 0 5 PCI-MSI 2-edge eth0-TxRx-1\nNMI: 0 0 Non-maskable\n",
        ),
        ("proc/irq/70/smp_affinity_list", "0-15\n"),
        ("proc/irq/70/effective_affinity_list", "0\n"),
        ("proc/irq/71/smp_affinity_list", "3\n"),
        (
            "proc/net/route",
            "Iface Destination Gateway Flags RefCnt Use Metric Mask\neth0 000200C0 00000000 0001 0 0 0 00FFFFFF\n",
        ),
        ("proc/sys/kernel/osrelease", "6.8.0-45-generic\n"),
        ("proc/sys/kernel/numa_balancing", "1\n"),
        ("proc/sys/kernel/random/boot_id", "boot-1\n"),
        ("proc/sys/net/core/rmem_max", "212992\n"),
        ("proc/sys/net/core/wmem_max", "212992\n"),
        ("sys/devices/system/cpu/online", "0-15\n"),
        ("sys/devices/system/cpu/offline", "\n"),
        ("sys/devices/system/cpu/isolated", "6-7\n"),
        ("sys/devices/system/cpu/nohz_full", "6-7\n"),
        ("sys/devices/system/cpu/intel_pstate/no_turbo", "1\n"),
        ("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "8\n"),
        ("sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "7\n"),
        ("sys/kernel/mm/hugepages/hugepages-2048kB/resv_hugepages", "2\n"),
        ("sys/kernel/mm/hugepages/hugepages-2048kB/nr_overcommit_hugepages", "1\n"),
        ("sys/kernel/mm/hugepages/hugepages-2048kB/surplus_hugepages", "1\n"),
        ("sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages", "0\n"),
        ("sys/kernel/mm/hugepages/hugepages-1048576kB/free_hugepages", "0\n"),
        ("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n"),
        ("sys/class/net/lo/operstate", "unknown\n"),
        ("sys/class/net/lo/queues/rx-0/rps_cpus", "0\n"),
        ("sys/class/net/eth0/operstate", "up\n"),
        ("sys/class/net/eth0/speed", "25000\n"),
        ("sys/class/net/eth0/device/numa_node", "0\n"),
        ("sys/class/net/eth0/device/msi_irqs/70", "msix\n"),
        ("sys/class/net/eth0/device/msi_irqs/71", "msix\n"),
        ("sys/class/net/eth0/device/msi_irqs/72", "msix\n"),
        ("sys/class/net/eth0/statistics/rx_missed_errors", "18\n"),
    ]);
    for queue in ["rx-0", "rx-1", "tx-0", "tx-1"] {
        made.write(&format!("sys/class/net/eth0/queues/{queue}/x"), "");
    }
    server_cores(&made);
    server_memory(&made);
    made
}

fn server_cores(made: &Tree) {
    for core in 0..16 {
        let (physical, socket) = (core % 8, core % 8 / 4);
        let folder = format!("sys/devices/system/cpu/cpu{core}");
        let pair = format!("{physical},{}", physical + 8);
        made.write(&format!("{folder}/online"), "1");
        made.write(&format!("{folder}/topology/thread_siblings_list"), &pair);
        made.write(&format!("{folder}/topology/physical_package_id"), &socket.to_string());
        made.write(&format!("{folder}/cpufreq/scaling_governor"), "powersave\n");
        made.write(&format!("{folder}/cpufreq/cpuinfo_max_freq"), "3200000\n");
        let of_socket = format!("{}-{},{}-{}", socket * 4, socket * 4 + 3, socket * 4 + 8, socket * 4 + 11);
        for (index, level, kind, size, shared) in [
            (0, "1", "Data", "48K", &pair),
            (1, "2", "Unified", "1280K", &pair),
            (2, "3", "Unified", "49152K", &of_socket),
        ] {
            let cache = format!("{folder}/cache/index{index}");
            made.write(&format!("{cache}/level"), level);
            made.write(&format!("{cache}/type"), kind);
            made.write(&format!("{cache}/size"), size);
            made.write(&format!("{cache}/shared_cpu_list"), shared);
        }
    }
}

fn server_memory(made: &Tree) {
    for node in 0..2 {
        let folder = format!("sys/devices/system/node/node{node}");
        made.write(&format!("{folder}/cpulist"), ["0-3,8-11", "4-7,12-15"][node]);
        made.write(&format!("{folder}/distance"), ["10 20", "20 10"][node]);
        let text = format!("Node {node} MemTotal:  33554432 kB\nNode {node} MemFree:  16777216 kB\n");
        made.write(&format!("{folder}/meminfo"), &text);
    }
}

/// A guest with two cores whose host controls the frequency.
pub fn guest() -> Tree {
    let made = tree(&[
        ("proc/cpuinfo", "model name\t: AMD EPYC\nflags\t\t: fpu avx2 fma sha_ni hypervisor\n"),
        ("proc/meminfo", "MemTotal:       8388608 kB\nMemAvailable:   6291456 kB\n"),
        ("proc/mounts", "rootfs / ext4 rw 0 0\n"),
        ("proc/self/status", "Cpus_allowed_list:\t0-1\n"),
        ("proc/self/cgroup", "1:cpu:/\n0::/\n"),
        ("proc/self/limits", &LIMITS.replace("1024   ", "20000  ")),
        (
            "proc/interrupts",
            "      CPU0 CPU1\n 38: 0 9 PCI-MSIX 1-edge virtio2-input.0\n 39: 9 0 PCI-MSIX 2-edge virtio2-output.0\n 41: 1 1 PCI-MSIX 1-edge virtio3-rx\n",
        ),
        (
            "proc/net/route",
            "Iface Destination Gateway Flags RefCnt Use Metric Mask\neth0 00000000 010200C0 0003 0 0 0 00000000\neth0 000200C0 00000000 0001 0 0 0 00FFFFFF\n",
        ),
        ("proc/net/if_inet6", "fe800000000000000000000000000001 02 40 20 80 eth0\n"),
        ("proc/sys/kernel/random/boot_id", "boot-1\n"),
        ("proc/sys/net/core/rmem_max", "8388608\n"),
        ("proc/sys/net/core/wmem_max", "8388608\n"),
        ("sys/devices/system/cpu/online", "0-1\n"),
        ("sys/devices/system/cpu/isolated", "\n"),
        ("sys/devices/system/cpu/nohz_full", "(null)\n"),
        ("sys/devices/system/cpu/cpu0/topology/thread_siblings_list", "0\n"),
        ("sys/devices/system/cpu/cpu1/topology/thread_siblings_list", "1\n"),
        ("sys/class/net/eth0/operstate", "up\n"),
        ("sys/class/net/eth0/speed", "-1\n"),
        ("sys/devices/virtio2/numa_node", "-1\n"),
    ]);
    made.link("sys/class/net/eth0/device", "../../../devices/virtio2");
    made
}

/// A container on a machine of eight cores, with a cpuset of four and a quota of two and a half.
pub fn container() -> Tree {
    tree(&[
        ("proc/self/status", "Cpus_allowed_list:\t2-5\n"),
        ("proc/self/cgroup", "0::/\n"),
        ("sys/fs/cgroup/cpu.max", "250000 100000\n"),
        ("sys/devices/system/cpu/online", "0-7\n"),
    ])
}

/// An ARM board whose kernel lacks most files.
pub fn board() -> Tree {
    let made = tree(&[
        ("proc/cpuinfo", "processor\t: 0\nFeatures\t: fp asimd crc32\nCPU part\t: 0xd08\n"),
        ("proc/device-tree/model", "Raspberry Pi 4 Model B Rev 1.4\0"),
        ("proc/meminfo", "MemTotal:       4194304 kB\n"),
    ]);
    for core in 0..4 {
        made.write(&format!("sys/devices/system/cpu/cpu{core}/cpufreq/scaling_governor"), "ondemand\n");
        made.write(&format!("sys/devices/system/cpu/cpu{core}/topology/physical_package_id"), "-1\n");
    }
    made
}
