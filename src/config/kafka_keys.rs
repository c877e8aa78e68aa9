//! The names of all properties of a Kafka 4.4 broker, and what a mistyped one may have meant.

use super::keys;

/// One name a line, sorted.
const NAMES: &str = include_str!("kafka_keys.txt");

/// Prefixes behind which a Kafka plugin's own properties stand.
const PLUGIN_PREFIXES: [&str; 3] = ["remote.log.", "rlmm.config.", "rsm.config."];

/// Whether a Kafka broker has this property.
pub(super) fn is_known(property: &str) -> bool {
    NAMES.lines().any(|name| name == property) || PLUGIN_PREFIXES.iter().any(|prefix| property.starts_with(prefix))
}

/// The known property whose name is most like `property`, if one is like it at all.
pub(super) fn nearest(property: &str) -> Option<&'static str> {
    let ours = keys::all().flat_map(|key| std::iter::once(key.property).chain(key.alias));
    let (distance, name) =
        ours.chain(NAMES.lines()).map(|name| (strsim::osa_distance(property, name), name)).min_by_key(|near| near.0)?;
    // A name that needs more than a third of its letters changed is another name, not a slip.
    (distance <= property.len().div_ceil(3)).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_and_once() {
        let names: Vec<_> = NAMES.lines().collect();
        assert!(names.windows(2).all(|pair| pair[0] < pair[1]));
        assert!(names.len() > 350);
    }

    #[test]
    fn a_slip_is_named_and_nonsense_is_not() {
        assert_eq!(nearest("num.partition"), Some("num.partitions"));
        assert_eq!(nearest("group.max.sise"), Some("group.max.size"));
        assert_eq!(nearest("ralypoint.cores"), Some("rallypoint.cores"));
        assert_eq!(nearest("offset.topic.num.partitions"), Some("offsets.topic.num.partitions"));
        assert_eq!(nearest("zookeeper.connect"), None);
        assert_eq!(nearest("x"), None);
    }

    #[test]
    fn names_of_plugins_are_known_by_prefix() {
        assert!(is_known("log.cleaner.backoff.ms"));
        assert!(is_known("rsm.config.chunk.size"));
        assert!(!is_known("log.cleaner.backof.ms"));
    }
}
