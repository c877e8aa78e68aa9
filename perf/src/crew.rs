//! Members of classic groups on an engine's connections: they ask for ids, join, sync, rejoin when told to, and leave. At
//! most one request is in flight on a connection, as a server reads nothing behind a parked one.

use std::time::{Duration, Instant};

use crate::engine::{Engine, Handler};
use crate::messages;

/// Load in progress, not available, not coordinator (yet): asked again after a pause.
pub(crate) const NOT_AVAILABLE_YET: [i16; 3] = [14, 15, 16];
/// Illegal generation, rebalance in progress.
const MUST_REJOIN: [i16; 2] = [22, 27];
pub(crate) const MEMBER_ID_REQUIRED: i16 = 79;
const HEARTBEAT_VERSION: i16 = 4;
const RETRY_PAUSE: Duration = Duration::from_millis(100);
const HEARTBEAT_PAUSE: Duration = Duration::from_millis(5);

/// One member and where it stands.
pub(crate) struct Member {
    pub(crate) group: String,
    pub(crate) id: String,
    pub(crate) generation: i32,
    is_stable: bool,
}

/// How groups are made.
pub(crate) struct Plan {
    pub(crate) session_timeout_ms: i32,
    pub(crate) metadata: Vec<u8>,
    pub(crate) assignment: Vec<u8>,
    /// Members of a whole group; a generation with fewer is left again as soon as the server asks for it.
    pub(crate) whole: usize,
    /// Join as soon as the id is there; else wait for [`Crew::join`].
    pub(crate) joins_at_once: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Awaits {
    #[default]
    Nothing,
    Id,
    Join,
    Sync,
    Heartbeat,
    Leave,
}

/// What a member waits for.
#[derive(Default)]
struct Seat {
    awaits: Awaits,
    correlation_id: i32,
}

/// All members; member i has connection i.
pub(crate) struct Crew {
    pub(crate) members: Vec<Member>,
    pub(crate) plan: Plan,
    /// Members that got an id.
    pub(crate) with_id: usize,
    /// Members that have their assignment in a whole generation.
    pub(crate) settled: usize,
    /// Members that left.
    pub(crate) left: usize,
    /// When the latest JoinGroup with an id was written, and when the latest SyncGroup answer was read.
    pub(crate) last_join: Instant,
    pub(crate) last_sync: Instant,
    seats: Vec<Seat>,
    whole_generation: Option<i32>,
    retries: Vec<usize>,
    now: Instant,
}

impl Crew {
    /// A member for each group name, on the connection of the same number.
    pub(crate) fn new(plan: Plan, groups: impl Iterator<Item = String>) -> Crew {
        let member = |group| Member { group, id: String::new(), generation: -1, is_stable: false };
        let members: Vec<Member> = groups.map(member).collect();
        let seats = (0..members.len()).map(|_| Seat::default()).collect();
        let now = Instant::now();
        Crew {
            members,
            plan,
            with_id: 0,
            settled: 0,
            left: 0,
            last_join: now,
            last_sync: now,
            seats,
            whole_generation: None,
            retries: Vec::new(),
            now,
        }
    }

    /// The next generation has one member more, on the next connection; all must settle again.
    pub(crate) fn grow(&mut self) {
        self.seats.push(Seat::default());
        let group = self.members[0].group.clone();
        self.members.push(Member { group, id: String::new(), generation: -1, is_stable: false });
        self.plan.whole += 1;
        (self.settled, self.whole_generation) = (0, None);
    }

    pub(crate) fn ask_id(&mut self, connection: usize, output: &mut Vec<u8>) {
        let member = &mut self.members[connection];
        member.id.clear();
        let frame = messages::join_group(&member.group, self.plan.session_timeout_ms, "", &self.plan.metadata);
        self.send(connection, Awaits::Id, frame, output);
    }

    pub(crate) fn join(&mut self, connection: usize, output: &mut Vec<u8>) {
        let member = &mut self.members[connection];
        member.is_stable = false;
        let frame = messages::join_group(&member.group, self.plan.session_timeout_ms, &member.id, &self.plan.metadata);
        self.last_join = self.now;
        self.send(connection, Awaits::Join, frame, output);
    }

