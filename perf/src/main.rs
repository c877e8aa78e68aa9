//! `rallypoint-perf`: load for any Kafka-protocol coordinator on this machine, and a floor to compare it with. It shares no
//! code with the server. README.md says how to read what it prints.
//!
//! `wire` and `messages` make and read the few Kafka frames; `engine` (with `buffers` and `frames`) moves frames over one
//! io_uring and is what both `floor` and the loads run on; `lanes` is the closed loop, `crew` are members of groups and
//! `groups` many groups of one member; `peer` and `process` look at the server from outside; `load`, `crowd` and `scale`
//! are the measurements.

mod buffers;
mod crew;
mod crowd;
mod engine;
mod floor;
mod frames;
#[cfg(test)]
mod golden;
mod groups;
mod lanes;
mod load;
mod messages;
mod pace;
mod peer;
mod process;
mod report;
mod scale;
mod wire;

use std::process::ExitCode;

use clap::Parser;

#[derive(Parser)]
#[command(name = "rallypoint-perf", about = "Load for a Kafka-protocol coordinator on loopback, and a floor beside it")]
enum Command {
    /// A server that does nothing: answers of a fixed size per API
    Floor(floor::Options),
    /// Closed loop: CPU per request, throughput, latency
    Load(load::Options),
    /// Server memory per idle connection
    Idle(crowd::IdleOptions),
    /// Many connects at once, until all are answered
    ConnectStorm(crowd::StormOptions),
    /// One group of many members; many groups of one member
    Scale(scale::Options),
}

fn main() -> ExitCode {
    let outcome = match Command::parse() {
        Command::Floor(options) => floor::run(&options),
        Command::Load(options) => load::run(&options),
        Command::Idle(options) => crowd::idle(&options),
        Command::ConnectStorm(options) => crowd::storm(&options),
        Command::Scale(options) => scale::run(&options),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("rallypoint-perf: {message}");
            ExitCode::FAILURE
        }
    }
}
