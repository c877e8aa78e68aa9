//! The turns of one core.

use std::io;

use super::core::Core;
use super::stop::Stop;
use crate::limits::COMPLETIONS_BETWEEN_LOOKS;
use crate::ring::{Completion, FailedHalf, Kind};
use crate::shard::service::{Service, WriteFailure};

/// Turns a core until it is told to stop and has stopped; gives the service back. It is the one task of the core's glommio
/// executor, and never lets another in.
///
/// The order of the parameters matters: should it fail, the last of them goes first, and the core's ring waits for what it
/// writes before the service closes the files.
pub(super) fn run<S: Service>(mut service: S, mut core: Core, stop: Stop) -> io::Result<S> {
    let mut completions = Vec::new();
    core.listen();
    loop {
        core.begin_turn();
        service.begin(core.now);
        core.collect(&mut completions);
        let taken = take_some(&mut core, &mut service, &completions);
        completions.drain(..taken);
        while let Some((token, result)) = core.ring.pop_written() {
            service.written(token, result.map_err(failure));
        }
        core.admit_some();
        core.accept_again();
        core.close_overdue();
        if stop.is_set() && core.stop_by_ms.is_none() {
            core.begin_stop();
        }
        serve(&mut core, &mut service)?;
        if core.has_stopped(service.has_to_write()) {
            return Ok(service);
        }
        if core.finish_turn(service.deadline_ms(), service.held_bytes()) {
            // The sends are done while they are submitted, and what they take is this turn's.
            core.ring.enter(0)?;
        }
        core.turn_is_over();
        core.ring.wait(!completions.is_empty())?;
    }
}

/// Does what completions ask for, in their order, until the turn has had its time; how many that were.
fn take_some<S: Service>(core: &mut Core, service: &mut S, completions: &[Completion]) -> usize {
    for (taken, completion) in completions.iter().enumerate() {
        if taken > 0 && taken.is_multiple_of(COMPLETIONS_BETWEEN_LOOKS) && !core.has_time_to_receive() {
            return taken;
        }
        match completion.kind {
            Kind::Receive => core.on_receive(service, completion),
            Kind::Send => core.on_send(completion),
            Kind::Accept => core.on_accept(completion),
            Kind::CancelReceive => core.on_cancel_receive(completion),
            Kind::CancelAccept => core.on_cancel_accept(completion),
            _ => unreachable!("the ring keeps its own completions to itself"),
        }
    }
    completions.len()
}

/// Lets the service do what is due, and frames go on that its answers set free, until there are none or the turn has had its
/// time. The service has the last word: what was executed is written in this turn.
fn serve<S: Service>(core: &mut Core, service: &mut S) -> io::Result<()> {
    for round in 0.. {
        core.gone.drain(..).for_each(|connection| service.closed(connection));
        service.turn(core.now, core)?;
        if round > 0 && !core.has_time_to_receive() || !core.resume_all(service) {
            break;
        }
    }
    core.gone.drain(..).for_each(|connection| service.closed(connection));
    Ok(())
}

fn failure((half, error): (FailedHalf, io::Error)) -> WriteFailure {
    match half {
        FailedHalf::Write => WriteFailure::Write(error),
        FailedHalf::Sync => WriteFailure::Sync(error),
    }
}
