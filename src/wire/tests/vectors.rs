//! Golden bytes, made by Kafka's own encoder: every version of every message, both ways.

use serde_json::Value;

use super::messages::messages;

const VECTORS: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/vectors/messages.tsv"));

const BENT: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/vectors/bent.tsv"));

pub(crate) struct Vector {
    pub(crate) message: &'static str,
    pub(crate) version: i16,
    pub(crate) bytes: Vec<u8>,
    pub(crate) json: Value,
}

pub(crate) fn vectors() -> Vec<Vector> {
    let rows = VECTORS.lines().filter(|line| !line.starts_with('#')).skip(1);
    rows.map(|row| {
        let columns: Vec<_> = row.split('\t').collect();
        let [message, version, hex, json] = columns[..] else { panic!("four columns: {row}") };
        Vector {
            message,
            version: version.parse().expect("a version"),
            bytes: hex::decode(hex).expect("hex"),
            json: serde_json::from_str(json).expect("json"),
        }
    })
    .collect()
}

#[test]
fn kafkas_bytes_decode_to_kafkas_fields_and_encode_to_the_same_bytes() {
    let messages = messages();
    for vector in vectors() {
        let name = format!("{} v{}", vector.message, vector.version);
        let message = messages.iter().find(|message| message.name == vector.message).expect(&name);
        let version = message.version(vector.version);
        let (json, remaining) = (message.parse)(&vector.bytes, version).expect(&name);
        assert_eq!(json, vector.json, "{name}");
        assert_eq!(remaining, 0, "{name}");
        assert_eq!((message.skip)(&vector.bytes, version), Ok(0), "{name}");
        for rewritten in (message.rewrite)(&vector.bytes, version).expect(&name) {
            assert_eq!(hex::encode(rewritten), hex::encode(&vector.bytes), "{name}");
        }
    }
}

/// Kafka's verdict on messages that are not as they should be: what it tolerates we tolerate, and what it refuses we
/// refuse.
#[test]
fn bent_messages_fare_as_with_kafka() {
    let messages = messages();
    let mut rows = 0;
    for row in BENT.lines().filter(|line| !line.starts_with('#')).skip(1) {
        let columns: Vec<_> = row.split('\t').collect();
        let [name, version, hex, remaining, json] = columns[..] else { panic!("five columns: {row}") };
        let message = messages.iter().find(|message| message.name == name).expect(row);
        let version = message.version(version.parse().expect("a version"));
        let parsed = (message.parse)(&hex::decode(hex).expect("hex"), version);
        match remaining {
            "refused" => assert!(parsed.is_err(), "{row}"),
            count => {
                let json: Value = serde_json::from_str(json).expect("json");
                assert_eq!(parsed, Ok((json, count.parse().expect("a count"))), "{row}");
            }
        }
        rows += 1;
    }
    assert_eq!(rows, 248);
}

#[test]
fn every_version_of_every_message_has_a_vector() {
    let vectors = vectors();
    let mut expected = 0;
    for message in messages() {
        for version in message.all_versions() {
            let found = vectors.iter().any(|vector| (vector.message, vector.version) == (message.name, version.number));
            assert!(found, "{} v{}", message.name, version.number);
            expected += 1;
        }
    }
    assert_eq!(vectors.len(), expected, "a vector without its message");
}
