//! What is asked: each request is a function of the plan and of its number, so that two runs ask the same.

use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::random::{Random, Use};

/// Range of token ids of prompts where nothing is known of the vocabulary: past the special tokens that most have at their
/// beginning.
pub const IDS: (u32, u32) = (1000, 20_000);

/// The shortest and the longest that a client waits after sending before it hangs up ahead of the headers.
const HANGUP_HEADERS_S: (f64, f64) = (0.0002, 0.02);
/// The same after the headers, during prefill.
const HANGUP_PREFILL_S: (f64, f64) = (0.001, 1.0);

/// Words of prompts that must be text, one token each in most vocabularies.
const WORDS: [&str; 32] = [
    "time", "year", "people", "way", "day", "man", "thing", "woman", "life", "child", "world",
    "school", "state", "family", "student", "group", "country", "problem", "hand", "part", "place",
    "case", "week", "company", "system", "program", "question", "work", "number", "night", "point",
    "home",
];

/// The endpoint that is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Api {
    /// `/v1/completions` with prompts of token ids.
    Completions,
    /// `/v1/chat/completions` with one message of common words, about one token each; the template's tokens come on top.
    Chat,
}

impl Api {
    pub(super) fn path(self) -> &'static str {
        match self {
            Self::Completions => "/v1/completions",
            Self::Chat => "/v1/chat/completions",
        }
    }
}

/// What requests look like.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RequestShape {
    /// The endpoint.
    pub api: Api,
    /// Tokens of a prompt.
    pub prompt_tokens: usize,
    /// The first of them that are the same in all requests.
    pub shared_tokens: usize,
    /// Tokens to generate, taken in turn; never empty.
    pub output_tokens: Vec<usize>,
    /// Lowest token id of prompts, and the one after the highest; [`IDS`] within the server's vocabulary where not named.
    pub ids: Option<(u32, u32)>,
    /// Share of requests that the client gives up on purpose.
    pub disconnect_share: f64,
    /// Further fields of the body; they win over those set here.
    pub extra: Map<String, Value>,
}

/// Where the client hangs up on purpose. Where the answer comes faster, it hangs up at the end of the stage.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Hangup {
    /// That long after sending.
    BeforeHeaders(Duration),
    /// That long after the headers.
    Prefill(Duration),
    /// At that event with text.
    Decode(usize),
}

/// A request that is ready to be sent.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Job {
    pub index: u64,
    pub body: Bytes,
    pub prompt_tokens: usize,
    pub output_tokens: usize,
    pub hangup: Option<Hangup>,
}

/// Makes the requests of a run.
#[derive(Debug, Clone)]
pub(super) struct Jobs {
    shape: RequestShape,
    model: String,
    ids: (u32, u32),
    shared: Vec<u32>,
    seed: u64,
}

impl Jobs {
    pub(super) fn new(shape: &RequestShape, model: &str, ids: (u32, u32), seed: u64) -> Self {
        let mut random = Random::new(seed, Use::SharedPrompt, 0);
        Self {
            shape: shape.clone(),
            model: model.to_owned(),
            ids,
            shared: drawn(&mut random, shape.shared_tokens, ids),
            seed,
        }
    }

    /// The request number `index`.
    pub(super) fn job(&self, index: u64) -> Job {
        let lengths = &self.shape.output_tokens;
        let output_tokens = lengths[(index % lengths.len() as u64) as usize];
        Job {
            index,
            body: self.body(index, output_tokens),
            prompt_tokens: self.shape.prompt_tokens,
            output_tokens,
            hangup: self.hangup(index, output_tokens),
        }
    }

    /// The request number `index` of those that come before the run and are not measured.
    pub(super) fn warm_up(&self, index: u64) -> Job {
        Job {
            hangup: None,
            ..self.job(u64::MAX / 2 + index)
        }
    }

    fn prompt(&self, index: u64) -> Vec<u32> {
        let own = self.shape.prompt_tokens - self.shared.len();
        let mut random = Random::new(self.seed, Use::Prompt, index);
        let mut ids = self.shared.clone();
        ids.extend(drawn(&mut random, own, self.ids));
        ids
    }

    fn body(&self, index: u64, output_tokens: usize) -> Bytes {
        let prompt = self.prompt(index);
        let mut body = json!({
            "model": self.model,
            "max_tokens": output_tokens,
            "temperature": 0,
            "stream": true,
            "stream_options": {"include_usage": true},
            "ignore_eos": true,
        });
        match self.shape.api {
            Api::Completions => body["prompt"] = json!(prompt),
            Api::Chat => {
                body["messages"] = json!([{"role": "user", "content": words(&prompt)}]);
            }
        }
        for (name, value) in &self.shape.extra {
            body[name] = value.clone();
        }
        Bytes::from(body.to_string())
    }

