//! Writes record batches (magic 2): what a Fetch answer carries. Plain: uncompressed, no headers, no producer. Which records
//! there are is [`super::records`]'s business.
//!
//! Layout: base offset 8, batch length 4, leader epoch 4, magic 1, CRC-32C 4 (of all that follows it), attributes 2, last
//! offset delta 4, base timestamp 8, largest timestamp 8, producer id 8, producer epoch 2, base sequence 4, count 4, records.

/// Bytes of a batch before its first record.
pub const BATCH_HEADER_BYTES: usize = 61;

const LENGTH: usize = 8;
const LENGTH_END: usize = 12;
const MAGIC: usize = 16;
const CRC: usize = 17;
const ATTRIBUTES: usize = 21;
const LAST_OFFSET_DELTA: usize = 23;
const BASE_TIMESTAMP: usize = 27;
const MAX_TIMESTAMP: usize = 35;
const PRODUCER: usize = 43;
const COUNT: usize = 57;

/// A batch under way at the end of a buffer; [`Batch::finish`] makes it whole.
pub struct Batch<'b> {
    out: &'b mut Vec<u8>,
    start: usize,
    base_offset: i64,
    base_timestamp_ms: i64,
    max_timestamp_ms: i64,
    last_offset: i64,
    count: i32,
}

impl<'b> Batch<'b> {
    /// Begins a batch; its first record has this offset and timestamp.
    pub fn begin(out: &'b mut Vec<u8>, base_offset: i64, base_timestamp_ms: i64, leader_epoch: i32) -> Self {
        let start = out.len();
        let mut header = [0; BATCH_HEADER_BYTES];
        header[..LENGTH].copy_from_slice(&base_offset.to_be_bytes());
        header[LENGTH_END..MAGIC].copy_from_slice(&leader_epoch.to_be_bytes());
        header[MAGIC] = 2;
        header[BASE_TIMESTAMP..MAX_TIMESTAMP].copy_from_slice(&base_timestamp_ms.to_be_bytes());
        // No producer: id, epoch and sequence are all -1.
        header[PRODUCER..COUNT].fill(0xff);
        out.extend_from_slice(&header);
        Batch {
            out,
            start,
            base_offset,
            base_timestamp_ms,
            max_timestamp_ms: base_timestamp_ms,
            last_offset: base_offset,
            count: 0,
        }
    }

    /// Appends a record; offsets rise.
    pub fn record(&mut self, offset: i64, timestamp_ms: i64, key: Option<&[u8]>, value: Option<&[u8]>) {
        let timestamp_delta = timestamp_ms - self.base_timestamp_ms;
        let offset_delta = offset - self.base_offset;
        let body = record_body_bytes(timestamp_delta, offset_delta, key.map(<[u8]>::len), value.map(<[u8]>::len));
        put_varint(self.out, body as i64);
        self.out.push(0);
        put_varint(self.out, timestamp_delta);
        put_varint(self.out, offset_delta);
        put_bytes(self.out, key);
        put_bytes(self.out, value);
        self.out.push(0);
        self.max_timestamp_ms = self.max_timestamp_ms.max(timestamp_ms);
        self.last_offset = offset;
        self.count += 1;
    }

    /// Fills in length, counts and checksum.
    pub fn finish(self) {
        let batch = &mut self.out[self.start..];
        let length = (batch.len() - LENGTH_END) as i32;
        batch[LENGTH..LENGTH_END].copy_from_slice(&length.to_be_bytes());
        let last_offset_delta = (self.last_offset - self.base_offset) as i32;
        batch[LAST_OFFSET_DELTA..BASE_TIMESTAMP].copy_from_slice(&last_offset_delta.to_be_bytes());
        batch[MAX_TIMESTAMP..PRODUCER].copy_from_slice(&self.max_timestamp_ms.to_be_bytes());
        batch[COUNT..BATCH_HEADER_BYTES].copy_from_slice(&self.count.to_be_bytes());
        let checksum = crc32c::crc32c(&batch[ATTRIBUTES..]);
        batch[CRC..ATTRIBUTES].copy_from_slice(&checksum.to_be_bytes());
    }
}

/// Whether the checksum of a whole batch is right.
pub fn crc_is_good(batch: &[u8]) -> bool {
    batch[CRC..ATTRIBUTES] == crc32c::crc32c(&batch[ATTRIBUTES..]).to_be_bytes()
}

