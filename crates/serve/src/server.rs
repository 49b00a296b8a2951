//! Listening, accepting, and stopping in order.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use ucuz_llm::Llm;

use crate::app::App;
use crate::error::ServeError;
use crate::guard::WriteGuard;
use crate::options::{Limits, ServeOptions};

/// Wait after `accept` failed, as it does while the process is out of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The body of the answer to a connection over the limit.
const TOO_MANY: &str = "{\"error\":{\"message\":\"the server is at its limit of connections; retry in \
    1 s\",\"type\":\"server_error\",\"param\":null,\"code\":\"connection_limit\"}}";

/// A server that does not listen yet.
pub struct Server {
    app: Arc<App>,
}

impl Server {
    /// A server for one model.
    pub fn new(llm: Arc<Llm>, options: ServeOptions) -> Self {
        Self {
            app: App::new(llm, options),
        }
    }

    /// Starts to listen; connections wait until [`BoundServer::run`].
    ///
    /// # Errors
    /// [`ServeError::Bind`] when the address is taken, unknown or not allowed.
    pub async fn bind(self) -> Result<BoundServer, ServeError> {
        let options = &self.app.options;
        let bind_error = |source| ServeError::Bind {
            host: options.host.clone(),
            port: options.port,
            source,
        };
        let listener = TcpListener::bind((options.host.as_str(), options.port));
        let listener = listener.await.map_err(bind_error)?;
        let address = listener.local_addr().map_err(bind_error)?;
        Ok(BoundServer {
            app: self.app,
            listener,
            address,
        })
    }
}

/// A server that listens.
pub struct BoundServer {
    app: Arc<App>,
    listener: TcpListener,
    address: SocketAddr,
}

impl BoundServer {
    /// Where it listens; the real port when 0 was asked for.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `shutdown` is ready, then lets what runs finish for the drain time, and cancels
    /// the rest.
    pub async fn run(self, shutdown: impl Future<Output = ()>) {
        let Self {
            app,
            listener,
            address,
        } = self;
        let mut connections = Connections::new(&app);
        tracing::info!(%address, model = app.options.model_id, "listening");
        let mut shutdown = pin!(shutdown);
        loop {
            tokio::select! {
                () = &mut shutdown => break,
                accepted = listener.accept() => match accepted {
                    Ok((stream, _)) => connections.add(stream),
                    Err(error) => {
                        tracing::warn!(%error, "accept failed");
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                    }
                },
                Some(_) = connections.tasks.join_next() => {}
            }
        }
        drop(listener);
        app.llm.drain();
        connections.end(app.options.drain_timeout).await;
        tracing::info!("stopped");
    }
}

/// Connections that are open.
struct Connections {
    tasks: JoinSet<()>,
    graceful: GracefulShutdown,
    router: Router,
    limits: Limits,
}

impl Connections {
    fn new(app: &Arc<App>) -> Self {
        Self {
            tasks: JoinSet::new(),
            graceful: GracefulShutdown::new(),
            router: app.router(),
            limits: app.options.limits,
        }
    }

    fn add(&mut self, stream: TcpStream) {
        if self.tasks.len() >= self.limits.connections {
            refuse(&stream);
            return;
        }
        // Tokens are small writes; waiting to join them would delay each.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "no TCP_NODELAY");
        }
        let limits = &self.limits;
        let io = TokioIo::new(WriteGuard::new(stream, limits.write_timeout));
        let service = TowerToHyperService::new(self.router.clone());
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(limits.header_timeout)
            .max_headers(limits.headers)
            .max_buf_size(limits.header_bytes)
            .serve_connection(io, service);
        let connection = self.graceful.watch(connection);
        self.tasks.spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection ended early");
            }
        });
    }

    /// Lets requests finish for `drain`, then drops what is left.
    async fn end(mut self, drain: Duration) {
        tracing::info!(
            connections = self.tasks.len(),
            seconds = drain.as_secs(),
            "draining"
        );
        if tokio::time::timeout(drain, self.graceful.shutdown())
            .await
            .is_err()
        {
            tracing::warn!(
                connections = self.tasks.len(),
                "drain time is over, cancelling"
            );
        }
        self.tasks.shutdown().await;
    }
}

/// Says why and closes; never waits for a client that does not read.
fn refuse(stream: &TcpStream) {
    let answer = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nretry-after: 1\r\n\
         connection: close\r\ncontent-length: {}\r\n\r\n{TOO_MANY}",
        TOO_MANY.len()
    );
    if let Err(error) = stream.try_write(answer.as_bytes())
        && error.kind() != io::ErrorKind::WouldBlock
    {
        tracing::debug!(%error, "a refused connection was gone already");
    }
}
