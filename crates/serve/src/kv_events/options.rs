//! One `--kv-events`: where events go and how they look, from a text of `key=value`, separated by commas.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// Most bytes of a topic.
const TOPIC_BYTES_MAX: usize = 255;

/// Where events are published, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KvEventsOptions {
    /// Where subscribers connect.
    pub endpoint: TcpEndpoint,
    /// How events are written.
    pub encoding: KvEncoding,
    /// First frame of each message; subscribers choose by how it begins.
    pub topic: String,
    /// Where sent batches can be had again.
    pub replay: Option<TcpEndpoint>,
    /// Whether a replayed batch has the topic before its number.
    pub replay_topic: bool,
}

/// How an event is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KvEncoding {
    /// As an array with its kind first: what llm-d, Dynamo and older consumers of vLLM read.
    Array,
    /// As a map with a `type`: what newer vLLM sends, and its router and Dynamo read.
    Map,
}

/// A TCP address to listen on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TcpEndpoint {
    /// A name or an address without brackets.
    pub host: String,
    /// 0 takes a free one.
    pub port: u16,
}

/// What is wrong with the text of an option.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KvOptionError {
    /// A part without `=`.
    #[error("{part:?} is not KEY=VALUE; e.g. endpoint=tcp://127.0.0.1:5557,encoding=map")]
    NoValue {
        /// As given.
        part: String,
    },
    /// A key that does not exist.
    #[error(
        "there is no key {key:?}; there are endpoint, encoding, topic, replay and replay-topic"
    )]
    UnknownKey {
        /// As given.
        key: String,
    },
    /// A key that was given already.
    #[error("{key} is given twice; give --kv-events twice for two endpoints")]
    Repeated {
        /// As given.
        key: String,
    },
    /// A value that its key does not have.
    #[error("{key} is {value:?}, it must be {rule}")]
    Value {
        /// Which key.
        key: &'static str,
        /// As given.
        value: String,
        /// What it may be.
        rule: &'static str,
    },
    /// A form of replay without a replay.
    #[error("replay-topic says how a replay looks; name where by replay=tcp://HOST:PORT")]
    NoReplay,
}

impl Default for KvEventsOptions {
    /// vLLM's defaults: port 5557 of this machine, arrays, an empty topic, no replay.
    fn default() -> Self {
        Self {
            endpoint: TcpEndpoint {
                host: "127.0.0.1".to_owned(),
                port: 5557,
            },
            encoding: KvEncoding::Array,
            topic: String::new(),
            replay: None,
            replay_topic: false,
        }
    }
}

impl FromStr for KvEventsOptions {
    type Err = KvOptionError;

    fn from_str(text: &str) -> Result<Self, KvOptionError> {
        let mut options = Self::default();
        let mut seen = Vec::new();
        for part in text.split(',') {
            let Some((key, value)) = part.split_once('=') else {
                let part = part.to_owned();
                return Err(KvOptionError::NoValue { part });
            };
            if seen.contains(&key) {
                let key = key.to_owned();
                return Err(KvOptionError::Repeated { key });
            }
            seen.push(key);
            options.set(key, value)?;
        }
        if options.replay_topic && options.replay.is_none() {
            return Err(KvOptionError::NoReplay);
        }
        Ok(options)
    }
}

impl KvEventsOptions {
    fn set(&mut self, key: &str, value: &str) -> Result<(), KvOptionError> {
        match key {
            "endpoint" => self.endpoint = endpoint("endpoint", value)?,
            "replay" => self.replay = Some(endpoint("replay", value)?),
            "topic" if value.len() <= TOPIC_BYTES_MAX => self.topic = value.to_owned(),
            "topic" => return Err(wrong("topic", value, "at most 255 bytes")),
            "encoding" => {
                self.encoding = match value {
                    "array" => KvEncoding::Array,
                    "map" => KvEncoding::Map,
                    _ => return Err(wrong("encoding", value, "array or map")),
                }
            }
            "replay-topic" => {
                self.replay_topic = match value {
                    "true" => true,
                    "false" => false,
                    _ => return Err(wrong("replay-topic", value, "true or false")),
                }
            }
            _ => {
                let key = key.to_owned();
                return Err(KvOptionError::UnknownKey { key });
            }
        }
        Ok(())
    }
}

