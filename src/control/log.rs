//! The control log's bytes: what is appended, and what a start finds in them. No files in here (see `file`).
//!
//! The file begins with [`FILE_HEADER`]. Then come frames, each with the records of one write, which was synced before the
//! next began:
//!
//! ```text
//! magic 4   place in the file 8   length of the payload 4   CRC-32C of all that and the payload 4   payload
//! ```
//!
//! A crash can leave only the last frame unfinished, and nothing in it has been acknowledged. So a bad frame with nothing
//! good behind it is a torn tail, which is cut off; a bad frame with a good one behind it is damage, which stops the start.
//! A frame carries its place in the file so that "a good one behind it" is not a matter of luck: the pages of an unfinished
//! write may reach the disk in any order, and bytes that happen to look like a frame do not name the place where they stand.

use super::record::{Record, UnreadableRecord};

/// The first bytes of a control log: a name, and the version of the file's format.
pub const FILE_HEADER: &[u8; 12] = b"RALLYCTL\0\0\0\x01";

const MAGIC: &[u8; 4] = b"RCF1";
const PLACE: usize = 4;
const LENGTH: usize = 12;
const CHECKSUM: usize = 16;
const FRAME_HEADER_BYTES: usize = 20;

/// What a start found.
#[derive(Debug, PartialEq, Eq)]
pub struct Replay {
    /// All records, in order.
    pub records: Vec<Record>,
    /// Where the next frame goes; less than the file's length if its tail is torn.
    pub end: u64,
}

/// Why a log cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// Another program's file, or a later format.
    #[error("the file does not begin as a control log of this program's version does")]
    Header,
    /// A frame in the middle is damaged.
    #[error("bad frame at byte {at} with good data behind it at byte {good_at}")]
    Frame {
        /// Where it begins.
        at: u64,
        /// Where the next good one begins.
        good_at: u64,
    },
    /// The checksum is right, and yet it is no record.
    #[error("in the frame at byte {at}: {reason}")]
    Record {
        /// Where the frame begins.
        at: u64,
        /// What is wrong with it.
        reason: UnreadableRecord,
    },
}

/// Makes a frame of encoded records that is to stand at `place`.
pub fn frame(place: u64, payload: &[u8]) -> Vec<u8> {
    let mut frame = Vec::with_capacity(FRAME_HEADER_BYTES + payload.len());
    frame.extend_from_slice(MAGIC);
    frame.extend_from_slice(&place.to_be_bytes());
    frame.extend_from_slice(&u32::try_from(payload.len()).expect("a write is smaller than 4 GiB").to_be_bytes());
    frame.extend_from_slice(&[0; 4]);
    frame.extend_from_slice(payload);
    let checksum = checksum(&frame);
    frame[CHECKSUM..FRAME_HEADER_BYTES].copy_from_slice(&checksum.to_be_bytes());
    frame
}

/// Reads a whole log.
pub fn replay(file: &[u8]) -> Result<Replay, Damage> {
    if !file.starts_with(FILE_HEADER) {
        return Err(Damage::Header);
    }
    let mut records = Vec::new();
    let mut at = FILE_HEADER.len();
    while at < file.len() {
        let Some(frame) = frame_at(file, at) else {
            return match (at + 1..file.len()).find(|&later| frame_at(file, later).is_some()) {
                Some(good_at) => Err(Damage::Frame { at: at as u64, good_at: good_at as u64 }),
                None => Ok(Replay { records, end: at as u64 }),
            };
        };
        let mut payload = &frame[FRAME_HEADER_BYTES..];
        while !payload.is_empty() {
            let record = Record::decode(&mut payload).map_err(|reason| Damage::Record { at: at as u64, reason })?;
            records.push(record);
        }
        at += frame.len();
    }
    Ok(Replay { records, end: at as u64 })
}

/// The good frame that begins at `at`, if one does.
fn frame_at(file: &[u8], at: usize) -> Option<&[u8]> {
    let rest = &file[at..];
    if !rest.starts_with(MAGIC) {
        return None;
    }
    let header = rest.first_chunk::<FRAME_HEADER_BYTES>()?;
    let number = |from: usize, to: usize| header[from..to].iter().fold(0, |n, &byte| n << 8 | byte as u64);
    let frame = rest.get(..FRAME_HEADER_BYTES + number(LENGTH, CHECKSUM) as usize)?;
    let is_good = number(PLACE, LENGTH) == at as u64 && number(CHECKSUM, FRAME_HEADER_BYTES) == checksum(frame) as u64;
    is_good.then_some(frame)
}

