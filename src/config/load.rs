//! From options and file to [`Settings`]: collects what was written, lets the strongest win, and reads it by the table.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use super::arguments::ServeArguments;
use super::keys::{self, Effect, Key};
use super::origin::{ConfigError, Notice, Origin, Problem};
use super::refuse::{self, Treatment};
use super::value::Value;
use super::{Settings, check, endpoint, kafka_keys, listeners, ports, properties, topics};

/// What a server is to do, and what its owner should know about that.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// Checked: they can be used as they are.
    pub settings: Settings,
    /// To be logged.
    pub notices: Vec<Notice>,
    /// Each property of the table that has a value: name, value, and where that comes from.
    pub effective: Vec<(&'static str, Value, Origin)>,
}

/// The settings that options and file give, or every reason why they cannot be used.
pub fn load(arguments: &ServeArguments) -> Result<(Settings, Vec<Notice>), ConfigError> {
    load_all(arguments).map(|loaded| (loaded.settings, loaded.notices))
}

/// As [`load`], with the value and origin of each property.
pub fn load_all(arguments: &ServeArguments) -> Result<Loaded, ConfigError> {
    let file = match &arguments.config {
        Some(path) => Some((path.as_path(), read(path)?)),
        None => None,
    };
    load_text(arguments, file.as_ref().map(|(path, text)| (*path, text.as_slice())))
}

#[allow(clippy::disallowed_methods, reason = "the one place that reads the configuration file")]
fn read(path: &Path) -> Result<Vec<u8>, ConfigError> {
    std::fs::read(path).map_err(|error| {
        let message = format!("{}: {error}", path.display());
        ConfigError { problems: vec![Problem { origin: Origin::Flag("--config"), message }] }
    })
}

fn load_text(arguments: &ServeArguments, file: Option<(&Path, &[u8])>) -> Result<Loaded, ConfigError> {
    let mut draft = Draft::default();
    if let Some((path, text)) = file {
        draft.add_file(path, text);
    }
    draft.add_options(arguments);
    let values = draft.read_values();
    let Draft { mut notices, mut problems, .. } = draft;
    // Rules between values would only repeat what a value that could not be read has said already.
    if problems.is_empty() {
        check::check(&values, &mut problems);
    }
    let mut settings = Settings::default();
    for (key, value, _) in &values.0 {
        if let Effect::Sets(set) = key.effect {
            set(&mut settings, value);
        }
    }
    settings.node_id = values.int("node.id");
    settings.metrics = compose_metrics(&values, &mut problems);
    settings.topics = topics::compose(&values, &mut problems);
    settings.listeners = listeners::compose(&values, arguments, &mut notices, &mut problems);
    if problems.is_empty()
        && let Err(error) = ports::PortTable::of(&settings)
    {
        let property = match error {
            ports::PortError::Metrics { .. } => "rallypoint.metrics.listen",
            _ => "rallypoint.core.port.stride",
        };
        problems.push(Problem { origin: values.origin(property), message: error.to_string() });
    }
    warn_of_values(&values, &mut notices);
    if !problems.is_empty() {
        return Err(ConfigError { problems });
    }
    let effective = values.0.into_iter().map(|(key, value, origin)| (key.property, value, origin)).collect();
    Ok(Loaded { settings, notices, effective })
}

fn compose_metrics(values: &Values, problems: &mut Vec<Problem>) -> Option<(String, u16)> {
    const PROPERTY: &str = "rallypoint.metrics.listen";
    let text = values.get(PROPERTY)?.text();
    match endpoint::parse_address(text) {
        Ok(address) => Some(address),
        Err(what) => {
            problems
                .push(Problem { origin: values.origin(PROPERTY), message: format!("{PROPERTY}: `{text}`: {what}") });
            None
        }
    }
}

fn warn_of_values(values: &Values, notices: &mut Vec<Notice>) {
    let directories = values.list("log.dirs");
    if directories.len() > 1 {
        let origin = values.origin("log.dirs");
        notices.push(Notice::warn(format!("{origin}: log.dirs: only the first directory is used, {}", directories[0])));
    }
    let segment_bytes = values.long("offsets.topic.segment.bytes");
    if segment_bytes < 1_048_576 {
        let origin = values.origin("offsets.topic.segment.bytes");
        notices.push(Notice::warn(format!(
            "{origin}: offsets.topic.segment.bytes does nothing here; Kafka 4.4 could not create its offsets topic with \
             {segment_bytes} (less than 1048576)"
        )));
    }
}

/// What was written for a property.
#[derive(Clone)]
struct Given {
    value: String,
    origin: Origin,
}

#[derive(Default)]
struct Draft {
    given: BTreeMap<String, Given>,
    notices: Vec<Notice>,
    problems: Vec<Problem>,
}

impl Draft {
    fn add_file(&mut self, path: &Path, text: &[u8]) {
        let path: Arc<Path> = Arc::from(path);
        match properties::parse(text) {
            Ok(entries) => {
                for entry in entries {
                    let origin = Origin::File { path: path.clone(), line: entry.line };
                    self.add(entry.property, entry.value, origin);
                }
            }
            Err((line, message)) => {
                let origin = Origin::File { path, line: line.unwrap_or(0) };
                self.problems.push(Problem { origin, message });
            }
        }
    }

