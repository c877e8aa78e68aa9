//! A bar on the terminal, if stderr is one, while a start reads the journal. Log lines go above it.
#![allow(clippy::disallowed_methods, reason = "a thread of its own, off the cores")]
use std::io::{self, IsTerminal as _, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::journal::reading::Reading;

/// A start that is over before this is not worth a bar.
const PATIENCE: Duration = Duration::from_millis(300);
const INTERVAL: Duration = Duration::from_millis(100);
const TEMPLATE: &str = "{prefix} [{bar:40}] {binary_bytes} of {binary_total_bytes}, {binary_bytes_per_sec}, {eta} left";

/// The bar that is shown; log lines must not go through it.
static SHOWN: Mutex<Option<ProgressBar>> = Mutex::new(None);

fn shown() -> MutexGuard<'static, Option<ProgressBar>> {
    SHOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Stderr for the log: lines go above the bar.
#[derive(Debug, Default)]
pub struct LogWriter;

impl Write for LogWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &*shown() {
            Some(bar) => bar.suspend(|| io::stderr().write(bytes)),
            None => io::stderr().write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

/// A bar that is there as long as this is.
pub(super) struct Bar(Option<ProgressBar>);

impl Bar {
    /// None is drawn where stderr is no terminal.
    pub(super) fn new(what: &'static str) -> Bar {
        if !io::stderr().is_terminal() {
            return Bar(None);
        }
        let style = ProgressStyle::with_template(TEMPLATE).expect("the template is right").progress_chars("=> ");
        let bar = ProgressBar::new(0).with_prefix(what).with_style(style);
        *shown() = Some(bar.clone());
        Bar(Some(bar))
    }

    pub(super) fn show(&self, bytes_done: u64, bytes_total: u64) {
        if let Some(bar) = &self.0 {
            bar.set_length(bytes_total);
            bar.set_position(bytes_done);
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        if let Some(bar) = &self.0 {
            *shown() = None;
            bar.finish_and_clear();
        }
    }
}

/// Shows how far the cores are with reading, until all have ended.
pub(super) fn follow(readings: Vec<Arc<Reading>>) -> io::Result<()> {
    if !io::stderr().is_terminal() {
        return Ok(());
    }
    let follow = move || {
        thread::sleep(PATIENCE);
        if readings.iter().all(|reading| reading.is_over()) {
            return;
        }
        let bar = Bar::new("reading the journal");
        while !readings.iter().all(|reading| reading.is_over()) {
            let (done, total) = sum(&readings);
            bar.show(done, total);
            thread::sleep(INTERVAL);
        }
    };
    thread::Builder::new().name("progress".into()).spawn(follow).map(drop)
}

fn sum(readings: &[Arc<Reading>]) -> (u64, u64) {
    readings.iter().map(|reading| reading.bytes()).fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
}
