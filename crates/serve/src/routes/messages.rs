//! `POST /v1/messages` and `POST /v1/messages/count_tokens`: Anthropic's form of a chat.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use ucuz_llm::Prepared;

use crate::app::App;
use crate::caller::Caller;
use crate::error::ApiError;
use crate::protocol::{MessagesPurpose, MessagesRequest, parse_messages};
use crate::reply::anthropic::{AnthropicError, MessageChunks, MessageHead, whole};
use crate::reply::{Blocks, Reading, describe, json};
use crate::samples::Samples;
use crate::{body, sse};

/// The field that holds the prompt.
const INPUT: &str = "messages";

#[derive(Serialize)]
struct Count {
    input_tokens: usize,
}

pub(crate) async fn create(
    State(app): State<Arc<App>>,
    request: Request,
) -> Result<Response, AnthropicError> {
    let (request, prepared) = prepare(&app, request, MessagesPurpose::Answer).await?;
    let prepared = [prepared];
    let samples = Samples::start(&app, &prepared);
    let samples = samples.map_err(|error| ApiError::from_llm(error, INPUT))?;
    let head = MessageHead {
        id: app.new_id("msg_"),
        model: app.options.model_id.clone(),
        prompt_tokens: prepared[0].prompt.len(),
    };
    let reading = Reading::new(&prepared[0], false, &head.id, "toolu");
    let blocks = Blocks::new(&reading);
    let mut response = match request.stream {
        true => sse::response(
            samples,
            MessageChunks { head, blocks },
            app.options.limits.keep_alive,
        ),
        false => whole(&head, samples, blocks).await?,
    };
    describe(&mut response, &prepared, &request.ignored);
    Ok(response)
}

pub(crate) async fn count(
    State(app): State<Arc<App>>,
    request: Request,
) -> Result<Response, AnthropicError> {
    let (_, prepared) = prepare(&app, request, MessagesPurpose::Count).await?;
    let input_tokens = prepared.prompt.len();
    Ok(json(&Count { input_tokens }).into_response())
}

async fn prepare(
    app: &Arc<App>,
    request: Request,
    purpose: MessagesPurpose,
) -> Result<(MessagesRequest, Prepared), ApiError> {
    let caller = Caller::of(&request);
    let body = body::read(request, app).await?;
    if purpose == MessagesPurpose::Answer {
        app.check_room()?;
    }
    let prepare = move |app: &App| {
        let mut request = parse_messages(&body, purpose)?;
        app.check_model(request.model.as_deref())?;
        request.generate.class = caller.class(app, &request.standing)?;
        let prepared = app.prompt(&request.generate, INPUT)?;
        Ok((request, prepared))
    };
    app.prepare(prepare).await
}
