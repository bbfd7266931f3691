//! Stages on fake machines: faults found, corrected, and reverted.

use std::path::Path;

use super::*;
use crate::testing::{Tree, board, container, guest, server};

const FOLDER: &str = "/var/lib/hearth";
const STATE: &str = "var/lib/hearth/configure.json";

fn wants() -> MachineRequirements {
    let seat = |name: &str, core, quiet| Seat { name: name.into(), core, quiet };
    MachineRequirements {
        pages: Some(Pages { page_bytes: 2 << 20, count: 16, mount: "/dev/huge pages".into(), held: false }),
        listens: "0.0.0.0".parse().unwrap(),
        net_tiles: 2,
        socket_buffer_bytes: 4 << 20,
        open_files: 4096,
        tiles: vec![
            seat("net:0", Some(1), false),
            seat("net:1", Some(2), false),
            seat("pack:0", Some(3), true),
            seat("poh:0", Some(4), true),
            seat("metric:0", None, false),
        ],
    }
}

/// The requirements of a node with defaults on two cores.
fn modest() -> MachineRequirements {
    let tiles = wants().tiles.into_iter().map(|seat| Seat { core: seat.core.map(|core| core % 2), ..seat });
    MachineRequirements {
        pages: None,
        listens: "127.0.0.1".parse().unwrap(),
        open_files: 900,
        tiles: tiles.collect(),
        ..wants()
    }
}

/// The server, with fake programs that record their arguments in files.
fn server_with_programs() -> Tree {
    let made = server();
    made.write("eth/rx", "512");
    made.write("eth/combined", "1");
    made.write("eth/gro", "off");
    made.program(
        "usr/sbin/ethtool",
        r#"case "$1" in
-g) printf 'Ring parameters:\nPre-set maximums:\nRX:\t4096\nRX Mini:\tn/a\nCurrent hardware settings:\nRX:\t%s\n' "$(cat "$ROOT/eth/rx")";;
-l) printf 'Pre-set maximums:\nCombined:\t8\nCurrent hardware settings:\nCombined:\t%s\n' "$(cat "$ROOT/eth/combined")";;
-k) printf 'Features:\ngeneric-receive-offload: %s\nlarge-receive-offload: off [fixed]\n' "$(cat "$ROOT/eth/gro")";;
-G|-L|-K) echo "$4" > "$ROOT/eth/$3";;
*) exit 1;;
esac"#,
    );
    made.program(
        "bin/mount",
        r#"printf 'none %s hugetlbfs rw 0 0\n' "$(printf %s "$6" | sed 's/ /\\040/')" >> "$ROOT/proc/mounts""#,
    );
    made.program("bin/umount", r#"sed -i /hugetlbfs/d "$ROOT/proc/mounts""#);
    made
}

fn look(made: &Tree, wants: &MachineRequirements) -> Vec<Report> {
    check(&made.root, &Machine::read(&made.root), wants, &Stage::ALL)
}

fn commands(reports: &[Report], stage: Stage) -> Vec<String> {
    let report = reports.iter().find(|report| report.stage == stage).unwrap();
    report.faults.iter().map(|fault| fault.remedy.command()).collect()
}

fn run_init(made: &Tree, wants: &MachineRequirements) -> (Result<(), ConfigureError>, Vec<Step>) {
    let mut steps = vec![];
    (init(&made.root, wants, &Stage::ALL, Path::new(FOLDER), &mut |step| steps.push(step.clone())), steps)
}

fn run_fini(made: &Tree, stages: &[Stage]) -> (Result<(), ConfigureError>, Vec<Step>) {
    let mut steps = vec![];
    (fini(&made.root, stages, Path::new(FOLDER), &mut |step| steps.push(step.clone())), steps)
}

