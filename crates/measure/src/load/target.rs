//! The server that is loaded: its address, and what every request carries.

use anyhow::{Context, Result, ensure};
use hyper::header::{AUTHORIZATION, CONTENT_LENGTH, HOST, HeaderName, HeaderValue};
use hyper::header::{TRANSFER_ENCODING, UPGRADE};
use hyper::{Uri, header};

/// Headers that belong to the client itself.
const OWN_HEADERS: [HeaderName; 5] = [
    CONTENT_LENGTH,
    HOST,
    TRANSFER_ENCODING,
    UPGRADE,
    header::CONNECTION,
];

/// Where requests go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Name or address of the host; an IPv6 address without its brackets.
    pub host: String,
    /// Port.
    pub port: u16,
    /// What comes before `/v1`; empty in most cases, without a slash at its end.
    pub prefix: String,
}

/// A header of requests. Its value is never printed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    pub(super) name: HeaderName,
    pub(super) value: HeaderValue,
}

impl Target {
    /// Reads `http://host:port`, with or without a path; `/v1` at its end is left out.
    ///
    /// # Errors
    /// Another scheme than `http`, no host, a query.
    pub fn parse(url: &str) -> Result<Self> {
        let rule = || format!("{url:?} is no address of a server; write http://host:port");
        let uri: Uri = url.trim().parse().with_context(rule)?;
        let scheme = uri.scheme_str().unwrap_or("no scheme");
        ensure!(
            scheme == "http",
            "{url:?} has {scheme}, only http is spoken; name the server as http://host:port"
        );
        let host = uri.host().filter(|host| !host.is_empty());
        let host = host.with_context(rule)?;
        ensure!(uri.query().is_none(), rule());
        let path = uri.path().trim_end_matches('/');
        Ok(Self {
            host: host.trim_matches(['[', ']']).to_owned(),
            port: uri.port_u16().unwrap_or(80),
            prefix: path.strip_suffix("/v1").unwrap_or(path).to_owned(),
        })
    }

    /// `host:port`.
    pub fn authority(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }

    /// The whole address.
    pub fn url(&self) -> String {
        format!("http://{}{}", self.authority(), self.prefix)
    }
}

impl Header {
    /// Reads `name: value`.
    ///
    /// # Errors
    /// No colon, a name or value that HTTP does not have, a header that the client sets itself. The value is not named.
    pub fn parse(text: &str) -> Result<Self> {
        let (name, value) = text
            .split_once(':')
            .context("a header is written 'name: value', this one has no colon")?;
        let name: HeaderName = name.trim().parse().with_context(|| {
            format!("{name:?} is no name of a header; it has letters, digits and dashes only")
        })?;
        ensure!(
            !OWN_HEADERS.contains(&name),
            "the header {name} is set by the client itself; leave it out"
        );
        Self::new(name, value.trim())
    }

    /// `Authorization: Bearer KEY`.
    ///
    /// # Errors
    /// A key that is empty or holds control characters. It is not named.
    pub fn bearer(key: &str) -> Result<Self> {
        ensure!(
            !key.trim().is_empty(),
            "an API key is empty; write one a line"
        );
        Self::new(AUTHORIZATION, &format!("Bearer {}", key.trim()))
    }

    fn new(name: HeaderName, value: &str) -> Result<Self> {
        // The cause would show nothing of use, and the value must not be shown.
        let mut value = HeaderValue::from_str(value).ok().with_context(|| {
            format!(
                "the value of the header {name} holds characters that HTTP does not allow there"
            )
        })?;
        value.set_sensitive(true);
        Ok(Self { name, value })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_with_and_without_paths() {
        for (url, expected) in [
            ("http://127.0.0.1:8000", "http://127.0.0.1:8000"),
            ("http://localhost:8000/", "http://localhost:8000"),
            ("http://localhost:8000/v1", "http://localhost:8000"),
            ("http://localhost:8000/v1/", "http://localhost:8000"),
            ("http://h/api/v1", "http://h:80/api"),
            ("http://[::1]:9", "http://[::1]:9"),
        ] {
            assert_eq!(Target::parse(url).unwrap().url(), expected, "{url}");
        }
        for url in [
            "https://h",
            "h:80",
            "localhost",
            "",
            "http://",
            "http://h?x=1",
            "ftp://h",
        ] {
            let error = Target::parse(url).unwrap_err().to_string();
            assert!(error.contains("http://host:port"), "{url}: {error}");
        }
    }

    #[test]
    fn headers_are_read_and_never_shown() {
        let header = Header::parse("X-Thing:  secret word ").unwrap();
        assert_eq!(header.name, "x-thing");
        assert_eq!(header.value, "secret word");
        for shown in [
            format!("{header:?}"),
            format!("{:?}", Header::bearer("secret").unwrap()),
            format!("{:#}", Header::parse("a: secret\u{1}").unwrap_err()),
            format!("{:#}", Header::bearer("secret\u{1}").unwrap_err()),
        ] {
            assert!(!shown.contains("secret"), "{shown}");
        }
        for text in ["no colon", "two words: x", "content-length: 3", ": x"] {
            assert!(Header::parse(text).is_err(), "{text}");
        }
        assert!(Header::bearer(" \n").is_err());
    }
}
