//! A segment: one file of a stream, its header block and the room behind it, all zeros until written. What is in the room is
//! [`super::entry`]'s; who fills it is [`super::writer`].
//!
//! Header, integers little-endian, the rest of the block zeros:
//!
//! ```text
//!  0  8 bytes  magic
//!  8  u32  version
//! 12  u32  stream
//! 16  u64  number of the segment in its stream
//! 24  u64  position of the first entry
//! 32  u64  where the segment before ends; what stands behind that in it was cut off
//! 40  u64  everything before this was synced when the segment was begun
//! 48  u32  CRC-32C of all before
//! ```
//!
//! The header is written with the first entries. A segment of zeros was prepared and never used.

use super::block::BLOCK_BYTES;

/// Bytes before the first entry.
pub const HEADER_BYTES: u64 = BLOCK_BYTES as u64;

/// Default size of a segment's file, in bytes.
pub const DEFAULT_SEGMENT_BYTES: u64 = 64 << 20;

const MAGIC: [u8; 8] = *b"RALLYSEG";
const VERSION: u32 = 1;
const ENCODED_BYTES: usize = 52;
const PREFIX: &str = "segment-";

/// Number of a segment in its stream; the next one has the next number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SegmentId(pub u64);

impl SegmentId {
    /// The segment behind this one.
    pub fn next(self) -> SegmentId {
        SegmentId(self.0 + 1)
    }

    /// Its file's name.
    pub fn file_name(self) -> String {
        format!("{PREFIX}{:012}", self.0)
    }

    /// The segment that a file's name says; `None` if the file is something else.
    pub fn of_file_name(name: &str) -> Option<SegmentId> {
        let number = name.strip_prefix(PREFIX)?;
        (number.len() == 12).then(|| number.parse().ok().map(SegmentId)).flatten()
    }
}

impl std::fmt::Display for SegmentId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.file_name())
    }
}

/// First block of a segment in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The stream that it belongs to.
    pub stream: u32,
    /// Its own number.
    pub id: SegmentId,
    /// Position of its first entry.
    pub base: u64,
    /// End of the segment before.
    pub previous_end: u64,
    /// Everything before was synced when this segment was begun.
    pub synced: u64,
}

/// What a segment's first block says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodedHeader {
    /// In use.
    Header(Header),
    /// Prepared, not used.
    Unused,
    /// A header of a format that this version does not know.
    Version(u32),
    /// No header.
    Bad,
}

impl Header {
    /// The header block.
    pub fn encode(&self) -> [u8; BLOCK_BYTES] {
        let mut block = [0; BLOCK_BYTES];
        block[..8].copy_from_slice(&MAGIC);
        block[8..12].copy_from_slice(&VERSION.to_le_bytes());
        block[12..16].copy_from_slice(&self.stream.to_le_bytes());
        block[16..24].copy_from_slice(&self.id.0.to_le_bytes());
        block[24..32].copy_from_slice(&self.base.to_le_bytes());
        block[32..40].copy_from_slice(&self.previous_end.to_le_bytes());
        block[40..48].copy_from_slice(&self.synced.to_le_bytes());
        let checksum = crc32c::crc32c(&block[..48]);
        block[48..ENCODED_BYTES].copy_from_slice(&checksum.to_le_bytes());
        block
    }

    /// Reads the header block, or what there is of it.
    pub fn decode(block: &[u8]) -> DecodedHeader {
        if block.iter().all(|byte| *byte == 0) {
            return DecodedHeader::Unused;
        }
        let Some(encoded) = block.first_chunk::<ENCODED_BYTES>() else { return DecodedHeader::Bad };
        let u32_at = |at: usize| u32::from_le_bytes(encoded[at..at + 4].try_into().expect("four bytes"));
        let u64_at = |at: usize| u64::from_le_bytes(encoded[at..at + 8].try_into().expect("eight bytes"));
        if encoded[..8] != MAGIC || u32_at(48) != crc32c::crc32c(&encoded[..48]) {
            return DecodedHeader::Bad;
        }
        if u32_at(8) != VERSION {
            return DecodedHeader::Version(u32_at(8));
        }
        DecodedHeader::Header(Header {
            stream: u32_at(12),
            id: SegmentId(u64_at(16)),
            base: u64_at(24),
            previous_end: u64_at(32),
            synced: u64_at(40),
        })
    }

    /// Where in the file a position is.
    pub fn offset_of(&self, position: u64) -> u64 {
        HEADER_BYTES + (position - self.base)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_headers_round_trip() {
        let id = SegmentId(42);
        assert_eq!(id.file_name(), "segment-000000000042");
        assert_eq!(SegmentId::of_file_name(&id.file_name()), Some(id));
        for other in ["segment-42", "segment-000000000042.new", "MANIFEST", "segment-00000000004x"] {
            assert_eq!(SegmentId::of_file_name(other), None, "{other}");
        }
        let header = Header { stream: 3, id, base: 1_000, previous_end: 990, synced: 980 };
        let block = header.encode();
        assert_eq!(Header::decode(&block), DecodedHeader::Header(header));
        assert_eq!(header.offset_of(1_010), HEADER_BYTES + 10);
    }

    #[test]
    fn a_damaged_header_is_bad_and_zeros_are_unused() {
        let block = Header { stream: 3, id: SegmentId(1), base: 0, previous_end: 0, synced: 0 }.encode();
        for bit in 0..ENCODED_BYTES * 8 {
            let mut damaged = block;
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Header::decode(&damaged), DecodedHeader::Bad, "bit {bit}");
        }
        assert_eq!(Header::decode(&block[..20]), DecodedHeader::Bad);
        assert_eq!(Header::decode(&[0; BLOCK_BYTES]), DecodedHeader::Unused);
        let mut newer = block;
        newer[8] = 2;
        let checksum = crc32c::crc32c(&newer[..48]);
        newer[48..52].copy_from_slice(&checksum.to_le_bytes());
        assert_eq!(Header::decode(&newer), DecodedHeader::Version(2));
    }
}
