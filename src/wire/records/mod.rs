//! Records of `__consumer_offsets` as Kafka writes them: what the journal keeps, and what can be exchanged with a Kafka
//! cluster. A key is an int16 record type and the key's fields, never flexible; a value is an int16 version and the
//! value's fields. A record without a value is a tombstone. What applying a record does is the business of `group`.

pub mod group_metadata;
pub mod offset_commit;

use super::{Cursor, Malformed, Version, VersionRange, Wire, Writer};
pub use group_metadata::{GroupMetadataKey, GroupMetadataValue, MemberMetadata};
pub use offset_commit::{OffsetCommitKey, OffsetCommitValue};

/// Keys have one version.
const KEY_VERSION: Version = Version { number: 0, flexible: false };

/// A record key by its type.
#[derive(Clone, PartialEq, Debug)]
pub enum RecordKey<'a> {
    /// Types 0 (not written since 0.9) and 1; the layouts of key and value are the same.
    OffsetCommit(OffsetCommitKey<'a>),
    /// Type 2.
    GroupMetadata(GroupMetadataKey<'a>),
    /// Another type. Kafka skips such a record when it loads a partition.
    Unknown(i16),
}

impl<'a> RecordKey<'a> {
    /// Reads type and fields.
    ///
    /// # Errors
    /// Bytes that do not parse; an unknown type is none.
    pub fn from_bytes(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut cursor = Cursor::new(bytes);
        match cursor.i16().map_err(|malformed| malformed.in_field("RecordKey.type"))? {
            0 | OffsetCommitKey::TYPE => Wire::read(&mut cursor, KEY_VERSION).map(RecordKey::OffsetCommit),
            GroupMetadataKey::TYPE => Wire::read(&mut cursor, KEY_VERSION).map(RecordKey::GroupMetadata),
            unknown => Ok(RecordKey::Unknown(unknown)),
        }
    }
}

impl OffsetCommitKey<'_> {
    /// The record type of keys and values.
    pub const TYPE: i16 = 1;

    /// Appends type and fields.
    pub fn append_to(&self, bytes: &mut Vec<u8>) {
        append(self, Self::TYPE, KEY_VERSION, bytes);
    }
}

impl GroupMetadataKey<'_> {
    /// The record type of keys and values.
    pub const TYPE: i16 = 2;

    /// Appends type and fields.
    pub fn append_to(&self, bytes: &mut Vec<u8>) {
        append(self, Self::TYPE, KEY_VERSION, bytes);
    }
}

macro_rules! value {
    ($name:ident, highest $highest:literal, flexible $flexible:literal) => {
        impl<'a> $name<'a> {
            /// The versions that can be read and written.
            pub const VERSIONS: VersionRange = VersionRange { first: 0, last: $highest };

            /// Reads version and fields.
            ///
            /// # Errors
            /// Bytes that do not parse, or a version that is not known: Kafka does not load a partition with such a
            /// value.
            pub fn from_bytes(bytes: &'a [u8]) -> Result<Self, Malformed> {
                let mut cursor = Cursor::new(bytes);
                let number =
                    cursor.i16().map_err(|malformed| malformed.in_field(concat!(stringify!($name), ".version")))?;
                if !Self::VERSIONS.contains(number) {
                    return Err(unknown_version(stringify!($name), number, Self::VERSIONS));
                }
                Wire::read(&mut cursor, Version { number, flexible: number >= $flexible })
            }

            /// Appends version and fields.
            pub fn append_to(&self, version: i16, bytes: &mut Vec<u8>) {
                assert!(Self::VERSIONS.contains(version), "a version that exists is written");
                append(self, version, Version { number: version, flexible: version >= $flexible }, bytes);
            }
        }
    };
}

value!(OffsetCommitValue, highest 4, flexible 4);
value!(GroupMetadataValue, highest 4, flexible 4);

fn append<'a>(message: &impl Wire<'a>, first: i16, version: Version, bytes: &mut Vec<u8>) {
    let mut writer = Writer::new(bytes);
    writer.i16(first);
    message.write(&mut writer, version);
}

fn unknown_version(field: &'static str, version: i16, known: VersionRange) -> Malformed {
    let need = usize::from(version.cast_unsigned());
    let have = usize::from(known.last.cast_unsigned());
    Malformed { what: "value has an unknown version", field, offset: 0, need, have }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_carry_their_type() {
        let key = OffsetCommitKey { group: "g".into(), topic: "t".into(), partition: 3 };
        let mut bytes = Vec::new();
        key.append_to(&mut bytes);
        assert_eq!(bytes, b"\0\x01\0\x01g\0\x01t\0\0\0\x03");
        assert_eq!(RecordKey::from_bytes(&bytes), Ok(RecordKey::OffsetCommit(key.clone())));
        bytes[1] = 0;
        assert_eq!(RecordKey::from_bytes(&bytes), Ok(RecordKey::OffsetCommit(key)));
        bytes[1] = 77;
        assert_eq!(RecordKey::from_bytes(&bytes), Ok(RecordKey::Unknown(77)));
        let key = GroupMetadataKey { group: "g".into() };
        let mut bytes = Vec::new();
        key.append_to(&mut bytes);
        assert_eq!(bytes, b"\0\x02\0\x01g");
        assert_eq!(RecordKey::from_bytes(&bytes), Ok(RecordKey::GroupMetadata(key)));
        assert!(RecordKey::from_bytes(&bytes[..4]).is_err());
        assert!(RecordKey::from_bytes(&[0]).is_err());
    }

    #[test]
    fn values_carry_their_version() {
        let value = OffsetCommitValue { offset: 9, metadata: "m".into(), ..Default::default() };
        for version in 0..=4 {
            let mut bytes = Vec::new();
            value.append_to(version, &mut bytes);
            assert_eq!(bytes[..2], version.to_be_bytes());
            assert_eq!(OffsetCommitValue::from_bytes(&bytes).as_ref(), Ok(&value));
        }
        for unknown in [5i16, -1] {
            let malformed = OffsetCommitValue::from_bytes(&unknown.to_be_bytes()).expect_err("unknown");
            assert_eq!(malformed.what, "value has an unknown version");
        }
        let value = GroupMetadataValue { protocol_type: "consumer".into(), generation: 4, ..Default::default() };
        let mut bytes = Vec::new();
        value.append_to(3, &mut bytes);
        assert_eq!(GroupMetadataValue::from_bytes(&bytes), Ok(value));
    }
}
