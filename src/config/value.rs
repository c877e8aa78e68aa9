//! Values of properties: text in, a typed and bounded value out, by Kafka's rules (blanks around it do not count, `+5` is a
//! number, `TRUE` a boolean, a list is split at commas).

use std::fmt;

/// What a property may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A whole number within bounds, both inclusive. `bits` is Kafka's type: 16 (short), 32 (int) or 64 (long).
    Number {
        /// 16, 32 or 64.
        bits: u8,
        /// The least.
        min: i64,
        /// The greatest.
        max: i64,
    },
    /// `true` or `false`.
    Boolean,
    /// Any text.
    Text,
    /// Items between commas; at least one unless `may_be_empty`.
    List {
        /// Whether no item at all is a value.
        may_be_empty: bool,
    },
    /// One of these words, in upper or lower case.
    Word(&'static [&'static str]),
    /// Some of these words, written as here.
    Words(&'static [&'static str]),
}

/// A value that its kind allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Of [`Kind::Number`].
    Number(i64),
    /// Of [`Kind::Boolean`].
    Boolean(bool),
    /// Of [`Kind::Text`], and of [`Kind::Word`] in the spelling of the table.
    Text(String),
    /// Of [`Kind::List`] and [`Kind::Words`].
    List(Vec<String>),
}

impl Kind {
    /// Reads a value; the error says what is expected, without the name of the property.
    pub fn parse(self, text: &str) -> Result<Value, String> {
        let text = text.trim();
        match self {
            Kind::Number { bits, min, max } => parse_number(text, bits, min, max),
            Kind::Boolean if text.eq_ignore_ascii_case("true") => Ok(Value::Boolean(true)),
            Kind::Boolean if text.eq_ignore_ascii_case("false") => Ok(Value::Boolean(false)),
            Kind::Boolean => Err(format!("`{text}` is neither true nor false")),
            Kind::Text => Ok(Value::Text(text.to_owned())),
            Kind::List { may_be_empty } => {
                let items = split_list(text);
                if items.is_empty() && !may_be_empty {
                    return Err("the list is empty".to_owned());
                }
                Ok(Value::List(items))
            }
            Kind::Word(words) => match words.iter().find(|word| word.eq_ignore_ascii_case(text)) {
                Some(word) => Ok(Value::Text((*word).to_owned())),
                None => Err(format!("`{text}` is none of {}", words.join(", "))),
            },
            Kind::Words(words) => {
                let items = split_list(text);
                if items.is_empty() {
                    return Err("the list is empty".to_owned());
                }
                match items.iter().find(|item| !words.contains(&item.as_str())) {
                    Some(item) => Err(format!("`{item}` is none of {}", words.join(", "))),
                    None => Ok(Value::List(items)),
                }
            }
        }
    }
}

fn parse_number(text: &str, bits: u8, min: i64, max: i64) -> Result<Value, String> {
    let Ok(number) = text.parse::<i64>() else {
        return Err(format!("`{text}` is not a whole number of {bits} bits"));
    };
    if number < min {
        return Err(format!("{number} is below {min}, the least allowed"));
    }
    if number > max {
        return Err(format!("{number} is above {max}, the most allowed"));
    }
    Ok(Value::Number(number))
}

fn split_list(text: &str) -> Vec<String> {
    text.split(',').map(str::trim).filter(|item| !item.is_empty()).map(str::to_owned).collect()
}

impl Value {
    /// A number of 64 bits.
    pub fn long(&self) -> i64 {
        match self {
            Value::Number(number) => *number,
            other => panic!("a number was parsed, not {other:?}"),
        }
    }

    /// A number of 32 bits.
    pub fn int(&self) -> i32 {
        i32::try_from(self.long()).expect("the table bounds it to 32 bits")
    }

    /// A number of 16 bits.
    pub fn short(&self) -> i16 {
        i16::try_from(self.long()).expect("the table bounds it to 16 bits")
    }

    /// A number that is not negative.
    pub fn size(&self) -> usize {
        usize::try_from(self.long()).expect("the table bounds it to 0 and above")
    }

    /// A boolean.
    pub fn boolean(&self) -> bool {
        match self {
            Value::Boolean(boolean) => *boolean,
            other => panic!("a boolean was parsed, not {other:?}"),
        }
    }

    /// A text or word.
    pub fn text(&self) -> &str {
        match self {
            Value::Text(text) => text,
            other => panic!("a text was parsed, not {other:?}"),
        }
    }