    fn add_options(&mut self, arguments: &ServeArguments) {
        if let Some(cores) = &arguments.cores {
            self.add("rallypoint.cores".into(), cores.clone(), Origin::Flag("--cores"));
        }
        if let Some(dir) = &arguments.data_dir {
            self.add("log.dirs".into(), dir.clone(), Origin::Flag("--data-dir"));
        }
        if let Some(address) = &arguments.metrics {
            self.add("rallypoint.metrics.listen".into(), address.clone(), Origin::Flag("--metrics"));
        }
        if !arguments.topic.is_empty() {
            self.add("rallypoint.topics".into(), arguments.topic.join(","), Origin::Flag("--topic"));
        }
        for text in &arguments.set {
            match text.split_once('=') {
                Some((property, value)) if !property.trim().is_empty() => {
                    self.add(property.trim().to_owned(), value.trim().to_owned(), Origin::Set);
                }
                _ => {
                    let message = format!("`{text}` is not of the form KEY=VALUE");
                    self.problems.push(Problem { origin: Origin::Set, message });
                }
            }
        }
    }

    /// Values come in order of precedence, the weakest first.
    fn add(&mut self, property: String, value: String, origin: Origin) {
        if let Some(former) = self.given.get(&property)
            && former.origin.rank() == origin.rank()
        {
            let text = format!("{origin}: {property} stands twice; this replaces the value of {}", former.origin);
            self.notices.push(Notice::warn(text));
        }
        self.given.insert(property, Given { value, origin });
    }

    fn read_values(&mut self) -> Values {
        let mut values = Vec::new();
        for key in keys::all() {
            let default = key.default_value().map(|value| (value, Origin::Default));
            let value = self.take(key).and_then(|given| self.read_value(key, given));
            values.extend(value.or(default).map(|(value, origin)| (key, value, origin)));
        }
        for (property, given) in std::mem::take(&mut self.given) {
            self.judge(&property, &given);
        }
        Values(values)
    }

    /// Takes what was written for a row, under its name or its older one.
    fn take(&mut self, key: &Key) -> Option<Given> {
        let named = self.given.remove(key.property);
        let aliased = key.alias.and_then(|alias| self.given.remove(alias));
        // Kafka's way to say that `broker.id` is not set.
        let aliased = aliased.filter(|given| !(key.alias == Some("broker.id") && given.value == "-1"));
        let (Some(named), Some(aliased)) = (&named, &aliased) else {
            return named.or(aliased);
        };
        if aliased.origin.rank() > named.origin.rank() {
            return Some(aliased.clone());
        }
        if key.alias == Some("broker.id")
            && aliased.origin.rank() == named.origin.rank()
            && aliased.value != named.value
        {
            let message = format!("node.id ({}) and broker.id ({}) differ", named.value, aliased.value);
            self.problems.push(Problem { origin: aliased.origin.clone(), message });
        }
        Some(named.clone())
    }

    fn read_value(&mut self, key: &Key, given: Given) -> Option<(Value, Origin)> {
        let unset = given.value.is_empty() && key.default.is_empty();
        if unset {
            return None;
        }
        match key.kind.parse(&given.value) {
            Ok(value) => {
                if matches!(key.effect, Effect::CheckedOnly) {
                    let text = format!("{}: {} is accepted, but does nothing here", given.origin, key.property);
                    self.notices.push(Notice::debug(text));
                }
                Some((value, given.origin))
            }
            Err(what) => {
                self.problems.push(Problem { origin: given.origin, message: format!("{}: {what}", key.property) });
                None
            }
        }
    }

    /// What becomes of a property that has no row.
    fn judge(&mut self, property: &str, given: &Given) {
        let origin = &given.origin;
        match refuse::treat(property, &given.value) {
            Treatment::Ignore => {
                let text = format!("{origin}: {property} is Kafka's, but does nothing here");
                self.notices.push(Notice::debug(text));
            }
            Treatment::Warn(why) => self.notices.push(Notice::warn(format!("{origin}: {property}: {why}"))),
            Treatment::Refuse(why) => {
                let message = format!("{property}: {why}; without this property the server starts");
                self.problems.push(Problem { origin: origin.clone(), message });
            }
            Treatment::Unknown => {
                let hint = match kafka_keys::nearest(property) {
                    Some(near) => format!("; did you mean {near}?"),
                    None => String::new(),
                };
                self.notices.push(Notice::warn(format!("{origin}: {property} is not a known property{hint}")));
            }
        }
    }
}

/// The values of the table's rows, in its order.
pub(super) struct Values(Vec<(&'static Key, Value, Origin)>);

impl Values {
    fn get(&self, property: &str) -> Option<&Value> {
        self.0.iter().find(|(key, ..)| key.property == property).map(|(_, value, _)| value)
    }

    fn expect(&self, property: &str) -> &Value {
        self.get(property).unwrap_or_else(|| panic!("{property} has a default in the table"))
    }

    pub(super) fn int(&self, property: &str) -> i32 {
        self.expect(property).int()
    }

    pub(super) fn long(&self, property: &str) -> i64 {
        self.expect(property).long()
    }

    pub(super) fn list(&self, property: &str) -> &[String] {
        self.expect(property).list()
    }

    pub(super) fn list_or_empty(&self, property: &str) -> &[String] {
        self.get(property).map_or(&[], Value::list)
    }

    /// Where the value of a property was written.
    pub(super) fn origin(&self, property: &str) -> Origin {
        let found = self.0.iter().find(|(key, ..)| key.property == property);
        found.map_or(Origin::Default, |(_, _, origin)| origin.clone())
    }
}

#[cfg(test)]
#[path = "load_tests.rs"]
mod tests;
