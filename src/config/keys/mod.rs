//! The table of properties: one row gives a property's name, option, type, bounds, default, effect and documentation.
//! Reading, checking, `rallypoint config --list` and docs/configuration.md all come from it.
//!
//! A new property is a row in [`server`] or [`groups`]; what it sets is the row's last word.

mod groups;
mod server;

use super::Settings;
use super::value::{Kind, Value};

/// One property.
pub struct Key {
    /// Kafka's name, or `rallypoint.` and ours.
    pub property: &'static str,
    /// An older name of the same property.
    pub alias: Option<&'static str>,
    /// The option of `rallypoint serve` that sets it, with its placeholder.
    pub flag: Option<&'static str>,
    /// Type and bounds.
    pub kind: Kind,
    /// As it would be written in a file; empty: not set.
    pub default: &'static str,
    /// What it does.
    pub effect: Effect,
    /// For the owner of a server; units included.
    pub documentation: &'static str,
}

/// What a property does to the settings.
#[derive(Clone, Copy)]
pub enum Effect {
    /// It sets a field.
    Sets(fn(&mut Settings, &Value)),
    /// It is put together with others (listeners, node id, directory, topics).
    Composed,
    /// It is checked as Kafka checks it, but does nothing here so far.
    CheckedOnly,
}

/// All properties that we know more about than their name.
pub fn all() -> impl Iterator<Item = &'static Key> {
    server::KEYS.iter().chain(groups::KEYS)
}

/// The row of a property, also by its older name.
pub fn find(property: &str) -> Option<&'static Key> {
    all().find(|key| key.property == property || key.alias == Some(property))
}

const MAX: i32 = i32::MAX;

const fn key(property: &'static str, kind: Kind, default: &'static str, documentation: &'static str) -> Key {
    Key { property, alias: None, flag: None, kind, default, effect: Effect::CheckedOnly, documentation }
}

const fn short(property: &'static str, default: &'static str, min: i16, max: i16, documentation: &'static str) -> Key {
    key(property, Kind::Number { bits: 16, min: min as i64, max: max as i64 }, default, documentation)
}

const fn int(property: &'static str, default: &'static str, min: i32, max: i32, documentation: &'static str) -> Key {
    key(property, Kind::Number { bits: 32, min: min as i64, max: max as i64 }, default, documentation)
}

const fn long(property: &'static str, default: &'static str, min: i64, max: i64, documentation: &'static str) -> Key {
    key(property, Kind::Number { bits: 64, min, max }, default, documentation)
}

const fn list(property: &'static str, default: &'static str, documentation: &'static str) -> Key {
    key(property, Kind::List { may_be_empty: false }, default, documentation)
}

impl Key {
    const fn flag(self, flag: &'static str) -> Key {
        Key { flag: Some(flag), ..self }
    }

    const fn alias(self, alias: &'static str) -> Key {
        Key { alias: Some(alias), ..self }
    }

    const fn sets(self, set: fn(&mut Settings, &Value)) -> Key {
        Key { effect: Effect::Sets(set), ..self }
    }

    const fn composed(self) -> Key {
        Key { effect: Effect::Composed, ..self }
    }

    /// The default as a value; `None`: the property is not set unless somebody sets it.
    pub fn default_value(&self) -> Option<Value> {
        if self.default.is_empty() && !matches!(self.kind, Kind::List { may_be_empty: true }) {
            return None;
        }
        Some(self.kind.parse(self.default).expect("a test reads every default of the table"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_is_a_value_of_its_kind() {
        for key in all() {
            key.default_value();
        }
    }

    #[test]
    fn the_defaults_of_the_table_are_those_of_the_settings() {
        let mut settings = Settings::default();
        for key in all() {
            if let (Effect::Sets(set), Some(value)) = (key.effect, key.default_value()) {
                set(&mut settings, &value);
            }
        }
        assert_eq!(settings, Settings::default());
    }

    #[test]
    fn a_property_stands_once_and_is_documented() {
        let mut names = std::collections::BTreeSet::new();
        for key in all() {
            assert!(names.insert(key.property), "{} stands twice", key.property);
            assert!(key.alias.is_none_or(|alias| names.insert(alias)), "{:?} stands twice", key.alias);
            assert!(key.documentation.ends_with('.'), "{}: a sentence ends with a full stop", key.property);
        }
    }

    #[test]
    fn a_property_is_kafkas_or_begins_with_our_name() {
        for key in all() {
            let ours = key.property.starts_with("rallypoint.");
            assert!(ours != super::super::kafka_keys::is_known(key.property), "{}", key.property);
        }
    }

    #[test]
    fn a_setter_changes_a_setting() {
        for key in all() {
            let Effect::Sets(set) = key.effect else { continue };
            let other = match key.kind {
                Kind::Number { max, .. } if key.default != max.to_string() => Value::Number(max),
                Kind::Number { min, .. } => Value::Number(min),
                Kind::Boolean => Value::Boolean(key.default != "true"),
                Kind::Text => Value::Text("other".into()),
                Kind::Word(words) => {
                    Value::Text((*words.iter().find(|word| **word != key.default).expect("a choice")).into())
                }
                Kind::List { .. } | Kind::Words(_) => Value::List(vec!["other".into()]),
            };
            let mut settings = Settings::default();
            set(&mut settings, &other);
            assert_ne!(settings, Settings::default(), "{} sets nothing", key.property);
        }
    }
}
