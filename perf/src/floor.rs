//! The floor: a server that does nothing. It cuts frames, looks at api key and correlation id, and answers with a frame of
//! the size given for that api key, zeros but for the correlation id. What a real server costs above it is its own work.

use std::net::{SocketAddr, TcpListener};

use socket2::{Domain, Protocol, Socket, Type};

use crate::engine::{Engine, EngineOptions, Handler};
use crate::process::{end_after, need_open_files, pin};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Where to listen, on loopback: HOST:PORT
    address: SocketAddr,
    /// Answer size of an API, the 4 bytes of its size prefix included: APIKEY:BYTES
    #[arg(long = "reply", value_parser = reply_size, value_name = "APIKEY:BYTES")]
    replies: Vec<(usize, usize)>,
    /// The CPU to run on; the first allowed one if not given
    #[arg(long, value_name = "CPU")]
    cpu: Option<usize>,
    /// End after so many seconds at the latest
    #[arg(long, default_value_t = 3600, value_name = "SECONDS")]
    at_most: u32,
    #[command(flatten)]
    engine: EngineOptions,
}

struct Floor {
    replies: Vec<Vec<u8>>,
}

impl Handler for Floor {
    fn frame(&mut self, _connection: usize, frame: &[u8], output: &mut Vec<u8>) -> Result<(), String> {
        let (Some(api_key), Some(correlation_id)) = (frame.get(4..6), frame.get(8..12)) else {
            return Err(format!("a request of {} bytes", frame.len()));
        };
        let api_key = usize::from(u16::from_be_bytes([api_key[0], api_key[1]]));
        let reply = self.replies.get(api_key).filter(|reply| !reply.is_empty());
        let reply = reply.ok_or_else(|| format!("no --reply for api key {api_key}"))?;
        let start = output.len();
        output.extend_from_slice(reply);
        output[start + 4..start + 8].copy_from_slice(correlation_id);
        Ok(())
    }

    fn closed(&mut self, _connection: usize, _why: &str) -> Result<(), String> {
        Ok(())
    }
}

/// Serves until killed.
pub(crate) fn run(options: &Options) -> Result<(), String> {
    end_after(options.at_most);
    need_open_files(256)?;
    let first = core_affinity::get_core_ids().unwrap_or_default().first().map(|core| core.id);
    let cpu = pin(options.cpu.or(first))?;
    let mut floor = Floor { replies: Vec::new() };
    for &(api_key, bytes) in &options.replies {
        floor.replies.resize(floor.replies.len().max(api_key + 1), Vec::new());
        floor.replies[api_key] = vec![0; bytes];
        floor.replies[api_key][..4].copy_from_slice(&(bytes as u32 - 4).to_be_bytes());
    }
    let mut engine = Engine::new(options.engine)?;
    engine.listen(listen(options.address).map_err(|error| format!("{}: {error}", options.address))?);
    eprintln!("floor on {}, CPU {cpu}", options.address);
    loop {
        engine.turn(&mut floor, None)?;
    }
}

fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    if !address.ip().is_loopback() {
        return Err(std::io::Error::other("the floor listens on loopback only"));
    }
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_tcp_nodelay(true)?; // accepted sockets inherit it
    socket.bind(&address.into())?;
    socket.listen(65_535)?;
    Ok(socket.into())
}

fn reply_size(text: &str) -> Result<(usize, usize), String> {
    let parsed = text.split_once(':').and_then(|(key, bytes)| Some((key.parse().ok()?, bytes.parse().ok()?)));
    parsed.filter(|&(key, bytes): &(usize, usize)| key < 1000 && (8..=1 << 20).contains(&bytes)).ok_or_else(|| {
        "APIKEY:BYTES with an api key below 1000 and 8 to 1048576 bytes (size prefix and correlation id included)"
            .into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_has_the_size_of_its_api_and_the_correlation_id_asked() {
        let mut floor = Floor { replies: vec![Vec::new(), vec![0, 0, 0, 6, 0, 0, 0, 0, 0, 0]] };
        let mut output = vec![9];
        let request = [0, 0, 0, 8, 0, 1, 0, 4, 1, 2, 3, 4];
        floor.frame(0, &request, &mut output).expect("a known api key");
        assert_eq!(output, [9, 0, 0, 0, 6, 1, 2, 3, 4, 0, 0]);
        assert!(floor.frame(0, &[0, 0, 0, 8, 0, 0, 0, 4, 1, 2, 3, 4], &mut output).is_err());
        assert!(floor.frame(0, &[0, 0, 0, 2, 0, 1], &mut output).is_err());
    }

    #[test]
    fn reply_sizes_have_bounds() {
        assert_eq!(reply_size("10:58"), Ok((10, 58)));
        assert!(reply_size("10:7").is_err() && reply_size("10").is_err() && reply_size("1000:8").is_err());
    }
}
