//! Floor 0: every number's clothes.
//!
//! Statistics: [`Spread`] of repeated measurements, [`PowerLaw`] fits, [`Interval`]s of shares and means, [`Quantile`]s with intervals, [`Divergence`]
//! between two models over a text. Clothes: [`Table`]s, [`Plot`]s, [`Gantt`]s, [`Bars`] and the [`Document`] that holds them, as text and as one HTML page.
//!
//! Pure functions of numbers; no files, no models, no clock. Anyone may use it.

mod divergence;
mod document;
mod error;
mod html;
mod interval;
mod number;
mod plot;
mod power_law;
mod spread;
mod table;

pub use divergence::{Divergence, DivergenceSummary, TokenDivergence};
pub use document::{Block, Document, Fact, Section};
pub use error::ReportError;
pub use interval::{Interval, Quantile};
pub use plot::{
    Axis, BarGroup, Bars, Gantt, Lane, Mark, Plot, Point, SERIES_MAX, Scale, Series, Stay,
};
pub use power_law::PowerLaw;
pub use spread::Spread;
pub use table::{Cell, Column, Table};
