//! Grammars over a tiny vocabulary: what they allow, what they refuse, and random schemas against an independent validator.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests fail by panicking"
)]

mod allowed;
mod random;
mod refused;
mod unspelled;
mod validator;
mod vocabulary;
