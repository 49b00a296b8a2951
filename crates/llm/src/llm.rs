//! The facade: what can be asked of a loaded model.

use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use ucuz_engine::{
    Constraint, EventSink, Handle, Health, Latencies, Refusals, Request, Stats, Watch,
};
use ucuz_text::{
    AnswerForm, ChatTemplate, DecodeOptions, Detokenizer, GrammarCompiler, LeadingSpace, Message,
    Special, SpecialText, StopMatcher, TextError, Tokenizer, encode_chat,
};

use crate::chat::{Chat, ChatForm};
use crate::constraint::{Constrained, ConstraintSpec};
use crate::generation::{Generation, GenerationParts};
use crate::info::ModelInfo;
use crate::prepare::{Prepared, Rules, resolve};
use crate::request::{GenerateRequest, Input};
use crate::{LlmError, LlmResult};

/// Most bytes of a rendered chat prompt, per token of context; longer text cannot fit anyway.
const PROMPT_BYTES_PER_TOKEN: usize = 64;

/// A loaded model with its engine.
pub struct Llm {
    tokenizer: Arc<Tokenizer>,
    chat: Option<ChatForm>,
    handle: Handle,
    info: ModelInfo,
    end_ids: Vec<u32>,
    /// Made with the first constrained request: it takes the time of loading a tokenizer, and memory.
    grammars: OnceLock<Result<GrammarCompiler, TextError>>,
}

/// What an [`Llm`] is made of, for callers with an engine of their own (tests, simulations).
pub struct LlmParts {
    /// Ids and text.
    pub tokenizer: Arc<Tokenizer>,
    /// The chat template, if there is one.
    pub template: Option<ChatTemplate>,
    /// The engine.
    pub handle: Handle,
    /// Facts.
    pub info: ModelInfo,
}

/// What [`Llm::tokenizer_facts`] tells: texts of special tokens, and what stands around a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenizerFacts<'a> {
    /// Begin of sequence.
    pub bos: Option<String>,
    /// End of sequence.
    pub eos: Option<String>,
    /// Unknown text.
    pub unk: Option<String>,
    /// Padding.
    pub pad: Option<String>,
    /// Whether a prompt of text begins with `bos`.
    pub adds_bos: bool,
    /// Whether it ends with `eos`.
    pub adds_eos: bool,
    /// The chat template as the model brings it.
    pub chat_template: Option<&'a str>,
}

impl Llm {
    /// Puts a facade over an engine that runs already.
    pub fn from_parts(parts: LlmParts) -> Self {
        let LlmParts {
            tokenizer,
            template,
            handle,
            info,
        } = parts;
        let mut end_ids = tokenizer.eog_ids().to_vec();
        end_ids.extend(
            info.defaults
                .eos_ids
                .iter()
                .filter(|id| (**id as usize) < info.vocab),
        );
        end_ids.sort_unstable();
        end_ids.dedup();
        Self {
            tokenizer,
            chat: template.map(|template| ChatForm::new(template, &info.architecture)),
            handle,
            info,
            end_ids,
            grammars: OnceLock::new(),
        }
    }

    /// Facts of the model.
    pub fn info(&self) -> &ModelInfo {
        &self.info
    }

    /// State of the engine thread.
    pub fn health(&self) -> Health {
        self.handle.health()
    }

    /// Numbers of the engine at the end of its last step.
    pub fn stats(&self) -> Arc<Stats> {
        self.handle.stats()
    }

    /// Begins to look at the engine's steps and blocks, unless `most` look already.
    pub fn watch(&self, most: usize) -> Option<Watch> {
        self.handle.watch(most)
    }

    /// Requests refused so far for want of room or time.
    pub fn refusals(&self) -> Refusals {
        self.handle.refusals()
    }

    /// Whether so many more requests would find a place now.
    ///
    /// # Errors
    /// [`LlmError::Full`] when too many are inside, [`LlmError::Unavailable`] when the engine drains or died.
    pub fn check_room(&self, requests: usize) -> LlmResult<()> {
        Ok(self.handle.check_room(requests)?)
    }

    /// How long requests and tokens took.
    pub fn latencies(&self) -> &Latencies {
        self.handle.latencies()
    }

    /// Refuses new requests and lets the others finish.
    pub fn drain(&self) {
        self.handle.drain();
    }

    /// Refuses new requests and cancels the others.
    pub fn shutdown(&self) {
        self.handle.shutdown();
    }

