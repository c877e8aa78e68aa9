//! How a message is declared once, and read, written and skipped by that declaration.
//!
//! ```text
//! message! {
//!     /// Documentation.
//!     pub struct SomeRequest<'a> {
//!         group_id: Cow<'a, str> = 0..;                             // on the wire from v0 on
//!         retention_time_ms: i64 = 2..=4, default -1;               // only v2 to v4; -1 where it is absent
//!         topics: Option<Array<'a, SomeTopic<'a>>> = 0.., null 2..; // null allowed from v2 on
//!         rack: Option<Cow<'a, str>> = 5.., null 5.., tag 0;        // in the tag section
//!     }
//! }
//! ```
//!
//! The modifiers come in the order default, null, tag. A default that is not given is the type's own. A field with
//! `null` is an Option: reading null where the version does not allow it is malformed, writing it there gives the empty
//! value. Tagged fields stand in rising order of their tags, and are written only when they differ from the default. A
//! field that a version lacks is silently not written.

use std::borrow::Cow;

use super::{Cursor, Malformed, Uuid, Version, Writer};

/// Something that stands in a message.
pub trait Wire<'a>: Sized {
    /// Bytes of the encoding, if they are the same for every value and version.
    const FIXED_SIZE: Option<usize> = None;

    /// Reads and validates all of it; nothing is allocated but for text that is not UTF-8.
    ///
    /// # Errors
    /// Bytes that are cut short, too long, or null where null is not allowed.
    fn read(cursor: &mut Cursor<'a>, version: Version) -> Result<Self, Malformed>;

    /// Appends it in the shape of a version.
    fn write(&self, writer: &mut Writer<'_>, version: Version);

    /// Validates as [`Wire::read`] does, moves as far, and builds nothing.
    ///
    /// # Errors
    /// Those of [`Wire::read`].
    #[inline]
    fn skip(cursor: &mut Cursor<'a>, version: Version) -> Result<(), Malformed> {
        Self::read(cursor, version).map(drop)
    }
}

/// What may be null in some versions; it is an Option then.
pub trait Nullable<'a>: Wire<'a> + Default {
    /// Reads a value or null.
    ///
    /// # Errors
    /// Those of [`Wire::read`], but null is none.
    fn read_nullable(cursor: &mut Cursor<'a>, version: Version) -> Result<Option<Self>, Malformed>;

    /// Steps over a value or null.
    ///
    /// # Errors
    /// Those of [`Nullable::read_nullable`].
    #[inline]
    fn skip_nullable(cursor: &mut Cursor<'a>, version: Version) -> Result<(), Malformed> {
        Self::read_nullable(cursor, version).map(drop)
    }

    /// Appends null.
    fn write_null(writer: &mut Writer<'_>, version: Version);
}

macro_rules! fixed {
    ($($ty:ty, $method:ident, $size:literal;)*) => {$(
        impl<'a> Wire<'a> for $ty {
            const FIXED_SIZE: Option<usize> = Some($size);

            #[inline]
            fn read(cursor: &mut Cursor<'a>, _: Version) -> Result<Self, Malformed> {
                cursor.$method()
            }

            #[inline]
            fn write(&self, writer: &mut Writer<'_>, _: Version) {
                writer.$method(*self);
            }
        }
    )*};
}

fixed! {
    bool, bool, 1;
    i8, i8, 1;
    i16, i16, 2;
    i32, i32, 4;
    i64, i64, 8;
}

impl<'a> Wire<'a> for Uuid {
    const FIXED_SIZE: Option<usize> = Some(16);

    #[inline]
    fn read(cursor: &mut Cursor<'a>, _: Version) -> Result<Self, Malformed> {
        cursor.uuid().map(Uuid)
    }

    #[inline]
    fn write(&self, writer: &mut Writer<'_>, _: Version) {
        writer.raw(&self.0);
    }
}

impl<'a> Wire<'a> for Cow<'a, str> {
    #[inline]
    fn read(cursor: &mut Cursor<'a>, version: Version) -> Result<Self, Malformed> {
        match cursor.nullable_string(version.flexible)? {
            Some(text) => Ok(text),
            None => Err(cursor.malformed("string is null", 0)),
        }
    }

    #[inline]
    fn write(&self, writer: &mut Writer<'_>, version: Version) {
        writer.string(self, version.flexible);
    }

    #[inline]
    fn skip(cursor: &mut Cursor<'a>, version: Version) -> Result<(), Malformed> {
        if cursor.skip_nullable_string(version.flexible)? { Ok(()) } else { Err(cursor.malformed("string is null", 0)) }
    }
}

impl<'a> Nullable<'a> for Cow<'a, str> {
    #[inline]
    fn read_nullable(cursor: &mut Cursor<'a>, version: Version) -> Result<Option<Self>, Malformed> {
        cursor.nullable_string(version.flexible)
    }

    #[inline]
    fn skip_nullable(cursor: &mut Cursor<'a>, version: Version) -> Result<(), Malformed> {
        cursor.skip_nullable_string(version.flexible).map(drop)
    }

    #[inline]
    fn write_null(writer: &mut Writer<'_>, version: Version) {
        writer.null_string(version.flexible);
    }
}

impl<'a> Wire<'a> for &'a [u8] {
    #[inline]
    fn read(cursor: &mut Cursor<'a>, version: Version) -> Result<Self, Malformed> {
        match cursor.nullable_bytes(version.flexible)? {
            Some(bytes) => Ok(bytes),
            None => Err(cursor.malformed("bytes are null", 0)),
        }
    }

    #[inline]
    fn write(&self, writer: &mut Writer<'_>, version: Version) {
        writer.bytes(self, version.flexible);
    }
}

