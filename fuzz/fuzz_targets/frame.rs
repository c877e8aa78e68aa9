//! The frame splitter: however a stream of bytes arrives, it is cut into the same frames.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rallypoint::wire::Frames;

const FRAME_MAX_BYTES: usize = 1_000;

/// The frames of a stream, and whether it ends with a refused one.
fn frames(stream: &[u8]) -> (Vec<Vec<u8>>, bool) {
    let mut cut = Frames::new(stream, FRAME_MAX_BYTES);
    let mut found = Vec::new();
    loop {
        match cut.next_frame() {
            Ok(Some(frame)) => {
                assert!((1..=FRAME_MAX_BYTES).contains(&frame.len()));
                found.push(frame.to_vec());
            }
            Ok(None) => {
                assert!(cut.missing().is_ok_and(|missing| missing > 0));
                return (found, false);
            }
            Err(_) => return (found, true),
        }
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((&step, stream)) = data.split_first() else { return };
    let whole = frames(stream);
    // The same stream in pieces: what was not consumed stands before the next piece.
    let mut kept: Vec<u8> = Vec::new();
    let mut found = Vec::new();
    for piece in stream.chunks(usize::from(step).max(1)) {
        kept.extend_from_slice(piece);
        let mut cut = Frames::new(&kept, FRAME_MAX_BYTES);
        let refused = loop {
            match cut.next_frame() {
                Ok(Some(frame)) => found.push(frame.to_vec()),
                Ok(None) => break false,
                Err(_) => break true,
            }
        };
        if refused {
            assert_eq!((found, true), whole);
            return;
        }
        let consumed = cut.consumed();
        kept.drain(..consumed);
    }
    assert_eq!((found, false), whole);
});
