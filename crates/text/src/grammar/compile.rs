//! From a source to a grammar: limits at the door, a thread of its own, the cache.

use std::fmt;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use llguidance::TokenParser;
use llguidance::api::{GrammarWithLexer, TopLevelGrammar};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::cache::{Cache, Digest};
use super::literals::Blanks;
use super::matcher::{Matcher, NextTokens};
use super::vocabulary::Vocabulary;
use super::{GrammarSource, gbnf, literals, schema};
use crate::error::{TextError, check_limit};
use crate::limits::{
    COMPILE_PLACES, COMPILE_STACK_BYTES, COMPILE_TIME, COMPILE_WAIT, GRAMMAR_CACHE_BYTES,
    MAX_CALLS_BYTES, MAX_CHOICE_BYTES, MAX_CHOICES, MAX_GRAMMAR_BYTES, MAX_REGEX_BYTES,
    MAX_SCHEMA_BYTES,
};
use crate::{Result, Tokenizer};

/// Least that a cached grammar is counted as, bytes.
const GRAMMAR_BYTES_MIN: usize = 64 << 10;

/// Bytes of a compiled grammar for a byte of its source, beside its automata.
const BYTES_PER_SOURCE_BYTE: usize = 32;

/// Most bytes of a reason that the compiler gives.
const REASON_BYTES_MAX: usize = 600;

/// Compiles grammars for one model.
pub struct GrammarCompiler {
    vocabulary: Arc<Vocabulary>,
    places: Arc<Places>,
    /// Held for look-ups only; by whoever prepares requests.
    cache: Mutex<Cache<Grammar>>,
}

/// A compiled source.
pub struct Grammar {
    kind: &'static str,
    /// At the start of a text. Never moved on, only cloned; locked because its automata grow when they are asked.
    start: Mutex<TokenParser>,
    vocabulary: Arc<Vocabulary>,
}

impl fmt::Debug for Grammar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Grammar").field("kind", &self.kind).finish()
    }
}

impl Grammar {
    /// A text at its start. `ends` allows end tokens where the text may end.
    pub fn matcher(&self, ends: bool) -> Matcher {
        // A copy of all automata: what one text makes of them changes nothing for another, not even when fuel is short.
        let parser = lock(&self.start).deep_clone();
        Matcher {
            parser,
            vocabulary: Arc::clone(&self.vocabulary),
            kind: self.kind,
            ends,
        }
    }
}

impl GrammarCompiler {
    /// Takes in the model's tokens; a text ends with one of `end_ids`.
    ///
    /// # Errors
    /// [`TextError::TooLarge`] or [`TextError::BadVocabulary`] for a vocabulary of which no trie can be made.
    pub fn new(tokenizer: &Tokenizer, end_ids: &[u32]) -> Result<Self> {
        Ok(Self {
            vocabulary: Arc::new(Vocabulary::new(tokenizer, end_ids)?),
            places: Arc::new(Places {
                free: Mutex::new(COMPILE_PLACES),
                freed: Condvar::new(),
            }),
            cache: Mutex::new(Cache::new(GRAMMAR_CACHE_BYTES)),
        })
    }

    /// Compiles a source, or finds it among those that `owner` used lately. Waits, [`COMPILE_WAIT`] for a place and
    /// [`COMPILE_TIME`] for the result.
    ///
    /// # Errors
    /// [`TextError::Busy`] when too many compile; [`TextError::Grammar`] with what cannot be read or enforced, and where; [`TextError::TooLarge`] over a limit.
    pub fn compile(&self, source: &GrammarSource, owner: u64) -> Result<Arc<Grammar>> {
        check_size(source)?;
        let digest = digest(source);
        if let Some(grammar) = lock(&self.cache).get(owner, &digest) {
            return Ok(grammar);
        }
        let (grammar, bytes) = self.compile_on_thread(source)?;
        let grammar = Arc::new(grammar);
        lock(&self.cache).put(owner, digest, Arc::clone(&grammar), bytes);
        Ok(grammar)
    }

