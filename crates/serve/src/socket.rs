//! The address of a server, taken before there is a server: whether it is free is known before a
//! model is loaded.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};

use tokio::net::{TcpListener, TcpSocket};

use crate::error::ServeError;

/// Connections that the system holds until they are accepted.
const BACKLOG: u32 = 1024;

/// An address that is taken; connections are refused until a [`crate::Server`] listens on it.
pub struct Socket {
    socket: TcpSocket,
    host: String,
    port: u16,
}

impl Socket {
    /// Takes `host` (a name or an address) and `port` (0 takes a free one). Looking a name up may
    /// block for as long as the system's resolver does.
    ///
    /// # Errors
    /// [`ServeError::Bind`] when the address is taken, unknown or not allowed.
    pub fn bind(host: &str, port: u16) -> Result<Self, ServeError> {
        match bind_first(host, port) {
            Ok(socket) => Ok(Self {
                socket,
                host: host.to_owned(),
                port,
            }),
            Err(source) => Err(bind_error(host, port, source)),
        }
    }

    /// Starts to listen; needs a runtime.
    pub(crate) fn listen(self) -> Result<(TcpListener, SocketAddr), ServeError> {
        let listener = self.socket.listen(BACKLOG);
        let with_address = listener.and_then(|listener| {
            let address = listener.local_addr()?;
            Ok((listener, address))
        });
        with_address.map_err(|source| bind_error(&self.host, self.port, source))
    }
}

/// The first address of the name that can be taken, else the last one's error.
fn bind_first(host: &str, port: u16) -> io::Result<TcpSocket> {
    let mut error = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in (host, port).to_socket_addrs()? {
        match bind_one(address) {
            Ok(socket) => return Ok(socket),
            Err(why) => error = why,
        }
    }
    Err(error)
}

fn bind_one(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    // Without it a restart would wait until the last connections of the one before are forgotten.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}

fn bind_error(host: &str, port: u16, source: io::Error) -> ServeError {
    let host = host.to_owned();
    ServeError::Bind { host, port, source }
}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use super::*;

    #[tokio::test]
    async fn names_and_addresses_are_taken() {
        for host in ["localhost", "127.0.0.1"] {
            let (_, address) = Socket::bind(host, 0).unwrap().listen().unwrap();
            assert!(
                address.ip().is_loopback() && address.port() > 0,
                "{host}: {address}"
            );
        }
    }

    #[test]
    fn a_taken_port_is_told_once_and_without_a_model() {
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = taken.local_addr().unwrap().port();
        let Err(error) = Socket::bind("127.0.0.1", port) else {
            panic!("the port is taken")
        };
        let cause = error.source().unwrap().to_string();
        assert!(!error.to_string().contains(&cause), "{error}: {cause}");
        assert!(error.to_string().contains(&port.to_string()), "{error}");
    }
}
