//! The control log as a start reads it. The first byte chooses: the file as it is, or one frame with a right checksum around
//! the bytes, so that the records in it are reached.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rallypoint::control::log::{FILE_HEADER, frame, replay};

fuzz_target!(|data: &[u8]| {
    let Some((&choice, bytes)) = data.split_first() else { return };
    let mut file = FILE_HEADER.to_vec();
    if choice % 2 == 0 {
        file.extend_from_slice(bytes);
    } else {
        file.extend_from_slice(&frame(FILE_HEADER.len() as u64, bytes));
    }
    let Ok(found) = replay(&file) else { return };
    assert!(found.end <= file.len() as u64);
    // What was good stays good when the torn tail is cut off.
    let cut = &file[..usize::try_from(found.end).expect("within the file")];
    assert_eq!(replay(cut), Ok(found));
});
