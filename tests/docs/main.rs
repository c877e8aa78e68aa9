//! Pages that are made from the tables of the code: they are what the code says now. `UPDATE_DOCS=1 cargo test --test docs`
//! writes them anew.
#![cfg(feature = "server")]
#![allow(clippy::disallowed_methods, reason = "it reads and writes the documentation")]

mod protocol;

use std::fs;
use std::path::PathBuf;

fn path(page: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(page)
}

fn is_update() -> bool {
    std::env::var_os("UPDATE_DOCS").is_some()
}

/// Puts `text` between two comments of a page, or says that it is not what stands there.
fn compare_section(page: &str, name: &str, text: &str) {
    let (begin, end) = (format!("<!-- {name} -->\n"), format!("<!-- /{name} -->\n"));
    let found = fs::read_to_string(path(page)).expect(page);
    let (before, rest) = found.split_once(&begin).unwrap_or_else(|| panic!("{page} has no {begin}"));
    let (_, after) = rest.split_once(&end).unwrap_or_else(|| panic!("{page} has no {end}"));
    compare(page, &format!("{before}{begin}{text}{end}{after}"));
}

fn compare(page: &str, wanted: &str) {
    if fs::read_to_string(path(page)).is_ok_and(|found| found == wanted) {
        return;
    }
    assert!(is_update(), "{page} is stale; UPDATE_DOCS=1 cargo test --test docs writes it anew");
    fs::write(path(page), wanted).expect(page);
}

#[test]
fn metrics_are_those_of_the_table() {
    compare_section("docs/operating.md", "metrics", &rallypoint::metrics::page::markdown());
}
