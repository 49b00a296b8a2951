//! Answers of `/v1/embeddings`.

use axum::response::Response;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use ucuz_llm::Output;

use super::{failed, finish_reason, json};
use crate::error::ApiError;
use crate::samples::Samples;

/// How vectors are told.
pub(crate) struct Form<'a> {
    pub model: &'a str,
    /// Numbers that a vector must have.
    pub dimensions: Option<u32>,
    pub is_base64: bool,
    pub normalize: bool,
}

#[derive(Serialize)]
struct List<'a> {
    object: &'static str,
    data: Vec<Embedding>,
    model: &'a str,
    usage: Counts,
}

#[derive(Serialize)]
struct Embedding {
    object: &'static str,
    index: usize,
    embedding: Numbers,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Numbers {
    List(Vec<f32>),
    Base64(String),
}

#[derive(Default, Serialize)]
struct Counts {
    prompt_tokens: u64,
    total_tokens: u64,
}

/// Waits for all vectors.
///
/// # Errors
/// That of the first text that fails; 400 when vectors have another length than was asked for.
pub(crate) async fn whole(form: &Form<'_>, mut samples: Samples) -> Result<Response, ApiError> {
    let mut vectors: Vec<Vec<f32>> = vec![Vec::new(); samples.len()];
    let mut usage = Counts::default();
    while let Some((index, output)) = samples.next().await {
        match output {
            Output::Nothing | Output::Prompt(_) | Output::Delta(_) => {}
            Output::Pooled(vector) => vectors[index] = vector,
            Output::Finished(_, finished) => {
                finish_reason(finished.reason)?;
                usage.prompt_tokens += u64::from(finished.usage.prompt_tokens);
            }
            Output::Failed { kind, text } => return Err(failed(kind, &text)),
        }
    }
    usage.total_tokens = usage.prompt_tokens;
    let data = vectors.into_iter().enumerate().map(|(index, vector)| {
        Ok(Embedding {
            object: "embedding",
            index,
            embedding: form.numbers(vector)?,
        })
    });
    Ok(json(&List {
        object: "list",
        data: data.collect::<Result<_, ApiError>>()?,
        model: form.model,
        usage,
    }))
}

impl Form<'_> {
    fn numbers(&self, mut vector: Vec<f32>) -> Result<Numbers, ApiError> {
        if let Some(wanted) = self.dimensions
            && wanted as usize != vector.len()
        {
            let has = vector.len();
            let message = format!(
                "dimensions is {wanted}, this model's vectors have {has}; leave it out or give {has}"
            );
            return Err(ApiError::invalid("dimensions", message));
        }
        if self.normalize {
            normalize(&mut vector);
        }
        Ok(match self.is_base64 {
            true => {
                let bytes: Vec<u8> = vector
                    .iter()
                    .flat_map(|value| value.to_le_bytes())
                    .collect();
                Numbers::Base64(STANDARD.encode(bytes))
            }
            false => Numbers::List(vector),
        })
    }
}

/// Scales to Euclidean length 1; a vector of zeros stays.
fn normalize(vector: &mut [f32]) {
    let squares = vector.iter().map(|value| f64::from(*value).powi(2));
    let length = squares.sum::<f64>().sqrt();
    if length > 0.0 {
        for value in vector {
            *value = (f64::from(*value) / length) as f32;
        }
    }
}
