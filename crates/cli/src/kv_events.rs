//! KV events of `ucuz serve`: sockets before the model, publishing with the server.

use std::time::SystemTime;

use anyhow::{Context, Result};
use ucuz_serve::{KvEventHub, KvEventTasks, KvEventsOptions};

/// Listens at every endpoint that was asked for; nothing if none was.
///
/// # Errors
/// An address that is taken or unknown; no random numbers from the system.
pub fn bind(options: &[KvEventsOptions]) -> Result<Option<KvEventHub>> {
    if options.is_empty() {
        return Ok(None);
    }
    let mut key = [0; 16];
    getrandom::fill(&mut key).context("the system gives no random numbers")?;
    Ok(Some(KvEventHub::bind(options, key)?))
}

/// Publishes from now on, and says where; call it in a runtime.
///
/// # Errors
/// The system refuses to wait for connections.
pub fn start(hub: KvEventHub) -> Result<KvEventTasks> {
    for address in hub.addresses()? {
        match address.replay {
            Some(replay) => note!(
                "KV events on tcp://{}, replay on tcp://{replay}",
                address.publish
            ),
            None => note!("KV events on tcp://{}", address.publish),
        }
    }
    hub.start(SystemTime::now)
        .context("cannot publish KV events")
}
