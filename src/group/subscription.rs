//! The topics in the metadata of a consumer. A group coordinator looks into metadata for one reason only: offsets of a topic
//! that somebody subscribes to are neither deleted nor expired.

/// Calls `each` with every topic of a ConsumerProtocolSubscription, read as version 0 whatever it says: all others begin like it.
/// `None`: these are not the bytes of one.
pub(super) fn for_each_topic<'a>(bytes: &'a [u8], mut each: impl FnMut(&'a str)) -> Option<()> {
    let mut reader = Reader(bytes);
    reader.take(2)?;
    for _ in 0..reader.count()? {
        each(reader.string()?);
    }
    reader.bytes()
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn i16(&mut self) -> Option<i16> {
        Some(i16::from_be_bytes(self.take(2)?.try_into().ok()?))
    }

    fn i32(&mut self) -> Option<i32> {
        Some(i32::from_be_bytes(self.take(4)?.try_into().ok()?))
    }

    fn count(&mut self) -> Option<usize> {
        usize::try_from(self.i32()?).ok()
    }

    fn string(&mut self) -> Option<&'a str> {
        let len = usize::try_from(self.i16()?).ok()?;
        std::str::from_utf8(self.take(len)?).ok()
    }

    /// A negative length is that of null.
    fn bytes(&mut self) -> Option<()> {
        match usize::try_from(self.i32()?) {
            Ok(len) => self.take(len).map(|_| ()),
            Err(_) => Some(()),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A subscription to these topics, as a client writes it.
    pub(crate) fn subscription(version: i16, topics: &[&str]) -> Vec<u8> {
        let mut bytes = version.to_be_bytes().to_vec();
        bytes.extend((topics.len() as i32).to_be_bytes());
        for topic in topics {
            bytes.extend((topic.len() as i16).to_be_bytes());
            bytes.extend(topic.as_bytes());
        }
        bytes.extend((-1i32).to_be_bytes());
        if version >= 1 {
            bytes.extend(1i32.to_be_bytes());
            bytes.extend([0, 1, b'o']);
            bytes.extend([0, 0, 0, 1, 0, 0, 0, 7]);
        }
        if version >= 2 {
            bytes.extend(5i32.to_be_bytes());
        }
        if version >= 3 {
            bytes.extend((-1i16).to_be_bytes());
        }
        bytes
    }

    fn topics(bytes: &[u8]) -> Option<Vec<&str>> {
        let mut topics = Vec::new();
        for_each_topic(bytes, |topic| topics.push(topic)).map(|()| topics)
    }

    #[test]
    fn topics_of_all_versions() {
        for version in [-1, 0, 1, 2, 3, 4, 99] {
            assert_eq!(topics(&subscription(version, &["foo", "bar"])), Some(vec!["foo", "bar"]), "{version}");
        }
        assert_eq!(topics(&subscription(0, &[])), Some(vec![]));
    }

    #[test]
    fn truncated_or_strange_bytes_are_no_subscription() {
        let version_0 = subscription(0, &["foo", "bar"]);
        for version in 0..4 {
            let whole = subscription(version, &["foo", "bar"]);
            for len in 0..whole.len() {
                let read = (len >= version_0.len()).then(|| vec!["foo", "bar"]);
                assert_eq!(topics(&whole[..len]), read, "version {version}, {len} bytes");
            }
        }
        for bytes in [&b"\x00"[..], b"meta", b"\x00\x00\x7f\xff\xff\xff"] {
            assert_eq!(topics(bytes), None, "{bytes:?}");
        }
    }
}
