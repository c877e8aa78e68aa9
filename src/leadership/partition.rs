//! Which partition of an internal topic a group id (or transactional id, or share key) belongs to: the hash of Java's
//! `String`, over UTF-16 code units, its absolute value, modulo the number of partitions.

/// The partition of `key` among `partitions` of them, which is at least 1.
///
/// The absolute value of the smallest 32-bit number counts as 0, as in Kafka. It is not the rule of producers, which clear
/// the sign bit.
pub fn partition_of(key: &str, partitions: i32) -> i32 {
    (java_hash(key).wrapping_abs() & i32::MAX) % partitions
}

/// `String.hashCode()` of Java: h = 31 h + unit, from 0, wrapping.
fn java_hash(key: &str) -> i32 {
    let bytes = key.as_bytes();
    let (blocks, rest) = bytes.as_chunks::<8>();
    let mut hash: u32 = 0;
    for (done, block) in blocks.iter().enumerate() {
        if u64::from_le_bytes(*block) & 0x8080_8080_8080_8080 != 0 {
            // A block never begins inside a character: all before it were ASCII.
            return units(hash, &key[8 * done..]);
        }
        // Eight steps at once: the products do not wait for each other, as 31 * hash + unit eight times over would.
        let terms = block.iter().zip(POWERS).map(|(&byte, power)| power.wrapping_mul(byte as u32));
        hash = terms.fold(hash.wrapping_mul(POWER_8), u32::wrapping_add);
    }
    if rest.is_ascii() {
        return rest.iter().fold(hash, |hash, &byte| hash.wrapping_mul(31).wrapping_add(byte as u32)) as i32;
    }
    units(hash, &key[bytes.len() - rest.len()..])
}

fn units(hash: u32, key: &str) -> i32 {
    key.encode_utf16().fold(hash, |hash, unit| hash.wrapping_mul(31).wrapping_add(unit as u32)) as i32
}

/// 31 to the power of 7, 6, … 0, wrapping.
const POWERS: [u32; 8] = {
    let mut powers = [1u32; 8];
    let mut place = 7;
    while place > 0 {
        powers[place - 1] = powers[place].wrapping_mul(31);
        place -= 1;
    }
    powers
};

const POWER_8: u32 = POWERS[0].wrapping_mul(31);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn kafkas_own_answers() {
        let table = include_str!("../../tests/vectors/group-partition.tsv");
        let mut rows = 0;
        for line in table.lines().filter(|line| !line.starts_with('#')).skip(1) {
            let columns: Vec<&str> = line.split('\t').collect();
            let key = String::from_utf8(hex::decode(columns[0]).expect("hex")).expect("UTF-8");
            assert_eq!(java_hash(&key).to_string(), columns[1], "hash of {key:?}");
            for (column, partitions) in columns[2..].iter().zip([1, 3, 50, 100]) {
                assert_eq!(partition_of(&key, partitions).to_string(), *column, "{key:?} of {partitions}");
            }
            rows += 1;
        }
        assert_eq!(rows, 20);
    }

    proptest! {
        #[test]
        fn eight_at_a_time_is_one_at_a_time(key in "([ -~]{0,30}|.{0,30}|[a-z]{7,9}é[a-z]{0,9}😀?)") {
            prop_assert_eq!(java_hash(&key), units(0, &key));
        }

        #[test]
        fn partitions_are_in_range(key in ".{0,40}", partitions in 1..i32::MAX) {
            prop_assert!((0..partitions).contains(&partition_of(&key, partitions)));
        }
    }
}