/// All files that a stage may change.
fn settings(made: &Tree) -> Vec<(String, String)> {
    let mut paths: Vec<String> =
        (0..16).map(|core| format!("sys/devices/system/cpu/cpu{core}/cpufreq/scaling_governor")).collect();
    paths.extend(
        [
            "proc/sys/net/core/rmem_max",
            "proc/sys/net/core/wmem_max",
            "proc/sys/kernel/numa_balancing",
            "proc/irq/70/smp_affinity_list",
            "proc/irq/71/smp_affinity_list",
            "proc/mounts",
            "sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages",
            "sys/devices/system/cpu/intel_pstate/no_turbo",
            "eth/rx",
            "eth/combined",
            "eth/gro",
        ]
        .map(str::to_owned),
    );
    paths.into_iter().map(|path| (path.clone(), made.read(&path))).collect()
}

#[test]
fn a_guest_with_the_defaults_is_ideal() {
    for (made, wants) in [(guest(), modest()), (container(), modest())] {
        for report in look(&made, &wants) {
            assert!(report.faults.is_empty() && !report.note.is_empty(), "{report:?}");
        }
    }
    // A board with frequency governors that reports little else.
    let reports = look(&board(), &modest());
    let faulty: Vec<&Report> = reports.iter().filter(|report| !report.faults.is_empty()).collect();
    assert_eq!(faulty.len(), 1, "{faulty:?}");
    assert!(faulty[0].faults[0].what.contains("cores 0-1 with tiles have the governor `ondemand`"), "{faulty:?}");
}

#[test]
fn server_settings_get_advice() {
    let reports = look(&server_with_programs(), &wants());
    let of = |stage| commands(&reports, stage);
    assert_eq!(
        of(Stage::Hugetlbfs),
        [
            "sudo mkdir -p '/dev/huge pages' && sudo mount -t hugetlbfs -o pagesize=2M,mode=1777 none '/dev/huge pages'",
            "echo 19 | sudo tee /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages",
        ]
    );
    assert_eq!(
        of(Stage::Sysctl),
        [
            "sudo sysctl -w net.core.rmem_max=4194304",
            "sudo sysctl -w net.core.wmem_max=4194304",
            "sudo sysctl -w kernel.numa_balancing=0",
        ]
    );
    assert_eq!(
        of(Stage::Ethtool),
        ["sudo ethtool -L eth0 combined 2", "sudo ethtool -G eth0 rx 4096", "sudo ethtool -K eth0 gro on"]
    );
    assert_eq!(of(Stage::Irq), ["echo 0,5-15 | sudo tee /proc/irq/71/smp_affinity_list"]);
    let isolation = of(Stage::CpuIsolation);
    assert_eq!(isolation[0], "taskset -c 0-15 hearth run");
    assert!(isolation[1].contains("nohz_full=1-4 rcu_nocbs=1-4"), "{isolation:?}");
    assert!(
        of(Stage::Hyperthreads)[0].contains("/cpu11/online") && of(Stage::Hyperthreads)[1].contains("/cpu12/online")
    );
    assert!(of(Stage::Governor)[0].starts_with("echo performance | sudo tee /sys/devices/system/cpu/cpu1/cpufreq/"));
    assert_eq!(of(Stage::Governor)[1], "echo 0 | sudo tee /sys/devices/system/cpu/intel_pstate/no_turbo");
    assert!(of(Stage::Limits)[0].starts_with("ulimit -n 4096"));
    let text = super::reports(&reports);
    for part in ["sysctl         mend  net.core.rmem_max is 212992;", "costs: ", "$ sudo sysctl -w", "by hand: ulimit"]
    {
        assert!(text.contains(part), "`{part}` is not in:\n{text}");
    }
}

