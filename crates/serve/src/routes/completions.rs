//! `POST /v1/completions`: text or token ids in, their continuation out.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;
use ucuz_llm::{GenerateRequest, Input, Prepared};

use crate::app::App;
use crate::caller::Caller;
use crate::error::ApiError;
use crate::protocol::{CompletionRequest, parse_completion};
use crate::reply::completion::{CompletionChunks, Echo, Extras, OBJECT, Writer, whole};
use crate::reply::{Head, PromptIds, describe};
use crate::samples::Samples;
use crate::{body, sse};

/// The field that holds the prompt.
const INPUT: &str = "prompt";

pub(crate) async fn create(
    State(app): State<Arc<App>>,
    request: Request,
) -> Result<Response, ApiError> {
    let caller = Caller::of(&request);
    let body = body::read(request, &app).await?;
    app.check_room()?;
    let prepare = move |app: &App| {
        let mut request = parse_completion(&body)?;
        app.check_model(request.model.as_deref())?;
        request.generate.class = caller.class(app, &request.standing)?;
        let (prepared, writers) = prepare(app, &mut request)?;
        Ok((request, prepared, writers))
    };
    let (request, prepared, writers) = app.prepare(prepare).await?;
    let samples = Samples::start(&app, &prepared);
    let samples = samples.map_err(|error| ApiError::from_llm(error, INPUT))?;
    let delivery = request.delivery;
    let head = Head {
        id: app.new_id("cmpl-"),
        object: OBJECT,
        created: app.now(),
        model: app.options.model_id.clone(),
        system_fingerprint: app.llm.info().fingerprint.clone(),
    };
    let mut response = if delivery.stream {
        let chunks = CompletionChunks::new(head, writers, delivery);
        sse::response(samples, chunks, app.options.limits.keep_alive)
    } else {
        let extras = Extras {
            prompt_logprobs: request.prompt_logprobs,
            explain: delivery.explain,
        };
        whole(&head, samples, writers, extras).await?
    };
    describe(&mut response, &prepared, &request.ignored);
    Ok(response)
}

/// Prepares every prompt, and one writer a choice.
fn prepare(
    app: &App,
    request: &mut CompletionRequest,
) -> Result<(Vec<Prepared>, Vec<Writer>), ApiError> {
    let (mut all, mut writers) = (Vec::new(), Vec::new());
    // Prompts without a seed get consecutive ones, so that equal prompts may differ in answers.
    let entropy = app.draw();
    let token_ids = request.delivery.token_ids;
    for (number, input) in (0u64..).zip(std::mem::take(&mut request.prompts)) {
        let text = match &input {
            Input::Text(text) if request.echo => Some(text.clone()),
            _ => None,
        };
        let generate = GenerateRequest {
            input,
            ..request.generate.clone()
        };
        let prepared = app.llm.prepare(
            &generate,
            entropy.wrapping_add(number),
            (app.options.clock)(),
        );
        let prepared = prepared.map_err(|error| ApiError::from_llm(error, INPUT))?;
        let echo = if request.echo {
            Some(echo(app, &prepared, text)?)
        } else {
            None
        };
        for sample in 0..prepared.n {
            writers.push(Writer {
                logprobs: prepared.logprobs,
                echo: echo.clone(),
                offset: 0,
                is_first_sample: sample == 0,
                prompt_ids: token_ids.then(|| PromptIds(Arc::clone(&prepared.prompt))),
            });
        }
        all.push(prepared);
    }
    Ok((all, writers))
}

fn echo(app: &App, prepared: &Prepared, text: Option<String>) -> Result<Echo, ApiError> {
    let decode = |ids: &[u32]| {
        app.llm
            .detokenize(ids)
            .map_err(|error| ApiError::from_llm(error, INPUT))
    };
    let text = match text {
        Some(text) => text,
        None => decode(&prepared.prompt)?,
    };
    let first_token = decode(prepared.prompt.get(..1).unwrap_or_default())?;
    Ok(Echo { text, first_token })
}
