//! Accepting connections, and stopping in order. Not here: taking the address (`socket`).

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use ucuz_llm::{Life, Llm};

use crate::app::App;
use crate::error::ServeError;
use crate::guard::WriteGuard;
use crate::hangup::{WatchedStream, watched};
use crate::options::{Limits, ServeOptions};
use crate::socket::Socket;
use crate::tls::Tls;
use crate::watchdog::{Ending, Watchdog};

/// Wait after `accept` failed, as it does while the process is out of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Time that a server without an engine goes on to answer, so that `/health` is seen to be 503.
const LAST_ANSWERS: Duration = Duration::from_secs(2);

/// Time for cancelled requests to say so to their clients.
const LAST_BYTES: Duration = Duration::from_secs(1);

/// The HTTP library takes no smaller buffer.
const LEAST_BUFFER: usize = 8 << 10;

/// The body of the answer to a connection over the limit.
const TOO_MANY: &str = "{\"error\":{\"message\":\"the server is at its limit of connections; retry in \
    1 s\",\"type\":\"server_error\",\"param\":null,\"code\":\"connection_limit\"}}";

/// A server that listens.
pub struct Server {
    app: Arc<App>,
    watchdog: Watchdog,
    listener: TcpListener,
    address: SocketAddr,
}

impl Server {
    /// Starts to listen for one model; connections wait until [`Server::run`]. Call it in a runtime.
    ///
    /// # Errors
    /// [`ServeError::Bind`] when somebody else listens there by now.
    pub fn new(llm: Arc<Llm>, options: ServeOptions, socket: Socket) -> Result<Self, ServeError> {
        let (listener, address) = socket.listen()?;
        let (watchdog, verdict) = Watchdog::new();
        let app = App::new(llm, options, verdict);
        Ok(Self {
            app,
            watchdog,
            listener,
            address,
        })
    }

    /// Where it listens; the real port when 0 was asked for.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `stop` is ready, then refuses new requests and lets what runs finish until the
    /// drain time is over or `cancel` is ready; what still runs is then cancelled, and told so. Ends by itself when the
    /// engine does.
    pub async fn run(
        self,
        stop: impl Future<Output = ()>,
        cancel: impl Future<Output = ()>,
    ) -> Ending {
        let (app, listener) = (self.app, self.listener);
        let mut connections = Connections::new(&app);
        tracing::info!(address = %self.address, model = app.options.model_id, "listening");
        let mut watch = pin!(self.watchdog.watch(&app.llm, app.options.stall_exit));
        let ending = first(stop, watch.as_mut());
        let mut ending = connections.accept_until(&listener, ending).await;
        if ending == Ending::Asked {
            app.llm.drain();
            let time = app.options.drain_timeout;
            let cancel = first(cancel, watch);
            match connections.drain(&listener, time, cancel).await {
                Drained::All => {}
                Drained::Cut(Ending::Asked) => {
                    tracing::warn!(connections = connections.tasks.len(), "cancelling");
                    app.llm.shutdown();
                }
                Drained::Cut(other) => ending = other,
            }
        }
        if ending != Ending::Asked {
            // Who asks in this moment is told that nothing works any more.
            tracing::error!(?ending, "giving up");
            let moment = tokio::time::sleep(LAST_ANSWERS);
            connections.accept_until(&listener, moment).await;
        }
        drop(listener);
        connections.end().await;
        // An engine that died while it drained has let its streams end before anybody looked.
        if let Life::Dead(why) = app.llm.health().life {
            ending = Ending::Died(why);
        }
        tracing::info!(?ending, "stopped");
        ending
    }
}

/// How a drain ended.
enum Drained {
    /// All requests finished.
    All,
    /// Some had no time to.
    Cut(Ending),
}

/// [`Ending::Asked`] when `asked` is ready, else what `watch` says.
async fn first(asked: impl Future<Output = ()>, watch: impl Future<Output = Ending>) -> Ending {
    tokio::select! {
        () = asked => Ending::Asked,
        ending = watch => ending,
    }
}

/// Connections that are open.
struct Connections {
    tasks: JoinSet<()>,
    /// `None` once draining: connections that come then get one answer each.
    graceful: Option<GracefulShutdown>,
    router: Router,
    limits: Limits,
    tls: Option<Tls>,
}

