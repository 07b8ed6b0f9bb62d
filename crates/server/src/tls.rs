//! TLS by rustls: a certificate and its key from PEM files, read again at SIGHUP.
//!
//! Without the feature `tls` the type [`Tls`] has no value, so no listener can be secure.

use crate::options::ServeError;
use std::path::Path;
use std::sync::Arc;
use tokio::net::TcpStream;

/// What makes connections of a listener secure; `None`: nothing.
pub type Security = Option<Arc<Tls>>;

#[cfg(feature = "tls")]
pub use with_rustls::Tls;

/// What makes connections secure, in a build that cannot.
#[cfg(not(feature = "tls"))]
pub enum Tls {}

#[cfg(not(feature = "tls"))]
impl Tls {
    /// Fails.
    ///
    /// # Errors
    /// That this build has no TLS.
    pub fn load(_certificate: &Path, _key: &Path) -> Result<Tls, ServeError> {
        Err(ServeError::usage("TLS: this program was built without it"))
    }

    /// Never called: there is no value.
    ///
    /// # Errors
    /// None.
    pub fn reload(&self) -> Result<(), ServeError> {
        match *self {}
    }

    /// Never called: there is no value.
    pub async fn handshake(&self, _stream: TcpStream) -> Option<TcpStream> {
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

    /// How long a client may take to agree on TLS.
    const HANDSHAKE: Duration = Duration::from_secs(10);

    /// See the head of this file.
    pub struct Tls {
        certificate: PathBuf,
        key: PathBuf,
        config: RwLock<Arc<ServerConfig>>,
    }

    impl Tls {
        /// Reads certificate and key.
        ///
        /// # Errors
        /// Files that cannot be read, or do not belong together.
        pub fn load(certificate: &Path, key: &Path) -> Result<Tls, ServeError> {
            let config = RwLock::new(read(certificate, key)?);
            Ok(Tls { certificate: certificate.into(), key: key.into(), config })
        }

        /// Reads both again, for new connections.
        ///
        /// # Errors
        /// Those of [`load`](Self::load); then the old ones stay.
        pub fn reload(&self) -> Result<(), ServeError> {
            let config = read(&self.certificate, &self.key)?;
            *self.config.write().unwrap_or_else(|e| e.into_inner()) = config;
            Ok(())
        }

        /// Makes a connection secure. `None` if the client does not agree, or takes too long.
        pub async fn handshake(&self, stream: TcpStream) -> Option<TlsStream<TcpStream>> {
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
