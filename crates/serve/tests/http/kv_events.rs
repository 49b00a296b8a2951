//! KV events over real sockets, to peers written by hand from the specification of ZMTP.

use std::time::{Duration, SystemTime};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use ucuz_llm::{BlockHash, CacheEvent, CacheListener, CacheScope};
use ucuz_serve::{KvEventAddresses, KvEventCounters, KvEventHub, KvEventTasks, ServeError};

use crate::client::{ask, get};
use crate::fixture::{Fixture, Setup};

/// A hub that publishes, and the engine's end of it.
struct Published {
    listener: Box<dyn CacheListener>,
    addresses: Vec<KvEventAddresses>,
    counters: std::sync::Arc<KvEventCounters>,
    tasks: KvEventTasks,
    num_stored: u128,
}

impl Published {
    /// Starts, and waits until it has said that nothing is there yet.
    async fn start(options: &[&str]) -> Self {
        let options: Vec<_> = options.iter().map(|text| text.parse().unwrap()).collect();
        let hub = KvEventHub::bind(&options, [1; 16]).unwrap();
        Self {
            listener: hub.listener(),
            addresses: hub.addresses().unwrap(),
            counters: hub.counters(),
            tasks: hub.start(SystemTime::now).unwrap(),
            num_stored: 0,
        }
    }

    /// Tells of one more batch of `blocks` blocks.
    fn store(&mut self, blocks: u128) {
        let first = self.num_stored + 1;
        self.num_stored += blocks;
        let stored = |hash: u128| CacheEvent::Stored {
            hash: BlockHash(hash),
            parent: (hash > first).then(|| BlockHash(hash - 1)),
            scope: CacheScope::default(),
            tokens: Box::new([70_000; 32]),
        };
        self.listener
            .changed((first..first + blocks).map(stored).collect());
    }

    async fn until_batches(&self, count: u64) {
        while self.counters.batches_total() < count {
            tokio::task::yield_now().await;
        }
    }
}

/// A peer that speaks ZMTP 3 with minor version `minor`.
struct Peer(TcpStream);

fn greeting(minor: u8) -> Vec<u8> {
    let mut bytes = vec![0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3, minor];
    bytes.extend(b"NULL");
    bytes.resize(64, 0);
    bytes
}

impl Peer {
    async fn connect(address: std::net::SocketAddr, minor: u8, socket: &[u8]) -> Self {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(&greeting(minor)).await.unwrap();
        let mut theirs = [0; 64];
        stream.read_exact(&mut theirs).await.unwrap();
        assert_eq!(
            (theirs[0], &theirs[9..16]),
            (0xff, &b"\x7f\x03\x01NULL"[..])
        );
        let mut peer = Self(stream);
        let ready = [
            b"\x05READY\x0bSocket-Type\0\0\0",
            &[socket.len() as u8][..],
            socket,
            b"\x08Identity\0\0\0\0",
        ];
        peer.send(4, &ready.concat()).await;
        assert!(
            peer.frame()
                .await
                .unwrap()
                .1
                .starts_with(b"\x05READY\x0bSocket-Type")
        );
        peer
    }

    async fn send(&mut self, flags: u8, body: &[u8]) {
        let frame = [&[flags, body.len() as u8], body].concat();
        self.0.write_all(&frame).await.unwrap();
    }

    /// Flags and body of the next frame; `None` when the other end has closed.
    async fn frame(&mut self) -> Option<(u8, Vec<u8>)> {
        let read = async {
            let flags = self.0.read_u8().await.ok()?;
            let length = match flags & 2 {
                0 => u64::from(self.0.read_u8().await.ok()?),
                _ => self.0.read_u64().await.ok()?,
            };
            let mut body = vec![0; length as usize];
            self.0.read_exact(&mut body).await.ok()?;
            Some((flags, body))
        };
        timeout(Duration::from_secs(20), read)
            .await
            .expect("a frame")
    }

    async fn message(&mut self) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        loop {
            let (flags, body) = self.frame().await.unwrap();
            frames.push(body);
            if flags & 1 == 0 {
                return frames;
            }
        }
    }

    /// The number of the next batch.
    async fn number(&mut self) -> u64 {
        let message = self.message().await;
        assert_eq!(message.len(), 3);
        u64::from_be_bytes(message[1].as_slice().try_into().unwrap())
    }

    /// Waits until what was sent so far has been heard.
    async fn until_heard(&mut self) {
        self.send(4, b"\x04PING\0\0here").await;
        assert_eq!(self.frame().await, Some((4, b"\x04PONGhere".to_vec())));
    }
}

