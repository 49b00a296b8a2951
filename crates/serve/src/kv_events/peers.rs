//! Accepts the peers of one socket, up to a limit, and serves each in a task.

use std::future::Future;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::zmtp::ZmtpError;

/// Most peers of one socket; more are closed at once, and try again.
const PEERS_MAX: usize = 64;

/// Wait after `accept` failed, as it does while the process is out of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves peers until it is dropped, and they with it.
pub(super) async fn accept<F>(listener: TcpListener, serve: impl Fn(TcpStream) -> F)
where
    F: Future<Output = Result<(), ZmtpError>> + Send + 'static,
{
    let mut peers = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, address)) if peers.len() < PEERS_MAX => {
                    tracing::debug!(%address, "a peer of the KV events");
                    // Batches are small, and their age matters.
                    if let Err(error) = stream.set_nodelay(true) {
                        tracing::debug!(%error, "no TCP_NODELAY");
                    }
                    let served = serve(stream);
                    peers.spawn(async move {
                        if let Err(why) = served.await {
                            tracing::debug!(%address, %why, "a peer of the KV events ended");
                        }
                    });
                }
                Ok((_, address)) => tracing::warn!(%address, limit = PEERS_MAX, "no room for a peer of the KV events"),
                Err(error) => {
                    tracing::warn!(%error, "accept failed");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
            Some(_) = peers.join_next() => {}
        }
    }
}
