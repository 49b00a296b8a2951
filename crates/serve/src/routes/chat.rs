//! `POST /v1/chat/completions`: messages in, an assistant's answer out.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;

use crate::app::App;
use crate::caller::Caller;
use crate::error::ApiError;
use crate::protocol::parse_chat;
use crate::reply::chat::{CHUNK, ChatChunks, WHOLE, whole};
use crate::reply::{Head, Reading, describe};
use crate::samples::Samples;
use crate::{body, sse};

/// The field that holds the prompt.
const INPUT: &str = "messages";

pub(crate) async fn create(
    State(app): State<Arc<App>>,
    request: Request,
) -> Result<Response, ApiError> {
    let caller = Caller::of(&request);
    let body = body::read(request, &app).await?;
    app.check_room()?;
    let prepare = move |app: &App| {
        let mut request = parse_chat(&body)?;
        app.check_model(request.model.as_deref())?;
        request.generate.class = caller.class(app, &request.standing)?;
        let prepared = app.prompt(&request.generate, INPUT)?;
        Ok((request, prepared))
    };
    let (request, prepared) = app.prepare(prepare).await?;
    let prepared = [prepared];
    let samples = Samples::start(&app, &prepared);
    let samples = samples.map_err(|error| ApiError::from_llm(error, INPUT))?;
    let delivery = request.delivery;
    let head = Head {
        id: app.new_id("chatcmpl-"),
        object: if delivery.stream { CHUNK } else { WHOLE },
        created: app.now(),
        model: app.options.model_id.clone(),
        system_fingerprint: app.llm.info().fingerprint.clone(),
    };
    let logprobs = request.generate.logprobs;
    let reading = Reading::new(&prepared[0], request.include_reasoning, &head.id, "call");
    let mut response = if delivery.stream {
        let chunks = ChatChunks::new(head, samples.len(), (logprobs, reading), delivery);
        sse::response(samples, chunks, app.options.limits.keep_alive)
    } else {
        whole(&head, samples, (logprobs, reading), delivery).await?
    };
    describe(&mut response, &prepared, &request.ignored);
    Ok(response)
}
