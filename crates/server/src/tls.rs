//! TLS with rustls: a certificate chain and its key from PEM files, read again at SIGHUP.
//!
//! Without the feature `tls`, the type [`Tls`] has no values, so no listener can use TLS.

use crate::options::ServeError;
use std::path::Path;
use std::sync::Arc;
use tokio::net::TcpStream;

/// The TLS configuration of a listener; `None` for plain TCP.
pub(crate) type Security = Option<Arc<Tls>>;

#[cfg(feature = "tls")]
pub(crate) use with_rustls::Tls;

/// The TLS configuration, in a build without TLS.
#[cfg(not(feature = "tls"))]
pub(crate) enum Tls {}

#[cfg(not(feature = "tls"))]
impl Tls {
    /// Always fails.
    ///
    /// # Errors
    /// This build has no TLS.
    pub(crate) fn load(_certificate: &Path, _key: &Path) -> Result<Tls, ServeError> {
        Err(ServeError::usage("TLS: this program was built without it"))
    }

    /// Never called, because the type has no values.
    ///
    /// # Errors
    /// None.
    pub(crate) fn reload(&self) -> Result<(), ServeError> {
        match *self {}
    }

    /// Never called, because the type has no values.
    pub(crate) async fn handshake(&self, _stream: TcpStream) -> Option<TcpStream> {
        match *self {}
    }
}

#[cfg(feature = "tls")]
mod with_rustls {
    use super::*;
    use std::path::PathBuf;
    use std::sync::RwLock;
    use std::time::Duration;
    use tokio_rustls::TlsAcceptor;
    use tokio_rustls::rustls::ServerConfig;
    use tokio_rustls::rustls::crypto::ring;
    use tokio_rustls::rustls::pki_types::pem::PemObject;
    use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
    use tokio_rustls::server::TlsStream;

    /// The longest time for a TLS handshake.
    const HANDSHAKE: Duration = Duration::from_secs(10);

    /// A certificate chain and its key.
    pub(crate) struct Tls {
        certificate: PathBuf,
        key: PathBuf,
        config: RwLock<Arc<ServerConfig>>,
    }

    impl Tls {
        /// Reads the certificate chain and the key.
        ///
        /// # Errors
        /// A file cannot be read, or the certificate and the key do not match.
        pub(crate) fn load(certificate: &Path, key: &Path) -> Result<Tls, ServeError> {
            let config = RwLock::new(read(certificate, key)?);
            Ok(Tls { certificate: certificate.into(), key: key.into(), config })
        }

        /// Reads both again, for new connections.
        ///
        /// # Errors
        /// Returns the errors of [`load`](Self::load); then the old ones stay in use.
        pub(crate) fn reload(&self) -> Result<(), ServeError> {
            let config = read(&self.certificate, &self.key)?;
            *self.config.write().unwrap_or_else(|e| e.into_inner()) = config;
            Ok(())
        }

        /// Does the TLS handshake. `None` if it fails or takes too long.
        pub(crate) async fn handshake(&self, stream: TcpStream) -> Option<TlsStream<TcpStream>> {
            let config = self.config.read().unwrap_or_else(|e| e.into_inner()).clone();
            match tokio::time::timeout(HANDSHAKE, TlsAcceptor::from(config).accept(stream)).await {
                Ok(Ok(stream)) => Some(stream),
                Ok(Err(error)) => {
                    tracing::debug!(%error, "no TLS");
                    None
                }
                Err(_) => None,
            }
        }
    }

    fn read(certificate: &Path, key: &Path) -> Result<Arc<ServerConfig>, ServeError> {
        let wrong =
            |path: &Path, error: &dyn std::fmt::Display| ServeError::usage(format!("{}: {error}", path.display()));
        let chain = CertificateDer::pem_file_iter(certificate)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(|error| wrong(certificate, &error))?;
        if chain.is_empty() {
            return Err(wrong(certificate, &"no certificate in it"));
        }
        let private = PrivateKeyDer::from_pem_file(key).map_err(|error| wrong(key, &error))?;
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| wrong(certificate, &error))?
            .with_no_client_auth()
            .with_single_cert(chain, private)
            .map_err(|error| wrong(key, &error))?;
        Ok(Arc::new(config))
    }
}