const LOCAL: &str = "endpoint=tcp://127.0.0.1:0";

#[tokio::test]
async fn old_and_new_subscribers_get_what_they_want() {
    let mut published =
        Published::start(&["endpoint=tcp://127.0.0.1:0,topic=kv@a,encoding=map"]).await;
    let address = published.addresses[0].publish;
    let mut old = Peer::connect(address, 0, b"SUB").await;
    let mut new = Peer::connect(address, 1, b"XSUB").await;
    let mut other = Peer::connect(address, 1, b"SUB").await;
    old.send(0, b"\x01").await;
    new.send(4, b"\x09SUBSCRIBEkv@a").await;
    other.send(4, b"\x09SUBSCRIBEkv@b").await;
    for peer in [&mut old, &mut new, &mut other] {
        peer.until_heard().await;
    }
    assert_eq!(published.counters.subscribers(), 3);
    published.store(2);
    let first = old.message().await;
    assert_eq!(
        (&first[0][..], &first[1][..]),
        (&b"kv@a"[..], &[0, 0, 0, 0, 0, 0, 0, 1][..])
    );
    assert_eq!(new.message().await, first);
    old.send(0, b"\x00").await;
    old.until_heard().await;
    published.store(1);
    published.until_batches(3).await;
    assert_eq!(new.number().await, 2);
    old.send(0, b"\x01kv").await;
    // Nothing came in between.
    old.until_heard().await;
    other.until_heard().await;
    published.store(1);
    assert_eq!(old.number().await, 3);
    drop(new);
    while published.counters.subscribers() > 2 {
        tokio::task::yield_now().await;
    }
    assert_eq!(published.counters.dropped_total(), 0);
}

#[tokio::test]
async fn who_reads_too_slowly_misses_batches_and_holds_up_nobody() {
    let mut published = Published::start(&[LOCAL]).await;
    let address = published.addresses[0].publish;
    let (mut slow, mut fast) = (
        Peer::connect(address, 1, b"SUB").await,
        Peer::connect(address, 1, b"SUB").await,
    );
    for peer in [&mut slow, &mut fast] {
        peer.send(0, b"\x01").await;
        peer.until_heard().await;
    }
    // 16 KB each: beyond what the system buffers and the ring keeps.
    for batch in 1..=6000 {
        published.store(100);
        assert_eq!(fast.number().await, batch);
    }
    let mut last = 0;
    let mut missed = 0;
    while last < 6000 {
        let number = slow.number().await;
        assert!(number > last);
        missed += number - last - 1;
        last = number;
    }
    assert!(missed > 100, "{missed}");
    assert_eq!(published.counters.dropped_total(), missed);
}

#[tokio::test]
async fn sent_batches_can_be_had_again() {
    let options = "endpoint=tcp://127.0.0.1:0,topic=t,replay=tcp://127.0.0.1:0";
    for (extra, topic) in [("", None), (",replay-topic=true", Some(b"t".to_vec()))] {
        let mut published = Published::start(&[&format!("{options}{extra}")]).await;
        for _ in 0..5 {
            published.store(40);
        }
        published.until_batches(6).await;
        let mut peer = Peer::connect(published.addresses[0].replay.unwrap(), 1, b"DEALER").await;
        for (from, numbers) in [(0, 0..6), (4, 4..6), (6, 6..6), (u64::MAX, 6..6)] {
            // What is no request is dropped.
            peer.send(0, &0u64.to_be_bytes()).await;
            peer.send(1, b"").await;
            peer.send(0, &u64::to_be_bytes(from)).await;
            for number in numbers.chain([u64::MAX]) {
                let mut reply = peer.message().await;
                let payload = reply.pop().unwrap();
                assert_eq!(payload.is_empty(), number == u64::MAX);
                let number = number.to_be_bytes().to_vec();
                let expected: Vec<_> = [Some(vec![]), topic.clone(), Some(number)]
                    .into_iter()
                    .flatten()
                    .collect();
                assert_eq!(reply, expected);
            }
        }
    }
}

