//! Makes builds, each once: a build of the same sources in the same way is reused from the folder.
//!
//! reads   a build's options; the sources; earlier builds
//! writes  `builds/KEY/program`, and next to it how it was made and the compiler's output
//! memory  none that grows
//! drops   cargo's target folder: each build starts without one, so that its time covers everything

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Instant, SystemTime};

use hearth_tile::clock::unix_time;
use serde::{Deserialize, Serialize};

use super::cargo::{Call, Program, Toolchain};
use super::source::{Sources, Tree, changed, listed};
use super::spec::Spec;
use super::{Control, StudyError, quote};
use crate::options::{Key, Options};
use crate::run::identity::{digest, digest_of, machine};
use crate::run::process::{Bounds, ProcessEnd, run};

/// A program that was built, and what it took.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FinishedBuild {
    /// Its options, in words.
    pub options: String,
    /// Build time including training.
    pub seconds: f64,
    /// Size of the program in bytes.
    pub bytes: u64,
    /// Digest of the program.
    pub digest: String,
    /// The commit it was made from.
    pub commit: Option<String>,
    /// Files that it read besides the sources, with their digests.
    #[serde(default)]
    pub beside: BTreeMap<PathBuf, String>,
    /// Path of the program.
    #[serde(skip)]
    pub path: PathBuf,
}

/// The LLVM tools that options need.
const TOOLS: [(Key, &str); 3] = [(Key::Pgo, "llvm-profdata"), (Key::Bolt, "llvm-bolt"), (Key::Bolt, "merge-fdata")];

/// Why a build is missing.
#[derive(Debug)]
pub enum Failure {
    /// The user stopped the study.
    Stopped,
    /// The build failed or hung.
    Failed(String),
    /// A file cannot be written.
    Io(StudyError),
}

/// Makes the builds of a study.
pub struct Maker<'a> {
    /// Spec that describes how to build.
    pub spec: &'a Spec,
    /// The program to build.
    pub program: Program,
    /// Its sources, as they were when the study began.
    pub sources: Sources,
    tree: Tree,
    /// Conditions outside the study that affect builds: the machine, the linker.
    around: String,
    /// Folder of the study, which holds the builds.
    pub folder: PathBuf,
    /// Callbacks to the study's caller.
    pub control: &'a Control<'a>,
    toolchains: BTreeMap<Option<String>, Result<Toolchain, String>>,
    /// Files that builds read besides the sources.
    beside: RefCell<BTreeMap<PathBuf, String>>,
}

/// A build that can be linked in one way or several.
struct Recipe<'a> {
    options: &'a Options,
    toolchain: &'a Toolchain,
    folder: PathBuf,
    target: PathBuf,
    flags: Vec<String>,
    /// Steps so far, each of which leaves its output.
    steps: Cell<u32>,
    begin: SystemTime,
    /// Files read besides the sources, by cargo's information about the last program.
    beside: RefCell<BTreeMap<PathBuf, String>>,
}

impl<'a> Maker<'a> {
    /// Prepares the sources and toolchains.
    pub fn new(
        spec: &'a Spec,
        program: Program,
        folder: &Path,
        builds: &[&Options],
        control: &'a Control<'a>,
    ) -> io::Result<Self> {
        let without: Vec<&Path> =
            [folder, &spec.path].into_iter().chain(spec.without.iter().map(PathBuf::as_path)).collect();
        let tree = Tree::new(&spec.project, &program.local, &without)?;
        let sources = tree.sources()?;
        let mut toolchains = BTreeMap::new();
        for options in builds {
            let name = options.get(Key::Toolchain).map(str::to_owned);
            toolchains.entry(name).or_insert_with_key(|name| Toolchain::find(name.as_deref(), &spec.project));
        }
        let linker = toolchains.values().flatten().next().map(Toolchain::linker).unwrap_or_default();
        let around = format!("{}\n{linker}", machine());
        let beside = RefCell::default();
        Ok(Self { spec, program, sources, tree, around, folder: folder.into(), control, toolchains, beside })
    }

