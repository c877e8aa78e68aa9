//! What consumers put into JoinGroup and SyncGroup when the protocol type is `consumer`: v0 to v3, never flexible. To
//! the coordinator these are bytes; it looks into them only to show them, and to know which topics a group subscribes
//! to.
//!
//! Subscription: v1 adds the owned partitions (KIP-429), v2 the generation (KIP-792), v3 the rack (KIP-881).
//! Assignment: all versions have the same layout. Each is an int16 version and then the fields.
//!
//! Nothing is left out.

use std::borrow::Cow;

use super::schema::message;
use super::{Array, Cursor, Malformed, Version, Wire, Writer};

/// The highest version with a layout of its own.
pub const CONSUMER_PROTOCOL_VERSION_MAX: i16 = 3;

message! {
    /// What a member asks for: the metadata of its protocol in JoinGroup.
    pub struct ConsumerProtocolSubscription<'a> {
        topics: Array<'a, Cow<'a, str>> = 0..;
        user_data: Option<&'a [u8]> = 0.., null 0..;
        owned_partitions: Array<'a, TopicPartition<'a>> = 1..;
        generation_id: i32 = 2.., default -1;
        rack_id: Option<Cow<'a, str>> = 3.., null 3..;
    }

    /// What a member gets: its assignment in SyncGroup.
    pub struct ConsumerProtocolAssignment<'a> {
        assigned_partitions: Array<'a, TopicPartition<'a>> = 0..;
        user_data: Option<&'a [u8]> = 0.., null 0..;
    }

    /// Partitions of one topic.
    pub struct TopicPartition<'a> {
        topic: Cow<'a, str> = 0..;
        partitions: Array<'a, i32> = 0..;
    }
}

impl<'a> ConsumerProtocolSubscription<'a> {
    /// Reads version and fields.
    ///
    /// # Errors
    /// A negative version, or bytes that do not parse. A version above the highest is read as the highest.
    pub fn from_bytes(bytes: &'a [u8]) -> Result<Self, Malformed> {
        read(bytes)
    }

    /// Writes version and fields.
    pub fn to_bytes(&self, version: i16) -> Vec<u8> {
        write(self, version)
    }
}

impl<'a> ConsumerProtocolAssignment<'a> {
    /// Reads version and fields. Empty bytes are no assignment.
    ///
    /// # Errors
    /// A negative version, or bytes that do not parse. A version above the highest is read as the highest.
    pub fn from_bytes(bytes: &'a [u8]) -> Result<Self, Malformed> {
        if bytes.is_empty() { Ok(Self::default()) } else { read(bytes) }
    }

    /// Writes version and fields.
    pub fn to_bytes(&self, version: i16) -> Vec<u8> {
        write(self, version)
    }
}

fn read<'a, T: Wire<'a>>(bytes: &'a [u8]) -> Result<T, Malformed> {
    let mut cursor = Cursor::new(bytes);
    let number = cursor.i16().map_err(|malformed| malformed.in_field("ConsumerProtocol.version"))?;
    if number < 0 {
        return Err(cursor.malformed("consumer protocol has a negative version", 0));
    }
    T::read(&mut cursor, version(number))
}

fn write<'a>(message: &impl Wire<'a>, number: i16) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = Writer::new(&mut bytes);
    let version = version(number);
    writer.i16(version.number);
    message.write(&mut writer, version);
    bytes
}

fn version(number: i16) -> Version {
    Version { number: number.min(CONSUMER_PROTOCOL_VERSION_MAX), flexible: false }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_goes_in_front_and_newer_ones_read_as_the_highest() {
        let topics = ["t".into()];
        let subscription = ConsumerProtocolSubscription {
            topics: Array::Items(&topics),
            rack_id: Some("r".into()),
            generation_id: 5,
            ..Default::default()
        };
        let bytes = subscription.to_bytes(3);
        assert_eq!(bytes[..2], [0, 3]);
        assert_eq!(ConsumerProtocolSubscription::from_bytes(&bytes).as_ref(), Ok(&subscription));
        let newer = [&[0, 9], &bytes[2..], &[1, 2, 3]].concat();
        assert_eq!(ConsumerProtocolSubscription::from_bytes(&newer).as_ref(), Ok(&subscription));
        let negative = [&[0xff, 9], &bytes[2..]].concat();
        assert!(ConsumerProtocolSubscription::from_bytes(&negative).is_err());
        let oldest = subscription.to_bytes(0);
        let read = ConsumerProtocolSubscription::from_bytes(&oldest).expect("v0");
        assert_eq!((read.generation_id, &read.rack_id), (-1, &None));
        assert!(ConsumerProtocolSubscription::from_bytes(&[]).is_err());
    }

    #[test]
    fn no_bytes_are_no_assignment() {
        assert_eq!(ConsumerProtocolAssignment::from_bytes(&[]), Ok(ConsumerProtocolAssignment::default()));
        assert!(ConsumerProtocolAssignment::from_bytes(&[0]).is_err());
    }
}