/// The bytes that [`Batch::record`] appends for a record; lengths are `None` for null.
pub fn record_bytes(timestamp_delta: i64, offset_delta: i64, key: Option<usize>, value: Option<usize>) -> usize {
    let body = record_body_bytes(timestamp_delta, offset_delta, key, value);
    varint_bytes(body as i64) + body
}

fn record_body_bytes(timestamp_delta: i64, offset_delta: i64, key: Option<usize>, value: Option<usize>) -> usize {
    let bytes = |length: Option<usize>| length.map_or(1, |length| varint_bytes(length as i64) + length);
    1 + varint_bytes(timestamp_delta) + varint_bytes(offset_delta) + bytes(key) + bytes(value) + 1
}

fn put_bytes(out: &mut Vec<u8>, bytes: Option<&[u8]>) {
    match bytes {
        None => put_varint(out, -1),
        Some(bytes) => {
            put_varint(out, bytes.len() as i64);
            out.extend_from_slice(bytes);
        }
    }
}

/// Zigzag: small numbers of either sign are short.
fn zigzag(number: i64) -> u64 {
    (number << 1 ^ number >> 63) as u64
}

fn put_varint(out: &mut Vec<u8>, number: i64) {
    let mut rest = zigzag(number);
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

fn varint_bytes(number: i64) -> usize {
    (64 - (zigzag(number) | 1).leading_zeros() as usize).div_ceil(7)
}

/// A reader of batches, written from the description of the format and not from the writer above.
#[cfg(test)]
pub(super) mod reading {
    #[derive(Debug, PartialEq, Eq)]
    pub(crate) struct Record {
        pub(crate) offset: i64,
        pub(crate) timestamp_ms: i64,
        pub(crate) key: Option<Vec<u8>>,
        pub(crate) value: Option<Vec<u8>>,
    }

    #[derive(Debug, PartialEq, Eq)]
    pub(crate) struct ReadBatch {
        pub(crate) base_offset: i64,
        pub(crate) last_offset: i64,
        pub(crate) leader_epoch: i32,
        pub(crate) bytes: usize,
        pub(crate) records: Vec<Record>,
    }

    struct Reader<'a>(&'a [u8]);

    impl<'a> Reader<'a> {
        fn take(&mut self, count: usize) -> &'a [u8] {
            let (head, tail) = self.0.split_at(count);
            self.0 = tail;
            head
        }

        fn number(&mut self, bytes: usize) -> i64 {
            let sign = if self.0[0] & 0x80 != 0 { -1 } else { 0 };
            self.take(bytes).iter().fold(sign, |number, &byte| number << 8 | byte as i64)
        }

        fn varint(&mut self) -> i64 {
            let (mut bits, mut shift) = (0u64, 0);
            loop {
                let byte = self.take(1)[0];
                bits |= ((byte & 0x7f) as u64) << shift;
                if byte & 0x80 == 0 {
                    return (bits >> 1) as i64 ^ -((bits & 1) as i64);
                }
                shift += 7;
            }
        }

        fn bytes(&mut self) -> Option<Vec<u8>> {
            let length = self.varint();
            (length >= 0).then(|| self.take(length as usize).to_vec())
        }
    }

    /// CRC-32C, a bit at a time.
    fn checksum(bytes: &[u8]) -> u32 {
        !bytes.iter().fold(!0u32, |crc, &byte| {
            (0..8).fold(crc ^ byte as u32, |crc, _| if crc & 1 == 1 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 })
        })
    }

    /// Reads one batch off the front of `bytes`.
    pub(crate) fn read_batch(bytes: &mut &[u8]) -> ReadBatch {
        let mut header = Reader(bytes);
        let base_offset = header.number(8);
        let length = header.number(4) as usize;
        let whole = &bytes[..12 + length];
        *bytes = &bytes[12 + length..];
        let mut rest = Reader(&whole[12..]);
        let leader_epoch = rest.number(4) as i32;
        assert_eq!(rest.number(1), 2, "magic");
        assert_eq!(rest.number(4) as u32, checksum(&whole[21..]), "checksum");
        assert_eq!(rest.number(2), 0, "attributes");
        let last_offset = base_offset + rest.number(4);
        let base_timestamp_ms = rest.number(8);
        let max_timestamp_ms = rest.number(8);
        assert_eq!((rest.number(8), rest.number(2), rest.number(4)), (-1, -1, -1), "no producer");
        let count = rest.number(4);
        let records: Vec<Record> = (0..count)
            .map(|_| {
                let length = rest.varint() as usize;
                let mut record = Reader(rest.take(length));
                assert_eq!(record.number(1), 0, "attributes of a record");
                let timestamp_ms = base_timestamp_ms + record.varint();
                let offset = base_offset + record.varint();
                let (key, value) = (record.bytes(), record.bytes());
                assert_eq!(record.varint(), 0, "headers");
                assert!(record.0.is_empty(), "bytes behind a record");
                Record { offset, timestamp_ms, key, value }
            })
            .collect();
        assert!(rest.0.is_empty(), "bytes behind the records");
        assert_eq!(records.iter().map(|record| record.timestamp_ms).max(), Some(max_timestamp_ms));
        assert_eq!(records.last().map(|record| record.offset), Some(last_offset));
        ReadBatch { base_offset, last_offset, leader_epoch, bytes: whole.len(), records }
    }
}

