//! TLS by rustls: a certificate and its key from PEM files, read again at SIGHUP.

use crate::options::ServeError;
use std::path::{Path, PathBuf};
use std::sync::{Arc, RwLock};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

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

    /// What makes a connection secure.
    pub fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(self.config.read().unwrap_or_else(|e| e.into_inner()).clone())
    }
}

fn read(certificate: &Path, key: &Path) -> Result<Arc<ServerConfig>, ServeError> {
    let wrong = |path: &Path, error: &dyn std::fmt::Display| ServeError::usage(format!("{}: {error}", path.display()));
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
