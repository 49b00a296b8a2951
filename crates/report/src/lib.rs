//! Floor 0: every number's clothes: divergence between two models over a text, perplexity, intervals.
//!
//! Pure functions of numbers; no files, no models, no clock. Anyone may use it.

pub mod divergence;
pub mod interval;

pub use divergence::{Divergence, DivergenceSummary, TokenDivergence};
pub use interval::{Interval, wilson};