    /// Verifies that the sources are still those of the study's beginning.
    pub fn unchanged(&self) -> Result<(), StudyError> {
        let failed = |source| StudyError::Io { path: self.spec.project.clone(), source };
        let now = self.tree.sources().map_err(failed)?;
        if now.digest != self.sources.digest {
            return Err(StudyError::Changed { what: now.differs(&self.sources.files).unwrap_or_default() });
        }
        match changed(&self.beside.borrow()) {
            Some(path) => Err(StudyError::Changed { what: format!("`{}` changed", path.display()) }),
            None => Ok(()),
        }
    }

    /// Returns a file that an earlier build read besides the sources and that has changed since.
    pub fn changed_beside(&self, options: &Options) -> Option<PathBuf> {
        changed(&self.whole(&self.key(options, ""))?.beside).cloned()
    }

    fn toolchain(&self, options: &Options) -> Result<&Toolchain, String> {
        let name = options.get(Key::Toolchain).map(str::to_owned);
        let found = self.toolchains.get(&name).ok_or("it was not looked for")?;
        found.as_ref().map_err(String::clone)
    }

    /// Verifies that everything a build needs is present, or says in one line what is missing.
    pub fn can(&self, options: &Options) -> Result<(), String> {
        let toolchain = self.toolchain(options)?;
        for (_, tool) in TOOLS.iter().filter(|(key, _)| options.has(*key)) {
            toolchain.llvm_tool(tool)?;
        }
        Ok(())
    }

    /// Returns the name of a build's folder, a hash of everything that affects the build.
    pub fn key(&self, options: &Options, variant: &str) -> String {
        let version = self.toolchain(options).map_or("", |toolchain| &toolchain.version);
        let spec = self.spec;
        let mut parts = vec![
            self.sources.digest.clone(),
            version.to_owned(),
            self.program.package.clone(),
            self.program.bin.clone(),
            spec.profile.clone(),
            spec.cargo.join("\n"),
            spec.rustflags.join("\n"),
            options.to_string(),
            variant.to_owned(),
            self.around.clone(),
        ];
        let allocator = options.get(Key::Allocator).and_then(|name| spec.allocators.get(name));
        parts.extend(allocator.cloned());
        if options.has(Key::Pgo) || options.has(Key::Bolt) {
            parts.extend(self.training());
            let tools = self.toolchain(options).map(|toolchain| TOOLS.map(|(_, tool)| toolchain.tool_version(tool)));
            parts.extend(tools.into_iter().flatten());
        }
        digest_of(&parts.iter().map(String::as_str).collect::<Vec<_>>())[..16].to_owned()
    }

    /// Command lines that exercise a program for training.
    fn training(&self) -> Vec<String> {
        let own = || self.spec.workloads.iter().map(|workload| workload.run.clone()).collect();
        self.spec.train.clone().map_or_else(own, |line| vec![line])
    }

    /// Returns an earlier build if it is complete and what it read is unchanged.
    pub fn kept(&self, key: &str) -> Option<FinishedBuild> {
        let kept = self.whole(key).filter(|built| changed(&built.beside).is_none())?;
        self.beside.borrow_mut().extend(kept.beside.clone());
        Some(kept)
    }

    fn whole(&self, key: &str) -> Option<FinishedBuild> {
        let folder = self.folder.join("builds").join(key);
        let text = fs::read_to_string(folder.join("build.json")).ok()?;
        let built: FinishedBuild = serde_json::from_str(&text).ok()?;
        let path = folder.join("program");
        (digest(&path).ok()? == built.digest).then_some(FinishedBuild { path, ..built })
    }

    /// Makes a build, or returns the existing one.
    pub fn build(&self, options: &Options) -> Result<FinishedBuild, Failure> {
        let key = self.key(options, "");
        if let Some(kept) = self.kept(&key) {
            return Ok(kept);
        }
        let begin = Instant::now();
        let recipe = self.recipe(options, &key)?;
        let program = self.link(&recipe, &[])?;
        let built = self.keep(&key, &recipe, &program, begin.elapsed().as_secs_f64())?;
        self.clear(&recipe)?;
        Ok(built)
    }

