//! `POST /tokenize` and `POST /detokenize`: text to token ids and back.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;
use serde::Serialize;

use crate::app::App;
use crate::body;
use crate::error::ApiError;
use crate::fields::Fields;
use crate::json;
use crate::reply;

#[derive(Serialize)]
struct Tokens {
    tokens: Vec<u32>,
    count: usize,
    max_model_len: usize,
}

#[derive(Serialize)]
struct Text {
    prompt: String,
}

pub(crate) async fn tokenize(
    State(app): State<Arc<App>>,
    request: Request,
) -> Result<Response, ApiError> {
    let body = body::read(request, &app.options.limits).await?;
    let tokenize = move |app: &App| {
        let mut fields = Fields::of_body(json::parse(&body)?)?;
        app.check_model(fields.string("model")?.as_deref())?;
        let Some(text) = fields.string("prompt")? else {
            return Err(ApiError::invalid("prompt", "prompt is missing; give text"));
        };
        fields.finish()?;
        app.llm.tokenize(&text).map_err(|error| ApiError::from_llm(error, "prompt"))
    };
    let tokens = app.prepare(tokenize).await?;
    let (count, max_model_len) = (tokens.len(), app.llm.info().context);
    Ok(reply::json(&Tokens { tokens, count, max_model_len }))
}

pub(crate) async fn detokenize(
    State(app): State<Arc<App>>,
    request: Request,
) -> Result<Response, ApiError> {
    let body = body::read(request, &app.options.limits).await?;
    let detokenize = move |app: &App| {
        let mut fields = Fields::of_body(json::parse(&body)?)?;
        app.check_model(fields.string("model")?.as_deref())?;
        let tokens = fields.ids("tokens", json::MAX_VALUES)?;
        fields.finish()?;
        let vocab = app.llm.info().vocab;
        if let Some(id) = tokens.iter().find(|id| **id as usize >= vocab) {
            let message = format!("tokens holds id {id}, the vocabulary ends at {}", vocab - 1);
            return Err(ApiError::invalid("tokens", message));
        }
        app.llm.detokenize(&tokens).map_err(|error| ApiError::from_llm(error, "tokens"))
    };
    let prompt = app.prepare(detokenize).await?;
    Ok(reply::json(&Text { prompt }))
}
