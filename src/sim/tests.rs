use std::panic::{catch_unwind, resume_unwind};

use clap::ValueEnum;

use super::*;

#[test]
fn a_few_seeds_pass() {
    let arguments = SimArguments { seeds: 25, from: 1, seed: None, trace: None, keep_going: false, breaks: None };
    assert_eq!(run(&arguments, |_, _| {}).seeds, 25);
}

#[test]
fn a_seed_does_the_same_again() {
    for seed in 1..5 {
        assert_eq!(simulate(seed, None, 0), simulate(seed, None, 0));
    }
}

/// Seeds within which a broken rule is noticed: the rarest shows in two of a hundred.
const SEEDS_ENOUGH: u64 = 250;

#[test]
fn every_rule_that_is_broken_is_noticed() {
    for what in Break::value_variants() {
        let mut seeds = 1..=SEEDS_ENOUGH;
        // Who has two members of one id may notice it before the model does.
        let fault = |seed| match catch_unwind(|| simulate(seed, Some(*what), 0)) {
            Ok(outcome) => outcome.fault,
            Err(_) if *what == Break::RepeatIds => Some("an assertion of the server".to_owned()),
            Err(panic) => resume_unwind(panic),
        };
        let found = seeds.find_map(|seed| fault(seed).map(|fault| (seed, fault)));
        let (seed, fault) = found.unwrap_or_else(|| panic!("{} is not noticed", what.name()));
        println!("{} # {fault}", repeat(seed, Some(*what)));
    }
}
