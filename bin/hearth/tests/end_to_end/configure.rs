//! `hearth configure` and `hearth machine` on a made-up machine. Nothing of the real one is changed.

use std::fs;
use std::path::Path;
use std::process::Output;

use super::node::{hearth, output};

/// A fake machine whose kernel limits socket buffers too tightly.
fn machine() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (path, text) in [
        ("proc/sys/net/core/rmem_max", "212992\n"),
        ("proc/sys/net/core/wmem_max", "8388608\n"),
        ("proc/sys/kernel/random/boot_id", "one\n"),
        ("proc/cpuinfo", "model name\t: Made Up\nflags\t\t: avx2 fma\n"),
        ("proc/self/status", "Cpus_allowed_list:\t0-1\n"),
        ("sys/devices/system/cpu/online", "0-3\n"),
        ("sys/kernel/mm/transparent_hugepage/shmem_enabled", "always within_size [advise] never\n"),
    ] {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    folder
}

fn run(folder: &Path, arguments: &[&str]) -> Output {
    output(hearth().args(arguments).arg("--root").arg(folder))
}

#[track_caller]
fn says(output: &Output, code: i32, parts: &[&str]) {
    let text = String::from_utf8_lossy(&output.stdout);
    let wrong = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{text}{wrong}");
    for part in parts {
        assert!(text.contains(part), "`{part}` is not in:\n{text}{wrong}");
    }
}

#[test]
fn check_init_and_fini() {
    let made = machine();
    let folder = made.path();
    let receive = || fs::read_to_string(folder.join("proc/sys/net/core/rmem_max")).unwrap().trim().to_owned();
    let found = run(folder, &["configure", "check"]);
    says(&found, 1, &["net.core.rmem_max is 212992", "$ sudo sysctl -w net.core.rmem_max=4194304", "1 of 8 stages"]);
    assert!(found.stderr.is_empty(), "what is to mend is the result, and no error");
    assert_eq!(receive(), "212992");
    says(&run(folder, &["configure", "check", "limits", "irq"]), 0, &["limits", "irq"]);

    says(&run(folder, &["configure", "init", "all"]), 0, &["done     /proc/sys/net/core/rmem_max = 4194304"]);
    assert_eq!(receive(), "4194304");
    says(&run(folder, &["configure", "check"]), 0, &["sysctl         ok"]);
    says(&run(folder, &["configure", "init"]), 0, &["all is ideal already"]);
    says(&run(folder, &["configure", "fini"]), 0, &["done     /proc/sys/net/core/rmem_max = 212992"]);
    assert_eq!(receive(), "212992");
    says(&run(folder, &["configure", "fini"]), 0, &["nothing to put back"]);

    let wrong = run(folder, &["configure", "check", "hugepages"]);
    says(&wrong, 2, &[]);
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("the stages are hugetlbfs, sysctl"));
}

#[test]
fn the_machine_as_table_and_json() {
    let made = machine();
    says(&run(made.path(), &["machine"]), 0, &["Made Up", "4 online: 0-3", "This process may use 2 of the 4 cores"]);
    let json = run(made.path(), &["machine", "--json"]);
    says(&json, 0, &[]);
    let value: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(value["processor"]["model"], "Made Up");
    assert_eq!(value["cores"]["allowed"], serde_json::json!([0, 1]));
    assert_eq!(value["neighbours"]["steal"], 0.0);
}
