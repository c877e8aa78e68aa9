//! What happened last, for the one who looks into a failing seed.

use std::collections::VecDeque;
use std::fmt::Write as _;

use super::model::{Asked, Outcome};
use crate::clock::Now;
use crate::wire::Malformed;

/// The last lines, if they are wanted.
#[derive(Debug, Default)]
pub(super) struct Trace {
    lines: VecDeque<String>,
    lines_max: usize,
}

impl Trace {
    /// Keeps so many lines; 0: none, and they cost nothing.
    pub(super) fn new(lines_max: usize) -> Trace {
        Trace { lines: VecDeque::new(), lines_max }
    }

    pub(super) fn note(&mut self, now: Now, line: impl FnOnce() -> String) {
        if self.lines_max == 0 {
            return;
        }
        if self.lines.len() == self.lines_max {
            self.lines.pop_front();
        }
        self.lines.push_back(format!("{:>8} ms  {}", now.monotonic_ms, line()));
    }

    #[allow(clippy::too_many_arguments)]
    pub(super) fn request(
        &mut self,
        now: Now,
        core: usize,
        connection: u64,
        place: u64,
        frame: &[u8],
        asked: &Result<Asked, Malformed>,
        outcome: &Outcome<'_>,
    ) {
        self.note(now, || {
            let mut line = format!("core {core}  {connection}.{place}  ");
            let written = match asked {
                Ok(asked) => write!(line, "{} v{} {:?}", asked.api.name(), asked.version, asked.what),
                Err(_) => write!(line, "{}", hex(frame)),
            };
            written.expect("a string takes everything");
            match outcome {
                Outcome::Replied(reply) => line + "\n                -> " + &hex(reply),
                Outcome::Parked => line + "\n                -> parked",
                Outcome::Refused(reason) => line + "\n                -> closed: " + reason,
            }
        });
    }

    pub(super) fn reply(&mut self, now: Now, core: usize, connection: u64, place: u64, asked: &Asked, reply: &[u8]) {
        self.note(now, || format!("core {core}  {connection}.{place}  {} <- {}", asked.api.name(), hex(reply)));
    }

    pub(super) fn print(&self) {
        self.lines.iter().for_each(|line| eprintln!("{line}"));
    }
}

/// Text where it is text; long bytes are cut.
fn hex(bytes: &[u8]) -> String {
    const BYTES_MAX: usize = 400;
    let mut text = String::new();
    for byte in bytes.iter().take(BYTES_MAX) {
        match byte {
            b' '..=b'~' => text.push(char::from(*byte)),
            _ => write!(text, "\\{byte:02x}").expect("a string takes everything"),
        }
    }
    if bytes.len() > BYTES_MAX {
        text.push_str("...");
    }
    text
}
