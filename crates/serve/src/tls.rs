//! TLS by rustls: certificate and key in, encrypted connections out.

use std::sync::Arc;

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{Error, ServerConfig};
use tokio_rustls::server::TlsStream;

use crate::hangup::WatchedStream;

/// Why a certificate or its key is refused. Never says the key.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// There is no certificate in the file, or it is damaged.
    #[error(
        "the certificate file has no certificate in PEM form; give the chain, the server's own first"
    )]
    Certificate,
    /// There is no key in the file, or it is damaged.
    #[error("the key file has no private key in PEM form (PKCS#8, PKCS#1 or SEC1, not encrypted)")]
    Key,
    /// They do not belong together, or are not supported.
    #[error("certificate and key do not fit: {0}")]
    Pair(Error),
}

/// A certificate and its key, ready for connections.
#[derive(Clone)]
pub struct Tls {
    acceptor: TlsAcceptor,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tls")
    }
}

impl Tls {
    /// Reads a chain of certificates and a private key, both as PEM. TLS 1.2 and 1.3; clients need no certificate.
    ///
    /// # Errors
    /// [`TlsError`], naming which of the two is at fault.
    pub fn from_pem(certificates: &[u8], key: &[u8]) -> Result<Self, TlsError> {
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(certificates).collect();
        let chain = chain.map_err(|_| TlsError::Certificate)?;
        if chain.is_empty() {
            return Err(TlsError::Certificate);
        }
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| TlsError::Key)?;
        let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let builder = builder.with_safe_default_protocol_versions();
        let builder = builder.map_err(TlsError::Pair)?.with_no_client_auth();
        let mut config = builder
            .with_single_cert(chain, key)
            .map_err(TlsError::Pair)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self {
            acceptor: TlsAcceptor::from(Arc::new(config)),
        })
    }

    /// Shakes hands.
    ///
    /// # Errors
    /// What the client did wrong, or that it left.
    pub(crate) async fn accept(
        &self,
        stream: WatchedStream,
    ) -> std::io::Result<TlsStream<WatchedStream>> {
        self.acceptor.accept(stream).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CERTIFICATE: &[u8] = include_bytes!("../tests/golden/localhost.pem");
    const KEY: &[u8] = include_bytes!("../tests/golden/localhost.key");

    #[test]
    fn what_is_no_pair_is_refused_by_name() {
        assert!(Tls::from_pem(CERTIFICATE, KEY).is_ok());
        let certificate = |bytes: &[u8]| Tls::from_pem(bytes, KEY).unwrap_err().to_string();
        let key = |bytes: &[u8]| Tls::from_pem(CERTIFICATE, bytes).unwrap_err().to_string();
        for bytes in [&b""[..], b"-----BEGIN CERTIFICATE-----\n", KEY] {
            assert!(certificate(bytes).contains("certificate file"));
        }
        for bytes in [&b""[..], b"\xff\xfe", CERTIFICATE] {
            assert!(key(bytes).contains("key file"));
        }
    }
}
