//! Topics named on the command line.

use super::DeclaredTopic;
use super::load::Values;
use super::origin::Problem;
use crate::limits::PARTITIONS_MAX;
use crate::topics::name;

const PROPERTY: &str = "rallypoint.topics";

/// Reads `NAME` or `NAME:PARTITIONS` of each. What is wrong goes to `problems`.
pub(super) fn compose(values: &Values, problems: &mut Vec<Problem>) -> Vec<DeclaredTopic> {
    let mut topics: Vec<DeclaredTopic> = Vec::new();
    for text in values.list_or_empty(PROPERTY) {
        let problem = match parse(text) {
            Err(what) => what,
            Ok(topic) if topics.iter().any(|other| other.name == topic.name) => format!("{} stands twice", topic.name),
            Ok(topic) => {
                topics.push(topic);
                continue;
            }
        };
        problems.push(Problem { origin: values.origin(PROPERTY), message: problem });
    }
    topics
}

fn parse(text: &str) -> Result<DeclaredTopic, String> {
    let (name, partitions) = match text.split_once(':') {
        Some((name, partitions)) => (name, Some(partitions)),
        None => (text, None),
    };
    if !name::is_legal(name) {
        return Err(format!("`{name}` is not a topic name: 1 to 249 of a-z, A-Z, 0-9, `.`, `_`, `-`"));
    }
    let partitions = match partitions.map(str::parse::<i32>) {
        None => None,
        Some(Ok(partitions)) if partitions >= 1 && partitions as usize <= PARTITIONS_MAX => Some(partitions),
        Some(_) => return Err(format!("`{text}`: a topic has 1 to {PARTITIONS_MAX} partitions")),
    };
    Ok(DeclaredTopic { name: name.to_owned(), partitions })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topic_may_have_a_number_of_partitions() {
        assert_eq!(parse("demo:6"), Ok(DeclaredTopic { name: "demo".into(), partitions: Some(6) }));
        assert_eq!(parse("a.b_c-1"), Ok(DeclaredTopic { name: "a.b_c-1".into(), partitions: None }));
    }

    #[test]
    fn names_are_as_kafka_allows_them() {
        assert!(parse(&"x".repeat(249)).is_ok());
        for bad in [&"x".repeat(250), "", ".", "..", "a b", "ä"] {
            assert!(parse(bad).expect_err(bad).contains("not a topic name"), "{bad}");
        }
        for bad in ["demo:0", "demo:-1", "demo:", "demo:x", "demo:99999999999"] {
            assert!(parse(bad).expect_err(bad).contains("1 to 1000000 partitions"), "{bad}");
        }
        assert!(parse(&format!("demo:{PARTITIONS_MAX}")).is_ok());
        assert!(parse(&format!("demo:{}", PARTITIONS_MAX + 1)).is_err());
    }
}