    /// Makes a build again only to time it.
    pub fn time(&self, options: &Options) -> Result<f64, Failure> {
        let key = self.key(options, "time");
        let begin = Instant::now();
        let recipe = self.recipe(options, &key)?;
        self.link(&recipe, &[])?;
        let seconds = begin.elapsed().as_secs_f64();
        self.unchanged().map_err(Failure::Io)?;
        self.clear(&recipe)?;
        Ok(seconds)
    }

    /// Makes the same build with its functions in other orders, one per seed.
    pub fn layouts(&self, options: &Options, linker: &[String], seeds: u32) -> Result<Vec<FinishedBuild>, Failure> {
        let variant = |seed: u32| format!("layout {seed} {}", linker.join(" "));
        let kept = |seed: u32| self.kept(&self.key(options, &variant(seed)));
        let mut recipe = None;
        let mut all = Vec::new();
        for seed in 1..=seeds {
            if let Some(kept) = kept(seed) {
                all.push(kept);
                continue;
            }
            let begin = Instant::now();
            let recipe = match &recipe {
                Some(made) => made,
                None => recipe.insert(self.recipe(options, &self.key(options, "layouts"))?),
            };
            let mut last = linker.to_vec();
            last.push(shuffled(seed));
            let program = self.link(recipe, &last)?;
            let key = self.key(options, &variant(seed));
            all.push(self.keep(&key, recipe, &program, begin.elapsed().as_secs_f64())?);
        }
        recipe.map_or(Ok(()), |recipe| self.clear(&recipe))?;
        Ok(all)
    }

    /// Returns the flags with which this toolchain's linker shuffles functions; none if it cannot.
    pub fn shuffling_linker(&self, options: &Options) -> Option<Vec<String>> {
        let toolchain = self.toolchain(options).ok()?;
        let folder = self.folder.join("scratch");
        fs::create_dir_all(&folder).ok()?;
        let source = folder.join("linker.rs");
        fs::write(&source, "fn main() {}\n").ok()?;
        let ways = [vec![], vec!["-Clink-arg=-fuse-ld=lld".to_owned()]];
        ways.into_iter().find(|way| {
            let mut command = toolchain.command("rustc", &folder);
            command.arg(&source).arg("-o").arg(folder.join("linker")).args(way).arg(shuffled(1));
            command.output().is_ok_and(|output| output.status.success())
        })
    }

    /// Makes a byte-identical copy of a build in the builds folder.
    pub fn copy(&self, options: &Options, of: &FinishedBuild) -> Result<FinishedBuild, StudyError> {
        let key = self.key(options, "copy");
        match self.kept(&key) {
            Some(kept) if kept.digest == of.digest => Ok(kept),
            _ => put(&self.folder.join("builds").join(&key), &of.path, of),
        }
    }

    fn keep(&self, key: &str, recipe: &Recipe<'_>, program: &Path, seconds: f64) -> Result<FinishedBuild, Failure> {
        // For a file that another build also read, the first digest stays: it must be the same for both.
        let beside = recipe.beside.take();
        for (path, digest) in &beside {
            self.beside.borrow_mut().entry(path.clone()).or_insert_with(|| digest.clone());
        }
        // If the sources have changed, the build must not be recorded as one of the original sources.
        self.unchanged().map_err(Failure::Io)?;
        let failed = |source| Failure::Io(StudyError::Io { path: program.into(), source });
        let built = FinishedBuild {
            options: recipe.options.to_string(),
            seconds,
            bytes: fs::metadata(program).map_err(failed)?.len(),
            digest: digest(program).map_err(failed)?,
            commit: self.sources.commit.clone(),
            beside,
            path: PathBuf::new(),
        };
        put(&self.folder.join("builds").join(key), program, &built).map_err(Failure::Io)
    }

