//! Floor 0: every number's clothes.
//!
//! Statistics: [`spread`] of repeated measurements, [`power_law`] fits, [`interval`]s of shares, [`divergence`] between two
//! models over a text. Clothes: [`table`]s, [`plot`]s and the [`document`] that holds them, as text and as one HTML page.
//!
//! Pure functions of numbers; no files, no models, no clock. Anyone may use it.

pub mod divergence;
pub mod document;
mod error;
mod html;
pub mod interval;
pub mod number;
pub mod plot;
pub mod power_law;
pub mod spread;
pub mod table;

pub use divergence::{Divergence, DivergenceSummary, TokenDivergence};
pub use document::{Block, Document, Fact, Section};
pub use error::ReportError;
pub use interval::{Interval, wilson};
pub use plot::{Axis, Plot, Point, Scale, Stroke};
pub use power_law::PowerLaw;
pub use spread::Spread;
pub use table::{Cell, Column, Table};