    /// Whether the engine thread has ended.
    pub fn has_ended(&self) -> bool {
        self.handle.has_ended()
    }

    /// Waits until the engine thread has ended.
    pub fn join(&self) {
        self.handle.join();
    }

    /// Encodes a request's prompt, resolves its defaults, checks every rule and compiles its constraint.
    ///
    /// `entropy` seeds the noise when the request has no seed; `now` is what a template's clock shows.
    ///
    /// # Errors
    /// [`LlmError::Invalid`] and [`LlmError::ContextLength`] with the rule, the value and the way out.
    pub fn prepare(
        &self,
        request: &GenerateRequest,
        entropy: u64,
        now: SystemTime,
    ) -> LlmResult<Prepared> {
        let (mut answer, mut forced) = (AnswerForm::default(), None);
        let prompt = match &request.input {
            Input::Tokens(ids) => ids.clone(),
            Input::Text(text) => self.tokenizer.encode_prompt(text, Special::Parse)?,
            Input::Chat(messages) => {
                let (ids, form) = self.encode_chat(messages, request, now)?;
                forced = self.forced(request, &form)?;
                answer = form;
                if request.constraint.is_some() {
                    // All of the answer follows the rule: no thoughts come before it, whatever the prompt has opened.
                    answer.thoughts = None;
                }
                ids
            }
        };
        let rules = Rules {
            vocab: self.info.vocab,
            context: self.info.context,
            defaults: &self.info.defaults,
            end_ids: &self.end_ids,
        };
        let mut prepared = resolve(request, prompt, &rules, entropy)?;
        prepared.constraint = self.constraint(request, forced.as_ref())?;
        Ok(Prepared { answer, ..prepared })
    }

    /// What the offered tools force on an answer of this form.
    fn forced(
        &self,
        request: &GenerateRequest,
        form: &AnswerForm,
    ) -> LlmResult<Option<ConstraintSpec>> {
        let (Some(offer), Some(chat)) = (&request.tools, &self.chat) else {
            return Ok(None);
        };
        let forced = chat.enforce(offer, form)?;
        match (&forced, &request.constraint) {
            (Some(_), Some(spec)) => {
                let param = spec.param;
                let message = format!(
                    "{param} and calls that must keep to tools are given; an answer follows one rule"
                );
                Err(LlmError::invalid(param, message))
            }
            _ => Ok(forced),
        }
    }

    /// The request's constraint, compiled or found among those that its tenant used lately.
    fn constraint(
        &self,
        request: &GenerateRequest,
        forced: Option<&ConstraintSpec>,
    ) -> LlmResult<Option<Arc<Constrained>>> {
        let Some(spec) = forced.or(request.constraint.as_ref()) else {
            return Ok(None);
        };
        let grammars = self
            .grammars
            .get_or_init(|| GrammarCompiler::new(&self.tokenizer, &self.end_ids));
        let owner = u64::from(request.class.tenant.0);
        let grammar = match grammars {
            Ok(grammars) => grammars.compile(&spec.source, owner),
            Err(error) => Err(error.clone()),
        };
        let grammar = grammar.map_err(|error| match error {
            TextError::Busy => LlmError::Full {
                message: error.to_string(),
                retry_after_s: 1,
            },
            error => LlmError::invalid(spec.param, error.to_string()),
        })?;
        let ends = !request.ignore_eos;
        Ok(Some(Arc::new(Constrained { grammar, ends })))
    }

    /// The prompt of a conversation, and what the answer may hold.
    fn encode_chat(
        &self,
        messages: &[Message],
        request: &GenerateRequest,
        now: SystemTime,
    ) -> LlmResult<(Vec<u32>, AnswerForm)> {
        let form = self.chat.as_ref().ok_or_else(|| {
            let message =
                "this model has no chat template; use /v1/completions with a plain prompt";
            LlmError::invalid("messages", message)
        })?;
        let now = now.duration_since(SystemTime::UNIX_EPOCH).ok();
        let chat = Chat {
            messages,
            tools: request.tools.as_ref(),
            now_unix_s: now.and_then(|d| i64::try_from(d.as_secs()).ok()),
            output_bytes_max: self.prompt_bytes_max(),
        };
        let (rendered, answer) = form.render(&chat).map_err(|error| match error {
            LlmError::Text(error) => self.too_long(error),
            error => error,
        })?;
        Ok((encode_chat(&self.tokenizer, &rendered)?, answer))
    }