    fn recipe<'b>(&'b self, options: &'b Options, key: &str) -> Result<Recipe<'b>, Failure> {
        let toolchain = self.toolchain(options).map_err(Failure::Failed)?;
        let folder = self.folder.join("builds").join(key);
        let target = self.folder.join("target");
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| Failure::Io(StudyError::Io { path, source })
        };
        if target.exists() {
            fs::remove_dir_all(&target).map_err(failed(&target))?;
        }
        fs::create_dir_all(&folder).map_err(failed(&folder))?;
        let (flags, steps, beside) = (Vec::new(), Cell::new(0), RefCell::default());
        // Compared with file times, which have this type.
        let begin = SystemTime::UNIX_EPOCH + unix_time();
        let mut recipe = Recipe { options, toolchain, folder, target, flags, steps, begin, beside };
        if options.has(Key::Pgo) {
            let raw = recipe.target.join("raw");
            fs::create_dir_all(&raw).map_err(failed(&raw))?;
            recipe.flags = vec![format!("-Cprofile-generate={}", raw.display())];
            let program = self.cargo(&recipe, &[])?;
            self.train(&recipe, &program)?;
            let tool = toolchain.llvm_tool("llvm-profdata").map_err(Failure::Failed)?;
            let merged = recipe.target.join("merged.profdata");
            self.step(&recipe, Command::new(tool).arg("merge").arg("-o").arg(&merged).arg(&raw))?;
            recipe.flags = vec![format!("-Cprofile-use={}", merged.display())];
        }
        Ok(recipe)
    }

    /// Links the program, and applies BOLT if requested.
    fn link(&self, recipe: &Recipe<'_>, last: &[String]) -> Result<PathBuf, Failure> {
        if !recipe.options.has(Key::Bolt) {
            return self.cargo(recipe, last);
        }
        let mut last = last.to_vec();
        last.push("-Clink-arg=-Wl,-q".into());
        let program = self.cargo(recipe, &last)?;
        let folder = recipe.target.join("bolt");
        let failed = |source| Failure::Io(StudyError::Io { path: folder.clone(), source });
        if folder.exists() {
            fs::remove_dir_all(&folder).map_err(failed)?;
        }
        fs::create_dir_all(&folder).map_err(failed)?;
        let tool = |name: &str| recipe.toolchain.llvm_tool(name).map_err(Failure::Failed);
        let (counting, moved) = (folder.join("counting"), folder.join("moved"));
        let mut instrument = Command::new(tool("llvm-bolt")?);
        instrument.arg(&program).arg("-instrument").arg("-o").arg(&counting);
        instrument.arg(format!("--instrumentation-file={}", folder.join("count").display()));
        instrument.arg("--instrumentation-file-append-pid");
        self.step(recipe, &mut instrument)?;
        self.train(recipe, &counting)?;
        let counts = fs::read_dir(&folder).map_err(failed)?.filter_map(|entry| Some(entry.ok()?.path()));
        let is_count = |path: &PathBuf| path.file_name().is_some_and(|n| n.to_string_lossy().starts_with("count."));
        let counts: Vec<PathBuf> = counts.filter(is_count).collect();
        if counts.is_empty() {
            return Err(Failure::Failed("BOLT's instrumented program left no counts when it was run".into()));
        }
        let all = folder.join("all.fdata");
        self.step(recipe, Command::new(tool("merge-fdata")?).args(counts).arg("-o").arg(&all))?;
        let mut layout = Command::new(tool("llvm-bolt")?);
        layout.arg(&program).arg("-o").arg(&moved).arg(format!("-data={}", all.display()));
        layout.args(["-reorder-blocks=ext-tsp", "-reorder-functions=cdsort", "-split-functions", "-split-all-cold"]);
        self.step(recipe, &mut layout)?;
        Ok(moved)
    }

    fn cargo(&self, recipe: &Recipe<'_>, last: &[String]) -> Result<PathBuf, Failure> {
        let call = Call {
            spec: self.spec,
            program: &self.program,
            toolchain: recipe.toolchain,
            options: recipe.options,
            target: &recipe.target.join("cargo"),
            flags: &recipe.flags,
            last,
        };
        let printed = self.step(recipe, &mut call.command())?;
        let program = call.executable(&printed);
        let program = program.ok_or_else(|| Failure::Failed("cargo names no program that it made".into()))?;
        let list = program.with_extension("d");
        let text = fs::read_to_string(&list)
            .map_err(|why| Failure::Failed(format!("cargo does not say what it read: {}: {why}", list.display())))?;
        let found = self.tree.beside(&listed(&text), &self.sources, recipe.begin);
        *recipe.beside.borrow_mut() =
            found.map_err(|source| Failure::Io(StudyError::Io { path: self.spec.project.clone(), source }))?;
        Ok(program)
    }

    /// Runs the training command lines.
    fn train(&self, recipe: &Recipe<'_>, program: &Path) -> Result<(), Failure> {
        let scratch = recipe.target.join("scratch");
        for line in self.training() {
            let failed = |source| Failure::Io(StudyError::Io { path: scratch.clone(), source });
            if scratch.exists() {
                fs::remove_dir_all(&scratch).map_err(failed)?;
            }
            fs::create_dir_all(&scratch).map_err(failed)?;
            let line = line.replace("{bin}", &quote(program)).replace("{scratch}", &quote(&scratch));
            let line = line.replace("{project}", &quote(&self.spec.project));
            let mut command = Command::new("sh");
            command.args(["-c", &line]).current_dir(&self.spec.project);
            self.step(recipe, &mut command)?;
        }
        Ok(())
    }

    /// Runs one step of a build to its end, and returns its output.
    fn step(&self, recipe: &Recipe<'_>, command: &mut Command) -> Result<String, Failure> {
        recipe.steps.set(recipe.steps.get() + 1);
        let of_step = |what: &str| recipe.folder.join(format!("step-{}.{what}", recipe.steps.get()));
        let (out, err) = (of_step("out"), of_step("log"));
        let mark = self.folder.to_string_lossy();
        let bounds =
            Bounds { mark: &mark, limit: self.spec.build_limit, out: &out, err: &err, stop: self.control.stop };
        let ran = run(command, &bounds).map_err(|why| {
            Failure::Failed(format!("{} cannot be run: {why}", command.get_program().to_string_lossy()))
        })?;
        if ran.ended == ProcessEnd::Stopped {
            return Err(Failure::Stopped);
        }
        if let Some(fault) = ran.fault(self.spec.build_limit) {
            let log = fs::read_to_string(&err).unwrap_or_default();
            let of = match errors(&log) {
                none if none.is_empty() => String::new(),
                errors => format!(": {errors}"),
            };
            return Err(Failure::Failed(format!("{fault}{of} (all of it: {})", err.display())));
        }
        let printed = fs::read(&out).map_err(|source| Failure::Io(StudyError::Io { path: out, source }))?;
        Ok(String::from_utf8_lossy(&printed).into_owned())
    }

    fn clear(&self, recipe: &Recipe<'_>) -> Result<(), Failure> {
        let path = recipe.target.clone();
        fs::remove_dir_all(&path).map_err(|source| Failure::Io(StudyError::Io { path, source }))
    }
}

