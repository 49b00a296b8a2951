//! The body of `/v1/embeddings`.
//!
//! Source: OpenAI API reference, "Embeddings"; `pooling` and `normalize` are our own.

use ucuz_llm::{GenerateRequest, Input, Pooling};

use super::common::{self, Standing};
use super::completion::inputs;
use super::optional::{Spare, settle};
use crate::clip::Clip;
use crate::error::ApiError;
use crate::fields::Fields;
use crate::json;

/// What is taken without an effect.
pub(crate) const SPARE: Spare = Spare {
    harmless: &["user"],
    unsupported: &[],
};

/// An embeddings request whose types and names are right.
#[derive(Debug, Clone)]
pub struct EmbeddingsRequest {
    /// The model asked for; absent means the one served.
    pub model: Option<String>,
    /// What to embed, one by one.
    pub inputs: Vec<Input>,
    /// Everything else; its `input` is empty.
    pub generate: GenerateRequest,
    /// How it stands among others.
    pub standing: Standing,
    /// Numbers that a vector should have.
    pub dimensions: Option<u32>,
    /// As base64 of little-endian f32 instead of a list of numbers.
    pub is_base64: bool,
    /// Scaled to length 1.
    pub normalize: bool,
    /// Fields that were given and have no effect.
    pub ignored: Vec<&'static str>,
}

/// Reads an embeddings request.
///
/// # Errors
/// 400 naming the field, the rule and the value; never panics, whatever the bytes.
pub fn parse_embeddings(body: &[u8]) -> Result<EmbeddingsRequest, ApiError> {
    let mut fields = Fields::of_body(json::parse(body)?)?;
    let model = fields.string("model")?;
    let standing = common::standing(&mut fields)?;
    let inputs = inputs(&mut fields, "input")?;
    let mut generate = GenerateRequest::new(Input::Tokens(Vec::new()));
    generate.max_tokens = Some(0);
    generate.pool = Some(one_of(
        &mut fields,
        "pooling",
        &[("mean", Pooling::Mean), ("last", Pooling::Last)],
    )?);
    let formats = [("float", false), ("base64", true)];
    let is_base64 = one_of(&mut fields, "encoding_format", &formats)?;
    let dimensions = fields.u32("dimensions")?;
    let normalize = fields.bool("normalize")?.unwrap_or(true);
    let ignored = settle(fields, &SPARE)?;
    Ok(EmbeddingsRequest {
        model,
        inputs,
        generate,
        standing,
        dimensions,
        is_base64,
        normalize,
        ignored,
    })
}

/// The value that a word stands for; the first when there is none.
fn one_of<T: Copy>(
    fields: &mut Fields,
    name: &'static str,
    words: &[(&str, T); 2],
) -> Result<T, ApiError> {
    let Some(given) = fields.string(name)? else {
        return Ok(words[0].1);
    };
    match words.iter().find(|(word, _)| *word == given) {
        Some((_, value)) => Ok(*value),
        None => {
            let [first, second] = words.each_ref().map(|(word, _)| *word);
            let given = Clip(&given);
            let message = format!("{name} is {given}, it must be \"{first}\" or \"{second}\"");
            Err(ApiError::invalid(name, message))
        }
    }
}
