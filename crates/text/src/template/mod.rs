//! Chat templates: messages to a prompt.
//!
//! The model's own Jinja template is rendered as Hugging Face renders it (trimmed blocks, Python's
//! string and dict methods, `raise_exception`, `strftime_now`, `tojson`), within fixed limits of
//! work, depth and output. What it can't render is an error that names the construct; there is
//! never another template in its place. How forged special tokens are kept out: `guard`.
//! Tools go to the template in OpenAI's form, calls of earlier answers with their arguments as objects; a template that reads
//! no tools can be given plain messages instead ([`crate::tools::describe`]).
//! Not here: parsing what the model answers; clocks (time comes with the options).

mod builtin;
mod depth;
mod functions;
mod guard;
mod message;

use std::io;
use std::ops::Range;
use std::sync::Arc;

use minijinja::syntax::SyntaxConfig;
use minijinja::{Environment, ErrorKind};
use serde_json::{Map, Value};

pub use self::message::{Content, Message};

use self::functions::{Clock, Raised};
use self::guard::{Expanded, Guard, Untrusted};
use crate::Result;
use crate::error::{TextError, check_limit};
use crate::limits::{MAX_MESSAGES, MAX_TEMPLATE_BYTES, TEMPLATE_FUEL, TEMPLATE_RECURSION};
use crate::tokenizer::Tokenizer;

const NAME: &str = "chat";

/// The special tokens a template may write: the tokenizer, and the texts of its named tokens.
#[derive(Debug, Clone)]
pub struct TemplateTokens {
    tokenizer: Arc<Tokenizer>,
}

impl TemplateTokens {
    /// All special tokens of a tokenizer.
    pub fn new(tokenizer: Arc<Tokenizer>) -> TemplateTokens {
        TemplateTokens { tokenizer }
    }

    /// The variables Hugging Face gives a template: `bos_token` and its like, where they exist.
    fn named(&self) -> impl Iterator<Item = (&'static str, String)> {
        let ids = self.tokenizer.special_ids();
        let named = [
            ("bos_token", ids.bos),
            ("eos_token", ids.eos),
            ("unk_token", ids.unk),
            ("pad_token", ids.pad),
        ];
        named.into_iter().filter_map(|(name, id)| {
            let bytes = self.tokenizer.token_bytes(id?)?;
            Some((name, String::from_utf8(bytes.to_vec()).ok()?))
        })
    }
}

/// What a rendering gets besides the messages.
#[derive(Debug, Clone)]
pub struct RenderOptions {
    /// Ask for the opening of the assistant's turn.
    pub add_generation_prompt: bool,
    /// Tool descriptions, as the client gave them.
    pub tools: Option<Vec<Value>>,
    /// Further template variables (`chat_template_kwargs`).
    pub extra: Map<String, Value>,
    /// Now, in seconds since 1970 UTC, for `strftime_now`; without it the function is an error.
    pub now_unix_s: Option<i64>,
    /// Most bytes of prompt text.
    pub max_output_bytes: usize,
}

impl RenderOptions {
    /// A generation prompt, no tools, no extras, no clock.
    pub fn new(max_output_bytes: usize) -> RenderOptions {
        RenderOptions {
            add_generation_prompt: true,
            tools: None,
            extra: Map::new(),
            now_unix_s: None,
            max_output_bytes,
        }
    }
}

/// A prompt that knows which of its special tokens the template wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rendered {
    text: String,
    /// Byte ranges of special tokens written by the template, ascending.
    trusted: Vec<Range<usize>>,
}

impl Rendered {
    /// The prompt, as Hugging Face would render it.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Byte ranges of the special tokens written by the template, ascending; special-token text
    /// elsewhere came from a message and is plain.
    pub fn special_ranges(&self) -> &[Range<usize>] {
        &self.trusted
    }
}

/// The ids of a rendered prompt: the template's special tokens parsed, all else plain, and the
/// begin token in front exactly once where the tokenizer adds one.
///
/// # Errors
/// As [`Tokenizer::encode`].
pub fn encode_chat(tokenizer: &Tokenizer, rendered: &Rendered) -> Result<Vec<u32>> {
    Ok(tokenizer.with_bos(tokenizer.encode_trusting(&rendered.text, &rendered.trusted)?))
}

/// A compiled chat template.
#[derive(Debug)]
pub struct ChatTemplate {
    environment: Environment<'static>,
    guard: Guard,
    tokens: TemplateTokens,
    source: String,
}

impl ChatTemplate {
    /// Compiles the template that a model brings.
    ///
    /// # Errors
    /// `NoTemplate` for an absent or blank one, `TemplateSyntax` naming what can't be compiled,
    /// `TooLarge` over [`MAX_TEMPLATE_BYTES`].
    pub fn new(source: Option<&str>, tokens: &TemplateTokens) -> Result<ChatTemplate> {
        let source = source.filter(|source| !source.trim().is_empty());
        let source = source.ok_or(TextError::NoTemplate {
            known: builtin::NAMES,
        })?;
        check_limit("chat template, bytes,", source.len(), MAX_TEMPLATE_BYTES)?;
        let (guard, marked) = Guard::mark(source, &tokens.tokenizer)?;
        let marked = functions::drop_generation_tags(&marked).into_owned();
        depth::check(&marked)?;
        let mut environment = environment();
        environment
            .add_template_owned(NAME, marked)
            .map_err(|error| TextError::TemplateSyntax {
                line: error.line().unwrap_or(0),
                reason: guard.expand(&describe(&error)),
            })?;
        Ok(ChatTemplate {
            environment,
            guard,
            tokens: tokens.clone(),
            source: source.to_owned(),
        })
    }

