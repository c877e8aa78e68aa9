//! Who gets what: the partitions of each topic in turn to those who subscribe to it, in the order of their ids.

use std::collections::BTreeMap;

use crate::wire::Array;
use crate::wire::consumer_protocol::{ConsumerProtocolAssignment, ConsumerProtocolSubscription, TopicPartition};

/// Of the assignment in SyncGroup.
const ASSIGNMENT_VERSION: i16 = 1;

/// Deals out. `members` are ids and subscriptions; who has sent no subscription gets nothing. `partitions_of` says how many
/// partitions a topic has. `mark` goes with each assignment, so that two deals never look alike.
pub(super) fn assign(
    members: &[(&str, &[u8])],
    partitions_of: &dyn Fn(&str) -> Option<i32>,
    mark: &[u8],
) -> Vec<(Box<str>, Vec<u8>)> {
    let mut subscribers: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (place, (_, metadata)) in members.iter().enumerate() {
        let Ok(subscription) = ConsumerProtocolSubscription::from_bytes(metadata) else { continue };
        for topic in subscription.topics.iter() {
            let members = subscribers.entry(topic.into_owned()).or_default();
            if members.last() != Some(&place) {
                members.push(place);
            }
        }
    }
    let mut dealt: Vec<BTreeMap<&str, Vec<i32>>> = vec![BTreeMap::new(); members.len()];
    for (topic, places) in &mut subscribers {
        places.sort_unstable_by_key(|place| members[*place].0);
        for partition in 0..partitions_of(topic).unwrap_or(0) {
            let place = places[partition as usize % places.len()];
            dealt[place].entry(topic).or_default().push(partition);
        }
    }
    members.iter().zip(&dealt).map(|((id, _), topics)| ((*id).into(), encode(topics, mark))).collect()
}

fn encode(topics: &BTreeMap<&str, Vec<i32>>, mark: &[u8]) -> Vec<u8> {
    let rows: Vec<_> = topics
        .iter()
        .map(|(topic, partitions)| TopicPartition { topic: (*topic).into(), partitions: Array::Items(partitions) })
        .collect();
    let assignment = ConsumerProtocolAssignment { assigned_partitions: Array::Items(&rows), user_data: Some(mark) };
    assignment.to_bytes(ASSIGNMENT_VERSION)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subscription(topics: &[&str]) -> Vec<u8> {
        let topics: Vec<_> = topics.iter().map(|topic| (*topic).into()).collect();
        ConsumerProtocolSubscription { topics: Array::Items(&topics), ..Default::default() }.to_bytes(1)
    }

    #[test]
    fn every_partition_of_what_is_subscribed_to_goes_to_one_subscriber() {
        let (both, one) = (subscription(&["a", "b", "a"]), subscription(&["b", "unknown"]));
        let members = [("y", &both[..]), ("x", &one[..]), ("broken", &[0xff, 0xff][..])];
        let partitions = |topic: &str| match topic {
            "a" => Some(2),
            "b" => Some(3),
            _ => None,
        };
        let dealt = assign(&members, &partitions, b"mark");
        let read = |bytes| {
            let assignment = ConsumerProtocolAssignment::from_bytes(bytes).expect("well formed");
            assert_eq!(assignment.user_data, Some(&b"mark"[..]));
            let rows = assignment.assigned_partitions.iter();
            rows.map(|row| (row.topic.into_owned(), row.partitions.iter().collect::<Vec<_>>())).collect::<Vec<_>>()
        };
        assert_eq!(dealt.iter().map(|(id, _)| &**id).collect::<Vec<_>>(), ["y", "x", "broken"]);
        assert_eq!(read(&dealt[0].1), [("a".into(), vec![0, 1]), ("b".into(), vec![1])]);
        assert_eq!(read(&dealt[1].1), [("b".into(), vec![0, 2])]);
        assert_eq!(read(&dealt[2].1), []);
    }
}
