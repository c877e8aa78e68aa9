//! Headers. The first 8 bytes of every request are the same whatever its version; which header follows is known only
//! from the key and version in them ([`ApiKey::request_header_version`](super::ApiKey::request_header_version)).

use std::borrow::Cow;

use zerocopy::byteorder::big_endian::{I16, I32};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use super::{Cursor, Malformed, Writer, text};

/// What all requests begin with, as it lies in the frame.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned, Clone, Copy, Debug)]
#[repr(C)]
pub struct Prefix {
    api_key: I16,
    api_version: I16,
    correlation_id: I32,
}

impl Prefix {
    /// Looks at the start of a frame (without its size prefix).
    ///
    /// # Errors
    /// A frame of fewer than 8 bytes.
    #[inline]
    pub fn peek(frame: &[u8]) -> Result<&Prefix, Malformed> {
        match Prefix::ref_from_prefix(frame) {
            Ok((prefix, _)) => Ok(prefix),
            Err(_) => Err(Cursor::new(frame).malformed("request header is cut short", size_of::<Prefix>())),
        }
    }

    /// Number of the API; [`ApiKey::from_number`](super::ApiKey::from_number) knows which.
    #[inline]
    pub fn api_key(&self) -> i16 {
        self.api_key.get()
    }

    /// Version of the request, and of its answer.
    #[inline]
    pub fn api_version(&self) -> i16 {
        self.api_version.get()
    }

    /// What the answer must carry.
    #[inline]
    pub fn correlation_id(&self) -> i32 {
        self.correlation_id.get()
    }
}

/// The whole header of a request as it lies in the frame. The client id is not decoded, because few requests look at it.
#[derive(Clone, Copy, Debug)]
pub struct HeaderView<'a> {
    /// The fixed part.
    pub prefix: &'a Prefix,
    client_id: Option<&'a [u8]>,
}

impl<'a> HeaderView<'a> {
    /// Reads header version 0, 1 or 2; the cursor then stands at the body.
    ///
    /// # Errors
    /// A header that is cut short.
    #[inline]
    pub fn read(cursor: &mut Cursor<'a>, header_version: i16) -> Result<Self, Malformed> {
        let prefix = Prefix::peek(cursor.rest())?;
        cursor.take(size_of::<Prefix>(), "request header is cut short")?;
        // Its length is an int16 in the flexible header too: it must be readable before the version is agreed on.
        let client_id = if header_version >= 1 {
            cursor.nullable_string_bytes(false).map_err(|malformed| malformed.in_field("RequestHeader.client_id"))?
        } else {
            None
        };
        if header_version >= 2 {
            cursor.tags(|_, _| Ok(false)).map_err(|malformed| malformed.in_field("RequestHeader"))?;
        }
        Ok(HeaderView { prefix, client_id })
    }

    /// Not in header version 0. Kafka takes null for empty.
    pub fn client_id(&self) -> Option<Cow<'a, str>> {
        self.client_id.map(text::decode)
    }
}

/// The whole header of a request, to keep.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RequestHeader<'a> {
    /// Number of the API.
    pub api_key: i16,
    /// Version of the request.
    pub api_version: i16,
    /// What the answer must carry.
    pub correlation_id: i32,
    /// Not in header version 0. Kafka takes null for empty.
    pub client_id: Option<Cow<'a, str>>,
}

impl<'a> RequestHeader<'a> {
    /// Reads header version 0, 1 or 2; the cursor then stands at the body.
    ///
    /// # Errors
    /// A header that is cut short.
    #[inline]
    pub fn read(cursor: &mut Cursor<'a>, header_version: i16) -> Result<Self, Malformed> {
        let view = HeaderView::read(cursor, header_version)?;
        Ok(RequestHeader {
            api_key: view.prefix.api_key(),
            api_version: view.prefix.api_version(),
            correlation_id: view.prefix.correlation_id(),
            client_id: view.client_id(),
        })
    }

    /// What a client sends.
    pub fn write(&self, writer: &mut Writer<'_>, header_version: i16) {
        writer.i16(self.api_key);
        writer.i16(self.api_version);
        writer.i32(self.correlation_id);
        if header_version >= 1 {
            match &self.client_id {
                Some(client_id) => writer.string(client_id, false),
                None => writer.null_string(false),
            }
        }
        if header_version >= 2 {
            writer.uvarint(0);
        }
    }
}

/// The header of an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ResponseHeader {
    /// That of the request.
    pub correlation_id: i32,
}

impl ResponseHeader {
    /// Reads header version 0 or 1, as a client does.
    ///
    /// # Errors
    /// A header that is cut short.
    pub fn read(cursor: &mut Cursor<'_>, header_version: i16) -> Result<Self, Malformed> {
        let correlation_id = cursor.i32().map_err(|malformed| malformed.in_field("ResponseHeader.correlation_id"))?;
        if header_version >= 1 {
            cursor.tags(|_, _| Ok(false)).map_err(|malformed| malformed.in_field("ResponseHeader"))?;
        }
        Ok(ResponseHeader { correlation_id })
    }

    /// What goes in front of the body.
    #[inline]
    pub fn write(self, writer: &mut Writer<'_>, header_version: i16) {
        writer.i32(self.correlation_id);
        if header_version >= 1 {
            writer.uvarint(0);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn header() -> RequestHeader<'static> {
        RequestHeader { api_key: 12, api_version: 4, correlation_id: -7, client_id: Some("c".into()) }
    }

    #[test]
    fn request_headers_of_every_version() {
        let tail: [&[u8]; 3] = [&[], &[0, 1, b'c'], &[0, 1, b'c', 0]];
        for (header_version, tail) in (0..).zip(tail) {
            let mut bytes = Vec::new();
            header().write(&mut Writer::new(&mut bytes), header_version);
            assert_eq!(bytes, [&[0, 12, 0, 4, 0xff, 0xff, 0xff, 0xf9], tail].concat());
            let prefix = Prefix::peek(&bytes).unwrap();
            assert_eq!((prefix.api_key(), prefix.api_version(), prefix.correlation_id()), (12, 4, -7));
            let mut cursor = Cursor::new(&bytes);
            let read = RequestHeader::read(&mut cursor, header_version).unwrap();
            assert_eq!(cursor.remaining(), 0);
            assert_eq!(
                read,
                RequestHeader { client_id: header().client_id.filter(|_| header_version > 0), ..header() }
            );
            for cut in 0..bytes.len() {
                assert!(RequestHeader::read(&mut Cursor::new(&bytes[..cut]), header_version).is_err());
            }
        }
    }

    #[test]
    fn a_null_client_id_and_unknown_tags() {
        let bytes = [0, 12, 0, 4, 0, 0, 0, 1, 0xff, 0xff, 1, 5, 2, 9, 9, 42];
        let mut cursor = Cursor::new(&bytes);
        assert_eq!(RequestHeader::read(&mut cursor, 2).unwrap().client_id, None);
        assert_eq!(cursor.rest(), [42]);
    }

    #[test]
    fn response_headers() {
        for (header_version, expected) in [(0, &[0, 0, 0, 3][..]), (1, &[0, 0, 0, 3, 0])] {
            let mut bytes = Vec::new();
            ResponseHeader { correlation_id: 3 }.write(&mut Writer::new(&mut bytes), header_version);
            assert_eq!(bytes, expected);
            let read = ResponseHeader::read(&mut Cursor::new(&bytes), header_version);
            assert_eq!(read, Ok(ResponseHeader { correlation_id: 3 }));
        }
    }
}