/// Returns the first and the last error of a log, or its last line.
fn errors(log: &str) -> String {
    let mut all = log.lines().map(str::trim).filter(|line| line.starts_with("error"));
    match (all.next(), all.last()) {
        (Some(first), Some(last)) => format!("{first} … {last}"),
        (Some(one), None) => one.into(),
        _ => log.lines().last().unwrap_or_default().trim().into(),
    }
}

/// The flag that shuffles functions. Only code sections: constructors keep their order.
fn shuffled(seed: u32) -> String {
    format!("-Clink-arg=-Wl,--shuffle-sections=.text*={seed}")
}

/// Puts a program into a folder; the file that marks it as complete is written last.
fn put(folder: &Path, program: &Path, built: &FinishedBuild) -> Result<FinishedBuild, StudyError> {
    let write = || -> io::Result<()> {
        fs::create_dir_all(folder)?;
        let new = folder.join("program.new");
        fs::copy(program, &new)?;
        File::open(&new)?.sync_all()?;
        fs::rename(&new, folder.join("program"))?;
        let text = serde_json::to_string_pretty(built).map_err(io::Error::other)?;
        fs::write(folder.join("build.json"), text)
    };
    write().map_err(|source| StudyError::Io { path: folder.into(), source })?;
    Ok(FinishedBuild { path: folder.join("program"), ..built.clone() })
}
