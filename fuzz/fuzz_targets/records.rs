//! What a journal, or a Kafka cluster, holds: keys and values of group records, and what consumers put into them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rallypoint::wire::consumer_protocol::{ConsumerProtocolAssignment, ConsumerProtocolSubscription};
use rallypoint::wire::records::{GroupMetadataValue, OffsetCommitValue, RecordKey};

/// The versions differ in what they keep; this one keeps all.
const NEWEST: i16 = 3;

fuzz_target!(|data: &[u8]| {
    let Some((&choice, bytes)) = data.split_first() else { return };
    match choice % 5 {
        0 => drop(RecordKey::from_bytes(bytes)),
        1 => drop(GroupMetadataValue::from_bytes(bytes)),
        2 => drop(OffsetCommitValue::from_bytes(bytes)),
        3 => {
            let Ok(subscription) = ConsumerProtocolSubscription::from_bytes(bytes) else { return };
            let written = subscription.to_bytes(NEWEST);
            let again = ConsumerProtocolSubscription::from_bytes(&written).expect("what we write can be read");
            assert_eq!(again.to_bytes(NEWEST), written);
        }
        _ => {
            let Ok(assignment) = ConsumerProtocolAssignment::from_bytes(bytes) else { return };
            let written = assignment.to_bytes(NEWEST);
            let again = ConsumerProtocolAssignment::from_bytes(&written).expect("what we write can be read");
            assert_eq!(again.to_bytes(NEWEST), written);
        }
    }
});
