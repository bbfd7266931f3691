//! A program on a pseudo-terminal: its screen, and keys typed at it.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::process::{Child, Command, ExitStatus};
use std::sync::Arc;
use std::thread::JoinHandle;

use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use super::node::wait_until;

/// A program that runs on a pseudo-terminal. Killed when dropped.
pub struct Terminal {
    child: Child,
    keys: File,
    parser: Arc<Mutex<vt100::Parser>>,
    reader: JoinHandle<()>,
}

impl Terminal {
    /// Starts the program on a terminal of this size.
    pub fn start(command: &mut Command, columns: u16, rows: u16) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).expect("a pseudo-terminal");
        grantpt(&master).and_then(|()| unlockpt(&master)).expect("its other end");
        set_size(&master, columns, rows);
        let other = ptsname(&master, Vec::new()).expect("its name").into_string().expect("text");
        let open = || File::options().read(true).write(true).open(&other).expect("its other end opens");
        let child = command.env("TERM", "xterm-256color").stdin(open()).stdout(open()).stderr(open()).spawn();
        let keys = File::from(master);
        let parser = Arc::new(Mutex::new(vt100::Parser::new(rows, columns, 0)));
        let (mut drawn, into) = (keys.try_clone().expect("a second handle"), parser.clone());
        // Ends with an error when the program has closed the other end.
        let reader = std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = drawn.read(&mut bytes) {
                into.lock().process(&bytes[..count]);
            }
        });
        Self { child: child.expect("the program starts"), keys, parser, reader }
    }

    /// Returns the text on the screen.
    pub fn screen(&self) -> String {
        self.parser.lock().screen().contents()
    }

    /// Whether the program has taken the whole screen.
    pub fn is_taken_over(&self) -> bool {
        self.parser.lock().screen().alternate_screen()
    }

    /// Waits until the screen shows all of `texts`.
    pub fn shows(&self, texts: &[&str]) -> String {
        wait_until("the screen", || {
            let screen = self.screen();
            match texts.iter().find(|text| !screen.contains(**text)) {
                None => Ok(screen),
                Some(missing) => Err(format!("no `{missing}` in:\n{screen}")),
            }
        })
    }

    /// Types these keys into the terminal.
    pub fn keys(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).expect("the terminal takes keys");
    }

    /// Ctrl-C of a terminal that the program reads no keys from.
    pub fn interrupt(&self) {
        self.signal(Signal::INT);
    }

    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.child.id() as i32).expect("a process id");
        kill_process(pid, signal).expect("the program takes signals");
    }

    /// Gives the terminal another size.
    pub fn resize(&self, columns: u16, rows: u16) {
        self.parser.lock().screen_mut().set_size(rows, columns);
        set_size(&self.keys, columns, rows);
    }

    /// Waits for the program to exit and for the screen to show all of its output.
    pub fn ended(&mut self) -> ExitStatus {
        let status =
            wait_until("the program's end", || self.child.try_wait().expect("a child").ok_or_else(|| self.screen()));
        wait_until("the rest of what it drew", || self.reader.is_finished().then_some(()).ok_or_else(|| self.screen()));
        status
    }
}

fn set_size(terminal: impl AsFd, columns: u16, rows: u16) {
    let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    let set = tcsetwinsize(terminal, size);
    set.expect("a terminal has a size");
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