fn endpoint(key: &'static str, value: &str) -> Result<TcpEndpoint, KvOptionError> {
    let rule = "tcp://HOST:PORT, where * is every address of this machine";
    TcpEndpoint::parse(value).ok_or_else(|| wrong(key, value, rule))
}

fn wrong(key: &'static str, value: &str, rule: &'static str) -> KvOptionError {
    let value = value.to_owned();
    KvOptionError::Value { key, value, rule }
}

impl TcpEndpoint {
    fn parse(text: &str) -> Option<Self> {
        let (host, port) = text.strip_prefix("tcp://")?.rsplit_once(':')?;
        let port = port.parse().ok()?;
        let in_brackets = host.strip_prefix('[').and_then(|h| h.strip_suffix(']'));
        let host = match (host, in_brackets) {
            ("*", _) => "0.0.0.0",
            (_, Some(address)) => address,
            ("", _) => return None,
            (host, None) if host.contains([':', '/', '[', ']', ' ']) => return None,
            (host, None) => host,
        };
        let host = host.to_owned();
        Some(Self { host, port })
    }

    /// Whether only programs of this machine can reach it.
    pub fn is_loopback(&self) -> bool {
        let address = self.host.parse::<IpAddr>();
        address.map_or(self.host == "localhost", |address| address.is_loopback())
    }
}

impl fmt::Display for TcpEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "tcp://[{}]:{}", self.host, self.port),
            false => write!(f, "tcp://{}:{}", self.host, self.port),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good_options_are_read() {
        let plain = KvEventsOptions::default();
        let at = |host: &str, port| TcpEndpoint {
            host: host.to_owned(),
            port,
        };
        let all = KvEventsOptions {
            endpoint: at("0.0.0.0", 7),
            encoding: KvEncoding::Map,
            topic: "kv@10.0.0.1@a/b=c".to_owned(),
            replay: Some(at("::1", 0)),
            replay_topic: true,
        };
        for (text, expected) in [
            ("encoding=array", plain.clone()),
            ("topic=", plain.clone()),
            ("endpoint=tcp://127.0.0.1:5557,replay-topic=false", plain),
            (
                "replay=tcp://[::1]:0,endpoint=tcp://*:7,topic=kv@10.0.0.1@a/b=c,replay-topic=true,encoding=map",
                all,
            ),
        ] {
            assert_eq!(text.parse(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn bad_options_are_refused_by_name() {
        let long = format!("topic={}", "x".repeat(256));
        for (text, said) in [
            ("", "KEY=VALUE"),
            ("endpoint", "\"endpoint\""),
            ("encoding=map,", "\"\""),
            ("colour=red", "colour"),
            ("Encoding=map", "Encoding"),
            ("topic=a,topic=b", "topic is given twice"),
            ("encoding=json", "array or map"),
            ("replay-topic=yes", "true or false"),
            ("replay-topic=true", "replay=tcp"),
            ("endpoint=127.0.0.1:5557", "tcp://HOST:PORT"),
            ("endpoint=ipc:///tmp/x", "tcp://HOST:PORT"),
            ("endpoint=tcp://127.0.0.1", "tcp://HOST:PORT"),
            ("endpoint=tcp://:5557", "tcp://HOST:PORT"),
            ("endpoint=tcp://a:65536", "tcp://HOST:PORT"),
            ("endpoint=tcp://a:-1", "tcp://HOST:PORT"),
            ("replay=tcp://::1:5557", "replay is"),
            ("replay=tcp://a/b:1", "replay is"),
            (long.as_str(), "255"),
        ] {
            let error = text.parse::<KvEventsOptions>().unwrap_err().to_string();
            assert!(error.contains(said), "{text}: {error}");
        }
    }

    #[test]
    fn loopback_is_known() {
        for (host, is_loopback) in [
            ("127.0.0.1", true),
            ("127.9.0.1", true),
            ("::1", true),
            ("localhost", true),
            ("0.0.0.0", false),
            ("::", false),
            ("example.org", false),
        ] {
            let host = host.to_owned();
            let endpoint = TcpEndpoint { host, port: 1 };
            assert_eq!(endpoint.is_loopback(), is_loopback, "{endpoint}");
        }
    }
}
