//! What producers send: checked as Kafka checks it, and dropped. A coordinator is not a log store.

use super::batch::{BATCH_HEADER_BYTES, crc_is_good};
use crate::errors::ErrorCode;

const LENGTH: usize = 8;
const MAGIC: usize = 16;
const ATTRIBUTES: usize = 21;
const COUNT: usize = 57;

const CODEC_MASK: u8 = 0b111;
const ZSTD: u8 = 4;
const TRANSACTIONAL: u8 = 1 << 4;
const CONTROL: u8 = 1 << 5;

/// Checks what one partition of a Produce carries: one batch of magic 2.
///
/// # Errors
/// INVALID_RECORD for what is not one such batch, UNSUPPORTED_COMPRESSION_TYPE for zstd where it is not allowed,
/// MESSAGE_TOO_LARGE, CORRUPT_MESSAGE for a wrong checksum, INVALID_TXN_STATE for records of a transaction, which there are
/// not.
pub fn check(records: &[u8], max_message_bytes: usize, allows_zstd: bool) -> Result<(), ErrorCode> {
    let header = records.first_chunk::<BATCH_HEADER_BYTES>().ok_or(ErrorCode::INVALID_RECORD)?;
    let number = |at: usize| i32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
    if header[MAGIC] != 2 || i64::from(number(LENGTH)) + 12 != records.len() as i64 {
        return Err(ErrorCode::INVALID_RECORD);
    }
    let attributes = header[ATTRIBUTES + 1];
    match attributes & CODEC_MASK {
        ZSTD if !allows_zstd => return Err(ErrorCode::UNSUPPORTED_COMPRESSION_TYPE),
        0..=ZSTD => {}
        _ => return Err(ErrorCode::INVALID_RECORD),
    }
    if records.len() > max_message_bytes {
        return Err(ErrorCode::MESSAGE_TOO_LARGE);
    }
    if !crc_is_good(records) {
        return Err(ErrorCode::CORRUPT_MESSAGE);
    }
    if attributes & CONTROL != 0 || number(COUNT) <= 0 {
        return Err(ErrorCode::INVALID_RECORD);
    }
    if attributes & TRANSACTIONAL != 0 {
        return Err(ErrorCode::INVALID_TXN_STATE);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kafkas(name: &str) -> Vec<u8> {
        let table = include_str!("../../tests/vectors/record-batches.tsv");
        let line = table.lines().find(|line| line.split('\t').next() == Some(name)).expect("the vector");
        hex::decode(line.split('\t').nth(1).expect("hex")).expect("hex")
    }

    fn code(records: &[u8]) -> Result<(), i16> {
        check(records, 1_000, true).map_err(|error| error.0)
    }

    #[test]
    fn kafkas_batches_are_taken_in_every_compression() {
        for name in ["plain", "headers", "idempotent", "gzip", "snappy", "lz4", "zstd"] {
            assert_eq!(code(&kafkas(&format!("magic2-{name}"))), Ok(()), "{name}");
        }
        let zstd = check(&kafkas("magic2-zstd"), 1_000, false);
        assert_eq!(zstd, Err(ErrorCode::UNSUPPORTED_COMPRESSION_TYPE));
    }

    #[test]
    fn other_things_are_refused() {
        let plain = kafkas("magic2-plain");
        assert_eq!(code(&[]), Err(87));
        assert_eq!(code(&kafkas("magic1-plain")), Err(87));
        assert_eq!(code(&[&plain[..], &plain].concat()), Err(87), "two batches");
        assert_eq!(code(&kafkas("magic2-commit-marker")), Err(87));
        assert_eq!(code(&kafkas("magic2-transactional")), Err(48));
        for end in 0..plain.len() {
            assert_eq!(code(&plain[..end]), Err(87), "cut at {end}");
        }
        assert_eq!(check(&plain, plain.len(), true), Ok(()));
        assert_eq!(check(&plain, plain.len() - 1, true), Err(ErrorCode::MESSAGE_TOO_LARGE));
    }

    #[test]
    fn a_changed_byte_under_the_checksum_is_corruption() {
        let plain = kafkas("magic2-plain");
        for at in COUNT..plain.len() {
            let mut changed = plain.clone();
            changed[at] ^= 0x10;
            assert_eq!(code(&changed), Err(2), "byte {at}");
        }
    }
}
