//! One file per endpoint.

pub(crate) mod chat;
pub(crate) mod completions;
pub(crate) mod health;
pub(crate) mod live;
pub(crate) mod metrics;
pub(crate) mod missing;
pub(crate) mod models;
pub(crate) mod page;
pub(crate) mod tokenize;
pub(crate) mod version;
