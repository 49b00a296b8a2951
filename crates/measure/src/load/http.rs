//! HTTP/1.1 over TCP: one connection a request, as independent users have.

use std::io;
use std::net::SocketAddr;

use anyhow::{Context, Result};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{ACCEPT, CONTENT_TYPE, HOST, HeaderMap, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpStream, lookup_host};
use tokio::task::JoinHandle;

use super::target::{Header, Target};

/// A server whose name is resolved.
#[derive(Debug)]
pub(super) struct Link {
    addresses: Vec<SocketAddr>,
    prefix: String,
    headers: HeaderMap,
    /// One a tenant; empty when there are none.
    keys: Vec<Header>,
}

/// A connection; dropping it hangs up.
pub(super) struct Connection {
    sender: SendRequest<Full<Bytes>>,
    driver: JoinHandle<hyper::Result<()>>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl Connection {
    /// Sends and waits for the headers.
    pub(super) async fn send(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> hyper::Result<Response<Incoming>> {
        self.sender.send_request(request).await
    }
}

impl Link {
    /// Resolves the name.
    ///
    /// # Errors
    /// A name that nobody knows.
    pub(super) async fn resolve(
        target: &Target,
        headers: &[Header],
        keys: &[Header],
    ) -> Result<Self> {
        let found = lookup_host((target.host.as_str(), target.port)).await;
        let addresses = found
            .with_context(|| format!("cannot find {}; check the address", target.authority()))?;
        let mut all = HeaderMap::new();
        all.insert(HOST, HeaderValue::from_str(&target.authority())?);
        for header in headers {
            all.append(header.name.clone(), header.value.clone());
        }
        Ok(Self {
            addresses: addresses.collect(),
            prefix: target.prefix.clone(),
            headers: all,
            keys: keys.to_vec(),
        })
    }

    /// The tenant of the request number `index`.
    pub(super) fn class(&self, index: u64) -> usize {
        (index % self.keys.len().max(1) as u64) as usize
    }

    /// Opens a connection.
    pub(super) async fn connect(&self) -> io::Result<Connection> {
        let stream = TcpStream::connect(self.addresses.as_slice()).await?;
        stream.set_nodelay(true)?;
        let (sender, driver) = handshake(TokioIo::new(stream))
            .await
            .map_err(io::Error::other)?;
        Ok(Connection {
            sender,
            driver: tokio::spawn(driver),
        })
    }

    /// A request with JSON.
    pub(super) fn post(&self, path: &str, class: usize, body: Bytes) -> Request<Full<Bytes>> {
        let mut request = self.request(Method::POST, path, class, body);
        let headers = request.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        request
    }

    fn request(
        &self,
        method: Method,
        path: &str,
        class: usize,
        body: Bytes,
    ) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        // Paths are checked when a plan is; the server answers a wrong one.
        if let Ok(uri) = format!("{}{path}", self.prefix).parse() {
            *request.uri_mut() = uri;
        }
        *request.headers_mut() = self.headers.clone();
        if let Some(key) = self.keys.get(class) {
            request
                .headers_mut()
                .insert(key.name.clone(), key.value.clone());
        }
        request
    }

    /// Asks for a page, on a connection of its own, and reads at most `bytes_max` of it.
    pub(super) async fn get(
        &self,
        path: &str,
        bytes_max: usize,
    ) -> io::Result<(StatusCode, Vec<u8>)> {
        let mut connection = self.connect().await?;
        let request = self.request(Method::GET, path, 0, Bytes::new());
        let response = connection.send(request).await.map_err(io::Error::other)?;
        let status = response.status();
        let body = read(response.into_body(), bytes_max).await;
        Ok((status, body.map_err(io::Error::other)?))
    }
}

/// The first `bytes_max` of a body.
pub(super) async fn read(mut body: Incoming, bytes_max: usize) -> hyper::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame?.into_data() {
            bytes.extend_from_slice(&data[..data.len().min(bytes_max - bytes.len())]);
        }
        if bytes.len() == bytes_max {
            break;
        }
    }
    Ok(bytes)
}
