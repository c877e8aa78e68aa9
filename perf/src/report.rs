//! What a run prints: one line for people, one JSON object for scripts, from the same list of figures.

use std::fmt::Write;

enum Value {
    Text(String),
    Whole(i64),
    /// With the decimals to show.
    Real(f64, usize),
}

/// The named figures of a run, in the order of printing.
#[derive(Default)]
pub(crate) struct Report(Vec<(&'static str, Value)>);

impl Report {
    pub(crate) fn text(&mut self, name: &'static str, value: impl Into<String>) {
        self.0.push((name, Value::Text(value.into())));
    }

    pub(crate) fn whole(&mut self, name: &'static str, value: impl TryInto<i64>) {
        self.0.push((name, Value::Whole(value.try_into().unwrap_or(i64::MAX))));
    }

    pub(crate) fn real(&mut self, name: &'static str, value: f64, decimals: usize) {
        self.0.push((name, Value::Real(value, decimals)));
    }

    /// The line to standard output; with `json` the object there and the line to standard error.
    pub(crate) fn print(&self, json: bool) {
        if json {
            eprintln!("{}", self.line());
            println!("{}", self.json());
        } else {
            println!("{}", self.line());
        }
    }

    fn line(&self) -> String {
        let mut line = String::new();
        for (name, value) in &self.0 {
            let space = if line.is_empty() { "" } else { "  " };
            let _ = match value {
                Value::Text(text) => write!(line, "{space}{name} {text}"),
                Value::Whole(number) => write!(line, "{space}{name} {number}"),
                Value::Real(number, decimals) => write!(line, "{space}{name} {number:.decimals$}"),
            };
        }
        line
    }

    fn json(&self) -> String {
        let mut fields = Vec::new();
        for (name, value) in &self.0 {
            fields.push(match value {
                Value::Text(text) => format!("\"{name}\": \"{}\"", escaped(text)),
                Value::Whole(number) => format!("\"{name}\": {number}"),
                Value::Real(number, _) if !number.is_finite() => format!("\"{name}\": null"),
                Value::Real(number, _) => format!("\"{name}\": {number:.6}"),
            });
        }
        format!("{{{}}}", fields.join(", "))
    }
}

fn escaped(text: &str) -> String {
    let mut out = String::new();
    for character in text.chars() {
        match character {
            '"' | '\\' => out.extend(['\\', character]),
            _ if character < ' ' => drop(write!(out, "\\u{:04x}", character as u32)),
            _ => out.push(character),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_for_people_and_json_for_scripts() {
        let mut report = Report::default();
        report.text("kind", "a \"b\"\n");
        report.whole("requests", 3_u64);
        report.real("us", 1.25, 1);
        report.real("none", f64::NAN, 1);
        assert_eq!(report.line(), "kind a \"b\"\n  requests 3  us 1.2  none NaN");
        assert_eq!(
            report.json(),
            "{\"kind\": \"a \\\"b\\\"\\u000a\", \"requests\": 3, \"us\": 1.250000, \"none\": null}"
        );
    }
}