#[test]
fn other_machines_have_other_faults() {
    let made = server();
    made.write("proc/812/comm", "irqbalance\n");
    made.write("sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n");
    made.write("sys/kernel/mm/transparent_hugepage/shmem_enabled", "always within_size advise [never] deny force\n");
    let mut asked = MachineRequirements { pages: None, open_files: 2 << 20, ..wants() };
    asked.tiles[1].core = Some(11);
    let reports = look(&made, &asked);
    assert_eq!(commands(&reports, Stage::Ethtool), ["sudo apt-get install ethtool"]);
    assert_eq!(commands(&reports, Stage::Irq)[1], "sudo systemctl disable --now irqbalance");
    assert_eq!(
        commands(&reports, Stage::Hugetlbfs),
        [
            "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled",
            "echo advise | sudo tee /sys/kernel/mm/transparent_hugepage/shmem_enabled",
        ]
    );
    assert!(commands(&reports, Stage::Hyperthreads)[0].contains("layout.blocklist_cores = \"11\""));
    assert!(commands(&reports, Stage::Limits)[0].contains("limits.conf"));
    // Pages that a workspace has already need not be free.
    let held = Pages { held: true, mount: "/dev/huge".into(), page_bytes: 2 << 20, count: 100 };
    made.write("proc/mounts", "none /dev/huge hugetlbfs rw 0 0\n");
    let reports = look(&made, &MachineRequirements { pages: Some(held.clone()), ..wants() });
    assert!(commands(&reports, Stage::Hugetlbfs).is_empty());
    let absent = Pages { page_bytes: 64 << 10, ..held };
    let reports = look(&made, &MachineRequirements { pages: Some(absent), ..wants() });
    assert!(commands(&reports, Stage::Hugetlbfs)[0].contains("`normal`"));
}