impl Connections {
    fn new(app: &Arc<App>) -> Self {
        Self {
            tasks: JoinSet::new(),
            graceful: Some(GracefulShutdown::new()),
            router: app.router(),
            limits: app.options.limits,
            tls: app.options.tls.clone(),
        }
    }

    /// Takes connections until `end` is ready.
    async fn accept_until<T>(&mut self, listener: &TcpListener, end: impl Future<Output = T>) -> T {
        let mut end = pin!(end);
        loop {
            tokio::select! {
                result = &mut end => return result,
                accepted = listener.accept() => match accepted {
                    Ok((stream, _)) => self.add(stream),
                    Err(error) => {
                        tracing::warn!(%error, "accept failed");
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                    }
                },
                Some(_) = self.tasks.join_next() => {}
            }
        }
    }

    fn add(&mut self, stream: TcpStream) {
        if self.tasks.len() >= self.limits.connections {
            // Who waits for a handshake would not understand it.
            if self.tls.is_none() {
                refuse(&stream);
            }
            return;
        }
        // Tokens are small writes; waiting to join them would delay each.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "no TCP_NODELAY");
        }
        let (stream, hangup) = watched(stream);
        let connection = Connection {
            router: self.router.clone(),
            limits: self.limits,
            watcher: self.graceful.as_ref().map(GracefulShutdown::watcher),
        };
        let tls = self.tls.clone();
        self.tasks.spawn(async move {
            tokio::select! {
                () = connection.open(stream, tls) => {}
                () = hangup.wait() => tracing::debug!("a client is gone"),
            }
        });
    }

    /// Lets requests finish for `time`, or until `cancel`, and goes on to answer new connections:
    /// whoever asks gets to know that this server is stopping.
    async fn drain(
        &mut self,
        listener: &TcpListener,
        time: Duration,
        cancel: impl Future<Output = Ending>,
    ) -> Drained {
        let (connections, seconds) = (self.tasks.len(), time.as_secs());
        tracing::info!(connections, seconds, "draining");
        let Some(graceful) = self.graceful.take() else {
            return Drained::All;
        };
        let drained = async {
            tokio::select! {
                biased;
                () = graceful.shutdown() => Drained::All,
                ending = cancel => Drained::Cut(ending),
                () = tokio::time::sleep(time) => Drained::Cut(Ending::Asked),
            }
        };
        self.accept_until(listener, drained).await
    }

    /// Gives what is left a moment for its last bytes, then drops it.
    async fn end(mut self) {
        let all = async { while self.tasks.join_next().await.is_some() {} };
        // Whether they ended or took too long, none is left after this.
        let _ = tokio::time::timeout(LAST_BYTES, all).await;
        self.tasks.shutdown().await;
    }
}

/// What one connection is served with.
struct Connection {
    router: Router,
    limits: Limits,
    /// `None` once draining: it gets one answer.
    watcher: Option<Watcher>,
}

impl Connection {
    /// Serves until it ends, after a handshake where there is to be one.
    async fn open(self, stream: WatchedStream, tls: Option<Tls>) {
        let Some(tls) = tls else {
            return self.serve(stream).await;
        };
        match tokio::time::timeout(self.limits.header_timeout, tls.accept(stream)).await {
            Ok(Ok(stream)) => self.serve(stream).await,
            Ok(Err(error)) => tracing::debug!(%error, "a handshake failed"),
            Err(_) => tracing::debug!("a handshake took too long"),
        }
    }

    async fn serve(self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) {
        let limits = self.limits;
        let io = TokioIo::new(WriteGuard::new(stream, limits.write_timeout));
        let service = TowerToHyperService::new(self.router);
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(limits.header_timeout)
            .max_headers(limits.headers)
            .max_buf_size(limits.header_bytes.max(LEAST_BUFFER))
            .keep_alive(self.watcher.is_some())
            .serve_connection(io, service);
        let result = match self.watcher {
            Some(watcher) => watcher.watch(connection).await,
            None => connection.await,
        };
        if let Err(error) = result {
            tracing::debug!(%error, "a connection ended early");
        }
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
