//! One entry of a journal: its bytes, nothing of files. Keys and values are opaque here; the next layer up is
//! [`super::segment`].
//!
//! Layout, integers little-endian:
//!
//! ```text
//!  0  u32  length of the whole entry, this header included
//!  4  u32  CRC-32C of everything behind this field
//!  8  u64  position of the entry's first byte in its stream
//! 16  u32  bytes from the position that was known to be synced when this was written to the entry; !0: no claim
//! 20  i32  offsets partition
//! 24  i32  leader epoch
//! 28  u32  key length; bit 31: the value is null (a tombstone); bit 30: the next entry belongs to the same append
//! 32  key, then value
//! ```
//!
//! The claim at 16 is what tells a torn tail from damage: a bad entry below a position that a later entry claims to be
//! synced was acknowledged once; any other bad entry was not.

/// Bytes before the key.
pub const HEADER_BYTES: usize = 32;

const TOMBSTONE: u32 = 1 << 31;
const MORE: u32 = 1 << 30;
const KEY_LENGTH: u32 = MORE - 1;
const NO_CLAIM: u32 = u32::MAX;

/// A decoded entry, borrowed from the bytes that were read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Of its first byte.
    pub position: u64,
    /// Everything before this was synced when the entry was written; `None` without a claim.
    pub synced: Option<u64>,
    /// Offsets partition.
    pub partition: i32,
    /// Of the partition's leader that wrote it.
    pub leader_epoch: i32,
    /// Whether the next entry belongs to the same append: all of them count, or none.
    pub more: bool,
    /// Record key.
    pub key: &'a [u8],
    /// Record value; `None` deletes the key.
    pub value: Option<&'a [u8]>,
}

impl Entry<'_> {
    /// Bytes that it takes in a stream.
    pub fn length(&self) -> usize {
        HEADER_BYTES + self.key.len() + self.value.map_or(0, <[u8]>::len)
    }

    /// Position of the first byte behind it.
    pub fn end(&self) -> u64 {
        self.position + self.length() as u64
    }
}

/// What stands at a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decoded<'a> {
    /// A whole entry.
    Entry(Entry<'a>),
    /// Nothing was written here: preallocated zeros.
    Nothing,
    /// So many bytes are needed to tell, more than were given.
    Needs(usize),
    /// No entry of this position.
    Bad(Damage),
}

/// Why bytes are not an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// Shorter than a header, longer than its room, or key and value do not fit in it.
    #[error("impossible length {0}")]
    Length(u32),
    /// The checksum does not match.
    #[error("checksum {stored:08x}, computed {computed:08x}")]
    Checksum {
        /// As written in the entry.
        stored: u32,
        /// Of the bytes found.
        computed: u32,
    },
    /// Nothing was ever written, or it was lost.
    #[error("zeros")]
    Zeros,
    /// A whole entry, but of another place.
    #[error("entry of position {0}")]
    Position(u64),
}

/// Decodes the entry at the start of `bytes`, which is at `position`. `room` is how many bytes the stream has from there
/// on, whether or not `bytes` has them all.
pub fn decode(bytes: &[u8], position: u64, room: u64) -> Decoded<'_> {
    let Some(header) = bytes.first_chunk::<HEADER_BYTES>() else {
        return if room < HEADER_BYTES as u64 {
            decode_remainder(bytes, room)
        } else if room > bytes.len() as u64 {
            Decoded::Needs(HEADER_BYTES)
        } else {
            Decoded::Bad(Damage::Length(bytes.len() as u32))
        };
    };
    let length = u32_at(header, 0);
    if length == 0 {
        return if header.iter().all(|byte| *byte == 0) { Decoded::Nothing } else { Decoded::Bad(Damage::Length(0)) };
    }
    let key_length = (u32_at(header, 28) & KEY_LENGTH) as usize;
    if (length as usize) < HEADER_BYTES + key_length || u64::from(length) > room {
        return Decoded::Bad(Damage::Length(length));
    }
    let Some(whole) = bytes.get(..length as usize) else { return Decoded::Needs(length as usize) };
    let (stored, computed) = (u32_at(header, 4), crc32c::crc32c(&whole[8..]));
    if stored != computed {
        return Decoded::Bad(Damage::Checksum { stored, computed });
    }
    let entry = decode_checked(whole);
    if entry.position != position {
        return Decoded::Bad(Damage::Position(entry.position));
    }
    Decoded::Entry(entry)
}