#[test]
fn fini_restores_what_init_changed() {
    let made = server_with_programs();
    let before = settings(&made);
    let (result, steps) = run_init(&made, &wants());
    assert!(result.is_ok(), "{result:?} {steps:?}");
    // The kernel finds the pages.
    made.write("sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "18");
    let left = look(&made, &wants());
    let left: Vec<&Fault> = left.iter().flat_map(|report| &report.faults).collect();
    assert!(left.iter().all(|fault| matches!(fault.remedy, Remedy::ByHand(_))), "{left:?}");
    assert_eq!(made.read("proc/sys/net/core/rmem_max"), "4194304");
    assert_eq!(made.read("sys/devices/system/cpu/cpu4/cpufreq/scaling_governor"), "performance");
    assert_eq!(made.read("sys/devices/system/cpu/cpu5/cpufreq/scaling_governor"), "powersave", "it has no tile");
    assert_eq!((made.read("eth/rx"), made.read("eth/gro")), ("4096".into(), "on".into()));
    assert!(made.folder().join("dev/huge pages").is_dir());

    // Once more: nothing to do, and nothing forgotten.
    let (record, changed) = (made.read(STATE), settings(&made));
    let (result, steps) = run_init(&made, &wants());
    assert!(result.is_ok() && steps.iter().all(|step| step.outcome == Outcome::ByHand), "{steps:?}");
    assert_eq!((made.read(STATE), settings(&made)), (record, changed));

    // A stage alone, then the others.
    let (result, steps) = run_fini(&made, &[Stage::Sysctl]);
    assert!(result.is_ok() && steps.len() == 3, "{steps:?}");
    assert_eq!(made.read("proc/sys/net/core/rmem_max"), "212992");
    assert_eq!(made.read("sys/devices/system/cpu/cpu4/cpufreq/scaling_governor"), "performance");
    let (result, steps) = run_fini(&made, &Stage::ALL);
    assert!(result.is_ok() && steps.iter().all(|step| step.outcome == Outcome::Done), "{steps:?}");
    assert_eq!(settings(&made), before);
    assert!(!made.folder().join("dev/huge pages").exists() && !made.folder().join("var/lib/hearth").exists());
    let (result, steps) = run_fini(&made, &Stage::ALL);
    assert!(result.is_ok() && steps.is_empty(), "{steps:?}");
}

#[test]
fn foreign_changes_since_init_are_kept() {
    let made = server_with_programs();
    run_init(&made, &wants()).0.unwrap();
    made.write("proc/sys/net/core/rmem_max", "16777216");
    made.write("eth/rx", "2048");
    made.write("proc/mounts", "rootfs / ext4 rw 0 0\n");
    made.remove("proc/irq/71/smp_affinity_list");
    let (result, steps) = run_fini(&made, &Stage::ALL);
    assert!(result.is_ok(), "{result:?}");
    let left: Vec<&Step> = steps.iter().filter(|step| matches!(step.outcome, Outcome::Left(_))).collect();
    assert_eq!(left.len(), 4, "{left:?}");
    assert_eq!((made.read("proc/sys/net/core/rmem_max"), made.read("eth/rx")), ("16777216".into(), "2048".into()));
    assert_eq!(made.read("proc/sys/net/core/wmem_max"), "212992");
}

#[test]
fn a_second_init_with_other_wishes_keeps_what_was_first() {
    let made = server_with_programs();
    run_init(&made, &wants()).0.unwrap();
    run_init(&made, &MachineRequirements { socket_buffer_bytes: 8 << 20, ..wants() }).0.unwrap();
    assert_eq!(made.read("proc/sys/net/core/rmem_max"), "8388608");
    run_fini(&made, &[Stage::Sysctl]).0.unwrap();
    assert_eq!(made.read("proc/sys/net/core/rmem_max"), "212992");
}

#[test]
fn a_start_of_the_machine_takes_everything_back() {
    let made = server_with_programs();
    run_init(&made, &wants()).0.unwrap();
    made.write("proc/sys/kernel/random/boot_id", "boot-2");
    let changed = settings(&made);
    let (result, steps) = run_fini(&made, &Stage::ALL);
    assert!(result.is_ok() && steps.iter().all(|step| matches!(step.outcome, Outcome::Left(_))), "{steps:?}");
    assert_eq!(settings(&made), changed);
    assert!(!made.folder().join(STATE).exists());
}

#[test]
fn failures_are_reported_and_the_rest_is_done() {
    let made = server_with_programs();
    made.program("bin/mount", "echo 'mount: none: not today' >&2; exit 32");
    let before = made.read("proc/mounts");
    let (result, steps) = run_init(&made, &wants());
    assert!(matches!(result, Err(ConfigureError::Failed { failed: 1, .. })), "{result:?}");
    assert_eq!(steps[0].outcome, Outcome::Failed("mount: none: not today".into()));
    assert!(!made.folder().join("dev/huge pages").exists(), "the folder made for it goes, too");
    assert_eq!(made.read("proc/sys/net/core/rmem_max"), "4194304");
    let (result, steps) = run_fini(&made, &Stage::ALL);
    assert!(result.is_ok() && steps.iter().all(|step| step.outcome == Outcome::Done), "{steps:?}");
    assert_eq!(made.read("proc/mounts"), before);
}

#[test]
fn without_the_right_to_nothing_is_changed() {
    let made = server_with_programs();
    // A file where the folder should be: not even root can write there.
    made.write("var/lib/hearth", "");
    let before = settings(&made);
    let error = run_init(&made, &wants()).0.unwrap_err();
    assert!(matches!(error, ConfigureError::Memory { .. } | ConfigureError::NotPermitted { .. }), "{error}");
    made.remove("var/lib/hearth");
    made.link("var/lib/hearth", "nowhere/at/all");
    let error = run_init(&made, &wants()).0.unwrap_err().to_string();
    for part in ["nothing was changed", "(sudo)", "\n  sudo sysctl -w net.core.rmem_max=4194304", "\n  sudo ethtool -L"]
    {
        assert!(error.contains(part), "`{part}` is not in: {error}");
    }
    assert_eq!(settings(&made), before);
}

#[test]
fn a_record_that_is_none_is_refused() {
    let made = server_with_programs();
    made.write(STATE, "{");
    for error in [run_init(&made, &wants()).0.unwrap_err(), run_fini(&made, &Stage::ALL).0.unwrap_err()] {
        assert!(error.to_string().contains("configure.json: not as it was written"), "{error}");
    }
}

#[test]
fn a_change_that_was_remembered_and_not_made_is_forgotten() {
    let made = server_with_programs();
    run_init(&made, &wants()).0.unwrap();
    made.write("proc/sys/net/core/rmem_max", "212992");
    let (result, steps) = run_fini(&made, &[Stage::Sysctl]);
    let step = steps.iter().find(|step| step.what.contains("rmem_max")).unwrap();
    assert!(result.is_ok() && step.outcome == Outcome::Left("it is so already".into()), "{step:?}");
}
