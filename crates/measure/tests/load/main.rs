//! Load on a simulated server whose behaviour is known: outcomes are told apart, times are what they were made to be.
//!
//! Times are only compared with what they cannot be less than, or with each other.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod server;

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use ucuz_measure::load::{
    self, Api, Arrivals, End, Header, LoadPlan, LoadReport, LoadResult, Outcome, Record,
    RequestShape, Stage, Summary, Target,
};
use ucuz_measure::{Host, Machine, Provenance};

use server::{ANSWER, Does, Server};

/// Nobody waits.
#[derive(Default)]
struct Silent {
    units: u64,
}

impl Host for Silent {
    fn now(&self) -> Duration {
        Duration::ZERO
    }
    fn begin(&mut self, _what: &str, _units: u64) {}
    fn advance(&mut self, units: u64) {
        self.units += units;
    }
    fn end(&mut self) {}
    fn reset_peak_memory(&mut self) -> bool {
        false
    }
    fn peak_memory_bytes(&self) -> Option<u64> {
        None
    }
    fn resident_memory_bytes(&self, pid: u32) -> Option<u64> {
        Some(u64::from(pid) << 20)
    }
}

fn plan(server: &Server, arrivals: Arrivals, requests: usize) -> LoadPlan {
    LoadPlan {
        target: Target::parse(&server.url).unwrap(),
        model: None,
        headers: Vec::new(),
        keys: Vec::new(),
        shape: RequestShape {
            api: Api::Completions,
            prompt_tokens: 20,
            shared_tokens: 8,
            output_tokens: vec![6],
            ids: None,
            disconnect_share: 0.0,
            extra: Map::new(),
        },
        arrivals,
        end: End::Requests(requests),
        warm_up: 0,
        seed: 1,
        timeout: Duration::from_secs(60),
        in_flight_max: 100,
        probes: Vec::new(),
        pid: None,
        settle_s: 0.0,
    }
}

fn run(plan: &LoadPlan) -> LoadResult {
    let result = load::run(plan, &mut Silent::default()).unwrap();
    check(&result);
    result
}

/// What holds of every run.
fn check(result: &LoadResult) {
    for (i, record) in result.records.iter().enumerate() {
        let times = &record.times;
        assert_eq!(record.index, i as u64);
        let in_order = [
            Some(times.intended_s),
            Some(times.sent_s),
            times.connected_s,
            times.headers_s,
            times.first_s,
            times.last_s,
            Some(times.end_s),
        ];
        let in_order: Vec<f64> = in_order.into_iter().flatten().collect();
        assert!(in_order.is_sorted(), "{record:?}");
        assert!(times.events_s.is_sorted());
        assert_eq!(times.events_s.first().copied(), times.first_s);
        assert_eq!(times.events_s.last().copied(), times.last_s);
        assert_eq!(
            record.hung_up.is_some(),
            record.outcome == Outcome::Disconnected
        );
        assert!(record.outcome != Outcome::Ok || record.finish_reason.is_some());
    }
    let validity = Summary::of(result).validity;
    assert_eq!(
        validity.outcomes.values().sum::<u64>(),
        result.records.len() as u64
    );
    assert!(
        validity.littles_law.deviation < 0.05,
        "{:?}",
        validity.littles_law
    );
}

fn one(does: fn(u64) -> Does) -> Record {
    let server = Server::start(does);
    let mut plan = plan(&server, Arrivals::Closed { workers: 1 }, 1);
    if does(0) == Does::Stall {
        plan.timeout = Duration::from_millis(500);
    }
    run(&plan).records.remove(0)
}

