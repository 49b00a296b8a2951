//! `POST /tokenize` and `POST /detokenize`: text to token ids and back.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;
use serde::Serialize;
use ucuz_llm::Input;

use crate::app::App;
use crate::body;
use crate::error::ApiError;
use crate::protocol::{TokenizeForm, parse_detokenize, parse_tokenize};
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
        let request = parse_tokenize(&body)?;
        app.check_model(request.model.as_deref())?;
        match request.form {
            TokenizeForm::Text(text) => {
                let ids = app.llm.tokenize(&text);
                ids.map_err(|error| ApiError::from_llm(error, "prompt"))
            }
            TokenizeForm::Prompt(generate) => {
                let input = match &generate.input {
                    Input::Chat(_) => "messages",
                    Input::Text(_) | Input::Tokens(_) => "prompt",
                };
                Ok(app.prompt(&generate, input)?.prompt.to_vec())
            }
        }
    };
    let tokens = app.prepare(tokenize).await?;
    let (count, max_model_len) = (tokens.len(), app.llm.info().context);
    Ok(reply::json(&Tokens {
        tokens,
        count,
        max_model_len,
    }))
}

pub(crate) async fn detokenize(
    State(app): State<Arc<App>>,
    request: Request,
) -> Result<Response, ApiError> {
    let body = body::read(request, &app).await?;
    let detokenize = move |app: &App| {
        let request = parse_detokenize(&body)?;
        app.check_model(request.model.as_deref())?;
        let text = app.llm.detokenize(&request.tokens);
        text.map_err(|error| ApiError::from_llm(error, "tokens"))
    };
    let prompt = app.prepare(detokenize).await?;
    Ok(reply::json(&Text { prompt }))
}
