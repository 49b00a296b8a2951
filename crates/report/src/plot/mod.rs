//! Pictures. Line plots: what is drawn is here, `svg.rs` draws it, `axis.rs` knows scales and ticks. In files of their own:
//! `gantt.rs` (who held which lane when), `bars.rs` (a few numbers beside each other).

mod axis;
mod bars;
mod gantt;
mod svg;

pub use axis::{Axis, Scale};
pub use bars::{BarGroup, Bars};
pub use gantt::{Gantt, Lane, Stay};

use crate::ReportError;
use crate::spread::Spread;

/// One measured point.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// Place on the horizontal axis.
    pub x: f64,
    /// Place on the vertical axis.
    pub y: f64,
    /// Ends of the error bar; equal to `y` where there is none.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Point {
    /// A point without an error bar.
    pub fn new(x: f64, y: f64) -> Self {
        Self {
            x,
            y,
            low: y,
            high: y,
        }
    }

    /// The median, with a bar from the smallest to the largest.
    pub fn measured(x: f64, spread: &Spread) -> Self {
        Self {
            x,
            y: spread.median,
            low: spread.min,
            high: spread.max,
        }
    }

    fn is_drawable(&self, x: &Axis, y: &Axis) -> bool {
        x.scale.holds(self.x)
            && [self.y, self.low, self.high]
                .iter()
                .all(|v| y.scale.holds(*v))
    }
}

/// Most lines of one plot that can be told apart.
pub const SERIES_MAX: usize = 6;

/// Points with a name: a line through dots.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// Name in the legend.
    pub name: String,
    /// In the order of the line. Points that the axes cannot show (zero or less on a logarithmic one) are left out.
    pub points: Vec<Point>,
}

/// A vertical line at a place worth naming.
#[derive(Debug, Clone, PartialEq)]
pub struct Mark {
    /// Place on the horizontal axis.
    pub x: f64,
    /// Name beside it.
    pub label: String,
}

/// A line plot.
#[derive(Debug, Clone, PartialEq)]
pub struct Plot {
    /// What it shows.
    pub title: String,
    /// Horizontal axis.
    pub x: Axis,
    /// Vertical axis.
    pub y: Axis,
    /// Lines, at most [`SERIES_MAX`] for distinct colours.
    pub series: Vec<Series>,
    /// Named places.
    pub marks: Vec<Mark>,
}

impl Plot {
    /// A plot without lines yet.
    pub fn new(title: impl Into<String>, x: Axis, y: Axis) -> Self {
        Self {
            title: title.into(),
            x,
            y,
            series: Vec::new(),
            marks: Vec::new(),
        }
    }

    /// The same with one more line.
    pub fn with(mut self, name: impl Into<String>, points: Vec<Point>) -> Self {
        self.series.push(Series {
            name: name.into(),
            points,
        });
        self
    }

    /// The plot as an SVG document.
    ///
    /// # Errors
    /// [`ReportError::NothingToPlot`] when no point can be shown, [`ReportError::Drawing`] when drawing fails.
    pub(crate) fn to_svg(&self) -> Result<String, ReportError> {
        svg::draw(self)
    }

    /// Transformed place of `point` at height `y`.
    fn place(&self, point: &Point, y: f64) -> (f64, f64) {
        (self.x.scale.forward(point.x), self.y.scale.forward(y))
    }

    /// All points that the axes can show.
    fn drawable(&self) -> impl Iterator<Item = &Point> {
        let points = self.series.iter().flat_map(|series| &series.points);
        points.filter(|point| point.is_drawable(&self.x, &self.y))
    }
}