#[test]
fn every_outcome_is_recognised() {
    type Case = (fn(u64) -> Does, Outcome, Option<u16>, &'static str);
    let cases: [Case; 11] = [
        (|_| ANSWER, Outcome::Ok, Some(200), ""),
        (|_| Does::AnswerUncounted, Outcome::Ok, Some(200), ""),
        (
            |_| Does::Refuse("429 Too Many Requests\r\nretry-after: 0"),
            Outcome::Refused,
            Some(429),
            "because",
        ),
        (
            |_| Does::Refuse("503 Service Unavailable\r\nretry-after: 0"),
            Outcome::Refused,
            Some(503),
            "because",
        ),
        (
            |_| Does::Status("400 Bad Request"),
            Outcome::HttpError,
            Some(400),
            "because",
        ),
        (
            |_| Does::ErrorEvent,
            Outcome::ErrorEvent,
            Some(200),
            "broken",
        ),
        (
            |_| Does::Nonsense,
            Outcome::ErrorEvent,
            Some(200),
            "no completion chunk",
        ),
        (|_| Does::CutInStream, Outcome::CutOff, Some(200), ""),
        (
            |_| Does::EndEarly,
            Outcome::CutOff,
            Some(200),
            "finish_reason",
        ),
        (|_| Does::CutBeforeHeaders, Outcome::CutOff, None, ""),
        (|_| Does::Stall, Outcome::Timeout, Some(200), "0.5 s"),
    ];
    for (does, outcome, status, detail) in cases {
        let record = one(does);
        assert_eq!(
            (record.outcome, record.status),
            (outcome, status),
            "{record:?}"
        );
        let told = record.detail.clone().unwrap_or_default();
        assert!(told.contains(detail), "{record:?}");
        let is_refused = outcome == Outcome::Refused;
        assert_eq!(record.retry_after_s(), is_refused.then_some(0));
    }
}

#[test]
fn a_server_that_is_not_there_is_an_error_and_one_that_goes_is_an_outcome() {
    let server = Server::start(|_| ANSWER);
    let mut plan = plan(&server, Arrivals::Constant { rate: 100.0 }, 2);
    // Nobody listens there.
    plan.target.port = 1;
    let error = load::run(&plan, &mut Silent::default()).unwrap_err();
    assert!(
        format!("{error:#}").contains("no server answers"),
        "{error:#}"
    );
    plan.model = Some("tiny".to_owned());
    let result = run(&plan);
    assert!(
        result
            .records
            .iter()
            .all(|r| r.outcome == Outcome::Unreachable)
    );
    assert_eq!(Summary::of(&result).latency.ttft_s, None);
}

#[test]
fn known_latencies_are_recovered() {
    let server = Server::start(|_| Does::Answer {
        first: Duration::from_millis(60),
        gap: Duration::from_millis(15),
    });
    let result = run(&plan(&server, Arrivals::Closed { workers: 2 }, 8));
    assert_eq!(result.in_flight.max, 2);
    for record in &result.records {
        assert_eq!((record.outcome, record.tokens()), (Outcome::Ok, 6));
        assert!(record.ttft_s().unwrap() >= 0.06, "{record:?}");
        let last = record.ttft_s().unwrap() + 5.0 * record.tpot_s().unwrap();
        assert!(last >= 0.134, "{record:?}");
        assert!(record.e2e_s() >= 0.06 + 5.0 * 0.015, "{record:?}");
        assert_eq!(record.times.intended_s, record.times.sent_s);
        assert_eq!(
            (record.prompt_tokens, record.cached_tokens),
            (Some(20), Some(10))
        );
    }
    let summary = Summary::of(&result);
    let (ttft, itl) = (
        summary.latency.ttft_s.unwrap(),
        summary.latency.itl_s.unwrap(),
    );
    assert_eq!((ttft.count, itl.count), (8, 40));
    assert!(itl.p50.value < ttft.p50.value && ttft.p50.high.is_some());
    assert_eq!(ttft.p90.high, None, "8 values have no upper end at 90 %");
    assert!(summary.latency.is_itl_of_tokens);
    assert_eq!(summary.validity.cached_share, Some(0.5));
    assert_eq!(summary.validity.lengths.obtained, 48);
    assert_eq!(summary.validity.finish_reasons["length"], 8);
}

#[test]
fn a_stall_shows_in_all_requests_that_were_due_meanwhile() {
    // From 0.5 s to 1.5 s nobody is answered.
    let server = Server::start(|_| Does::Pause(Duration::from_millis(500)));
    let started = Instant::now();
    let mut plan = plan(&server, Arrivals::Constant { rate: 20.0 }, 40);
    plan.in_flight_max = 4;
    let result = run(&plan);
    let slack = started.elapsed().as_secs_f64() - result.wall_s;
    assert!(slack >= 0.0);
    let slow = result
        .records
        .iter()
        .filter(|r| r.ttft_s().unwrap() > 0.25)
        .count();
    // Twenty are due in that second; three quarters of them wait a quarter of it at least.
    assert!(slow >= 13, "{slow} of 40 show the stall");
    // All but four of them could not even be sent: the client says that it was late.
    let late = result
        .records
        .iter()
        .filter(|r| r.client_delay_s() > 0.25)
        .count();
    assert!(late >= 8, "{late}");
    let summary = Summary::of(&result);
    assert!(summary.validity.client_delay.p99_s > summary.validity.client_delay.limit_s);
    let flags = summary.validity.flags.join("; ");
    assert!(flags.contains("the client was late"), "{flags}");
    assert!(result.in_flight.max <= 4);
}

#[test]
fn the_share_of_hang_ups_is_kept_and_the_server_sees_them() {
    let server = Server::start(|_| Does::Answer {
        first: Duration::from_millis(30),
        gap: Duration::from_millis(2),
    });
    let mut plan = plan(&server, Arrivals::Constant { rate: 200.0 }, 200);
    plan.shape.disconnect_share = 0.4;
    plan.in_flight_max = 1000;
    let result = run(&plan);
    let count = |stage| {
        let records = result.records.iter();
        records.filter(|record| record.hung_up == stage).count()
    };
    let stayed = count(None);
    assert!((100..140).contains(&stayed), "{stayed}");
    let stayed_well = result
        .records
        .iter()
        .filter(|r| r.outcome == Outcome::Ok)
        .count();
    assert_eq!(stayed, stayed_well, "nothing else went wrong");
    for stage in [Stage::Prefill, Stage::Decode] {
        assert!(count(Some(stage)) > 0, "{stage:?}");
    }
    assert!(server.seen.hung_up.load(Ordering::SeqCst) > 10);
    let flags = Summary::of(&result).validity.flags;
    assert!(
        !flags.iter().any(|flag| flag.contains("failed")),
        "{flags:?}"
    );
}

#[test]
fn hang_ups_before_headers_reach_a_silent_server() {
    // It never sends headers before the client is gone.
    let server = Server::start(|_| Does::Pause(Duration::ZERO));
    let mut plan = plan(&server, Arrivals::Constant { rate: 100.0 }, 20);
    plan.shape.disconnect_share = 1.0;
    let result = run(&plan);
    let stages: Vec<Stage> = result.records.iter().map(|r| r.hung_up.unwrap()).collect();
    assert!(stages.contains(&Stage::BeforeHeaders), "{stages:?}");
}

#[test]
fn refusals_are_counted_with_what_they_ask_for() {
    let server = Server::start(|number| match number % 2 {
        0 => Does::Refuse("429 Too Many Requests\r\nretry-after: 1"),
        _ => ANSWER,
    });
    let result = run(&plan(&server, Arrivals::Constant { rate: 200.0 }, 10));
    let validity = Summary::of(&result).validity;
    let refusals = validity.refusals;
    assert_eq!((refusals.count, refusals.with_retry_after), (5, 5));
    assert_eq!(refusals.retry_after_max_s, Some(1));
    assert_eq!((validity.statuses[&429], validity.statuses[&200]), (5, 5));

    // A worker does as it is told, so that two of its requests are a second apart.
    let server = Server::start(|number| match number {
        0 => Does::Refuse("429 Too Many Requests\r\nretry-after: 1"),
        _ => ANSWER,
    });
    let result = run(&plan(&server, Arrivals::Closed { workers: 1 }, 2));
    let [first, second] = result.records.as_slice() else {
        panic!("two records")
    };
    assert!(second.times.sent_s - first.times.end_s >= 1.0);
}

#[test]
fn a_closed_loop_of_a_duration_ends_and_waits_for_what_is_under_way() {
    let server = Server::start(|_| Does::Answer {
        first: Duration::from_millis(20),
        gap: Duration::ZERO,
    });
    let mut plan = plan(&server, Arrivals::Closed { workers: 3 }, 1);
    plan.end = End::Seconds(0.3);
    let result = run(&plan);
    let records = &result.records;
    assert!(records.len() >= 3);
    assert!(records.iter().all(|r| r.outcome == Outcome::Ok));
    let late = records.iter().filter(|r| r.times.sent_s >= 0.3).count();
    assert!(late <= 3, "one a worker, made while the time ran out");
    assert_eq!(result.in_flight.max, 3);
}

#[test]
fn tenants_take_turns_and_their_keys_are_not_told() {
    let server = Server::start(|_| ANSWER);
    let mut plan = plan(&server, Arrivals::Closed { workers: 1 }, 4);
    plan.keys = ["alpha", "beta"]
        .map(|key| Header::bearer(key).unwrap())
        .into();
    let result = run(&plan);
    let keys = server.seen.keys.lock().unwrap().clone();
    let (alpha, beta) = ("authorization: bearer alpha", "authorization: bearer beta");
    assert_eq!(keys, [alpha, beta, alpha, beta]);
    let classes: Vec<usize> = result.records.iter().map(|r| r.class).collect();
    assert_eq!(classes, [0, 1, 0, 1]);
    let shown = format!("{plan:?} {result:?}");
    assert!(!shown.contains("alpha") && !shown.contains("beta"));
}

#[test]
fn tokens_are_counted_by_the_server_or_by_events_and_it_is_said() {
    let server = Server::start(|_| Does::AnswerUncounted);
    let summary = Summary::of(&run(&plan(&server, Arrivals::Closed { workers: 1 }, 2)));
    assert_eq!(summary.validity.lengths.obtained, 12);
    let flags = summary.validity.flags.join("; ");
    assert!(
        flags.contains("did not count the tokens of 2 answers"),
        "{flags}"
    );

    let server = Server::start(|_| Does::AnswerInPairs);
    let summary = Summary::of(&run(&plan(&server, Arrivals::Closed { workers: 1 }, 2)));
    assert_eq!(summary.validity.lengths.tokens_per_event, Some(2.0));
    assert!(!summary.latency.is_itl_of_tokens);
    assert_eq!(summary.latency.itl_s.unwrap().count, 4);
}

#[test]
fn pages_and_memory_are_looked_at_meanwhile() {
    let server = Server::start(|_| Does::Answer {
        first: Duration::from_millis(400),
        gap: Duration::ZERO,
    });
    let mut plan = plan(&server, Arrivals::Closed { workers: 2 }, 4);
    plan.warm_up = 1;
    plan.probes = vec!["/health".to_owned()];
    plan.pid = Some(7);
    let mut host = Silent::default();
    let result = load::run(&plan, &mut host).unwrap();
    assert_eq!(host.units, 5, "one to warm up, four to measure");
    let probe = &result.probes[0];
    let asked = probe.latencies_s.len();
    // At most every 100 ms, and once at the end.
    assert!(
        asked >= 2 && asked <= (result.wall_s / 0.1) as usize + 10,
        "{asked}"
    );
    assert!(probe.is_well());
    let used = probe.fields["kv_bytes_used"];
    assert_eq!((used.first >= 1.0, used.last, used.max), (true, 5.0, 5.0));
    let memory = Summary::of(&result).memory.unwrap();
    assert_eq!((memory.first_bytes, memory.max_bytes), (7 << 20, 7 << 20));
}

#[test]
fn records_and_reports_have_stable_keys() {
    let server = Server::start(|number| match number {
        2 => Does::Status("500 Internal Server Error"),
        _ => ANSWER,
    });
    let mut plan = plan(
        &server,
        Arrivals::Bursts {
            size: 2,
            every_s: 0.05,
        },
        4,
    );
    plan.probes = vec!["/health".to_owned()];
    let result = run(&plan);
    let mut lines = Vec::new();
    load::write_records(&mut lines, &result.records).unwrap();
    let lines = String::from_utf8(lines).unwrap();
    let records: Vec<Value> = lines
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect();
    assert_eq!(records.len(), 4);
    for key in [
        "index",
        "class",
        "outcome",
        "status",
        "retry_after",
        "finish_reason",
        "detail",
        "hung_up",
        "asked_prompt_tokens",
        "asked_output_tokens",
        "prompt_tokens",
        "cached_tokens",
        "output_tokens",
        "intended_s",
        "sent_s",
        "connected_s",
        "headers_s",
        "first_s",
        "last_s",
        "end_s",
        "events_s",
    ] {
        assert!(
            records.iter().all(|record| record.get(key).is_some()),
            "{key}"
        );
    }
    assert_eq!(records[3]["intended_s"], 0.05);

    let report = LoadReport::new(provenance(), &result);
    let json = serde_json::to_value(&report).unwrap();
    for path in [
        "/bench",
        "/provenance/machine/processor",
        "/plan/url",
        "/plan/requests/ids/1",
        "/plan/arrivals/kind",
        "/plan/end/requests",
        "/validity/outcomes/http_error",
        "/validity/flags/0",
        "/validity/littles_law/deviation",
        "/latency/ttft_s/p99/low",
        "/throughput/output_tokens_per_s",
        "/probes/0/p99_s",
    ] {
        assert!(json.pointer(path).is_some(), "{path} in {json:#}");
    }
    assert_eq!(
        json["plan"]["requests"]["ids"],
        json!([1000, 5000]),
        "the vocabulary's"
    );
    let document = report.document(&result.records);
    let text = document.to_text();
    for words in [
        "1 of 4 requests failed",
        "First failure",
        "500: because",
        "TTFT",
        ">= ",
    ] {
        assert!(text.contains(words), "{words} in\n{text}");
    }
    assert_eq!(document.to_html().unwrap().matches("<svg").count(), 2);
}

fn provenance() -> Provenance {
    Provenance {
        command: "ucuz bench serve".to_owned(),
        version: "0".to_owned(),
        created_unix_s: 0,
        created: String::new(),
        arithmetic_version: 1,
        machine: Machine {
            processor: "some".to_owned(),
            physical_cores: 1,
            memory_bytes: None,
            device: None,
        },
    }
}
