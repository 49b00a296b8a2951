//! Every limit on what comes from outside; past one, the answer is [`crate::TextError::TooLarge`].

use std::time::Duration;

/// Tokens in a vocabulary. The largest in use has 262,144.
pub const MAX_TOKENS: usize = 1_048_576;
/// Bytes of one token's text.
pub const MAX_TOKEN_BYTES: usize = 4096;
/// Bytes of all token texts together.
pub const MAX_VOCAB_BYTES: usize = 256 << 20;
/// Merges of a byte-pair vocabulary.
pub const MAX_MERGES: usize = 2_097_152;
/// Bytes of a `tokenizer.json`. The largest in use has about 33 MiB.
pub const MAX_TOKENIZER_JSON_BYTES: usize = 128 << 20;
/// Bytes of a `tokenizer_config.json`.
pub const MAX_CONFIG_JSON_BYTES: usize = 8 << 20;
/// Bytes of a pre-tokenizer pattern.
pub const MAX_PATTERN_BYTES: usize = 8192;
/// Splits in a pre-tokenizer.
pub const MAX_STAGES: usize = 16;
/// Bytes of a text to encode in one call. The work space is about 44 bytes per byte of text.
pub const MAX_TEXT_BYTES: usize = 8 << 20;
/// Bytes of a chat template.
pub const MAX_TEMPLATE_BYTES: usize = 256 << 10;
/// Words and operators of one tag of a chat template: the length of a chain the parser recurses on.
pub const MAX_TAG_TOKENS: usize = 1000;
/// `elif` tags of a chat template; each is a level of recursion.
pub const MAX_ELIFS: usize = 256;
/// Different special tokens named in one chat template.
pub const MAX_TEMPLATE_SPECIALS: usize = 4096;
/// Work one rendering may do: instructions, plus one per 64 bytes created (so at most 64 MB).
pub const TEMPLATE_FUEL: u64 = 1_000_000;
/// Nested macros, loops and calls of a rendering; the engine's own safe maximum is 500.
pub const TEMPLATE_RECURSION: usize = 200;
/// Nested lists and objects in a message, tool or template argument.
pub const MAX_VALUE_DEPTH: usize = 64;
/// Messages in one conversation.
pub const MAX_MESSAGES: usize = 65_536;
/// Stop strings of one request.
pub const MAX_STOPS: usize = 64;
/// Bytes of one stop string.
pub const MAX_STOP_BYTES: usize = 4096;
/// Bytes of a JSON schema.
pub const MAX_SCHEMA_BYTES: usize = 256 << 10;
/// Subschemas and values of `enum` in a JSON schema.
pub const MAX_SCHEMA_NODES: usize = 10_000;
/// Alternatives times subschemas of one schema that combines them: each alternative is joined with a copy of all the rest.
pub const MAX_SCHEMA_PRODUCT: usize = 100_000;
/// Subschemas beside a reference, which are joined with all of its target.
pub const MAX_BESIDE_REFERENCE: usize = 50;
/// Bytes of a regular expression.
pub const MAX_REGEX_BYTES: usize = 16 << 10;
/// Bytes of a grammar of tool calls.
pub const MAX_CALLS_BYTES: usize = 512 << 10;
/// Bytes of a grammar.
pub const MAX_GRAMMAR_BYTES: usize = 128 << 10;
/// Choices of one request.
pub const MAX_CHOICES: usize = 1000;
/// Bytes of all choices of one request.
pub const MAX_CHOICE_BYTES: usize = 64 << 10;
/// States of one text's automata.
pub const MAX_LEXER_STATES: usize = 250_000;
/// Bytes of one text's automata; a text whose grammar needs more cannot be followed any further.
pub const MATCHER_BYTES: usize = 8 << 20;
/// Grammars that are compiled at once; more wait.
pub const COMPILE_PLACES: usize = 2;
/// Time that compiling a grammar may take.
pub const COMPILE_TIME: Duration = Duration::from_secs(2);
/// Time to wait for a place to compile.
pub const COMPILE_WAIT: Duration = Duration::from_millis(500);
/// Stack of a thread that compiles, bytes: the compiler recurses on schemas of [`MAX_SCHEMA_NODES`]. Touched as far as used.
pub const COMPILE_STACK_BYTES: usize = 256 << 20;
/// Bytes of compiled grammars that are kept.
pub const GRAMMAR_CACHE_BYTES: usize = 64 << 20;
/// Bytes of an answer held back while it isn't clear whether they are a tool call; past it they come out as text.
pub const MAX_HELD_CALL_BYTES: usize = 64 << 10;
/// Bytes of white space held back before a tool call or the end of thoughts; past it they come out.
pub const MAX_HELD_SPACE_BYTES: usize = 256;
/// Bytes of a tool's name in an answer.
pub const MAX_TOOL_NAME_BYTES: usize = 256;
