//! `POST /v1/completions/render` and `POST /v1/chat/completions/render`: the token ids that a request would run with.
//!
//! Routers ask for them to find the worker that has them cached. A body is that of the endpoint itself.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;
use serde::Serialize;
use ucuz_llm::GenerateRequest;

use crate::app::App;
use crate::body;
use crate::caller::Caller;
use crate::error::ApiError;
use crate::protocol::{parse_chat, parse_completion};
use crate::reply::json;

#[derive(Serialize)]
struct Rendered {
    token_ids: Vec<u32>,
}

#[derive(Serialize)]
struct RenderedChat {
    token_ids: Vec<u32>,
    /// Of images, of which there are none.
    features: Option<()>,
}

pub(crate) async fn completion(
    State(app): State<Arc<App>>,
    request: Request,
) -> Result<Response, ApiError> {
    let caller = Caller::of(&request);
    let body = body::read(request, &app).await?;
    let render = move |app: &App| {
        let request = parse_completion(&body)?;
        app.check_model(request.model.as_deref())?;
        caller.class(app, &request.standing)?;
        let prompts = request.prompts.into_iter().map(|input| {
            let generate = GenerateRequest {
                input,
                ..request.generate.clone()
            };
            let token_ids = token_ids(app, &generate, "prompt")?;
            Ok(Rendered { token_ids })
        });
        prompts.collect::<Result<Vec<_>, ApiError>>()
    };
    Ok(json(&app.prepare(render).await?))
}

pub(crate) async fn chat(
    State(app): State<Arc<App>>,
    request: Request,
) -> Result<Response, ApiError> {
    let caller = Caller::of(&request);
    let body = body::read(request, &app).await?;
    let render = move |app: &App| {
        let request = parse_chat(&body)?;
        app.check_model(request.model.as_deref())?;
        caller.class(app, &request.standing)?;
        token_ids(app, &request.generate, "messages")
    };
    let token_ids = app.prepare(render).await?;
    Ok(json(&RenderedChat {
        token_ids,
        features: None,
    }))
}

fn token_ids(
    app: &App,
    generate: &GenerateRequest,
    input: &'static str,
) -> Result<Vec<u32>, ApiError> {
    let prepared = app.llm.prepare(generate, 0, (app.options.clock)());
    let prepared = prepared.map_err(|error| ApiError::from_llm(error, input))?;
    Ok(prepared.prompt.to_vec())
}
