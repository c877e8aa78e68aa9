//! A simulation of the real shard: its cores, mailboxes, control, groups, dispatch and wire, on a clock, a network and a disk
//! that are made up, and with clients of which most are [`crate::fleet`]'s members. A seed decides everything; the same
//! seed does the same again. While the real code runs, a model looks on that knows only what clients can know, and says
//! what cannot be.
//!
//! Where a reader starts: [`world`] is the queue of events, [`server`] drives a shard as `net` does, [`model`] judges, [`plan`]
//! is what a seed decides first, [`breaks`] are rules that are broken on purpose to show that the model notices.

mod breaks;
mod conversation;
mod disk;
mod machine;
mod model;
mod plan;
mod random;
mod server;
mod storage;
mod stray;
mod trace;
mod world;

use std::cell::Cell;
use std::sync::Once;

pub use breaks::Break;
pub use world::Ending;

use world::World;

/// What to simulate.
#[derive(Clone, Debug, PartialEq, Eq, clap::Args)]
pub struct SimArguments {
    /// Simulate this many seeds
    #[arg(long, value_name = "COUNT", default_value_t = 1_000)]
    pub seeds: u64,

    /// The first seed
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    pub from: u64,

    /// Simulate this one seed
    #[arg(long, value_name = "SEED", conflicts_with_all = ["seeds", "from"])]
    pub seed: Option<u64>,

    /// Print the last events of a seed that fails
    #[arg(long, value_name = "LINES", num_args = 0..=1, default_missing_value = "200")]
    pub trace: Option<usize>,

    /// Go on after a seed that fails, and fail at the end
    #[arg(long)]
    pub keep_going: bool,

    /// Break a rule on purpose
    #[arg(long = "break", value_name = "RULE", hide = true)]
    pub breaks: Option<Break>,
}

/// What came of many seeds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Seeds that were simulated.
    pub seeds: u64,
    /// Requests that were executed in all of them.
    pub requests: u64,
    /// Simulated time in all of them, in milliseconds.
    pub simulated_ms: u64,
    /// Seeds that failed.
    pub failed: u64,
}

thread_local! {
    /// How to repeat what this thread simulates now.
    static REPEAT: Cell<Option<(u64, Option<Break>)>> = const { Cell::new(None) };
}

/// Simulates one seed.
pub fn simulate(seed: u64, breaks: Option<Break>, trace_lines: usize) -> Ending {
    name_the_seed_in_panics();
    REPEAT.set(Some((seed, breaks)));
    let mut world = World::new(seed, breaks, trace_lines);
    let ending = world.run();
    if ending.fault.is_some() {
        world.print_trace();
    }
    REPEAT.set(None);
    ending
}

/// Simulates what is asked for; `progress` hears of each seed.
///
/// # Panics
/// If a seed fails and that is not to be borne, with one line that says what cannot be and how to repeat it.
pub fn run(arguments: &SimArguments, mut progress: impl FnMut(u64, &Ending)) -> Summary {
    let (from, seeds) = match arguments.seed {
        Some(seed) => (seed, 1),
        None => (arguments.from, arguments.seeds),
    };
    let mut summary = Summary::default();
    for seed in from..from.saturating_add(seeds) {
        let ending = simulate(seed, arguments.breaks, arguments.trace.unwrap_or(0));
        if let Some(fault) = &ending.fault {
            let line = format!("{} # {fault}", repeat(seed, arguments.breaks));
            if !arguments.keep_going {
                panic!("{line}");
            }
            eprintln!("{line}");
            summary.failed += 1;
        }
        summary.seeds += 1;
        summary.requests += ending.requests;
        summary.simulated_ms += ending.ended_at_ms;
        progress(seed, &ending);
    }
    summary
}

/// The command that repeats a seed.
pub fn repeat(seed: u64, breaks: Option<Break>) -> String {
    let breaks = breaks.map(|what| format!(" --break {}", what.name())).unwrap_or_default();
    format!("rallypoint sim --seed {seed}{breaks}")
}

/// A panic of the product's code says which seed it was.
fn name_the_seed_in_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if let Some((seed, breaks)) = REPEAT.get() {
                eprintln!("{} # panic", repeat(seed, breaks));
            }
            before(panic);
        }));
    });
}

#[cfg(test)]
mod tests;