    fn hangup(&self, index: u64, output_tokens: usize) -> Option<Hangup> {
        let mut random = Random::new(self.seed, Use::Hangup, index);
        if random.share() >= self.shape.disconnect_share {
            return None;
        }
        let stage = random.between(0, 3);
        let share = random.share();
        // Each order of magnitude has the same chance: how long a stage takes is not known.
        let wait =
            |(low, high): (f64, f64)| Duration::from_secs_f64(low * (high / low).powf(share));
        Some(match stage {
            0 => Hangup::BeforeHeaders(wait(HANGUP_HEADERS_S)),
            1 => Hangup::Prefill(wait(HANGUP_PREFILL_S)),
            _ => Hangup::Decode(1 + (share * output_tokens as f64 * 0.8) as usize),
        })
    }
}

/// `count` ids of a range.
fn drawn(random: &mut Random, count: usize, (low, high): (u32, u32)) -> Vec<u32> {
    (0..count).map(|_| random.between(low, high)).collect()
}

fn words(ids: &[u32]) -> String {
    let word = |id: &u32| WORDS[*id as usize % WORDS.len()];
    ids.iter().map(word).collect::<Vec<_>>().join(" ")
}

/// The range of ids to draw from: the one named, else [`IDS`] within the vocabulary.
pub(super) fn ids_within(named: Option<(u32, u32)>, vocab: Option<u32>) -> (u32, u32) {
    let (low, high) = named.unwrap_or(IDS);
    let (Some(vocab), None) = (vocab, named) else {
        return (low, high);
    };
    let high = high.min(vocab.max(1));
    (low.min(high / 2), high)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape() -> RequestShape {
        RequestShape {
            api: Api::Completions,
            prompt_tokens: 10,
            shared_tokens: 4,
            output_tokens: vec![8, 3],
            ids: None,
            disconnect_share: 0.0,
            extra: Map::new(),
        }
    }

    fn body(shape: &RequestShape, index: u64) -> Value {
        let job = Jobs::new(shape, "m", (10, 2000), 1).job(index);
        serde_json::from_slice(&job.body).unwrap()
    }

    #[test]
    fn prompts_share_their_beginning_and_nothing_else() {
        let prompt = |index| body(&shape(), index)["prompt"].as_array().unwrap().clone();
        let (a, b) = (prompt(0), prompt(1));
        assert_eq!((a.len(), b.len()), (10, 10));
        assert_eq!(a[..4], b[..4]);
        assert_ne!(a[4..], b[4..]);
        assert_eq!(a, prompt(0));
        assert!(
            a.iter()
                .all(|id| (10..2000).contains(&id.as_u64().unwrap()))
        );
    }

    #[test]
    fn output_lengths_are_taken_in_turn() {
        let asked: Vec<u64> = (0..4)
            .map(|i| body(&shape(), i)["max_tokens"].as_u64().unwrap())
            .collect();
        assert_eq!(asked, [8, 3, 8, 3]);
    }

    #[test]
    fn further_fields_win_and_chat_is_text() {
        let mut shape = shape();
        shape.api = Api::Chat;
        shape.extra.insert("temperature".to_owned(), json!(0.5));
        shape.extra.insert("priority".to_owned(), json!(3));
        let body = body(&shape, 0);
        assert_eq!(
            (&body["temperature"], &body["priority"]),
            (&json!(0.5), &json!(3))
        );
        assert_eq!(body["stream_options"]["include_usage"], true);
        let text = body["messages"][0]["content"].as_str().unwrap();
        assert_eq!(text.split(' ').count(), 10);
        assert!(body.get("prompt").is_none());
    }

    #[test]
    fn about_the_share_asked_for_hangs_up_in_all_stages() {
        let mut shape = shape();
        shape.disconnect_share = 0.3;
        let jobs = Jobs::new(&shape, "m", (0, 9), 3);
        let hangups: Vec<Hangup> = (0..2000).filter_map(|i| jobs.job(i).hangup).collect();
        assert!((500..700).contains(&hangups.len()), "{}", hangups.len());
        let stages = hangups.iter().fold([0; 3], |mut stages, hangup| {
            match hangup {
                Hangup::BeforeHeaders(_) => stages[0] += 1,
                Hangup::Prefill(_) => stages[1] += 1,
                Hangup::Decode(event) => {
                    assert!((1..=8).contains(event));
                    stages[2] += 1;
                }
            }
            stages
        });
        assert!(stages.iter().all(|count| *count > 120), "{stages:?}");
        assert!(jobs.warm_up(0).hangup.is_none());
        shape.disconnect_share = 1.0;
        assert!(Jobs::new(&shape, "m", (0, 9), 3).job(7).hangup.is_some());
    }

    #[test]
    fn ids_stay_within_a_vocabulary_that_is_known() {
        for (named, vocab, expected) in [
            (None, None, (1000, 20_000)),
            (None, Some(49_152), (1000, 20_000)),
            (None, Some(5000), (1000, 5000)),
            (None, Some(100), (50, 100)),
            (Some((1, 9)), Some(5), (1, 9)),
        ] {
            assert_eq!(ids_within(named, vocab), expected);
        }
    }
}