impl<'a> Nullable<'a> for &'a [u8] {
    #[inline]
    fn read_nullable(cursor: &mut Cursor<'a>, version: Version) -> Result<Option<Self>, Malformed> {
        cursor.nullable_bytes(version.flexible)
    }

    #[inline]
    fn write_null(writer: &mut Writer<'_>, version: Version) {
        writer.null_count(version.flexible);
    }
}

/// Reads a field that may be null in some versions; `allowed` says whether in this one.
#[inline]
pub(super) fn read_nullable<'a, T: Nullable<'a>>(
    cursor: &mut Cursor<'a>,
    version: Version,
    allowed: bool,
) -> Result<Option<T>, Malformed> {
    if allowed { T::read_nullable(cursor, version) } else { T::read(cursor, version).map(Some) }
}

/// The Option of something nullable, so that a declaration that names the Option can step over it.
pub(super) trait OptionOf<'a> {
    fn skip(cursor: &mut Cursor<'a>, version: Version, allowed: bool) -> Result<(), Malformed>;
}

impl<'a, T: Nullable<'a>> OptionOf<'a> for Option<T> {
    #[inline]
    fn skip(cursor: &mut Cursor<'a>, version: Version, allowed: bool) -> Result<(), Malformed> {
        if allowed { T::skip_nullable(cursor, version) } else { T::skip(cursor, version) }
    }
}

/// Writes such a field; null where it is not allowed becomes the empty value, as Kafka's brokers do for old versions.
#[inline]
pub(super) fn write_nullable<'a, T: Nullable<'a>>(
    value: &Option<T>,
    writer: &mut Writer<'_>,
    version: Version,
    allowed: bool,
) {
    match value {
        Some(value) => value.write(writer, version),
        None if allowed => T::write_null(writer, version),
        None => T::default().write(writer, version),
    }
}

/// Refuses a tag that the message has, but not in this version, as Kafka does.
#[inline]
pub(super) fn check_tag(in_version: bool, cursor: &Cursor<'_>) -> Result<(), Malformed> {
    if in_version { Ok(()) } else { Err(cursor.malformed("tagged field does not belong to this version", 0)) }
}

/// Whether a tagged field has to be written.
#[inline]
pub(super) fn differs<T: PartialEq>(value: &T, default: T) -> bool {
    *value != default
}