#[tokio::test]
async fn strangers_are_closed_and_others_go_on() {
    let mut published = Published::start(&[LOCAL]).await;
    let address = published.addresses[0].publish;
    let mut good = Peer::connect(address, 1, b"SUB").await;
    good.send(0, b"\x01").await;
    good.until_heard().await;
    let mut curve = greeting(0);
    curve[12..17].copy_from_slice(b"CURVE");
    let ready = b"\x04\x19\x05READY\x0bSocket-Type\0\0\0\x03SUB".to_vec();
    let huge = [&[2][..], &u64::to_be_bytes(1 << 46)].concat();
    let with_greeting = |bytes: &[u8]| [&greeting(1)[..], bytes].concat();
    for bytes in [
        b"GET / HTTP/1.1\r\nhost: a\r\n\r\n".to_vec(),
        curve,
        with_greeting(&huge),
        with_greeting(b"\x00\x01\x01"),
        with_greeting(b"\x04\x1a\x05READY\x0bSocket-Type\0\0\0\x04PULL"),
        with_greeting(&[ready.clone(), huge].concat()),
        with_greeting(&[ready.clone(), b"\x04\x01\xff".to_vec()].concat()),
        with_greeting(&[ready, b"\x00\x01\x01".repeat(65)].concat()),
    ] {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(&bytes).await.unwrap();
        let mut rest = Vec::new();
        let closed = timeout(Duration::from_secs(5), stream.read_to_end(&mut rest));
        assert!(closed.await.is_ok(), "{bytes:?}");
    }
    published.store(1);
    assert_eq!(good.number().await, 1);
}

#[tokio::test]
async fn endpoints_have_their_own_encoding_and_one_numbering() {
    let options = [LOCAL, "endpoint=tcp://127.0.0.1:0,encoding=map,topic=m"];
    let mut published = Published::start(&options).await;
    let mut messages = Vec::new();
    let mut peers = Vec::new();
    for address in published.addresses.clone() {
        let mut peer = Peer::connect(address.publish, 1, b"SUB").await;
        peer.send(0, b"\x01").await;
        peer.until_heard().await;
        peers.push(peer);
    }
    published.store(1);
    for mut peer in peers {
        messages.push(peer.message().await);
    }
    let contains = |message: &[Vec<u8>], text: &[u8]| {
        message[2].windows(text.len()).any(|window| window == text)
    };
    assert_eq!(
        (&messages[0][0][..], &messages[1][0][..]),
        (&b""[..], &b"m"[..])
    );
    assert_eq!(messages[0][1], messages[1][1]);
    let has_type = [0, 1].map(|index| contains(&messages[index], b"\xa4type\xabBlockStored"));
    assert_eq!(has_type, [false, true]);
}

#[tokio::test]
async fn tasks_end_with_their_handle() {
    let published = Published::start(&[LOCAL]).await;
    let address = published.addresses[0].publish;
    let mut peer = Peer::connect(address, 1, b"SUB").await;
    drop(published.tasks);
    assert_eq!(peer.frame().await, None);
    assert!(TcpStream::connect(address).await.is_err());
}

#[test]
fn a_taken_endpoint_is_told_by_name() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    for option in [
        format!("endpoint=tcp://127.0.0.1:{port}"),
        format!("{LOCAL},replay=tcp://127.0.0.1:{port}"),
    ] {
        let error = KvEventHub::bind(&[option.parse().unwrap()], [1; 16]).unwrap_err();
        assert!(matches!(error, ServeError::KvEvents { .. }));
        let text = error.to_string();
        assert!(text.contains(&format!("tcp://127.0.0.1:{port}")), "{text}");
    }
}

#[tokio::test]
async fn metrics_count_batches() {
    let mut published = Published::start(&[LOCAL]).await;
    published.store(1);
    published.until_batches(2).await;
    let mut setup = Setup::default();
    let without = Fixture::start(setup.clone()).await;
    setup.options.kv_events = Some(std::sync::Arc::clone(&published.counters));
    let with = Fixture::start(setup).await;
    let page = ask(without.address, &get("/metrics")).await.body;
    assert!(!page.contains("ucuz_kv_events"));
    let page = ask(with.address, &get("/metrics")).await.body;
    for line in [
        "ucuz_kv_events_batches_total{model_name=\"sim\"} 2",
        "ucuz_kv_events_dropped_total{model_name=\"sim\"} 0",
        "ucuz_kv_events_subscribers{model_name=\"sim\"} 0",
    ] {
        assert!(page.lines().any(|found| found == line), "{line}\n{page}");
    }
}
