//! Encrypted connections: answers, streams, drains, and those who speak plain HTTP or nothing.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use ucuz_serve::{Ending, Tls};

use crate::client::{Answer, get, post, send};
use crate::fixture::{Fixture, Setup};

const CERTIFICATE: &[u8] = include_bytes!("../golden/localhost.pem");
const KEY: &[u8] = include_bytes!("../golden/localhost.key");

async fn start() -> Fixture {
    let mut setup = Setup::default();
    setup.options.tls = Some(Tls::from_pem(CERTIFICATE, KEY).unwrap());
    setup.options.limits.header_timeout = Duration::from_millis(300);
    Fixture::start(setup).await
}

async fn connect(server: &Fixture) -> TlsStream<TcpStream> {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(CERTIFICATE).unwrap())
        .unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(server.address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(Arc::new(config))
        .connect(name, stream)
        .await
        .unwrap()
}

async fn ask(server: &Fixture, request: &[u8]) -> Answer {
    let mut stream = connect(server).await;
    stream.write_all(request).await.unwrap();
    let mut raw = Vec::new();
    stream.read_to_end(&mut raw).await.unwrap();
    Answer::parse(&raw)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_and_streams_are_encrypted() {
    let mut server = start().await;
    assert_eq!(ask(&server, &get("/health")).await.status, 200);
    let body = r#"{"prompt":"say:abc|","max_tokens":8,"stream":true}"#;
    let answer = ask(&server, &post("/v1/completions", body)).await;
    assert_eq!(answer.events().last().map(String::as_str), Some("[DONE]"));
    server.begin_stop();
    assert_eq!(server.stopped().await, Ending::Asked);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_does_not_shake_hands_is_let_go() {
    let server = start().await;
    for bytes in [get("/health"), Vec::new(), vec![0x16, 3, 1, 0xff, 0xff]] {
        let mut stream = send(server.address, &bytes).await;
        let mut raw = Vec::new();
        let read = tokio::time::timeout(Duration::from_secs(5), stream.read_to_end(&mut raw));
        // Closed or reset, with at most an alert of seven bytes; nothing of HTTP.
        let _ = read.await.expect("it is let go in time");
        assert!(raw.len() <= 7, "{raw:?}");
    }
    assert_eq!(ask(&server, &get("/live")).await.status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_leaves_frees_its_request() {
    let server = start().await;
    let mut stream = connect(&server).await;
    let body = r#"{"prompt":"say:abc*|","max_tokens":1900,"stream":true}"#;
    stream
        .write_all(&post("/v1/completions", body))
        .await
        .unwrap();
    let mut first = [0; 64];
    stream.read_exact(&mut first).await.unwrap();
    drop(stream);
    server.until("closed", |stats| stats.running == 0).await;
}
