//! What a member said of itself when it last joined, in one allocation that answers and records share.

use std::ops::Range;
use std::rc::Rc;

/// Member id, instance id, client id, client host and the metadata of each proposed protocol.
///
/// The bytes are: one word of flags and count, four ends, one end for each metadata, all little-endian `u32` and relative to
/// the end of this table, and then what the ends speak of.
#[derive(Clone, PartialEq, Eq)]
pub struct Profile(Rc<[u8]>);

/// The words before the first end of a metadata.
const FIXED_WORDS: usize = 5;
const IS_STATIC: u32 = 1;

impl Profile {
    /// Copies what a member said of itself. `scratch` saves an allocation.
    pub(super) fn new<'a>(
        member_id: &str,
        group_instance_id: Option<&str>,
        client_id: &str,
        client_host: &str,
        metadata: impl Iterator<Item = &'a [u8]> + Clone,
        scratch: &mut Vec<u8>,
    ) -> Profile {
        let count = metadata.clone().count() as u32;
        scratch.clear();
        push_word(scratch, count << 1 | if group_instance_id.is_some() { IS_STATIC } else { 0 });
        let mut end = 0;
        for text in [member_id, group_instance_id.unwrap_or(""), client_id, client_host] {
            end += text.len() as u32;
            push_word(scratch, end);
        }
        for bytes in metadata.clone() {
            end += bytes.len() as u32;
            push_word(scratch, end);
        }
        for text in [member_id, group_instance_id.unwrap_or(""), client_id, client_host] {
            scratch.extend_from_slice(text.as_bytes());
        }
        for bytes in metadata {
            scratch.extend_from_slice(bytes);
        }
        Profile(Rc::from(&scratch[..]))
    }

    /// All of it.
    pub(super) fn bytes(&self) -> usize {
        self.0.len()
    }

    /// The member's id.
    pub fn member_id(&self) -> &str {
        self.text(0)
    }

    /// `group.instance.id`, of static members only.
    pub fn group_instance_id(&self) -> Option<&str> {
        self.is_static().then(|| self.text(1))
    }

    /// The client id of the request that made the member.
    pub fn client_id(&self) -> &str {
        self.text(2)
    }

    /// The address from which that request came, as Kafka shows it: `/127.0.0.1`.
    pub fn client_host(&self) -> &str {
        self.text(3)
    }

    pub(super) fn is_static(&self) -> bool {
        self.word(0) & IS_STATIC != 0
    }

    /// Compares without looking at whether the bytes are text.
    pub(super) fn has_member_id(&self, member_id: &str) -> bool {
        self.body(self.range(0)) == member_id.as_bytes()
    }

    pub(super) fn has_group_instance_id(&self, group_instance_id: &str) -> bool {
        self.is_static() && self.body(self.range(1)) == group_instance_id.as_bytes()
    }

    pub(super) fn member_id_bytes(&self) -> &[u8] {
        self.body(self.range(0))
    }

    pub(super) fn group_instance_id_bytes(&self) -> &[u8] {
        self.body(self.range(1))
    }

    /// How many protocols the member proposes.
    pub(super) fn metadata_count(&self) -> usize {
        (self.word(0) >> 1) as usize
    }

    /// The metadata of the protocol at this place of the member's list.
    pub(super) fn metadata(&self, place: usize) -> &[u8] {
        self.body(self.metadata_range(place))
    }

    /// Where [`Profile::body`] finds that metadata.
    pub(super) fn metadata_range(&self, place: usize) -> Range<u32> {
        self.range(FIXED_WORDS - 1 + place)
    }

    /// The bytes of a range that this profile gave.
    pub(super) fn body(&self, range: Range<u32>) -> &[u8] {
        let start = 4 * (FIXED_WORDS + self.metadata_count());
        &self.0[start + range.start as usize..start + range.end as usize]
    }

    fn text(&self, place: usize) -> &str {
        std::str::from_utf8(self.body(self.range(place))).expect("it was copied from a str")
    }

    fn range(&self, place: usize) -> Range<u32> {
        let start = if place == 0 { 0 } else { self.word(place) };
        start..self.word(place + 1)
    }

    fn word(&self, place: usize) -> u32 {
        let bytes = &self.0[4 * place..4 * place + 4];
        u32::from_le_bytes(bytes.try_into().expect("four bytes"))
    }
}

impl std::fmt::Debug for Profile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Profile")
            .field("member_id", &self.member_id())
            .field("group_instance_id", &self.group_instance_id())
            .field("client_id", &self.client_id())
            .field("client_host", &self.client_host())
            .finish_non_exhaustive()
    }
}

fn push_word(bytes: &mut Vec<u8>, word: u32) {
    bytes.extend_from_slice(&word.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_parts_come_back() {
        let metadata: [&[u8]; 3] = [b"one", b"", b"three"];
        let mut scratch = Vec::new();
        for instance in [None, Some(""), Some("i-1")] {
            let profile = Profile::new("m", instance, "client", "/::1", metadata.iter().copied(), &mut scratch);
            assert_eq!((profile.member_id(), profile.client_id(), profile.client_host()), ("m", "client", "/::1"));
            assert_eq!(profile.group_instance_id(), instance);
            assert_eq!(profile.metadata_count(), 3);
            for (place, bytes) in metadata.iter().enumerate() {
                assert_eq!(profile.metadata(place), *bytes);
            }
            assert!(profile.has_member_id("m") && !profile.has_member_id("") && !profile.has_member_id("mi"));
            assert_eq!(profile.has_group_instance_id(""), instance == Some(""));
        }
    }

    #[test]
    fn nothing_at_all_is_a_profile_too() {
        let profile = Profile::new("", None, "", "", std::iter::empty(), &mut Vec::new());
        assert_eq!((profile.member_id(), profile.metadata_count(), profile.group_instance_id()), ("", 0, None));
    }
}
