//! A byte-level vocabulary with some longer tokens, and texts drawn from a grammar over it.

use std::sync::OnceLock;

use ucuz_text::{
    GrammarCompiler, GrammarSource, Matcher, NextTokens, SpecialIds, TextError, Tokenizer,
    VocabSpec,
};

/// Tokens beyond single bytes, as byte-level vocabularies spell them (`Ġ` is a space, `Ċ` a line end).
const LONGER: [&str; 20] = [
    "{\"", "\":", "\",", "\",Ġ\"", "\":Ġ\"", "\"}", "true", "false", "null", "ab", "abc", "Ġthe",
    "12", "-1", "0.", "]}", "Ċ", "ĠĠ", "Ã©", "\\\"",
];

/// What a test vocabulary has.
pub struct Vocabulary {
    pub tokenizer: Tokenizer,
    pub compiler: GrammarCompiler,
    pub end: u32,
}

/// The one of these tests.
pub fn vocabulary() -> &'static Vocabulary {
    static VOCABULARY: OnceLock<Vocabulary> = OnceLock::new();
    VOCABULARY.get_or_init(|| {
        let tokenizer = tokenizer();
        let end = tokenizer.vocab_size() as u32 - 1;
        let compiler = GrammarCompiler::new(&tokenizer, &[end]).unwrap();
        Vocabulary {
            tokenizer,
            compiler,
            end,
        }
    })
}

fn tokenizer() -> Tokenizer {
    let is_printable = |byte: u32| matches!(byte, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff);
    let mut stand_in = 256;
    let mut texts = Vec::new();
    for byte in 0u32..256 {
        let point = if is_printable(byte) {
            byte
        } else {
            stand_in += 1;
            stand_in - 1
        };
        texts.push(char::from_u32(point).unwrap().to_string());
    }
    texts.extend(
        LONGER
            .iter()
            .filter(|text| text.chars().count() > 1)
            .map(|&text| text.to_owned()),
    );
    let normal = texts.len();
    texts.extend(["<|im_start|>".to_owned(), "<|im_end|>".to_owned()]);
    let types = (0..texts.len()).map(|id| if id < normal { 1 } else { 3 });
    let eos = Some(texts.len() as u32 - 1);
    Tokenizer::from_vocab(&VocabSpec {
        model: "gpt2",
        pre: Some("gpt-2"),
        tokens: texts.iter().map(String::as_bytes).collect(),
        token_types: Some(types.collect()),
        merges: Some(Vec::new()),
        ids: SpecialIds {
            eos,
            ..SpecialIds::default()
        },
        add_bos: Some(false),
        ..VocabSpec::default()
    })
    .unwrap()
}

pub fn matcher(source: &GrammarSource) -> Result<Matcher, TextError> {
    Ok(vocabulary().compiler.compile(source, 0)?.matcher(true))
}

pub fn allows(bits: &[u32], id: u32) -> bool {
    bits.get(id as usize / 32)
        .is_some_and(|word| word >> (id % 32) & 1 == 1)
}

/// Whether a text is one of the grammar's: byte by byte (the id of a byte's token is the byte), each allowed, and the end after the last.
pub fn accepts(source: &GrammarSource, text: &str) -> bool {
    let mut matcher = matcher(source).unwrap_or_else(|error| panic!("{source:?}: {error}"));
    for byte in text.bytes() {
        match matcher.next_tokens().unwrap() {
            NextTokens::Ids(bits) if allows(&bits, u32::from(byte)) => {}
            _ => return false,
        }
        matcher.accept(u32::from(byte)).unwrap();
    }
    match matcher.next_tokens().unwrap() {
        NextTokens::End => true,
        NextTokens::Ids(bits) => allows(&bits, vocabulary().end),
    }
}

/// Numbers without a pattern, seeded (SplitMix64; Steele, Lea, Flood 2014).
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut x = self.0;
        x = (x ^ x >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        x = (x ^ x >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((x ^ x >> 31) % n as u64) as usize
    }

    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub fn of<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }
}

/// Draws a text of the grammar from random allowed tokens, closing what is open more and more often; `None` when it is
/// not complete after many.
pub fn draw(source: &GrammarSource, random: &mut Random) -> Option<Vec<u8>> {
    let (vocabulary, mut matcher) = (vocabulary(), matcher(source).unwrap());
    let mut text = Vec::new();
    for step in 0..600 {
        let bits = match matcher.next_tokens().unwrap() {
            NextTokens::End => return Some(text),
            NextTokens::Ids(bits) => bits,
        };
        let id = choose(&bits, step, random);
        if id == vocabulary.end {
            return Some(text);
        }
        text.extend(vocabulary.tokenizer.token_bytes(id).unwrap());
        matcher.accept(id).unwrap();
    }
    None
}

fn choose(bits: &[u32], step: usize, random: &mut Random) -> u32 {
    let end = vocabulary().end;
    // The quote before the brackets, which inside of a text close nothing.
    let closing = [end, u32::from(b'"'), u32::from(b'}'), u32::from(b']')];
    let hurry = if step > 150 { 100 } else { 25 };
    if random.chance(hurry)
        && let Some(id) = closing.iter().find(|&&id| allows(bits, id))
    {
        return *id;
    }
    let ids: Vec<u32> = (0..=end).filter(|&id| allows(bits, id)).collect();
    *random.of(&ids)
}
