//! Serves the page over HTTP/1 to whoever watches the server: `/metrics`, `/healthz`, and an index. Its few threads are no
//! cores, and one request on a connection is all that it does: a slow or hostile peer can hold a thread for a bounded time,
//! and nothing else.

#![allow(clippy::disallowed_methods, reason = "sockets, threads and a clock of its own, off the cores")]

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use super::page::{CONTENT_TYPE, Page};
use crate::clock::Now;
use crate::limits;

/// Threads that answer, and so requests at once; more wait in the backlog of the socket.
const THREADS: usize = 3;

const HEADERS_MAX: usize = 64;

/// A socket that is bound but not served yet.
#[derive(Debug)]
pub struct Endpoint {
    listener: TcpListener,
    patience: Duration,
}

/// An endpoint at work. Dropping it ends it.
#[derive(Debug)]
pub struct Serving {
    listener: Arc<TcpListener>,
}

/// An answer: status line, media type, text.
type Answer = (&'static str, &'static str, String);

const PLAIN: &str = "text/plain; charset=utf-8";

impl Endpoint {
    /// Takes an address.
    ///
    /// # Errors
    /// The address is in use, or none of this machine's.
    pub fn bind(address: SocketAddr) -> io::Result<Endpoint> {
        let patience = Duration::from_millis(limits::METRICS_REQUEST_MAX_MS);
        Ok(Endpoint { listener: TcpListener::bind(address)?, patience })
    }

    /// Begins to answer. `clock` is that of the cores.
    ///
    /// # Errors
    /// No thread can be made.
    pub fn serve(self, page: Page, clock: fn() -> Now) -> io::Result<Serving> {
        let (page, listener) = (Arc::new(page), Arc::new(self.listener));
        let serving = Serving { listener: listener.clone() };
        for number in 0..THREADS {
            let (page, listener, patience) = (page.clone(), listener.clone(), self.patience);
            let body = move || answer_all(&listener, &page, clock, patience);
            thread::Builder::new().name(format!("metrics-{number}")).spawn(body)?;
        }
        Ok(serving)
    }
}

impl Serving {
    /// Where it listens.
    ///
    /// # Errors
    /// Those of the system; there are none for an open socket.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // Ends the accepts that wait, and all to come. The threads are not waited for: a peer may hold each for a while.
        let _ = socket2::SockRef::from(&*self.listener).shutdown(Shutdown::Both);
    }
}

fn answer_all(listener: &TcpListener, page: &Page, clock: fn() -> Now, patience: Duration) {
    const REST: Duration = Duration::from_millis(100);
    loop {
        match listener.accept() {
            // A peer that hangs up or is too slow gets no answer, and nobody else is concerned.
            Ok((stream, _)) => drop(converse(stream, page, clock, Instant::now() + patience)),
            // The listener was shut down.
            Err(error) if error.kind() == ErrorKind::InvalidInput => return,
            // Descriptors are short, or the peer was gone already.
            Err(_) => thread::sleep(REST),
        }
    }
}

fn converse(mut stream: TcpStream, page: &Page, clock: fn() -> Now, deadline: Instant) -> io::Result<()> {
    let mut request = Vec::new();
    let (has_body, (status, media_type, text)) = loop {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut parsed = httparse::Request::new(&mut headers);
        match parsed.parse(&request) {
            Ok(httparse::Status::Complete(_)) => {
                let (method, path) = (parsed.method.unwrap_or_default(), parsed.path.unwrap_or_default());
                break (method != "HEAD", answer(method, path, page, clock));
            }
            Ok(httparse::Status::Partial) if request.len() < limits::METRICS_REQUEST_MAX_BYTES => {}
            Ok(httparse::Status::Partial) => break (true, plain("431 Request Header Fields Too Large", "too long\n")),
            Err(_) => break (true, plain("400 Bad Request", "this is not HTTP/1\n")),
        }
        read_some(&mut stream, &mut request, deadline)?;
    };
    let length = text.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {media_type}\r\nContent-Length: {length}\r\nCache-Control: no-store\r\n\
         Connection: close\r\n\r\n"
    );
    let bytes = if has_body { head + &text } else { head };
    write_all(&mut stream, bytes.as_bytes(), deadline)?;
    stream.shutdown(Shutdown::Write)
}

fn answer(method: &str, path: &str, page: &Page, clock: fn() -> Now) -> Answer {
    if method != "GET" && method != "HEAD" {
        return plain("405 Method Not Allowed", "GET or HEAD\n");
    }
    match path.split('?').next().unwrap_or_default() {
        "/metrics" => ("200 OK", CONTENT_TYPE, page.text()),
        "/healthz" => match page.stuck_cores(clock().monotonic_ms) {
            stuck if stuck.is_empty() => plain("200 OK", "ok\n"),
            stuck => plain("503 Service Unavailable", &format!("stuck cores: {stuck:?}\n")),
        },
        "/" => plain("200 OK", "Rallypoint\n\n/metrics   for Prometheus\n/healthz   200 while all cores are alive\n"),
        _ => plain("404 Not Found", "there is /metrics and /healthz\n"),
    }
}

fn plain(status: &'static str, text: &str) -> Answer {
    (status, PLAIN, text.to_owned())
}

fn read_some(stream: &mut TcpStream, request: &mut Vec<u8>, deadline: Instant) -> io::Result<()> {
    let mut buffer = [0; 1024];
    stream.set_read_timeout(Some(left(deadline)?))?;
    let count = stream.read(&mut buffer)?;
    request.extend_from_slice(&buffer[..count]);
    if count == 0 { Err(ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
}

fn write_all(stream: &mut TcpStream, mut bytes: &[u8], deadline: Instant) -> io::Result<()> {
    while !bytes.is_empty() {
        stream.set_write_timeout(Some(left(deadline)?))?;
        match stream.write(bytes)? {
            0 => return Err(ErrorKind::WriteZero.into()),
            count => bytes = &bytes[count..],
        }
    }
    Ok(())
}

/// What is left of a request's time; never nothing, which would mean for ever.
fn left(deadline: Instant) -> io::Result<Duration> {
    match deadline.saturating_duration_since(Instant::now()) {
        Duration::ZERO => Err(ErrorKind::TimedOut.into()),
        left => Ok(left),
    }
}

#[cfg(test)]
#[path = "endpoint_tests.rs"]
mod tests;