/// Decodes an entry of which [`decode`] has said once that it is whole; `bytes` begin with it.
///
/// # Panics
/// If the bytes are not those.
pub fn decode_checked(bytes: &[u8]) -> Entry<'_> {
    let header = bytes.first_chunk::<HEADER_BYTES>().expect("the entry was checked");
    let position = u64::from_le_bytes(header[8..16].try_into().expect("eight bytes"));
    let since_synced = u32_at(header, 16);
    let key_field = u32_at(header, 28);
    let key_end = HEADER_BYTES + (key_field & KEY_LENGTH) as usize;
    Entry {
        position,
        synced: if since_synced == NO_CLAIM { None } else { position.checked_sub(u64::from(since_synced)) },
        partition: u32_at(header, 20) as i32,
        leader_epoch: u32_at(header, 24) as i32,
        more: key_field & MORE != 0,
        key: &bytes[HEADER_BYTES..key_end],
        value: if key_field & TOMBSTONE == 0 { Some(&bytes[key_end..u32_at(header, 0) as usize]) } else { None },
    }
}

/// Length of the entry whose header `bytes` begin with.
pub fn length_at(bytes: &[u8]) -> Option<usize> {
    bytes.first_chunk::<4>().map(|length| u32::from_le_bytes(*length) as usize)
}

/// Appends entries of one partition to a buffer. Checksum and claim stay open until [`seal`].
pub struct EntryWriter<'a> {
    buffer: &'a mut Vec<u8>,
    /// Position of the buffer's first byte, less those that were cut off.
    base: u64,
    partition: i32,
    leader_epoch: i32,
    last: Option<usize>,
}

impl<'a> EntryWriter<'a> {
    /// Writes behind what `buffer` holds; its first byte is at `base`.
    pub fn new(buffer: &'a mut Vec<u8>, base: u64, partition: i32, leader_epoch: i32) -> Self {
        EntryWriter { buffer, base, partition, leader_epoch, last: None }
    }

    /// One record; the closures append its key and its value to the buffer.
    pub fn record(&mut self, key: impl FnOnce(&mut Vec<u8>), value: impl FnOnce(&mut Vec<u8>)) {
        self.entry(key, Some(value));
    }

    /// One tombstone: deletes the key.
    pub fn tombstone(&mut self, key: impl FnOnce(&mut Vec<u8>)) {
        self.entry(key, None::<fn(&mut Vec<u8>)>);
    }

    fn entry(&mut self, key: impl FnOnce(&mut Vec<u8>), value: Option<impl FnOnce(&mut Vec<u8>)>) {
        if let Some(last) = self.last {
            let key_field = u32_at(self.buffer, last + 28) | MORE;
            self.buffer[last + 28..last + 32].copy_from_slice(&key_field.to_le_bytes());
        }
        let start = self.buffer.len();
        self.last = Some(start);
        let mut header = [0; HEADER_BYTES];
        header[8..16].copy_from_slice(&(self.base + start as u64).to_le_bytes());
        header[20..24].copy_from_slice(&self.partition.to_le_bytes());
        header[24..28].copy_from_slice(&self.leader_epoch.to_le_bytes());
        self.buffer.extend_from_slice(&header);
        key(self.buffer);
        let key_length = (self.buffer.len() - start - HEADER_BYTES) as u32;
        assert!(key_length <= KEY_LENGTH, "a key of {key_length} bytes");
        let key_field = if let Some(value) = value {
            value(self.buffer);
            key_length
        } else {
            key_length | TOMBSTONE
        };
        let length = u32::try_from(self.buffer.len() - start).expect("an entry is shorter than 4 GiB");
        self.buffer[start..start + 4].copy_from_slice(&length.to_le_bytes());
        self.buffer[start + 28..start + 32].copy_from_slice(&key_field.to_le_bytes());
    }
}