    fn compile_on_thread(&self, source: &GrammarSource) -> Result<(Grammar, usize)> {
        let failed = |reason: &str| TextError::grammar(source, reason);
        let late = format!(
            "it takes longer than {} s to compile; simplify it",
            COMPILE_TIME.as_secs()
        );
        let place = Places::take(&self.places).ok_or(TextError::Busy)?;
        let (sender, result) = channel();
        let (vocabulary, own) = (Arc::clone(&self.vocabulary), source.clone());
        let thread = std::thread::Builder::new()
            .name("ucuz-grammar".to_owned())
            .stack_size(COMPILE_STACK_BYTES)
            .spawn(move || {
                let compiled = compile(&own, &vocabulary);
                drop(place);
                // Nobody waits any more when it came too late.
                let _ = sender.send(compiled);
            });
        thread.map_err(|error| failed(&format!("there is no thread for it: {error}")))?;
        match result.recv_timeout(COMPILE_TIME) {
            Ok(compiled) => compiled,
            Err(RecvTimeoutError::Timeout) => Err(failed(&late)),
            Err(RecvTimeoutError::Disconnected) => {
                Err(failed("compiling it failed; please report it"))
            }
        }
    }
}

/// Threads that may compile at once. One that runs out of time keeps its place until it ends.
struct Places {
    free: Mutex<usize>,
    freed: Condvar,
}

impl Places {
    /// Waits for a place, not for ever.
    fn take(places: &Arc<Self>) -> Option<Place> {
        let waited = places
            .freed
            .wait_timeout_while(lock(&places.free), COMPILE_WAIT, |free| *free == 0);
        let (mut free, _) = waited.unwrap_or_else(PoisonError::into_inner);
        *free = free.checked_sub(1)?;
        Some(Place(Arc::clone(places)))
    }
}

/// A place, given back when dropped.
struct Place(Arc<Places>);