    /// A list.
    pub fn list(&self) -> &[String] {
        match self {
            Value::List(items) => items,
            other => panic!("a list was parsed, not {other:?}"),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Number(number) => write!(f, "{number}"),
            Value::Boolean(boolean) => write!(f, "{boolean}"),
            Value::Text(text) => write!(f, "{text}"),
            Value::List(items) => write!(f, "{}", items.join(",")),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Kind::Number { bits, min, max } => {
                let name = match bits {
                    16 => "short",
                    32 => "int",
                    _ => "long",
                };
                let (least, most) = match bits {
                    16 => (i64::from(i16::MIN), i64::from(i16::MAX)),
                    32 => (i64::from(i32::MIN), i64::from(i32::MAX)),
                    _ => (i64::MIN, i64::MAX),
                };
                match (min > least, max < most) {
                    (true, true) => write!(f, "{name}, {min} to {max}"),
                    (true, false) => write!(f, "{name}, {min} or more"),
                    (false, true) => write!(f, "{name}, {max} or less"),
                    (false, false) => write!(f, "{name}"),
                }
            }
            Kind::Boolean => write!(f, "boolean"),
            Kind::Text => write!(f, "string"),
            Kind::List { .. } => write!(f, "list"),
            Kind::Word(words) => write!(f, "one of {}", words.join(", ")),
            Kind::Words(words) => write!(f, "list of {}", words.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: Kind = Kind::Number { bits: 32, min: 1, max: 100 };

    #[test]
    fn numbers_are_read_as_kafka_reads_them() {
        assert_eq!(SIZE.parse("+5"), Ok(Value::Number(5)));
        assert_eq!(SIZE.parse("  7 "), Ok(Value::Number(7)));
        for bad in ["", "5.0", "0x10", "99999999999999999999", "five"] {
            assert!(SIZE.parse(bad).expect_err(bad).contains("not a whole number of 32 bits"), "{bad}");
        }
    }

    #[test]
    fn bounds_are_inclusive_and_named() {
        assert_eq!(SIZE.parse("1"), Ok(Value::Number(1)));
        assert_eq!(SIZE.parse("100"), Ok(Value::Number(100)));
        assert_eq!(SIZE.parse("0"), Err("0 is below 1, the least allowed".to_owned()));
        assert_eq!(SIZE.parse("101"), Err("101 is above 100, the most allowed".to_owned()));
    }

    #[test]
    fn booleans_in_any_case_but_only_two_words() {
        assert_eq!(Kind::Boolean.parse("TRUE"), Ok(Value::Boolean(true)));
        assert_eq!(Kind::Boolean.parse("False"), Ok(Value::Boolean(false)));
        assert_eq!(Kind::Boolean.parse("yes"), Err("`yes` is neither true nor false".to_owned()));
    }

    #[test]
    fn lists_drop_blanks_and_empty_items() {
        let list = Kind::List { may_be_empty: false };
        assert_eq!(list.parse(" a , b,,"), Ok(Value::List(vec!["a".into(), "b".into()])));
        assert_eq!(list.parse(" , "), Err("the list is empty".to_owned()));
        assert_eq!(Kind::List { may_be_empty: true }.parse(""), Ok(Value::List(vec![])));
    }

    #[test]
    fn words_are_of_the_table() {
        let policy = Kind::Word(&["bidirectional", "upgrade"]);
        assert_eq!(policy.parse("Upgrade"), Ok(Value::Text("upgrade".into())));
        assert_eq!(policy.parse("up"), Err("`up` is none of bidirectional, upgrade".to_owned()));
        let protocols = Kind::Words(&["classic", "consumer"]);
        assert_eq!(protocols.parse("classic,classic"), Ok(Value::List(vec!["classic".into(), "classic".into()])));
        assert_eq!(protocols.parse("CLASSIC"), Err("`CLASSIC` is none of classic, consumer".to_owned()));
        assert_eq!(protocols.parse(""), Err("the list is empty".to_owned()));
    }

    #[test]
    fn kinds_describe_themselves() {
        assert_eq!(SIZE.to_string(), "int, 1 to 100");
        assert_eq!(Kind::Number { bits: 64, min: 1, max: i64::MAX }.to_string(), "long, 1 or more");
        assert_eq!(Kind::Number { bits: 32, min: i32::MIN.into(), max: i32::MAX.into() }.to_string(), "int");
    }
}
