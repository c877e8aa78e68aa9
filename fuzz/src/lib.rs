//! What the fuzz targets share: what must hold for any bytes that claim to be a message.

pub mod group;

pub use libfuzzer_sys;
pub use rallypoint;

/// Reads bytes as a message of a version: that gives an error or a message. If a message, stepping over it goes as far as
/// reading it; and what we write of it reads to the last byte and is written the same again (text that was not UTF-8 has
/// been replaced by then, and unknown tags are gone).
#[macro_export]
macro_rules! check_message {
    ($message:path, $bytes:expr, $version:expr) => {{
        use $crate::rallypoint::wire::{Cursor, Wire, Writer};
        let (bytes, version): (&[u8], _) = ($bytes, $version);
        let (mut reading, mut skipping) = (Cursor::new(bytes), Cursor::new(bytes));
        let message = <$message>::read(&mut reading, version);
        let skipped = <$message>::skip(&mut skipping, version);
        assert_eq!(skipped.is_ok(), message.is_ok(), "stepping over it is as strict as reading it");
        if let Ok(message) = message {
            assert_eq!(skipping.remaining(), reading.remaining(), "stepping over it goes as far");
            let (mut once, mut twice) = (Vec::new(), Vec::new());
            message.write(&mut Writer::new(&mut once), version);
            let mut cursor = Cursor::new(&once);
            let again = <$message>::read(&mut cursor, version).expect("what we write can be read");
            assert_eq!(cursor.remaining(), 0, "to the last byte");
            again.write(&mut Writer::new(&mut twice), version);
            assert_eq!(once, twice, "and is written the same again");
        }
    }};
}

/// A target for the requests of one API: the first byte of the input chooses the version, the rest is the body.
#[macro_export]
macro_rules! request {
    ($module:ident::$request:ident, $api:ident) => {
        $crate::libfuzzer_sys::fuzz_target!(|data: &[u8]| {
            use $crate::rallypoint::wire::{ApiKey, $module};
            let Some((&choice, body)) = data.split_first() else { return };
            let versions = ApiKey::$api.api().decoded;
            let number = versions.first + i16::from(choice) % (versions.last - versions.first + 1);
            $crate::check_message!($module::$request, body, ApiKey::$api.version(number));
        });
    };
}
