//! Golden messages cut and bent: they are refused or parse cleanly, and nothing panics. (That nothing is allocated for
//! them either is tests/wire_allocations.rs.)

use super::Random;
use super::messages::{Message, messages};
use super::vectors::vectors;
use crate::wire::{Cursor, Frames, Malformed, RequestHeader, Version};

/// Reads, walks over all arrays, and steps over: the three must agree.
fn parse(message: &Message, bytes: &[u8], version: Version) -> Result<usize, Malformed> {
    let parsed = (message.parse)(bytes, version).map(|(_, remaining)| remaining);
    assert_eq!(parsed, (message.skip)(bytes, version), "{} v{}", message.name, version.number);
    if let Err(malformed) = parsed {
        assert!(malformed.offset <= bytes.len(), "{malformed}");
        assert!(malformed.field.contains(|character: char| character.is_uppercase()), "{malformed}");
    }
    parsed
}

fn each_vector(mut test: impl FnMut(&Message, Version, &[u8])) {
    let messages = messages();
    for vector in vectors() {
        let message = messages.iter().find(|message| message.name == vector.message).expect("known");
        test(message, message.version(vector.version), &vector.bytes);
    }
}

#[test]
fn a_message_cut_at_any_byte_is_malformed() {
    each_vector(|message, version, bytes| {
        for cut in 0..bytes.len() {
            let malformed = parse(message, &bytes[..cut], version).expect_err("cut short");
            assert!(malformed.need > malformed.have, "{} v{}: {malformed}", message.name, version.number);
        }
    });
}

#[test]
fn a_message_with_a_bent_byte_does_not_panic() {
    each_vector(|message, version, bytes| {
        let mut bent = bytes.to_vec();
        for index in 0..bytes.len() {
            for mask in [0x01, 0x80, 0xff] {
                bent[index] ^= mask;
                let _ = parse(message, &bent, version);
                bent[index] = bytes[index];
            }
        }
    });
}

#[test]
fn lengths_out_of_bounds_do_not_panic() {
    let lengths: [&[u8]; 6] = [
        &[0x7f, 0xff, 0xff, 0xff],
        &[0x80, 0, 0, 0],
        &[0xff, 0xff, 0xff, 0xfe],
        &[0x7f, 0xff],
        &[0xff, 0xff, 0xff, 0xff, 0x07],
        &[0xff, 0xff, 0xff, 0xff, 0x0f],
    ];
    each_vector(|message, version, bytes| {
        for index in 0..bytes.len() {
            for length in lengths {
                let mut bent = bytes.to_vec();
                let end = (index + length.len()).min(bytes.len());
                bent.splice(index..end, length.iter().copied());
                let _ = parse(message, &bent, version);
            }
        }
    });
}

#[test]
fn random_bytes_do_not_panic() {
    let mut random = Random::new(3);
    for message in messages() {
        for version in message.all_versions() {
            for _ in 0..50 {
                let mut bytes = random.bytes();
                // Small numbers, as lengths, get further into the message.
                if random.coin() {
                    bytes.iter_mut().for_each(|byte| *byte %= 4);
                }
                let _ = parse(&message, &bytes, version);
            }
        }
    }
    for _ in 0..10_000 {
        let bytes = random.bytes();
        for header_version in 0..=2 {
            let _ = RequestHeader::read(&mut Cursor::new(&bytes), header_version);
        }
        let mut frames = Frames::new(&bytes, 1 << 20);
        while let Ok(Some(_)) = frames.next_frame() {}
        let _ = frames.missing();
    }
}
