//! What the tests share that run the command and talk to it.

use std::io::{Read, Write};
use std::net::TcpStream;

use rallypoint::wire::{ApiKey, RequestHeader, Wire, Writer};

/// Sends a request and takes its answer, without the size and the correlation id.
pub(crate) fn ask<'a>(stream: &mut TcpStream, api: ApiKey, version: i16, request: &impl Wire<'a>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = Writer::new(&mut bytes);
    let start = writer.begin_frame();
    let header = RequestHeader { api_key: api.number(), api_version: version, correlation_id: 5, client_id: None };
    header.write(&mut writer, api.request_header_version(version));
    request.write(&mut writer, api.version(version));
    writer.end_frame(start);
    stream.write_all(&bytes).expect("sent");
    let mut size = [0; 4];
    stream.read_exact(&mut size).expect("an answer");
    let mut answer = vec![0; i32::from_be_bytes(size) as usize];
    stream.read_exact(&mut answer).expect("all of it");
    answer.split_off(4)
}
