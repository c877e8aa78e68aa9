use super::*;
use crate::metrics::CoreMetrics;

const MS: Duration = Duration::from_millis(1);

fn now() -> Now {
    Now { monotonic_ms: 1_000_000, unix_ms: 0 }
}

/// An endpoint of one core, which must answer within `patience`.
fn serve(patience: Duration) -> (Serving, Arc<CoreMetrics>) {
    let core: Arc<CoreMetrics> = Arc::default();
    let mut endpoint = Endpoint::bind("127.0.0.1:0".parse().expect("an address")).expect("a free port");
    assert_eq!(endpoint.patience, limits::METRICS_REQUEST_MAX_MS as u32 * MS);
    endpoint.patience = patience;
    (endpoint.serve(Page::new(vec![core.clone()]), now).expect("threads"), core)
}

fn connect(serving: &Serving) -> TcpStream {
    let stream = TcpStream::connect(serving.address().expect("open")).expect("accepted");
    stream.set_read_timeout(Some(5_000 * MS)).expect("set");
    stream
}

/// Status and text of the answer to some bytes.
fn ask(serving: &Serving, request: &[u8]) -> (String, String) {
    let mut stream = connect(serving);
    stream.write_all(request).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer that ends");
    let (head, text) = answer.split_once("\r\n\r\n").expect("a head");
    let length = format!("Content-Length: {}\r\n", text.len());
    assert!(head.contains(&length) || request.starts_with(b"HEAD"), "{head}");
    (head.lines().next().expect("a line").to_owned(), text.to_owned())
}

#[test]
fn the_index_the_page_and_what_is_neither() {
    let (serving, core) = serve(5_000 * MS);
    core.turns.add(7);
    assert!(ask(&serving, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").1.contains("/metrics"));
    let (status, text) = ask(&serving, b"GET /metrics?x=1 HTTP/1.0\r\n\r\n");
    assert_eq!(status, "HTTP/1.1 200 OK");
    assert!(text.contains("rallypoint_turns_total{core=\"0\"} 7\n"), "{text}");
    assert_eq!(ask(&serving, b"HEAD /metrics HTTP/1.1\r\n\r\n"), ("HTTP/1.1 200 OK".to_owned(), String::new()));
    assert_eq!(ask(&serving, b"GET /other HTTP/1.1\r\n\r\n").0, "HTTP/1.1 404 Not Found");
    assert_eq!(ask(&serving, b"POST /metrics HTTP/1.1\r\n\r\n").0, "HTTP/1.1 405 Method Not Allowed");
    assert_eq!(ask(&serving, b"\x16\x03\x01\0\r\n\r\n").0, "HTTP/1.1 400 Bad Request");
}

#[test]
fn health_is_that_of_the_cores() {
    let (serving, core) = serve(5_000 * MS);
    let (status, text) = ask(&serving, b"GET /healthz HTTP/1.1\r\n\r\n");
    assert_eq!((&*status, &*text), ("HTTP/1.1 503 Service Unavailable", "stuck cores: [0]\n"));
    core.pulse.sleeping(None);
    assert_eq!(ask(&serving, b"GET /healthz HTTP/1.1\r\n\r\n").0, "HTTP/1.1 200 OK");
}

#[test]
fn a_request_has_a_bounded_length() {
    let (serving, _) = serve(5_000 * MS);
    let line = |length: usize| {
        let mut request = b"GET / HTTP/1.1\r\nX: ".to_vec();
        request.resize(length - 4, b'x');
        [&request[..], b"\r\n\r\n"].concat()
    };
    assert_eq!(ask(&serving, &line(limits::METRICS_REQUEST_MAX_BYTES)).0, "HTTP/1.1 200 OK");
    let mut endless = line(limits::METRICS_REQUEST_MAX_BYTES + 1_024);
    endless.truncate(limits::METRICS_REQUEST_MAX_BYTES);
    assert_eq!(ask(&serving, &endless).0, "HTTP/1.1 431 Request Header Fields Too Large");
}

#[test]
fn slow_peers_hold_it_up_for_a_bounded_time_only() {
    let (serving, _) = serve(200 * MS);
    let began = Instant::now();
    let mut slow: Vec<TcpStream> = (0..THREADS).map(|_| connect(&serving)).collect();
    slow.iter_mut().for_each(|stream| stream.write_all(b"GET /").expect("sent"));
    assert_eq!(ask(&serving, b"GET /healthz HTTP/1.1\r\n\r\n").0, "HTTP/1.1 503 Service Unavailable");
    assert!(began.elapsed() >= 200 * MS, "somebody had to go first");
    for mut stream in slow {
        assert!(matches!(stream.read(&mut [0; 16]), Ok(0) | Err(_)), "it was cut off");
    }
}

#[test]
fn it_ends_when_it_is_dropped() {
    let (serving, _) = serve(5_000 * MS);
    let address = serving.address().expect("open");
    drop(serving);
    assert!(TcpStream::connect(address).is_err());
}

#[test]
fn its_end_waits_for_no_peer() {
    let (serving, _) = serve(5_000 * MS);
    let mut slow: Vec<TcpStream> = (0..THREADS).map(|_| connect(&serving)).collect();
    slow.iter_mut().for_each(|stream| stream.write_all(b"GET /").expect("sent"));
    thread::sleep(100 * MS);
    let began = Instant::now();
    drop(serving);
    assert!(began.elapsed() < 1_000 * MS, "it took {:?}", began.elapsed());
}
