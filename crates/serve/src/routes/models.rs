//! `GET /v1/models` and `GET /v1/models/{id}`: the model that is served, and what is known of it.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::response::Response;
use serde::Serialize;
use ucuz_llm::ModelInfo;

use crate::app::App;
use crate::error::ApiError;
use crate::reply::json;

#[derive(Serialize)]
struct List<'a> {
    object: &'static str,
    data: [Model<'a>; 1],
}

/// OpenAI's four fields, then ours.
#[derive(Serialize)]
struct Model<'a> {
    id: &'a str,
    object: &'static str,
    created: u64,
    owned_by: &'static str,
    name: &'a str,
    architecture: &'a str,
    parameters: u64,
    bits_per_weight: f64,
    file_bytes: u64,
    weight_bytes: u64,
    context_length: usize,
    trained_context_length: usize,
    vocab_size: usize,
    kv_dtype: String,
    kv_bytes_per_token: usize,
    kv_pool_bytes: usize,
    has_chat_template: bool,
    fingerprint: &'a str,
    exactness: Exactness,
    default_sampling: DefaultSampling,
}

/// What is kept bit for bit; see `docs/ARCHITECTURE.md`.
#[derive(Serialize)]
struct Exactness {
    rows: bool,
    chunks: bool,
    resume: bool,
    tiers: bool,
}

/// What a request that names nothing runs with.
#[derive(Serialize)]
struct DefaultSampling {
    temperature: f32,
    top_k: u32,
    top_p: f32,
    min_p: f32,
    repetition_penalty: f32,
}

pub(crate) async fn list(State(app): State<Arc<App>>) -> Response {
    json(&List {
        object: "list",
        data: [model(&app)],
    })
}

pub(crate) async fn retrieve(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    app.check_model(Some(&id))?;
    Ok(json(&model(&app)))
}

fn model(app: &App) -> Model<'_> {
    let info = app.llm.info();
    Model {
        id: &app.options.model_id,
        object: "model",
        created: app.started,
        owned_by: "ucuz",
        name: &info.name,
        architecture: &info.architecture,
        parameters: info.parameters,
        bits_per_weight: info.bits_per_weight,
        file_bytes: info.file_bytes,
        weight_bytes: info.weight_bytes,
        context_length: info.context,
        trained_context_length: info.trained_context,
        vocab_size: info.vocab,
        kv_dtype: format!("{:?}", info.kv_dtype).to_lowercase(),
        kv_bytes_per_token: info.kv_bytes_per_token,
        kv_pool_bytes: info.kv_pool_bytes,
        has_chat_template: info.has_template,
        fingerprint: &info.fingerprint,
        exactness: Exactness {
            rows: info.exactness.rows,
            chunks: info.exactness.chunks,
            resume: info.exactness.resume,
            tiers: info.exactness.tiers,
        },
        default_sampling: default_sampling(info),
    }
}

fn default_sampling(info: &ModelInfo) -> DefaultSampling {
    let defaults = &info.defaults;
    DefaultSampling {
        temperature: defaults.temperature.unwrap_or(1.0),
        top_k: defaults.top_k.unwrap_or(0),
        top_p: defaults.top_p.unwrap_or(1.0),
        min_p: defaults.min_p.unwrap_or(0.0),
        repetition_penalty: defaults.repetition_penalty.unwrap_or(1.0),
    }
}