    pub(crate) fn leave(&mut self, connection: usize, output: &mut Vec<u8>) {
        let member = &self.members[connection];
        let frame = messages::leave_group(&member.group, &member.id);
        self.send(connection, Awaits::Leave, frame, output);
    }

    /// Turns the engine until `done`, asking again where the server was not ready and sending heartbeats of members that
    /// sit in a generation that is not whole.
    pub(crate) fn drive(
        &mut self,
        engine: &mut Engine,
        limit: Duration,
        done: impl Fn(&Crew) -> bool,
    ) -> Result<(), String> {
        let start = Instant::now();
        let (mut retried, mut beaten) = (start, start);
        while !done(self) {
            engine.turn(self, Some(HEARTBEAT_PAUSE))?;
            self.now = Instant::now();
            if self.now - start > limit {
                return Err(format!("not done in {limit:?}: {}", self.standing()));
            }
            if self.now - retried > RETRY_PAUSE {
                retried = self.now;
                for connection in std::mem::take(&mut self.retries) {
                    self.ask_again(connection, engine.output(connection));
                }
            }
            if self.plan.whole > 1 && self.now - beaten > HEARTBEAT_PAUSE {
                self.beat(engine);
                beaten = Instant::now();
            }
        }
        Ok(())
    }

    /// A member that has its id keeps it: another one would be a second member in the group.
    fn ask_again(&mut self, connection: usize, output: &mut Vec<u8>) {
        if self.members[connection].id.is_empty() {
            self.ask_id(connection, output);
        } else {
            self.join(connection, output);
        }
    }

    fn beat(&mut self, engine: &mut Engine) {
        for connection in 0..self.seats.len() {
            let seat = &self.seats[connection];
            let member = &self.members[connection];
            if member.is_stable && seat.awaits == Awaits::Nothing && self.whole_generation != Some(member.generation) {
                let frame = messages::heartbeat(HEARTBEAT_VERSION, &member.group, member.generation, &member.id);
                self.send(connection, Awaits::Heartbeat, frame, engine.output(connection));
            }
        }
    }

    fn send(&mut self, connection: usize, awaits: Awaits, mut frame: Vec<u8>, output: &mut Vec<u8>) {
        let seat = &mut self.seats[connection];
        assert_eq!(seat.awaits, Awaits::Nothing, "one request in flight on a connection");
        seat.awaits = awaits;
        seat.correlation_id += 1;
        crate::wire::stamp(&mut frame, seat.correlation_id);
        output.append(&mut frame);
    }

    fn joined(&mut self, connection: usize, frame: &[u8], output: &mut Vec<u8>) -> Result<(), String> {
        let joined = messages::read_join_group(frame)?;
        if NOT_AVAILABLE_YET.contains(&joined.error_code) {
            self.retries.push(connection);
            return Ok(());
        }
        let member = &mut self.members[connection];
        if joined.error_code == MEMBER_ID_REQUIRED && member.id.is_empty() && !joined.member_id.is_empty() {
            member.id = joined.member_id.into();
            self.with_id += 1;
            if self.plan.joins_at_once {
                self.join(connection, output);
            }
            return Ok(());
        }
        if joined.error_code != 0 || joined.member_id != member.id {
            return Err(format!("JoinGroup of {} as {:?}: {joined:?}", member.group, member.id));
        }
        member.generation = joined.generation_id;
        if joined.is_leader != joined.members.contains(&joined.member_id) {
            return Err(format!("JoinGroup: the leader, and only it, gets the members: {joined:?}"));
        }
        if joined.members.len() == self.plan.whole {
            self.whole_generation = Some(joined.generation_id);
        }
        let frame =
            messages::sync_group(&member.group, member.generation, &member.id, &joined.members, &self.plan.assignment);
        self.send(connection, Awaits::Sync, frame, output);
        Ok(())
    }

    fn synced(&mut self, connection: usize, frame: &[u8], output: &mut Vec<u8>) -> Result<(), String> {
        let (error_code, assignment) = messages::read_sync_group(frame)?;
        if MUST_REJOIN.contains(&error_code) {
            self.join(connection, output);
            return Ok(());
        }
        let member = &mut self.members[connection];
        if error_code != 0 || assignment != self.plan.assignment {
            let bytes = assignment.len();
            return Err(format!(
                "SyncGroup of {} as {}: error code {error_code}, {bytes} bytes",
                member.group, member.id
            ));
        }
        member.is_stable = true;
        self.last_sync = self.now;
        if self.plan.whole == 1 || self.whole_generation == Some(member.generation) {
            self.settled += 1;
        }
        Ok(())
    }

