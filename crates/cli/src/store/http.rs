//! A thin HTTP client for one Hugging Face endpoint: bounded times, redirects and bodies.
//!
//! Redirects are followed by hand, because the hub says a file's hash on its own answer, before it
//! sends the client to a storage host, and because the token must never leave the endpoint's host.

use std::io;
use std::time::Duration;

use anyhow::{Result, anyhow, ensure};
use ureq::http::{HeaderMap, Response, header};
use ureq::tls::{RootCerts, TlsConfig};
use ureq::{Agent, Body};

use super::digest::is_sha256;

/// Redirects followed for one request.
const REDIRECTS_MAX: u32 = 6;
/// Time to connect, and the longest silence while reading.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);
const SILENCE_TIMEOUT: Duration = Duration::from_secs(60);
/// Further tries of a request or a download that made no progress.
const RETRIES_MAX: u32 = 3;

/// The address of a hub, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// `scheme://host[:port][/path]` without a slash at the end.
    pub url: String,
}

impl Endpoint {
    /// Checks an address given by a person.
    ///
    /// # Errors
    /// Not http(s), no host, a user name, a query or a character that does not belong in an address.
    pub fn parse(text: &str) -> Result<Self> {
        let url = text.trim_end_matches('/');
        let host = authority(url).unwrap_or_default();
        let fits = |b: u8| b.is_ascii_alphanumeric() || b".-_:/[]%".contains(&b);
        ensure!(
            !host.is_empty() && url.bytes().all(fits),
            "--hf-endpoint \"{}\" is not an address like https://huggingface.co",
            text.escape_debug()
        );
        Ok(Self {
            url: url.to_owned(),
        })
    }
}

/// A secret for the endpoint; deliberately without `Debug` and `Display`.
#[derive(Clone)]
pub struct Token(String);

impl Token {
    /// Takes a token; blanks around it are dropped, an empty one is none.
    pub fn new(text: &str) -> Option<Self> {
        let text = text.trim();
        let fits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic());
        fits.then(|| Self(text.to_owned()))
    }
}

/// Why a try failed and whether another may help.
#[derive(Debug)]
pub enum Failure {
    /// A broken connection, a server in trouble: try again.
    Passing(anyhow::Error),
    /// An answer that will not change.
    Lasting(anyhow::Error),
}

impl Failure {
    /// The error itself.
    pub fn into_error(self) -> anyhow::Error {
        match self {
            Self::Passing(error) | Self::Lasting(error) => error,
        }
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self::Lasting(error)
    }
}

/// An answer with a body, and what the endpoint itself said about the file.
pub struct Reply {
    /// The last answer: 200, 206 or 416.
    pub response: Response<Body>,
    /// Names this version of the file; a resumed download must see the same.
    pub etag: Option<String>,
    /// SHA-256 of the file, if the endpoint's own answer gives one.
    pub sha256: Option<String>,
}

/// The client of one endpoint.
pub struct Client {
    agent: Agent,
    endpoint: Endpoint,
    token: Option<Token>,
    retry_wait: Duration,
}

impl Client {
    /// A client; `retry_wait` is the pause before the first further try, then doubled.
    pub fn new(endpoint: Endpoint, token: Option<Token>, retry_wait: Duration) -> Self {
        let tls = TlsConfig::builder()
            .root_certs(RootCerts::PlatformVerifier)
            .build();
        let mut config = Agent::config_builder()
            .tls_config(tls)
            .user_agent(concat!("ucuz/", env!("CARGO_PKG_VERSION")))
            .http_status_as_error(false)
            .max_redirects(0)
            .timeout_resolve(Some(CONNECT_TIMEOUT))
            .timeout_connect(Some(CONNECT_TIMEOUT))
            .timeout_per_read(Some(SILENCE_TIMEOUT))
            .timeout_per_write(Some(SILENCE_TIMEOUT));
        if is_loopback(&endpoint.url) {
            config = config.proxy(None);
        }
        Self {
            agent: config.build().new_agent(),
            endpoint,
            token,
            retry_wait,
        }
    }