/// Completes the entries of a buffer: their claim (`synced`, if any) and their checksum.
pub fn seal(mut entries: &mut [u8], synced: Option<u64>) {
    while let Some(length) = length_at(entries) {
        let (entry, rest) = entries.split_at_mut(length);
        let position = u64::from_le_bytes(entry[8..16].try_into().expect("eight bytes"));
        let claim = synced.and_then(|synced| u32::try_from(position - synced).ok()).unwrap_or(NO_CLAIM);
        entry[16..20].copy_from_slice(&claim.to_le_bytes());
        let checksum = crc32c::crc32c(&entry[8..]);
        entry[4..8].copy_from_slice(&checksum.to_le_bytes());
        entries = rest;
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

/// The last few bytes of a stream's room, too few for an entry.
fn decode_remainder(bytes: &[u8], room: u64) -> Decoded<'_> {
    if (bytes.len() as u64) < room {
        Decoded::Needs(room as usize)
    } else if bytes.iter().all(|byte| *byte == 0) {
        Decoded::Nothing
    } else {
        Decoded::Bad(Damage::Length(room as u32))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two() -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut writer = EntryWriter::new(&mut bytes, 1_000, 7, 3);
        writer.record(|key| key.extend_from_slice(b"key"), |value| value.extend_from_slice(b"value"));
        writer.tombstone(|key| key.extend_from_slice(b"gone"));
        seal(&mut bytes, Some(900));
        bytes
    }

    #[test]
    fn what_was_written_is_read() {
        let bytes = two();
        let room = bytes.len() as u64;
        let Decoded::Entry(first) = decode(&bytes, 1_000, room) else { panic!("no entry") };
        assert_eq!(
            first,
            Entry {
                position: 1_000,
                synced: Some(900),
                partition: 7,
                leader_epoch: 3,
                more: true,
                key: b"key",
                value: Some(b"value"),
            }
        );
        let rest = &bytes[first.length()..];
        let Decoded::Entry(second) = decode(rest, first.end(), rest.len() as u64) else { panic!("no entry") };
        assert_eq!((second.key, second.value, second.more), (&b"gone"[..], None, false));
        assert_eq!(second.end(), 1_000 + room);
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_seen() {
        let bytes = two();
        let first = length_at(&bytes).expect("a length");
        for bit in 0..first * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(!matches!(decode(&damaged, 1_000, damaged.len() as u64), Decoded::Entry(_)), "bit {bit}");
        }
        for cut in 0..first {
            assert!(matches!(decode(&bytes[..cut], 1_000, bytes.len() as u64), Decoded::Needs(_)), "cut {cut}");
            assert!(
                matches!(decode(&bytes[..cut], 1_000, cut as u64), Decoded::Bad(_) | Decoded::Nothing),
                "cut {cut}"
            );
        }
    }

    #[test]
    fn zeros_are_nothing_and_a_strayed_entry_is_bad() {
        assert_eq!(decode(&[0; 64], 5, 64), Decoded::Nothing);
        assert_eq!(decode(&[0; 8], 5, 8), Decoded::Nothing);
        let mut almost = [0; 64];
        almost[20] = 1;
        assert_eq!(decode(&almost, 5, 64), Decoded::Bad(Damage::Length(0)));
        assert_eq!(decode(&two(), 2_000, 500), Decoded::Bad(Damage::Position(1_000)));
    }

    #[test]
    fn a_claim_that_does_not_fit_is_none() {
        let mut bytes = Vec::new();
        EntryWriter::new(&mut bytes, 1 << 40, 0, 0).record(|_| {}, |_| {});
        seal(&mut bytes, Some(0));
        assert_eq!(decode_checked(&bytes).synced, None);
    }
}