    fn standing(&self) -> String {
        let count = |awaits| self.seats.iter().filter(|seat| seat.awaits == awaits).count();
        format!(
            "{} members, {} with an id, {} settled; {} to be asked again; answers missing: {} ids, {} joins, \
             {} syncs, {} heartbeats, {} leaves",
            self.members.len(),
            self.with_id,
            self.settled,
            self.retries.len(),
            count(Awaits::Id),
            count(Awaits::Join),
            count(Awaits::Sync),
            count(Awaits::Heartbeat),
            count(Awaits::Leave)
        )
    }
}

impl Handler for Crew {
    fn batch(&mut self) {
        self.now = Instant::now();
    }

    fn frame(&mut self, connection: usize, frame: &[u8], output: &mut Vec<u8>) -> Result<(), String> {
        let seat = &mut self.seats[connection];
        if frame.get(4..8) != Some(&seat.correlation_id.to_be_bytes()) || seat.awaits == Awaits::Nothing {
            return Err(format!("an answer that was not asked for on connection {connection}: {frame:02x?}"));
        }
        match std::mem::replace(&mut seat.awaits, Awaits::Nothing) {
            Awaits::Id | Awaits::Join => self.joined(connection, frame, output),
            Awaits::Sync => self.synced(connection, frame, output),
            Awaits::Heartbeat => match messages::read_heartbeat(HEARTBEAT_VERSION, frame)? {
                0 => Ok(()),
                error_code if MUST_REJOIN.contains(&error_code) => {
                    self.join(connection, output);
                    Ok(())
                }
                error_code => Err(format!("Heartbeat: error code {error_code}")),
            },
            Awaits::Leave => match messages::read_leave_group(frame)? {
                0 => {
                    self.left += 1;
                    Ok(())
                }
                error_code => Err(format!("LeaveGroup: error code {error_code}")),
            },
            Awaits::Nothing => Err("no answer was awaited".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Writer;

    const ID: &str = "perf-1";

    /// JoinGroup v9; the correlation id is the one that the crew waits for.
    fn join_group_answer(crew: &Crew, error_code: i16) -> Vec<u8> {
        let mut writer = Writer::blob();
        writer.i32(0).i32(crew.seats[0].correlation_id).i8(0).i32(0).i16(error_code).i32(-1);
        writer.i8(0).i8(0).i8(1).i8(0); // no protocol type or name, no leader, no skipped assignment
        writer.i8(ID.len() as i8 + 1);
        let mut frame = writer.into_bytes();
        frame.extend_from_slice(ID.as_bytes());
        frame.extend_from_slice(&[1, 0]); // no members, no tags
        frame
    }

    #[test]
    fn a_member_that_has_its_id_asks_again_with_it() {
        let plan = Plan {
            session_timeout_ms: 60_000,
            metadata: b"abc".to_vec(),
            assignment: Vec::new(),
            whole: 2,
            joins_at_once: false,
        };
        let (mut crew, mut output) = (Crew::new(plan, std::iter::once("group-1".to_owned())), Vec::new());
        for error_code in [15, MEMBER_ID_REQUIRED] {
            crew.ask_id(0, &mut output);
            let answer = join_group_answer(&crew, error_code);
            crew.frame(0, &answer, &mut output).expect("a right answer");
        }
        assert_eq!((crew.with_id, std::mem::take(&mut crew.retries)), (1, vec![0]));
        crew.join(0, &mut output);
        let answer = join_group_answer(&crew, 15);
        crew.frame(0, &answer, &mut output).expect("not available yet");
        assert_eq!(crew.retries, [0]);
        output.clear();
        crew.ask_again(0, &mut output);
        assert_eq!((crew.with_id, crew.seats[0].awaits), (1, Awaits::Join));
        assert!(output.windows(ID.len()).any(|bytes| bytes == ID.as_bytes()), "{output:02x?}");
    }
}
