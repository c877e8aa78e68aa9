//! Random values of every version of every message, back and forth.

use super::Random;
use super::messages::messages;

#[test]
fn what_is_written_reads_back() {
    let mut random = Random::new(1);
    for message in messages() {
        for version in message.all_versions() {
            for _ in 0..20 {
                let name = format!("{} v{}", message.name, version.number);
                let sample = (message.sample)(&mut random, version, &[]);
                assert_eq!((message.parse)(&sample.encoded, version), Ok((sample.json, 0)), "{name}");
                assert_eq!((message.skip)(&sample.encoded, version), Ok(0), "{name}");
                for rewritten in (message.rewrite)(&sample.encoded, version).expect(&name) {
                    assert_eq!(rewritten, sample.encoded, "{name}");
                }
            }
        }
    }
}

/// A handler fills in what the newest version has; the answer to an older one lacks what that version lacks, and is
/// whole.
#[test]
fn fields_that_a_version_lacks_are_left_out_when_writing() {
    let mut random = Random::new(2);
    for message in messages() {
        let versions: Vec<_> = message.all_versions().collect();
        for &filled in &versions {
            let sample = (message.sample)(&mut random, filled, &versions);
            for (&written, bytes) in versions.iter().zip(&sample.encoded_in) {
                let (json, remaining) = (message.parse)(bytes, written)
                    .unwrap_or_else(|malformed| panic!("{} v{}: {malformed}", message.name, written.number));
                assert_eq!(remaining, 0, "{} v{}", message.name, written.number);
                if written == filled {
                    assert_eq!(json, sample.json);
                }
            }
        }
    }
}
