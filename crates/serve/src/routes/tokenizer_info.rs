//! `GET /tokenizer_info`: special tokens and the chat template, for clients that count or render themselves.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use serde::Serialize;

use crate::app::App;
use crate::reply::json;

/// Names as in Hugging Face's `tokenizer_config.json`.
#[derive(Serialize)]
struct Info<'a> {
    bos_token: Option<String>,
    eos_token: Option<String>,
    unk_token: Option<String>,
    pad_token: Option<String>,
    add_bos_token: bool,
    add_eos_token: bool,
    vocab_size: usize,
    model_max_length: usize,
    chat_template: Option<&'a str>,
}

pub(crate) async fn tokenizer_info(State(app): State<Arc<App>>) -> Response {
    let (facts, info) = (app.llm.tokenizer_facts(), app.llm.info());
    json(&Info {
        bos_token: facts.bos,
        eos_token: facts.eos,
        unk_token: facts.unk,
        pad_token: facts.pad,
        add_bos_token: facts.adds_bos,
        add_eos_token: facts.adds_eos,
        vocab_size: info.vocab,
        model_max_length: info.context,
        chat_template: facts.chat_template,
    })
}
