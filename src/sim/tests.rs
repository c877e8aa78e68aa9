use super::*;

#[test]
fn a_few_seeds_pass() {
    let arguments = SimArguments { seeds: 20, from: 1, seed: None, trace: None, keep_going: false, breaks: None };
    assert_eq!(run(&arguments, |_, _| {}).seeds, 20);
}

#[test]
fn a_seed_does_the_same_again() {
    for seed in 1..5 {
        assert_eq!(simulate(seed, None, 0), simulate(seed, None, 0));
    }
}
