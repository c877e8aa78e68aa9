//! A whole request frame: its header, by the API and version that it claims.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rallypoint::wire::{ApiKey, Cursor, Prefix, RequestHeader, Writer};

fuzz_target!(|frame: &[u8]| {
    let Ok(prefix) = Prefix::peek(frame) else { return };
    let (key, version) = (prefix.api_key(), prefix.api_version());
    let Some(api) = ApiKey::from_number(key) else { return };
    let header_version = api.request_header_version(version);
    let mut cursor = Cursor::new(frame);
    let Ok(header) = RequestHeader::read(&mut cursor, header_version) else { return };
    assert_eq!((header.api_key, header.api_version, header.correlation_id), (key, version, prefix.correlation_id()));
    let mut written = Vec::new();
    header.write(&mut Writer::new(&mut written), header_version);
    let mut again = Cursor::new(&written);
    assert_eq!(RequestHeader::read(&mut again, header_version).as_ref(), Ok(&header));
    assert_eq!(again.remaining(), 0);
});
