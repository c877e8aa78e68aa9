//! Tests over all messages: what [`message!`](super::schema) declares once is here shown as JSON with Kafka's names,
//! filled at random, and built in every way an array can be built.

mod foreign;
mod hostile;
mod messages;
mod roundtrip;
mod tolerance;
mod vectors;

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use serde_json::Value;

use super::array::Each;
use super::{Array, Uuid, Version, Wire};

/// What the tests want of a message; [`message!`](super::schema) implements it beside [`Wire`].
pub(crate) trait Testable<'a>: Sized {
    /// The fields of a version, named as in the vectors.
    fn json(&self, version: Version) -> Value;

    /// A value with every field of a version filled at random, the others with their defaults.
    fn sample(random: &mut Random, version: Version) -> Self;

    /// The same value with its arrays built otherwise. What they borrow is leaked.
    fn rebuilt(&self, by: Rebuilt) -> Self;
}

/// How arrays are rebuilt.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Rebuilt {
    ByItems,
    ByEach,
}

/// A seeded source of odd values.
pub(crate) struct Random(SmallRng);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Random(SmallRng::seed_from_u64(seed))
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0.random_range(0..bound)
    }

    pub(crate) fn coin(&mut self) -> bool {
        self.0.random()
    }

    fn integer(&mut self, min: i64, max: i64) -> i64 {
        match self.below(6) {
            0 => min,
            1 => max,
            2 => 0,
            3 => -1,
            4 => self.0.random_range(min..=max),
            _ => 1,
        }
    }

    fn bytes(&mut self) -> Vec<u8> {
        let len = [0, 1, 5, 126, 127, 128, 300][self.below(7)];
        (0..len).map(|_| self.0.random()).collect()
    }

    fn text(&mut self) -> String {
        let len = [0, 1, 3, 10, 40, 130][self.below(6)];
        let alphabet = ['a', 'Z', '0', '-', '_', '.', ' ', '"', '\\', '\u{0}', 'é', '日', '😀', '\u{fffd}'];
        (0..len).map(|_| *alphabet.choose(&mut self.0).expect("not empty")).collect()
    }
}

/// `group_id` is `groupId` in the vectors.
pub(crate) fn camel_case(field: &str) -> String {
    let mut words = field.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |name, word| name + &word[..1].to_uppercase() + &word[1..])
}

macro_rules! integers {
    ($($ty:ident)*) => {$(
        impl<'a> Testable<'a> for $ty {
            fn json(&self, _: Version) -> Value {
                Value::from(*self)
            }

            fn sample(random: &mut Random, _: Version) -> Self {
                random.integer(<$ty>::MIN.into(), <$ty>::MAX.into()) as $ty
            }

            fn rebuilt(&self, _: Rebuilt) -> Self {
                *self
            }
        }
    )*};
}

integers! { i8 i16 i32 i64 }

impl<'a> Testable<'a> for bool {
    fn json(&self, _: Version) -> Value {
        Value::from(*self)
    }

    fn sample(random: &mut Random, _: Version) -> Self {
        random.coin()
    }

    fn rebuilt(&self, _: Rebuilt) -> Self {
        *self
    }
}

impl<'a> Testable<'a> for Uuid {
    fn json(&self, _: Version) -> Value {
        Value::from(self.to_string())
    }

    fn sample(random: &mut Random, _: Version) -> Self {
        if random.below(4) == 0 { Uuid::ZERO } else { Uuid(random.0.random()) }
    }

    fn rebuilt(&self, _: Rebuilt) -> Self {
        *self
    }
}

impl<'a> Testable<'a> for Cow<'a, str> {
    fn json(&self, _: Version) -> Value {
        Value::from(self.as_ref())
    }

    fn sample(random: &mut Random, _: Version) -> Self {
        Cow::Owned(random.text())
    }

    fn rebuilt(&self, _: Rebuilt) -> Self {
        self.clone()
    }
}

impl<'a> Testable<'a> for &'a [u8] {
    fn json(&self, _: Version) -> Value {
        Value::from(STANDARD.encode(self))
    }

    fn sample(random: &mut Random, _: Version) -> Self {
        random.bytes().leak()
    }

    fn rebuilt(&self, _: Rebuilt) -> Self {
        self
    }
}

impl<'a, T: Testable<'a>> Testable<'a> for Option<T> {
    fn json(&self, version: Version) -> Value {
        self.as_ref().map_or(Value::Null, |value| value.json(version))
    }

    fn sample(random: &mut Random, version: Version) -> Self {
        Some(T::sample(random, version))
    }

    fn rebuilt(&self, by: Rebuilt) -> Self {
        self.as_ref().map(|value| value.rebuilt(by))
    }
}

impl<'a, T: Testable<'a> + Wire<'a> + Clone + 'a> Testable<'a> for Array<'a, T> {
    fn json(&self, version: Version) -> Value {
        self.iter().map(|element| element.json(version)).collect()
    }

    fn sample(random: &mut Random, version: Version) -> Self {
        let len = random.below(4);
        Array::Items((0..len).map(|_| T::sample(random, version)).collect::<Vec<_>>().leak())
    }

    fn rebuilt(&self, by: Rebuilt) -> Self {
        let items: &'a [T] = self.iter().map(|element| element.rebuilt(by)).collect::<Vec<_>>().leak();
        match by {
            Rebuilt::ByItems => Array::Items(items),
            Rebuilt::ByEach => {
                let each: Box<Each<'a>> = Box::new(|rows| items.iter().cloned().for_each(|item| rows.push(item)));
                Array::Each { len: items.len(), each: Box::leak(each) }
            }
        }
    }
}

#[test]
fn names_as_in_the_vectors() {
    assert_eq!(camel_case("generation_id_or_member_epoch"), "generationIdOrMemberEpoch");
    assert_eq!(camel_case("host"), "host");
}
