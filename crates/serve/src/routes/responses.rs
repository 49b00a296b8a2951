//! `POST /v1/responses`: OpenAI's newer form of a chat. Nothing is stored.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;

use crate::app::App;
use crate::caller::Caller;
use crate::error::ApiError;
use crate::protocol::parse_responses;
use crate::reply::response_events::ResponseEvents;
use crate::reply::responses::{ResponseHead, whole};
use crate::reply::{Blocks, Reading, describe};
use crate::samples::Samples;
use crate::{body, sse};

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
        let mut request = parse_responses(&body)?;
        app.check_model(request.model.as_deref())?;
        request.generate.class = caller.class(app, &request.standing)?;
        let prepared = app.prompt(&request.generate, INPUT)?;
        Ok((request, prepared))
    };
    let (request, prepared) = app.prepare(prepare).await?;
    let prepared = [prepared];
    let samples = Samples::start(&app, &prepared);
    let samples = samples.map_err(|error| ApiError::from_llm(error, INPUT))?;
    let unique = app.new_id("");
    let head = ResponseHead {
        id: format!("resp_{unique}"),
        unique,
        created: app.now(),
        model: app.options.model_id.clone(),
        instructions: request.instructions,
        max_output_tokens: request.generate.max_tokens,
        temperature: prepared[0].params.temperature,
        top_p: prepared[0].params.top_p,
        format: request.format,
        tools: request.tools,
        metadata: request.metadata,
    };
    let reading = Reading::new(&prepared[0], false, &head.id, "call");
    let blocks = Blocks::new(&reading);
    let mut response = match request.stream {
        true => sse::response(
            samples,
            ResponseEvents::new(head, blocks),
            app.options.limits.keep_alive,
        ),
        false => whole(&head, samples, blocks).await?,
    };
    describe(&mut response, &prepared, &request.ignored);
    Ok(response)
}