fn checksum(frame: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&frame[..CHECKSUM]), &frame[FRAME_HEADER_BYTES..])
}

#[cfg(test)]
mod tests {
    use super::super::record::tests::samples;
    use super::*;

    /// A log with a frame for each sample, and where each frame begins; the last place is the end.
    fn log() -> (Vec<u8>, Vec<usize>) {
        let mut file = FILE_HEADER.to_vec();
        let mut places = Vec::new();
        for record in samples() {
            places.push(file.len());
            let mut payload = Vec::new();
            record.encode(&mut payload);
            file.extend(frame(file.len() as u64, &payload));
        }
        places.push(file.len());
        (file, places)
    }

    #[test]
    fn a_whole_log_reads_back() {
        let (file, places) = log();
        assert_eq!(replay(&file), Ok(Replay { records: samples(), end: places[4] as u64 }));
        assert_eq!(replay(FILE_HEADER), Ok(Replay { records: vec![], end: FILE_HEADER.len() as u64 }));
    }

    #[test]
    fn cut_at_every_byte_it_keeps_the_whole_frames() {
        let (file, places) = log();
        for end in FILE_HEADER.len()..file.len() {
            let whole = places.iter().filter(|&&place| place > FILE_HEADER.len() && place <= end).count();
            let expected = Replay { records: samples()[..whole].to_vec(), end: places[whole] as u64 };
            assert_eq!(replay(&file[..end]), Ok(expected), "cut at {end}");
        }
        for end in 0..FILE_HEADER.len() {
            assert_eq!(replay(&file[..end]), Err(Damage::Header), "cut at {end}");
        }
    }

    #[test]
    fn a_changed_byte_is_damage_in_the_middle_and_a_torn_tail_at_the_end() {
        let (file, places) = log();
        for place in FILE_HEADER.len()..file.len() {
            for change in [0x01, 0x80, 0xff] {
                let mut changed = file.clone();
                changed[place] ^= change;
                let frame = places.iter().rposition(|&begin| begin <= place).expect("a frame");
                let (at, good_at) = (places[frame] as u64, places[frame + 1] as u64);
                let expected = if frame == 3 {
                    Ok(Replay { records: samples()[..3].to_vec(), end: at })
                } else {
                    Err(Damage::Frame { at, good_at })
                };
                assert_eq!(replay(&changed), expected, "byte {place}");
            }
        }
    }

    #[test]
    fn pages_of_an_unfinished_write_may_be_there_in_any_order() {
        let (mut file, _) = log();
        let end = file.len();
        let mut payload = Vec::new();
        (0..200).for_each(|_| samples()[2].encode(&mut payload));
        file.extend(frame(end as u64, &payload));
        for hole in (end..file.len()).step_by(512) {
            let mut torn = file.clone();
            let hole_end = torn.len().min(hole + 512);
            torn[hole..hole_end].fill(0);
            assert_eq!(replay(&torn), Ok(Replay { records: samples(), end: end as u64 }), "hole at {hole}");
        }
    }

    #[test]
    fn a_frame_that_was_copied_elsewhere_is_not_taken_for_one() {
        let (file, places) = log();
        let mut doubled = file.clone();
        doubled.extend_from_slice(&file[places[2]..places[3]]);
        assert_eq!(replay(&doubled), Ok(Replay { records: samples(), end: places[4] as u64 }));
    }

    #[test]
    fn a_record_of_a_later_program_stops_the_start() {
        let (mut file, places) = log();
        let end = file.len() as u64;
        file.extend(frame(end, &[200, 0, 0, 0, 0, 0]));
        let reason = UnreadableRecord::Newer { kind: 200, version: 0 };
        assert_eq!(replay(&file), Err(Damage::Record { at: places[4] as u64, reason }));
        file[8..12].copy_from_slice(&2u32.to_be_bytes());
        assert_eq!(replay(&file), Err(Damage::Header));
    }
}
