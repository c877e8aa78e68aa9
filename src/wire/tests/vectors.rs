//! Golden bytes, made by Kafka's own encoder: every version of every message, both ways.

use serde_json::Value;

use super::messages::messages;

const VECTORS: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/vectors/messages.tsv"));

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
