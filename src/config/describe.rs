//! Shows the table of properties to people: `rallypoint config --list`, docs/configuration.md, and what counts now.

use std::fmt::Write as _;

use super::keys::{self, Effect, Key};
use super::origin::Origin;
use super::value::Value;

/// How [`describe`] writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// For a terminal.
    Text,
    /// As docs/configuration.md has it.
    Markdown,
}

/// The whole table.
pub fn describe(format: Format) -> String {
    let mut text = String::new();
    let used = keys::all().filter(|key| !matches!(key.effect, Effect::CheckedOnly));
    let checked = keys::all().filter(|key| matches!(key.effect, Effect::CheckedOnly));
    match format {
        Format::Text => {
            text.push_str("Properties of FILE and --set:\n\n");
            used.for_each(|key| row_of_text(&mut text, key));
            text.push_str("Checked as Kafka checks them, but without effect here:\n\n");
            checked.for_each(|key| row_of_text(&mut text, key));
        }
        Format::Markdown => {
            const HEAD: &str = "| property | option | type | default | what it does |\n|---|---|---|---|---|\n";
            text.push_str(HEAD);
            used.for_each(|key| row_of_markdown(&mut text, key));
            text.push_str("\n## Checked, but without effect here\n\n");
            text.push_str(HEAD);
            checked.for_each(|key| row_of_markdown(&mut text, key));
        }
    }
    text
}

fn row_of_text(text: &mut String, key: &Key) {
    let Key { property, flag, kind, documentation, .. } = key;
    let flag = flag.map(|flag| format!("  {flag}")).unwrap_or_default();
    let default = if key.default.is_empty() { "unset" } else { key.default };
    writeln!(text, "{property}{flag}\n    {kind}; default {default}\n    {documentation}\n").expect(WRITES);
}

fn row_of_markdown(text: &mut String, key: &Key) {
    let Key { property, flag, kind, documentation, .. } = key;
    let also = key.alias.map(|alias| format!(" (or `{alias}`)")).unwrap_or_default();
    let flag = flag.map(|flag| format!("`{flag}`")).unwrap_or_default();
    let default = if key.default.is_empty() { String::new() } else { format!("`{}`", key.default) };
    writeln!(text, "| `{property}`{also} | {flag} | {kind} | {default} | {documentation} |").expect(WRITES);
}

/// A line for each property that somebody has set, and where; with `all`, also for those that nobody has.
pub fn effective(values: &[(&'static str, Value, Origin)], all: bool) -> String {
    let mut text = String::new();
    for (property, value, origin) in values {
        if all || *origin != Origin::Default {
            writeln!(text, "{property}={value}  # {origin}").expect(WRITES);
        }
    }
    text
}

const WRITES: &str = "a String takes what is written";
