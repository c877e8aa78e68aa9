//! A shard whose journal fails for good: who is still served.

use super::loading::Life;
use super::*;
use crate::journal::testing::MemoryDisk;
use crate::wire::leave_group::{LeaveGroupRequest, LeaveGroupResponse};

const GROUP: &str = "g";

impl Life {
    /// The error and, if the answer waits for the journal, no answer.
    fn leave(&mut self, member_id: &str) -> Option<i16> {
        let request = LeaveGroupRequest { group_id: GROUP.into(), member_id: member_id.into(), ..Default::default() };
        self.world.shards[0].pin();
        match self.world.send(0, ApiKey::LeaveGroup, 1, &request) {
            (_, Verdict::Answered, answer) => {
                let answer = answer.expect("an answer");
                Some(read::<LeaveGroupResponse<'_>>(&answer, ApiKey::LeaveGroup, 1).error_code)
            }
            (_, Verdict::Durable(_), _) => None,
            (_, other, _) => panic!("{other:?}"),
        }
    }
}

#[test]
fn who_writes_nothing_is_answered_after_a_failed_sync() {
    let disk = MemoryDisk::with_folder("s");
    let mut life = Life::begin(&disk);
    life.load_all();
    let ticket = life.join(GROUP, "").expect("it waits");
    let (first, _) = life.joined(ticket);
    let newcomer = life.join(GROUP, "").expect("it waits for the first");
    let again = life.join(GROUP, &first).expect("it waits for the answers");
    let (second, generation_id) = life.joined(newcomer);
    assert_eq!(life.joined(again), (first.clone(), generation_id));
    assert_eq!([life.sync(GROUP, &first, generation_id), life.sync(GROUP, &second, generation_id)], [0; 2]);

    assert_eq!(life.commit("simple", "t", 1), 0);
    assert_eq!(life.leave("nobody"), None, "a write is on its way");
    let (shard, network) = (&mut life.world.shards[0], &mut life.world.networks[0]);
    shard.turn(life.world.now, network).expect("nothing fails");
    let write = network.journal.pop_front().expect("the commit is written");
    shard.written(write.token, Err(WriteFailure::Sync(std::io::Error::other("gone"))));
    life.turn();
    assert_eq!(life.world.networks[0].failed.len(), 1);

    assert_eq!((life.leave("nobody"), life.commit("simple", "t", 1)), (Some(25), 15));
    assert_eq!((life.leave(&first), life.heartbeat(GROUP, &second, generation_id)), (Some(0), 27));
}
