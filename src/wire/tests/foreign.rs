//! A second, foreign encoder: the crate `kafka-protocol`, for the versions that it knows. Random messages go to it and
//! come back: its fields (as its Debug form shows them) are ours, and its bytes are ours.

use std::iter::Peekable;
use std::str::Chars;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::{Bytes, BytesMut};
use kafka_protocol::messages as theirs;
use kafka_protocol::protocol::{Decodable, Encodable, Message as _, VersionRange};
use serde_json::{Map, Value};

use super::messages::messages;
use super::{Random, camel_case};
use crate::wire::{ApiKey, Cursor, RequestHeader, ResponseHeader, Uuid, Writer};

/// What it makes of the encoding of a message.
struct Theirs {
    debug: String,
    encoded: Vec<u8>,
    /// Encoded again with an unknown tagged field; none where a message cannot have one.
    encoded_with_unknown_tag: Option<Vec<u8>>,
}

struct Foreign {
    name: &'static str,
    versions: VersionRange,
    judge: fn(&[u8], i16) -> Theirs,
}

fn encode(message: &impl Encodable, version: i16) -> Vec<u8> {
    let mut bytes = BytesMut::new();
    message.encode(&mut bytes, version).expect("it encodes what it decoded");
    bytes.to_vec()
}

macro_rules! foreign {
    ($($name:ident)* ; untagged $($untagged:ident)*) => {
        vec![
            $(foreign!(@one $name, |message, version| {
                let mut message = message;
                message.unknown_tagged_fields.insert(4321, Bytes::from_static(b"future"));
                Some(encode(&message, version))
            }),)*
            $(foreign!(@one $untagged, |_, _| None),)*
        ]
    };
    (@one $name:ident, $with_unknown_tag:expr) => {
        Foreign {
            name: stringify!($name),
            versions: theirs::$name::VERSIONS,
            judge: |bytes, version| {
                let mut bytes = Bytes::copy_from_slice(bytes);
                let message = theirs::$name::decode(&mut bytes, version).expect("it decodes ours");
                assert!(bytes.is_empty(), "it read all of ours");
                let with_unknown_tag: fn(theirs::$name, i16) -> Option<Vec<u8>> = $with_unknown_tag;
                Theirs {
                    debug: format!("{message:?}"),
                    encoded: encode(&message, version),
                    encoded_with_unknown_tag: with_unknown_tag(message, version),
                }
            },
        }
    };
}

fn foreign() -> Vec<Foreign> {
    foreign! {
        ApiVersionsRequest ApiVersionsResponse
        CreateTopicsRequest CreateTopicsResponse
        DeleteGroupsRequest DeleteGroupsResponse
        DeleteTopicsRequest DeleteTopicsResponse
        DescribeClusterRequest DescribeClusterResponse
        DescribeGroupsRequest DescribeGroupsResponse
        FetchRequest FetchResponse
        FindCoordinatorRequest FindCoordinatorResponse
        HeartbeatRequest HeartbeatResponse
        JoinGroupRequest JoinGroupResponse
        LeaveGroupRequest LeaveGroupResponse
        ListGroupsRequest ListGroupsResponse
        ListOffsetsRequest ListOffsetsResponse
        MetadataRequest MetadataResponse
        OffsetCommitRequest OffsetCommitResponse
        OffsetFetchRequest OffsetFetchResponse
        OffsetForLeaderEpochRequest OffsetForLeaderEpochResponse
        ProduceRequest ProduceResponse
        SyncGroupRequest SyncGroupResponse
        ;
        untagged
        ConsumerProtocolAssignment ConsumerProtocolSubscription
        OffsetDeleteRequest OffsetDeleteResponse
    }
}

#[test]
fn a_foreign_codec_sees_the_same_fields_and_writes_the_same_bytes() {
    let mut random = Random::new(4);
    let mut versions_judged = 0;
    let messages = messages();
    for foreign in foreign() {
        let message = messages.iter().find(|message| message.name == foreign.name).expect("known");
        for number in foreign.versions.min..=foreign.versions.max {
            let version = message.version(number);
            versions_judged += 1;
            for _ in 0..30 {
                let name = format!("{} v{number}", foreign.name);
                let sample = (message.sample)(&mut random, version, &[]);
                let theirs = (foreign.judge)(&sample.encoded, number);
                assert_contains(&debug_value(&theirs.debug), &sample.json, &name);
                assert_eq!(hex::encode(&theirs.encoded), hex::encode(&sample.encoded), "{name}");
                if let Some(encoded) = theirs.encoded_with_unknown_tag.filter(|_| version.flexible) {
                    assert_eq!((message.parse)(&encoded, version), Ok((sample.json, 0)), "{name}");
                    assert_ne!(encoded, sample.encoded, "{name}");
                }
            }
        }
    }
    assert_eq!(versions_judged, 292, "versions that the foreign codec knows");
}