    /// A prompt whose text alone cannot fit is over the context, whatever it was that counted it.
    fn too_long(&self, error: TextError) -> LlmError {
        match error {
            TextError::TooLarge { found, limit, .. } if limit == self.prompt_bytes_max() => {
                let message = format!(
                    "prompt has {found} bytes of text, at least {} tokens, over the context of {} tokens; shorten the prompt",
                    found / PROMPT_BYTES_PER_TOKEN,
                    self.info.context
                );
                LlmError::ContextLength { message }
            }
            error => LlmError::Text(error),
        }
    }

    fn prompt_bytes_max(&self) -> usize {
        self.info.context.saturating_mul(PROMPT_BYTES_PER_TOKEN)
    }

    /// Starts sample `sample` of a prepared request; its events go to `sink`, which feeds the [`Generation`].
    ///
    /// # Errors
    /// [`LlmError::Full`] when too many wait, [`LlmError::Unavailable`] when the engine drains or died.
    pub fn start(
        &self,
        prepared: &Prepared,
        sample: u32,
        sink: Box<dyn EventSink>,
    ) -> LlmResult<Generation> {
        let stops = StopMatcher::new(&prepared.stop)?;
        let options = DecodeOptions {
            special: if prepared.skip_special_tokens {
                SpecialText::Hide
            } else {
                SpecialText::Show
            },
            // A grammar counts a leading space as text.
            leading_space: if prepared.is_chat && prepared.constraint.is_none() {
                LeadingSpace::Strip
            } else {
                LeadingSpace::Keep
            },
        };
        let detokenizer = Detokenizer::new(Arc::clone(&self.tokenizer), options);
        let request = Request {
            prompt: prepared.prompt.to_vec(),
            params: prepared.params.clone(),
            sample,
            max_tokens: prepared.max_tokens,
            min_tokens: prepared.min_tokens,
            stop_ids: prepared.stop_ids.clone(),
            constraint: prepared
                .constraint
                .clone()
                .map(|rule| rule as Arc<dyn Constraint>),
            logprobs: prepared.logprobs,
            prompt_logprobs: prepared.prompt_logprobs,
            pool: prepared.pool,
            class: prepared.class,
        };
        let id = self.handle.submit(request, sink)?;
        Ok(Generation::new(GenerationParts {
            handle: self.handle.clone(),
            id,
            tokenizer: Arc::clone(&self.tokenizer),
            detokenizer: detokenizer.showing(prepared.answer.marks()),
            stops,
            stop_strings: prepared.stop.clone(),
            prompt_tokens: u32::try_from(prepared.prompt.len()).unwrap_or(u32::MAX),
            min_tokens: prepared.min_tokens,
        }))
    }

    /// Token ids of a text, special tokens parsed, nothing added.
    ///
    /// # Errors
    /// A text over the tokenizer's limit.
    pub fn tokenize(&self, text: &str) -> LlmResult<Vec<u32>> {
        Ok(self.tokenizer.encode(text, Special::Parse)?)
    }

    /// Text of token ids, special tokens shown.
    ///
    /// # Errors
    /// An id outside of the vocabulary.
    pub fn detokenize(&self, ids: &[u32]) -> LlmResult<String> {
        if let Some(id) = ids.iter().find(|id| **id as usize >= self.info.vocab) {
            let message = format!(
                "token id {id} is outside of the vocabulary, which ends at {}",
                self.info.vocab - 1
            );
            return Err(LlmError::invalid("tokens", message));
        }
        let options = DecodeOptions {
            special: SpecialText::Show,
            leading_space: LeadingSpace::Keep,
        };
        Ok(self.tokenizer.decode(ids, options))
    }

    /// What is known of the tokenizer beside its vocabulary.
    pub fn tokenizer_facts(&self) -> TokenizerFacts<'_> {
        let ids = self.tokenizer.special_ids();
        let text = |id: Option<u32>| {
            let bytes = self.tokenizer.token_bytes(id?)?;
            Some(String::from_utf8_lossy(bytes).into_owned())
        };
        TokenizerFacts {
            bos: text(ids.bos),
            eos: text(ids.eos),
            unk: text(ids.unk),
            pad: text(ids.pad),
            adds_bos: self.tokenizer.adds_bos(),
            adds_eos: self.tokenizer.adds_eos(),
            chat_template: self.chat.as_ref().map(ChatForm::source),
        }
    }

    /// Bytes of one token; empty for ids without text.
    pub fn token_bytes(&self, id: u32) -> &[u8] {
        self.tokenizer.token_bytes(id).unwrap_or_default()
    }
}