    /// The source, as the model brings it.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Whether the template reads the variable `tools`: whether it can describe tools to the model.
    pub fn reads_tools(&self) -> bool {
        self.environment
            .get_template(NAME)
            .is_ok_and(|template| template.undeclared_variables(false).contains("tools"))
    }

    /// A built-in template, only ever used when asked for by name: chatml, gemma, llama3, mistral.
    ///
    /// # Errors
    /// `UnknownBuiltin`, listing the names.
    pub fn builtin(name: &str, tokens: &TemplateTokens) -> Result<ChatTemplate> {
        let source = builtin::source(name).ok_or_else(|| TextError::UnknownBuiltin {
            found: name.to_owned(),
            known: builtin::NAMES,
        })?;
        ChatTemplate::new(Some(source), tokens)
    }

    /// Renders a conversation.
    ///
    /// # Errors
    /// `TemplateRaised` with the template's own words, `TemplateRender` naming what failed,
    /// `AssembledSpecial` where a special token's origin is unclear, `TooLarge`, `BadRequest`.
    pub fn render(&self, messages: &[Message], options: &RenderOptions) -> Result<Rendered> {
        check_limit("messages", messages.len(), MAX_MESSAGES)?;
        let mut untrusted = Untrusted::new(&self.guard, &self.tokens.tokenizer);
        let context = self.context(messages, options, &mut untrusted)?;
        let mut output = Capped {
            bytes: Vec::new(),
            limit: options.max_output_bytes,
            found: 0,
        };
        let result = self.environment.get_template(NAME).and_then(|template| {
            template
                .render_captured_to(context, &mut output)
                .map(|_| ())
        });
        if output.found > output.limit {
            return check_limit("rendered prompt, bytes,", output.found, output.limit).map(|()| {
                Rendered {
                    text: String::new(),
                    trusted: Vec::new(),
                }
            });
        }
        result.map_err(|error| self.render_error(&error))?;
        let marked = String::from_utf8_lossy(&output.bytes);
        let Expanded { text, trusted } = untrusted.expand(&marked, options.max_output_bytes);
        check_limit(
            "rendered prompt, bytes,",
            text.len(),
            options.max_output_bytes,
        )?;
        untrusted.check_assembled(&text, &trusted)?;
        Ok(Rendered { text, trusted })
    }

    fn context(
        &self,
        messages: &[Message],
        options: &RenderOptions,
        untrusted: &mut Untrusted<'_>,
    ) -> Result<minijinja::Value> {
        let mut context = Map::new();
        for (name, value) in &options.extra {
            if RESERVED.contains(&name.as_str()) {
                let rule = "this name is the server's own; choose another";
                return Err(TextError::request(
                    format!("template argument {name:?}"),
                    rule,
                ));
            }
            context.insert(name.clone(), value.clone());
        }
        let messages = messages
            .iter()
            .enumerate()
            .map(|(index, message)| message.to_value(index));
        context.insert(
            "messages".to_owned(),
            Value::Array(messages.collect::<Result<_>>()?),
        );
        context.insert(
            "tools".to_owned(),
            options.tools.clone().map_or(Value::Null, Value::Array),
        );
        context.entry("documents").or_insert(Value::Null);
        let mut context = untrusted.scrub(Value::Object(context))?;
        let generate = Value::Bool(options.add_generation_prompt);
        context["add_generation_prompt"] = generate;
        for (name, text) in self.tokens.named() {
            context[name] = Value::String(self.guard.mark_text(&text));
        }
        let clock = minijinja::Value::from_object(Clock(options.now_unix_s));
        let context = minijinja::Value::from(minijinja::value::Serde(context));
        Ok(minijinja::context! { strftime_now => clock, ..context })
    }

    fn render_error(&self, error: &minijinja::Error) -> TextError {
        let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
        while let Some(at) = cause {
            if let Some(Raised(message)) = at.downcast_ref::<Raised>() {
                return TextError::TemplateRaised {
                    message: self.guard.expand(message),
                };
            }
            cause = at.source();
        }
        let reason = self.guard.expand(&describe(error));
        TextError::TemplateRender {
            line: error.line().unwrap_or(0),
            reason,
        }
    }
}

/// Variables a client must not set.
const RESERVED: [&str; 12] = [
    "messages",
    "tools",
    "add_generation_prompt",
    "bos_token",
    "eos_token",
    "unk_token",
    "pad_token",
    "strftime_now",
    "raise_exception",
    "tokenize",
    "chat_template",
    "tojson",
];

fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    let syntax = SyntaxConfig::builder()
        .trim_blocks(true)
        .lstrip_blocks(true)
        .build();
    if let Ok(syntax) = syntax {
        environment.set_syntax(syntax);
    }
    environment.set_fuel(Some(TEMPLATE_FUEL));
    environment.set_recursion_limit(TEMPLATE_RECURSION);
    environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
    environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
    functions::register(&mut environment);
    environment
}

fn describe(error: &minijinja::Error) -> String {
    match (error.kind(), error.detail()) {
        (ErrorKind::OutOfFuel, _) => {
            format!("the template does more work than the limit of {TEMPLATE_FUEL} steps")
        }
        (kind, Some(detail)) => format!("{kind}: {detail}"),
        (kind, None) => kind.to_string(),
    }
}

/// A writer that refuses to grow past its limit.
struct Capped {
    bytes: Vec<u8>,
    limit: usize,
    found: usize,
}

impl io::Write for Capped {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.found = self.bytes.len() + bytes.len();
        if self.found > self.limit {
            return Err(io::Error::other("output limit"));
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
