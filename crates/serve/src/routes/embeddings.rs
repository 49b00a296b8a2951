//! `POST /v1/embeddings`: one vector a text, pooled from the last norm of the model that is served.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;
use ucuz_llm::{GenerateRequest, Prepared};

use crate::app::App;
use crate::body;
use crate::caller::Caller;
use crate::error::ApiError;
use crate::protocol::{EmbeddingsRequest, parse_embeddings};
use crate::reply::describe;
use crate::reply::embeddings::{Form, whole};
use crate::samples::Samples;

/// The field that holds the prompt.
const INPUT: &str = "input";

pub(crate) async fn create(
    State(app): State<Arc<App>>,
    request: Request,
) -> Result<Response, ApiError> {
    let caller = Caller::of(&request);
    let body = body::read(request, &app).await?;
    app.check_room()?;
    let prepare = move |app: &App| {
        let mut request = parse_embeddings(&body)?;
        app.check_model(request.model.as_deref())?;
        request.generate.class = caller.class(app, &request.standing)?;
        let prepared = prepare(app, &mut request)?;
        Ok((request, prepared))
    };
    let (request, prepared) = app.prepare(prepare).await?;
    let samples = Samples::start(&app, &prepared);
    let samples = samples.map_err(|error| ApiError::from_llm(error, INPUT))?;
    let form = Form {
        model: &app.options.model_id,
        dimensions: request.dimensions,
        is_base64: request.is_base64,
        normalize: request.normalize,
    };
    let mut response = whole(&form, samples).await?;
    describe(&mut response, &[], &request.ignored);
    Ok(response)
}

fn prepare(app: &App, request: &mut EmbeddingsRequest) -> Result<Vec<Prepared>, ApiError> {
    let inputs = std::mem::take(&mut request.inputs).into_iter();
    let prepared = inputs.map(|input| {
        let generate = GenerateRequest {
            input,
            ..request.generate.clone()
        };
        let prepared = app.llm.prepare(&generate, 0, (app.options.clock)());
        prepared.map_err(|error| ApiError::from_llm(error, INPUT))
    });
    prepared.collect()
}
