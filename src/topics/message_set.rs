//! Message sets (magic 0 and 1): what Fetch carried before there were record batches, for clients of Kafka 0.10. Messages
//! stand back to back, each with a checksum of its own; magic 1 has timestamps.
//!
//! Layout of a message: offset 8, size of the rest 4, CRC-32 4 (of all that follows it), magic 1, attributes 1,
//! timestamp 8 (magic 1 only), key and value, each with a 32-bit length, -1 for null.

/// Which format a version of Fetch is answered in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Magic {
    /// Without timestamps: Fetch v0 and v1.
    Zero,
    /// With timestamps: Fetch v2 and v3.
    One,
}

const SIZE: usize = 8;
const CRC: usize = 12;
const BODY: usize = 16;

/// Appends one message; neither key nor value is null.
pub fn append_message(out: &mut Vec<u8>, magic: Magic, offset: i64, timestamp_ms: i64, key: &[u8], value: &[u8]) {
    let start = out.len();
    out.extend_from_slice(&offset.to_be_bytes());
    out.extend_from_slice(&[0; BODY - SIZE]);
    match magic {
        Magic::Zero => out.extend_from_slice(&[0, 0]),
        Magic::One => {
            out.extend_from_slice(&[1, 0]);
            out.extend_from_slice(&timestamp_ms.to_be_bytes());
        }
    }
    for bytes in [key, value] {
        out.extend_from_slice(&(bytes.len() as i32).to_be_bytes());
        out.extend_from_slice(bytes);
    }
    let message = &mut out[start..];
    let size = (message.len() - CRC) as i32;
    message[SIZE..CRC].copy_from_slice(&size.to_be_bytes());
    let checksum = crc32(&message[BODY..]);
    message[CRC..BODY].copy_from_slice(&checksum.to_be_bytes());
}

/// The checksum of zip and Ethernet, which is not the one of record batches.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, &byte| TABLE[(crc as u8 ^ byte) as usize] ^ crc >> 8)
}

const TABLE: [u32; 256] = {
    const POLYNOMIAL: u32 = 0xedb8_8320;
    let mut table = [0; 256];
    let mut index = 0;
    while index < 256 {
        let mut crc = index as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ POLYNOMIAL } else { crc >> 1 };
            bit += 1;
        }
        table[index] = crc;
        index += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    /// The first of Kafka's three messages; the others have nulls, which are never made here.
    fn kafkas_first(name: &str) -> Vec<u8> {
        let table = include_str!("../../tests/vectors/record-batches.tsv");
        let line = table.lines().find(|line| line.split('\t').next() == Some(name)).expect("the vector");
        let all = hex::decode(line.split('\t').nth(1).expect("hex")).expect("hex");
        let size = i32::from_be_bytes(all[SIZE..CRC].try_into().expect("four bytes")) as usize;
        all[..CRC + size].to_vec()
    }

    #[test]
    fn the_same_bytes_as_kafkas_writer() {
        for (magic, name) in [(Magic::Zero, "magic0-plain"), (Magic::One, "magic1-plain")] {
            let mut out = b"before".to_vec();
            append_message(&mut out, magic, 42, 1_700_000_000_000, b"k1", b"v1");
            assert_eq!(hex::encode(&out[6..]), hex::encode(kafkas_first(name)), "{name}");
        }
    }

    #[test]
    fn the_checksum_has_its_usual_check_value() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
    }
}