#[cfg(test)]
mod tests {
    use super::reading::*;
    use super::*;

    const BASE_MS: i64 = 1_700_000_000_000;

    fn kafkas(name: &str) -> Vec<u8> {
        let table = include_str!("../../tests/vectors/record-batches.tsv");
        let line = table.lines().find(|line| line.split('\t').next() == Some(name)).expect("the vector");
        hex::decode(line.split('\t').nth(1).expect("hex")).expect("hex")
    }

    #[test]
    fn the_same_bytes_as_kafkas_writer() {
        let mut out = b"before".to_vec();
        let mut batch = Batch::begin(&mut out, 42, BASE_MS, 7);
        batch.record(42, BASE_MS, Some(b"k1"), Some(b"v1"));
        batch.record(43, BASE_MS + 1500, None, Some("é".as_bytes()));
        batch.record(44, BASE_MS - 5, Some(b"k3"), None);
        batch.finish();
        assert_eq!(hex::encode(&out[6..]), hex::encode(kafkas("magic2-plain")));
        assert_eq!(&out[..6], b"before");
    }

    #[test]
    fn the_reader_reads_kafkas_bytes() {
        let bytes = kafkas("magic2-plain");
        let batch = read_batch(&mut &bytes[..]);
        assert_eq!((batch.base_offset, batch.last_offset, batch.leader_epoch), (42, 44, 7));
        let record = |offset, timestamp_ms, key: Option<&str>, value: Option<&str>| Record {
            offset,
            timestamp_ms,
            key: key.map(Into::into),
            value: value.map(Into::into),
        };
        let expected = [
            record(42, BASE_MS, Some("k1"), Some("v1")),
            record(43, BASE_MS + 1500, None, Some("é")),
            record(44, BASE_MS - 5, Some("k3"), None),
        ];
        assert_eq!(batch.records, expected);
    }

    #[test]
    fn sizes_are_known_before_writing() {
        for (timestamp_delta, offset_delta, key, value) in
            [(0, 0, None, Some(0)), (63, 64, Some(63), Some(64)), (-1 << 40, 1 << 20, Some(8_191), None)]
        {
            let (key_bytes, value_bytes) = (key.map(|n| vec![b'k'; n]), value.map(|n| vec![b'v'; n]));
            let mut out = Vec::new();
            let mut batch = Batch::begin(&mut out, 5, BASE_MS, 0);
            batch.record(5 + offset_delta, BASE_MS + timestamp_delta, key_bytes.as_deref(), value_bytes.as_deref());
            batch.finish();
            assert_eq!(out.len(), BATCH_HEADER_BYTES + record_bytes(timestamp_delta, offset_delta, key, value));
        }
    }

    #[test]
    fn varints_of_every_length() {
        for bits in 0..63 {
            for number in [1i64 << bits, (1 << bits) - 1, -(1 << bits), i64::MIN, i64::MAX] {
                let mut out = Vec::new();
                put_varint(&mut out, number);
                assert_eq!(out.len(), varint_bytes(number), "{number}");
            }
        }
    }
}