#[test]
fn headers_as_the_foreign_codec_has_them() {
    let mut random = Random::new(5);
    for header_version in 1..=2 {
        for _ in 0..100 {
            let ours = RequestHeader {
                api_key: ApiKey::JoinGroup.number(),
                api_version: random.below(10) as i16,
                correlation_id: random.integer(i32::MIN.into(), i32::MAX.into()) as i32,
                client_id: random.coin().then(|| random.text().into()),
            };
            let mut bytes = Vec::new();
            ours.write(&mut Writer::new(&mut bytes), header_version);
            let header =
                theirs::RequestHeader::decode(&mut Bytes::from(bytes.clone()), header_version).expect("decodes");
            assert_eq!(header.correlation_id, ours.correlation_id);
            assert_eq!(header.client_id.as_deref(), ours.client_id.as_deref());
            assert_eq!(encode(&header, header_version), bytes);
            assert_eq!(RequestHeader::read(&mut Cursor::new(&bytes), header_version), Ok(ours.clone()));
            let response_version = header_version - 1;
            let response = ResponseHeader { correlation_id: ours.correlation_id };
            let mut bytes = Vec::new();
            response.write(&mut Writer::new(&mut bytes), response_version);
            let header =
                theirs::ResponseHeader::decode(&mut Bytes::from(bytes.clone()), response_version).expect("decodes");
            assert_eq!(header.correlation_id, response.correlation_id);
            assert_eq!(encode(&header, response_version), bytes);
        }
    }
}

/// Every field of `part` is in `whole`, with the same value.
fn assert_contains(whole: &Value, part: &Value, place: &str) {
    match (whole, part) {
        (Value::Object(whole), Value::Object(part)) => {
            for (name, value) in part {
                let place = format!("{place}.{name}");
                assert_contains(whole.get(name).unwrap_or_else(|| panic!("{place} is missing")), value, &place);
            }
        }
        (Value::Array(whole), Value::Array(part)) => {
            assert_eq!(whole.len(), part.len(), "{place}");
            whole.iter().zip(part).for_each(|(whole, part)| assert_contains(whole, part, place));
        }
        _ => assert_eq!(whole, part, "{place}"),
    }
}

/// A Debug form as the fields that it shows, in the shape of our JSON: bytes as base64, ids in their text form.
fn debug_value(debug: &str) -> Value {
    let mut parser = DebugParser(debug.chars().peekable());
    let value = parser.value();
    assert_eq!(parser.0.next(), None, "all of it is understood");
    value
}

struct DebugParser<'a>(Peekable<Chars<'a>>);

impl DebugParser<'_> {
    fn value(&mut self) -> Value {
        let word = self.word();
        match self.0.peek() {
            Some('"') if word == "b" => Value::from(STANDARD.encode(self.quoted())),
            Some('"') if word.is_empty() => String::from_utf8(self.quoted()).expect("text").into(),
            Some('[') => self.items('[', ']').into_iter().map(|(_, value)| value).collect(),
            Some('(') => self.items('(', ')').remove(0).1,
            Some('{') => Value::Object(self.items('{', '}').into_iter().collect::<Map<_, _>>()),
            _ => scalar(&word),
        }
    }

    /// `name: value` or `value`, between brackets.
    fn items(&mut self, open: char, close: char) -> Vec<(String, Value)> {
        assert_eq!(self.0.next(), Some(open));
        let mut items = Vec::new();
        loop {
            self.blanks();
            if self.0.next_if_eq(&close).is_some() {
                return items;
            }
            let name = if open == '{' { self.word() } else { String::new() };
            if open == '{' {
                assert_eq!(self.0.next(), Some(':'));
                self.blanks();
            }
            items.push((if name.is_empty() { name } else { camel_case(&name) }, self.value()));
            self.0.next_if_eq(&',');
        }
    }

    fn word(&mut self) -> String {
        let mut word = String::new();
        while let Some(character) = self.0.next_if(|&c| c.is_alphanumeric() || c == '_' || c == '-') {
            word.push(character);
        }
        self.blanks();
        word
    }

    fn blanks(&mut self) {
        while self.0.next_if_eq(&' ').is_some() {}
    }

    fn quoted(&mut self) -> Vec<u8> {
        assert_eq!(self.0.next(), Some('"'));
        let mut bytes = Vec::new();
        loop {
            let character = match self.0.next().expect("a closing quote") {
                '"' => return bytes,
                '\\' => match self.0.next().expect("an escape") {
                    'n' => '\n',
                    'r' => '\r',
                    't' => '\t',
                    '0' => '\0',
                    'x' => {
                        let digits: String = self.0.by_ref().take(2).collect();
                        bytes.push(u8::from_str_radix(&digits, 16).expect("two digits"));
                        continue;
                    }
                    'u' => {
                        let digits: String = self.0.by_ref().skip(1).take_while(|&c| c != '}').collect();
                        u32::from_str_radix(&digits, 16).ok().and_then(char::from_u32).expect("a character")
                    }
                    literal => literal,
                },
                literal => literal,
            };
            bytes.extend(character.encode_utf8(&mut [0; 4]).as_bytes());
        }
    }
}

fn scalar(word: &str) -> Value {
    match word {
        "None" => Value::Null,
        "true" => true.into(),
        "false" => false.into(),
        _ if word.len() == 36 => {
            let bytes = hex::decode(word.replace('-', "")).expect("an id in hex");
            Uuid(bytes.try_into().expect("16 bytes")).to_string().into()
        }
        number => number.parse::<i64>().expect("a number").into(),
    }
}
