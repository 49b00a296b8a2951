//! `POST /tokenize` and `POST /detokenize`: text to token ids and back.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;
use serde::Serialize;
use ucuz_llm::{GenerateRequest, Input, LlmResult};

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
    let body = body::read(request, &app).await?;
    let tokenize = move |app: &App| {
        let mut fields = Fields::of_body(json::parse(&body)?)?;
        app.check_model(fields.string("model")?.as_deref())?;
        let Some(text) = fields.string("prompt")? else {
            return Err(ApiError::invalid("prompt", "prompt is missing; give text"));
        };
        let adds_special = fields.bool("add_special_tokens")?.unwrap_or(false);
        fields.finish()?;
        let ids = if adds_special {
            prompt_ids(app, text)
        } else {
            app.llm.tokenize(&text)
        };
        ids.map_err(|error| ApiError::from_llm(error, "prompt"))
    };
    let tokens = app.prepare(tokenize).await?;
    let (count, max_model_len) = (tokens.len(), app.llm.info().context);
    Ok(reply::json(&Tokens {
        tokens,
        count,
        max_model_len,
    }))
}

/// The ids that `/v1/completions` would run with, BOS included; the text must fit the context.
fn prompt_ids(app: &App, text: String) -> LlmResult<Vec<u32>> {
    let request = GenerateRequest::new(Input::Text(text));
    let prepared = app.llm.prepare(&request, 0, (app.options.clock)())?;
    Ok(prepared.prompt.to_vec())
}

pub(crate) async fn detokenize(
    State(app): State<Arc<App>>,
    request: Request,
) -> Result<Response, ApiError> {
    let body = body::read(request, &app).await?;
    let detokenize = move |app: &App| {
        let mut fields = Fields::of_body(json::parse(&body)?)?;
        app.check_model(fields.string("model")?.as_deref())?;
        let tokens = fields.ids("tokens", json::MAX_VALUES)?;
        fields.finish()?;
        app.llm
            .detokenize(&tokens)
            .map_err(|error| ApiError::from_llm(error, "tokens"))
    };
    let prompt = app.prepare(detokenize).await?;
    Ok(reply::json(&Text { prompt }))
}