    /// The endpoint's address.
    pub fn endpoint(&self) -> &str {
        &self.endpoint.url
    }

    /// Calls `attempt` until it succeeds, fails lastingly, or fails passingly four times without
    /// `progressed_bytes` (returned by it through the reference) growing.
    ///
    /// # Errors
    /// The last attempt's.
    pub fn retry<T>(&self, mut attempt: impl FnMut(&mut u64) -> Result<T, Failure>) -> Result<T> {
        let (mut best, mut retries) = (0, 0);
        loop {
            let mut progressed_bytes = best;
            match attempt(&mut progressed_bytes) {
                Ok(value) => return Ok(value),
                Err(Failure::Passing(_)) if progressed_bytes > best => retries = 0,
                Err(Failure::Passing(_)) if retries < RETRIES_MAX => retries += 1,
                Err(failure) => return Err(failure.into_error()),
            }
            best = best.max(progressed_bytes);
            std::thread::sleep(self.retry_wait * (1 << retries.min(RETRIES_MAX)));
        }
    }

    /// GET of a path below the endpoint, from a byte offset if it is not 0; follows redirects.
    ///
    /// # Errors
    /// No connection, a status other than 200, 206, 416, a bad or endless redirect.
    pub fn get(&self, path: &str, offset: u64) -> Result<Reply, Failure> {
        let mut url = format!("{}{path}", self.endpoint.url);
        let (mut etag, mut sha256) = (None, None);
        for hop in 0..=REDIRECTS_MAX {
            let response = self.get_once(&url, offset)?;
            let at_home = authority(&url) == authority(&self.endpoint.url);
            if at_home {
                let headers = response.headers();
                sha256 = sha256.or_else(|| linked_sha256(headers, response.status().is_success()));
            }
            etag = etag.or_else(|| identity(response.headers()));
            match response.status().as_u16() {
                200 | 206 | 416 => {
                    return Ok(Reply {
                        response,
                        etag,
                        sha256,
                    });
                }
                301 | 302 | 303 | 307 | 308 if hop < REDIRECTS_MAX => {
                    url = redirected(&url, text_of(response.headers(), header::LOCATION.as_str()))?;
                }
                status => return Err(self.status_failure(status, path)),
            }
        }
        Err(anyhow!(
            "{}{path} redirects more than {REDIRECTS_MAX} times",
            self.endpoint.url
        )
        .into())
    }

    /// GET of a small document.
    ///
    /// # Errors
    /// As `get`, or a body longer than `bytes_max`.
    pub fn get_small(&self, path: &str, bytes_max: u64) -> Result<Vec<u8>> {
        self.retry(|_| {
            let mut reply = self.get(path, 0)?;
            let body = reply.response.body_mut().with_config().limit(bytes_max);
            body.read_to_vec().map_err(|error| match error {
                ureq::Error::BodyExceedsLimit(_) => Failure::Lasting(anyhow!(
                    "the answer of {}{path} is longer than {bytes_max} bytes",
                    self.endpoint.url
                )),
                error => self.connection_failure(&error),
            })
        })
    }