/// Declares messages; see the module's documentation.
macro_rules! message {
    ($(
        $(#[$attribute:meta])*
        pub struct $name:ident $(<$lifetime:lifetime>)? {
            $(
                $(#[$field_attribute:meta])*
                $field:ident: $ty:ty = $versions:expr
                    $(, default $default:expr)? $(, null $null:expr)? $(, tag $tag:literal)?;
            )*
        }
    )*) => {$(
        $(#[$attribute])*
        #[derive(Clone, Debug, PartialEq)]
        #[allow(missing_docs)]
        pub struct $name $(<$lifetime>)? {
            $($(#[$field_attribute])* pub $field: $ty,)*
        }

        impl $(<$lifetime>)? Default for $name $(<$lifetime>)? {
            #[inline]
            fn default() -> Self {
                $name { $($field: $crate::wire::schema::default_of!($($default)?),)* }
            }
        }

        impl<'a> $crate::wire::Wire<'a> for $name $(<$lifetime>)? {
            #[inline]
            fn read(
                cursor: &mut $crate::wire::Cursor<'a>,
                version: $crate::wire::Version,
            ) -> Result<Self, $crate::wire::Malformed> {
                $(
                    #[allow(unused_mut)]
                    let mut $field: $ty = if $crate::wire::schema::in_place!(version, $versions $(, $tag)?) {
                        $crate::wire::schema::read_field!($name.$field, cursor, version $(, $null)?)
                    } else {
                        $crate::wire::schema::default_of!($($default)?)
                    };
                )*
                if version.flexible {
                    cursor.tags(|_cursor, _tag| {
                        $($crate::wire::schema::read_tagged!(
                            _tag ($($tag)?) $versions, $name.$field, _cursor, version $(, $null)?
                        );)*
                        Ok(false)
                    }).map_err(|malformed| malformed.in_field(stringify!($name)))?;
                }
                Ok($name { $($field,)* })
            }

            #[inline]
            fn write(&self, writer: &mut $crate::wire::Writer<'_>, version: $crate::wire::Version) {
                $(
                    if $crate::wire::schema::in_place!(version, $versions $(, $tag)?) {
                        $crate::wire::schema::note_error!($field, self.$field, writer);
                        $crate::wire::schema::write_field!(&self.$field, writer, version $(, $null)?);
                    }
                )*
                if version.flexible {
                    let count = 0u32 $(
                        + u32::from($crate::wire::schema::is_tagged!(
                            ($($tag)?) self.$field, version, $versions $(, $default)?
                        ))
                    )*;
                    writer.uvarint(count);
                    if count > 0 {
                        $($crate::wire::schema::write_tagged!(
                            ($($tag)?) self.$field, writer, version, $versions, ($($default)?) $(, $null)?
                        );)*
                    }
                }
            }

            #[inline]
            fn skip(
                cursor: &mut $crate::wire::Cursor<'a>,
                version: $crate::wire::Version,
            ) -> Result<(), $crate::wire::Malformed> {
                $(
                    if $crate::wire::schema::in_place!(version, $versions $(, $tag)?) {
                        $crate::wire::schema::skip_field!($name.$field: $ty, cursor, version $(, $null)?);
                    }
                )*
                if version.flexible {
                    cursor.tags(|_cursor, _tag| {
                        $($crate::wire::schema::skip_tagged!(
                            _tag ($($tag)?) $versions, $name.$field: $ty, _cursor, version $(, $null)?
                        );)*
                        Ok(false)
                    }).map_err(|malformed| malformed.in_field(stringify!($name)))?;
                }
                Ok(())
            }
        }

        #[cfg(test)]
        impl<'a> $crate::wire::tests::Testable<'a> for $name $(<$lifetime>)? {
            fn json(&self, version: $crate::wire::Version) -> serde_json::Value {
                let mut object = serde_json::Map::new();
                $(
                    if $crate::wire::schema::in_place!(version, $versions $(, $tag)?)
                        || $crate::wire::schema::is_tagged!(($($tag)?) self.$field, version, $versions $(, $default)?)
                    {
                        object.insert($crate::wire::tests::camel_case(stringify!($field)), self.$field.json(version));
                    }
                )*
                object.into()
            }

            fn sample(random: &mut $crate::wire::tests::Random, version: $crate::wire::Version) -> Self {
                $(
                    let $field = if !($versions).contains(&version.number) {
                        $crate::wire::schema::default_of!($($default)?)
                    } else if false $(|| ($null).contains(&version.number) && random.coin())? {
                        Default::default()
                    } else {
                        $crate::wire::tests::Testable::sample(random, version)
                    };
                )*
                $name { $($field,)* }
            }

            fn rebuilt(&self, by: $crate::wire::tests::Rebuilt) -> Self {
                $name { $($field: self.$field.rebuilt(by),)* }
            }
        }
    )*};
}

macro_rules! default_of {
    () => {
        Default::default()
    };
    ($default:expr) => {
        $default
    };
}

macro_rules! in_place {
    ($version:ident, $versions:expr) => {
        ($versions).contains(&$version.number)
    };
    ($version:ident, $versions:expr, $tag:literal) => {
        false
    };
}

macro_rules! is_tagged {
    (() $($rest:tt)*) => {
        false
    };
    (($tag:literal) $value:expr, $version:ident, $versions:expr $(, $default:expr)?) => {
        ($versions).contains(&$version.number)
            && $crate::wire::schema::differs(&$value, $crate::wire::schema::default_of!($($default)?))
    };
}

macro_rules! read_tagged {
    ($found:ident () $($rest:tt)*) => {};
    (
        $found:ident ($tag:literal) $versions:expr,
        $name:ident.$field:ident, $cursor:ident, $version:ident $(, $null:expr)?
    ) => {
        if $found == $tag {
            $crate::wire::schema::check_tag(($versions).contains(&$version.number), $cursor)?;
            $field = $crate::wire::schema::read_field!($name.$field, $cursor, $version $(, $null)?);
            return Ok(true);
        }
    };
}

macro_rules! skip_tagged {
    ($found:ident () $($rest:tt)*) => {};
    (
        $found:ident ($tag:literal) $versions:expr,
        $name:ident.$field:ident: $ty:ty, $cursor:ident, $version:ident $(, $null:expr)?
    ) => {
        if $found == $tag {
            $crate::wire::schema::check_tag(($versions).contains(&$version.number), $cursor)?;
            $crate::wire::schema::skip_field!($name.$field: $ty, $cursor, $version $(, $null)?);
            return Ok(true);
        }
    };
}

macro_rules! write_tagged {
    (() $($rest:tt)*) => {};
    (
        ($tag:literal) $value:expr, $writer:ident, $version:ident,
        $versions:expr, ($($default:expr)?) $(, $null:expr)?
    ) => {
        if $crate::wire::schema::is_tagged!(($tag) $value, $version, $versions $(, $default)?) {
            $writer.tagged($tag, |writer| {
                $crate::wire::schema::write_field!(&$value, writer, $version $(, $null)?);
            });
        }
    };
}

macro_rules! read_field {
    ($name:ident.$field:ident, $cursor:ident, $version:ident) => {
        $crate::wire::Wire::read($cursor, $version)
            .map_err(|malformed| malformed.in_field(concat!(stringify!($name), ".", stringify!($field))))?
    };
    ($name:ident.$field:ident, $cursor:ident, $version:ident, $null:expr) => {
        $crate::wire::schema::read_nullable($cursor, $version, ($null).contains(&$version.number))
            .map_err(|malformed| malformed.in_field(concat!(stringify!($name), ".", stringify!($field))))?
    };
}

macro_rules! skip_field {
    ($name:ident.$field:ident: $ty:ty, $cursor:ident, $version:ident) => {
        <$ty as $crate::wire::Wire<'_>>::skip($cursor, $version)
            .map_err(|malformed| malformed.in_field(concat!(stringify!($name), ".", stringify!($field))))?
    };
    ($name:ident.$field:ident: $ty:ty, $cursor:ident, $version:ident, $null:expr) => {
        <$ty as $crate::wire::schema::OptionOf<'_>>::skip($cursor, $version, ($null).contains(&$version.number))
            .map_err(|malformed| malformed.in_field(concat!(stringify!($name), ".", stringify!($field))))?
    };
}

/// Error codes are told to the writer, so that somebody can count them.
macro_rules! note_error {
    (error_code, $code:expr, $writer:ident) => {
        $writer.note_error($code)
    };
    ($field:ident, $value:expr, $writer:ident) => {};
}

macro_rules! write_field {
    ($value:expr, $writer:ident, $version:ident) => {
        $crate::wire::Wire::write($value, $writer, $version)
    };
    ($value:expr, $writer:ident, $version:ident, $null:expr) => {
        $crate::wire::schema::write_nullable($value, $writer, $version, ($null).contains(&$version.number))
    };
}

pub(crate) use {
    default_of, in_place, is_tagged, message, note_error, read_field, read_tagged, skip_field, skip_tagged,
    write_field, write_tagged,
};
