//! Pages asked for while the load runs: does the server still answer, and what does it say of itself.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value};
use tokio::sync::watch;
use tokio::time::{sleep_until, timeout};

use super::exchange::Client;

/// Time from one question to the next.
pub const PROBE_EVERY: Duration = Duration::from_millis(100);
/// Bytes read of a page.
const PAGE_BYTES_MAX: usize = 1 << 20;
/// Numbers kept of a page.
const FIELDS_MAX: usize = 64;
/// How long a page may take.
const PAGE_TIMEOUT: Duration = Duration::from_secs(60);

/// A number that a page shows, over the run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Field {
    /// In the first answer that had it.
    pub first: f64,
    /// In the last answer, which was asked for after the last request had ended.
    pub last: f64,
    /// Smallest.
    pub min: f64,
    /// Largest.
    pub max: f64,
}

/// What became of one page.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Probe {
    /// Its path.
    pub path: String,
    /// Answers by status; `none` counts those that never came.
    pub statuses: BTreeMap<String, u64>,
    /// Seconds from when the question was due to the end of its answer. While one answer is waited for, the next questions
    /// come due; they are asked late and count from when they were due.
    pub latencies_s: Vec<f64>,
    /// Numbers of a page that is a JSON object, by name: those at its top.
    pub fields: BTreeMap<String, Field>,
}

/// Asks for `path` until told to stop, and once more then.
pub(super) async fn probe(client: Arc<Client>, path: String, stop: watch::Receiver<bool>) -> Probe {
    let mut probe = Probe {
        path,
        ..Probe::default()
    };
    let mut due = client.start;
    loop {
        let mut stop = stop.clone();
        let is_last = tokio::select! {
            () = sleep_until(due) => false,
            _ = stop.wait_for(|is_over| *is_over) => true,
        };
        let from = if is_last {
            due.min(tokio::time::Instant::now())
        } else {
            due
        };
        let answer = timeout(PAGE_TIMEOUT, client.link.get(&probe.path, PAGE_BYTES_MAX)).await;
        let status = match answer {
            Ok(Ok((status, body))) => {
                probe.take(&body);
                status.as_u16().to_string()
            }
            Ok(Err(_)) | Err(_) => "none".to_owned(),
        };
        *probe.statuses.entry(status).or_default() += 1;
        probe.latencies_s.push(from.elapsed().as_secs_f64());
        if is_last {
            return probe;
        }
        due += PROBE_EVERY;
    }
}

impl Probe {
    /// Keeps the numbers of a page.
    fn take(&mut self, body: &[u8]) {
        let Ok(page) = serde_json::from_slice::<Map<String, Value>>(body) else {
            return;
        };
        for (name, value) in page {
            let Some(value) = value.as_f64() else {
                continue;
            };
            let has_room = self.fields.len() < FIELDS_MAX;
            match self.fields.get_mut(&name) {
                Some(field) => field.take(value),
                None if has_room => {
                    self.fields.insert(name, Field::of(value));
                }
                None => {}
            }
        }
    }

    /// Whether every answer was 200.
    pub fn is_well(&self) -> bool {
        self.statuses.keys().all(|status| status == "200")
    }
}

impl Field {
    fn of(value: f64) -> Self {
        Self {
            first: value,
            last: value,
            min: value,
            max: value,
        }
    }

    fn take(&mut self, value: f64) {
        self.last = value;
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_at_the_top_of_a_page_are_followed() {
        let mut probe = Probe::default();
        for body in [
            r#"{"status":"ok","used":5,"blocks":[{"used":1}]}"#,
            r#"{"used":9,"late":1.5}"#,
            "# no JSON",
            r#"{"used":2}"#,
        ] {
            probe.take(body.as_bytes());
        }
        let used = probe.fields["used"];
        assert_eq!(
            (used.first, used.last, used.min, used.max),
            (5.0, 2.0, 2.0, 9.0)
        );
        let names: Vec<&str> = probe.fields.keys().map(String::as_str).collect();
        assert_eq!(names, ["late", "used"]);
    }

    #[test]
    fn a_page_has_a_limit_of_numbers() {
        let page: Map<String, Value> = (0..1000).map(|i| (i.to_string(), i.into())).collect();
        let mut probe = Probe::default();
        probe.take(Value::Object(page).to_string().as_bytes());
        assert_eq!(probe.fields.len(), FIELDS_MAX);
    }
}
