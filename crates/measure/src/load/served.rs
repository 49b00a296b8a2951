//! What the server says that it serves.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use tokio::time::timeout;

use super::http::Link;
use super::plan::LoadPlan;

/// Bytes read of `/v1/models`.
const MODELS_BYTES_MAX: usize = 4 << 20;
/// How long the server may take to say what it serves.
const MODELS_TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Deserialize)]
struct Models {
    data: Vec<Served>,
}

/// What a server says of its model; only the name is there everywhere.
#[derive(Deserialize)]
struct Served {
    id: String,
    vocab_size: Option<u32>,
}

/// Name and vocabulary of the model, asked for only where the plan does not say enough.
pub(super) async fn served(plan: &LoadPlan, link: &Link) -> Result<(String, Option<u32>)> {
    if let (Some(model), Some(_)) = (&plan.model, plan.shape.ids) {
        return Ok((model.clone(), None));
    }
    let listed = listed(plan, link).await;
    match (&plan.model, listed) {
        (Some(model), Ok(listed)) => {
            let found = listed.iter().find(|served| served.id == *model);
            Ok((model.clone(), found.and_then(|served| served.vocab_size)))
        }
        (Some(model), Err(_)) => Ok((model.clone(), None)),
        (None, listed) => {
            let first = listed?.into_iter().next();
            let first = first.context("the server lists no model; name one with --model")?;
            Ok((first.id, first.vocab_size))
        }
    }
}

async fn listed(plan: &LoadPlan, link: &Link) -> Result<Vec<Served>> {
    let url = plan.target.url();
    let answer = timeout(MODELS_TIMEOUT, link.get("/v1/models", MODELS_BYTES_MAX)).await;
    let (status, body) = answer
        .with_context(|| format!("{url}/v1/models did not answer within 30 s"))?
        .with_context(|| format!("no server answers at {url}; start it, or check the address"))?;
    ensure!(
        status.is_success(),
        "{url}/v1/models answers {status}; name the model with --model, or give a key"
    );
    let models: Models = serde_json::from_slice(&body)
        .with_context(|| format!("{url}/v1/models is no list of models; name one with --model"))?;
    Ok(models.data)
}
