//! Kafka's primitive encodings, as far as the few messages here need them: a writer of one request frame and a reader of
//! one response frame. Independent of the server's `wire` on purpose: it judges any server.

/// Writes one request frame: size, header, body.
pub(crate) struct Writer {
    bytes: Vec<u8>,
    is_flexible: bool,
}

impl Writer {
    /// Begins a request with correlation id 0 ([`stamp`] puts the real one in). Header v2 if flexible, else v1.
    pub(crate) fn request(api_key: i16, version: i16, is_flexible: bool, client_id: &str) -> Writer {
        let mut writer = Writer { bytes: vec![0; 4], is_flexible: false };
        writer.i16(api_key).i16(version).i32(0).string(client_id);
        writer.is_flexible = is_flexible;
        writer.tags();
        writer
    }

    /// A nested piece in the non-flexible encoding, without frame or header.
    pub(crate) fn blob() -> Writer {
        Writer { bytes: Vec::new(), is_flexible: false }
    }

    pub(crate) fn i8(&mut self, value: i8) -> &mut Writer {
        self.raw(&value.to_be_bytes())
    }

    pub(crate) fn i16(&mut self, value: i16) -> &mut Writer {
        self.raw(&value.to_be_bytes())
    }

    pub(crate) fn i32(&mut self, value: i32) -> &mut Writer {
        self.raw(&value.to_be_bytes())
    }

    pub(crate) fn i64(&mut self, value: i64) -> &mut Writer {
        self.raw(&value.to_be_bytes())
    }

    pub(crate) fn string(&mut self, value: &str) -> &mut Writer {
        self.nullable(Some(value))
    }

    pub(crate) fn nullable(&mut self, value: Option<&str>) -> &mut Writer {
        match (self.is_flexible, value) {
            (true, None) => self.raw(&[0]),
            (true, Some(value)) => self.uvarint(value.len() + 1).raw(value.as_bytes()),
            (false, None) => self.i16(-1),
            (false, Some(value)) => self.i16(value.len() as i16).raw(value.as_bytes()),
        }
    }

    pub(crate) fn bytes(&mut self, value: &[u8]) -> &mut Writer {
        self.array(value.len()).raw(value)
    }

    /// The count in front of an array's elements.
    pub(crate) fn array(&mut self, count: usize) -> &mut Writer {
        if self.is_flexible { self.uvarint(count + 1) } else { self.i32(count as i32) }
    }

    /// An empty tag section, in flexible versions: at the end of every struct.
    pub(crate) fn tags(&mut self) -> &mut Writer {
        if self.is_flexible { self.raw(&[0]) } else { self }
    }

    /// Ends the struct and the frame: tags, then the size in front.
    pub(crate) fn frame(mut self) -> Vec<u8> {
        self.tags();
        let size = (self.bytes.len() - 4) as u32;
        self.bytes[..4].copy_from_slice(&size.to_be_bytes());
        self.bytes
    }

    /// The bytes of a [`Writer::blob`].
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    fn raw(&mut self, bytes: &[u8]) -> &mut Writer {
        self.bytes.extend_from_slice(bytes);
        self
    }

    fn uvarint(&mut self, mut value: usize) -> &mut Writer {
        while value > 0x7f {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.raw(&[value as u8])
    }
}

/// Puts the correlation id into a request frame.
pub(crate) fn stamp(frame: &mut [u8], correlation_id: i32) {
    frame[8..12].copy_from_slice(&correlation_id.to_be_bytes());
}

/// Reads one response frame; everything wrong is told as a sentence.
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
    is_flexible: bool,
}

impl<'a> Reader<'a> {
    /// Begins behind the size and the correlation id; header v1 has tags.
    pub(crate) fn response(frame: &'a [u8], has_header_tags: bool, is_flexible: bool) -> Result<Reader<'a>, String> {
        let rest = frame.get(8..).ok_or_else(|| format!("an answer of {} bytes", frame.len()))?;
        let mut reader = Reader { rest, is_flexible: has_header_tags };
        reader.tags()?;
        reader.is_flexible = is_flexible;
        Ok(reader)
    }

    pub(crate) fn i16(&mut self) -> Result<i16, String> {
        Ok(i16::from_be_bytes(self.fixed()?))
    }

    pub(crate) fn i32(&mut self) -> Result<i32, String> {
        Ok(i32::from_be_bytes(self.fixed()?))
    }

    pub(crate) fn i64(&mut self) -> Result<i64, String> {
        Ok(i64::from_be_bytes(self.fixed()?))
    }

    pub(crate) fn bool(&mut self) -> Result<bool, String> {
        Ok(self.fixed::<1>()? != [0])
    }

    /// A nullable string; null reads as empty.
    pub(crate) fn string(&mut self) -> Result<&'a str, String> {
        let length = if self.is_flexible { self.uvarint()?.saturating_sub(1) } else { self.i16()?.max(0) as usize };
        std::str::from_utf8(self.take(length)?).map_err(|error| error.to_string())
    }

    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], String> {
        let length = self.array()?;
        self.take(length)
    }

    /// The count of an array; null reads as 0.
    pub(crate) fn array(&mut self) -> Result<usize, String> {
        if self.is_flexible { Ok(self.uvarint()?.saturating_sub(1)) } else { Ok(self.i32()?.max(0) as usize) }
    }

    /// Skips a tag section.
    pub(crate) fn tags(&mut self) -> Result<(), String> {
        if self.is_flexible {
            for _ in 0..self.uvarint()? {
                self.uvarint()?;
                let size = self.uvarint()?;
                self.take(size)?;
            }
        }
        Ok(())
    }

    /// Ends the struct and the frame: tags, then nothing.
    pub(crate) fn end(mut self) -> Result<(), String> {
        self.tags()?;
        if self.rest.is_empty() { Ok(()) } else { Err(format!("{} bytes behind the answer", self.rest.len())) }
    }

    fn uvarint(&mut self) -> Result<usize, String> {
        let mut value = 0;
        for shift in (0..35).step_by(7) {
            let [byte] = self.fixed::<1>()?;
            value |= usize::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err("a varint that does not end".into())
    }

    fn fixed<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let (first, rest) = self.rest.split_first_chunk::<N>().ok_or("the answer is too short")?;
        self.rest = rest;
        Ok(*first)
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], String> {
        let (first, rest) = self.rest.split_at_checked(length).ok_or("the answer is too short")?;
        self.rest = rest;
        Ok(first)
    }
}