impl Drop for Place {
    fn drop(&mut self) {
        *lock(&self.0.free) += 1;
        self.0.freed.notify_one();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn check_size(source: &GrammarSource) -> Result<()> {
    match source {
        GrammarSource::JsonObject => Ok(()),
        GrammarSource::JsonSchema(text) => {
            check_limit("JSON schema, bytes,", text.len(), MAX_SCHEMA_BYTES)
        }
        GrammarSource::Regex(text) => {
            check_limit("regular expression, bytes,", text.len(), MAX_REGEX_BYTES)
        }
        GrammarSource::Grammar(text) => {
            check_limit("grammar, bytes,", text.len(), MAX_GRAMMAR_BYTES)
        }
        GrammarSource::Calls(text) => check_limit("tools, bytes,", text.len(), MAX_CALLS_BYTES),
        GrammarSource::Choice(choices) => {
            check_limit("list of choices, entries,", choices.len(), MAX_CHOICES)?;
            let bytes = choices.iter().map(String::len).sum();
            check_limit("list of choices, bytes,", bytes, MAX_CHOICE_BYTES)
        }
    }
}

fn digest(source: &GrammarSource) -> Digest {
    let mut hash = Sha256::new();
    let mut add = |text: &str| {
        hash.update((text.len() as u64).to_le_bytes());
        hash.update(text);
    };
    add(source.kind());
    match source {
        GrammarSource::JsonObject => {}
        GrammarSource::JsonSchema(text)
        | GrammarSource::Regex(text)
        | GrammarSource::Grammar(text)
        | GrammarSource::Calls(text) => add(text),
        GrammarSource::Choice(choices) => choices.iter().for_each(|choice| add(choice)),
    }
    hash.finalize().into()
}

/// Compiles on this thread; says how many bytes the result takes, about.
fn compile(source: &GrammarSource, vocabulary: &Arc<Vocabulary>) -> Result<(Grammar, usize)> {
    let failed = |error: &dyn fmt::Display| TextError::grammar(source, reason(&error.to_string()));
    let grammar = read(source, vocabulary)?;
    let parser = vocabulary.factory.create_parser(grammar);
    let mut parser = parser.map_err(|error| failed(&error))?;
    if let Some(warning) = parser.grammar_warnings().first() {
        return Err(failed(warning));
    }
    parser.start_without_prompt();
    let mut matcher = Matcher {
        parser,
        vocabulary: Arc::clone(vocabulary),
        kind: source.kind(),
        ends: true,
    };
    if matcher.next_tokens()? == NextTokens::End {
        return Err(failed(&"it allows nothing but the empty text"));
    }
    let automata = matcher.parser.parser.lexer_stats().num_bytes;
    let bytes = automata + source.len() * BYTES_PER_SOURCE_BYTE + GRAMMAR_BYTES_MIN;
    let grammar = Grammar {
        kind: source.kind(),
        start: Mutex::new(matcher.parser),
        vocabulary: Arc::clone(vocabulary),
    };
    Ok((grammar, bytes))
}

/// The source as `llguidance` reads it, once all that it has letter by letter can be written.
fn read(source: &GrammarSource, vocabulary: &Vocabulary) -> Result<TopLevelGrammar> {
    let read = match source {
        GrammarSource::JsonObject => Ok(json(schema::any_object())),
        GrammarSource::JsonSchema(text) => schema::read(text).and_then(|schema| {
            if !vocabulary.spelling.is_whole() {
                literals::schema(&schema, &vocabulary.spelling)?;
            }
            Ok(json(schema))
        }),
        GrammarSource::Regex(text) => expression(text, vocabulary),
        GrammarSource::Choice(choices) => choice(choices, vocabulary),
        GrammarSource::Grammar(text) if gbnf::is_gbnf(text) => {
            gbnf::to_lark(text).and_then(|text| lark(&text, vocabulary))
        }
        // Such a schema would not be checked, and may hold options that make it lenient.
        GrammarSource::Grammar(text) if text.contains("%json") => {
            Err("%json is not supported inside of a grammar; send a JSON schema".to_owned())
        }
        GrammarSource::Grammar(text) | GrammarSource::Calls(text) => lark(text, vocabulary),
    };
    read.map_err(|reason| TextError::grammar(source, reason))
}

/// What can be read of a source, or what is wrong with it.
type Read = std::result::Result<TopLevelGrammar, String>;

fn json(schema: Value) -> TopLevelGrammar {
    TopLevelGrammar::from_grammar(GrammarWithLexer::from_json_schema(schema))
}

fn lark(text: &str, vocabulary: &Vocabulary) -> Read {
    if !vocabulary.spelling.is_whole() {
        literals::lark(text, &vocabulary.spelling)?;
    }
    Ok(TopLevelGrammar::from_lark(text.to_owned()))
}

fn expression(text: &str, vocabulary: &Vocabulary) -> Read {
    if text.is_empty() {
        return Err("it is empty".to_owned());
    }
    if !vocabulary.spelling.is_whole() {
        literals::expression(text, Blanks::Count, &vocabulary.spelling)?;
    }
    Ok(TopLevelGrammar::from_regex(text))
}

fn choice(choices: &[String], vocabulary: &Vocabulary) -> Read {
    if choices.is_empty() || choices.iter().any(String::is_empty) {
        return Err("it needs at least one entry, and none may be empty".to_owned());
    }
    if !vocabulary.spelling.is_whole() {
        for choice in choices {
            vocabulary.spelling.check(choice)?;
            if !vocabulary.writes(choice.as_bytes()) {
                return Err(format!(
                    "no tokens of this model together are exactly {choice:?}; leave it out"
                ));
            }
        }
    }
    let escaped: Vec<_> = choices.iter().map(|choice| regex::escape(choice)).collect();
    let any = format!("({})", escaped.join("|"));
    Ok(TopLevelGrammar::from_regex(&any))
}

/// What of an error's text is for people.
pub(super) fn reason(error: &str) -> &str {
    if error.starts_with("panic:") {
        return "it is too complex or not well-formed";
    }
    let text = error.split("\n<").next().unwrap_or(error).trim();
    &text[..text.floor_char_boundary(REASON_BYTES_MAX)]
}