    fn get_once(&self, url: &str, offset: u64) -> Result<Response<Body>, Failure> {
        let mut request = self
            .agent
            .get(url)
            .header(header::ACCEPT_ENCODING, "identity");
        if offset > 0 {
            request = request.header(header::RANGE, format!("bytes={offset}-"));
        }
        if let Some(Token(token)) = &self.token
            && origin(url) == origin(&self.endpoint.url)
        {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        request
            .call()
            .map_err(|error| self.connection_failure(&error))
    }

    /// A connection that broke or fell silent is worth another try; an absent network, an unknown host or
    /// a refused certificate is said at once.
    fn connection_failure(&self, error: &ureq::Error) -> Failure {
        let may_pass = match error {
            ureq::Error::Io(error) => broke(error.kind()),
            ureq::Error::Timeout(_) | ureq::Error::Protocol(_) => true,
            _ => false,
        };
        let text = anyhow!(
            "no answer from {}: {error}; check the network, or name another hub with --hf-endpoint",
            self.endpoint.url
        );
        if may_pass {
            Failure::Passing(text)
        } else {
            Failure::Lasting(text)
        }
    }

    fn status_failure(&self, status: u16, path: &str) -> Failure {
        let endpoint = &self.endpoint.url;
        let given = if self.token.is_some() {
            "the token in HF_TOKEN"
        } else {
            "no token"
        };
        match status {
            401 | 403 => Failure::Lasting(anyhow!(
                "{endpoint}{path} is refused (HTTP {status}) with {given}: it does not exist, is private, \
                 or wants its licence accepted on its page; then set HF_TOKEN"
            )),
            404 => Failure::Lasting(anyhow!(
                "{endpoint}{path} does not exist (HTTP 404, asked with {given}); check the spelling"
            )),
            408 | 429 | 500..=599 => Failure::Passing(anyhow!(
                "{endpoint}{path} is in trouble (HTTP {status}); try again later"
            )),
            _ => Failure::Lasting(anyhow!("{endpoint}{path} answered HTTP {status}")),
        }
    }
}

/// The kinds of a connection that existed and ended.
fn broke(kind: io::ErrorKind) -> bool {
    use io::ErrorKind as Kind;
    matches!(
        kind,
        Kind::UnexpectedEof
            | Kind::ConnectionReset
            | Kind::ConnectionAborted
            | Kind::BrokenPipe
            | Kind::TimedOut
            | Kind::WouldBlock
    )
}

/// A header as text, if it is there and readable.
pub fn text_of<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name)?.to_str().ok()
}

/// What names this version of the file: the hub's linked etag, else the etag.
fn identity(headers: &HeaderMap) -> Option<String> {
    let etag = text_of(headers, "x-linked-etag").or_else(|| text_of(headers, "etag"))?;
    Some(bare(etag).chars().take(256).collect())
}

/// The hash of a stored file: the linked etag, or, where the endpoint serves the file itself, its etag.
/// Etags of storage hosts are not used: some are 64 hex digits of another hash.
fn linked_sha256(headers: &HeaderMap, serves_itself: bool) -> Option<String> {
    let own = if serves_itself {
        text_of(headers, "etag")
    } else {
        None
    };
    let etag = bare(text_of(headers, "x-linked-etag").or(own)?).to_ascii_lowercase();
    is_sha256(&etag).then_some(etag)
}

fn bare(etag: &str) -> &str {
    etag.trim().trim_start_matches("W/").trim_matches('"')
}

/// `host[:port]` of an http(s) address without a user name.
fn authority(url: &str) -> Option<&str> {
    let rest = url
        .strip_prefix("https://")
        .or_else(|| url.strip_prefix("http://"))?;
    let authority = rest.split(['/', '?', '#']).next()?;
    (!authority.is_empty() && !authority.contains('@')).then_some(authority)
}

/// `scheme://host[:port]`.
fn origin(url: &str) -> Option<&str> {
    let host = authority(url)?;
    Some(&url[..url.find("://")? + 3 + host.len()])
}

fn is_loopback(url: &str) -> bool {
    let host = authority(url).unwrap_or_default();
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    name == "localhost" || name == "[::1]" || name.starts_with("127.")
}

/// The address a redirect leads to: absolute, or a path on the same host; never from https to http.
fn redirected(from: &str, location: Option<&str>) -> Result<String> {
    let location = location.unwrap_or_default();
    let target = match origin(from) {
        Some(origin) if location.starts_with('/') && !location.starts_with("//") => {
            format!("{origin}{location}")
        }
        _ => location.to_owned(),
    };
    ensure!(
        authority(&target).is_some() && (target.starts_with("https") || !from.starts_with("https")),
        "{from} redirects to \"{}\", which is not an allowed address",
        super::reference::shorten(location)
    );
    Ok(target)
}
