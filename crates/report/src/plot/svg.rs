//! Drawing: a [`Plot`] onto `plotters`' SVG backend.
//!
//! Text is black and the grid is one grey, so that a page's style sheet can change both for dark screens; the colours of the
//! lines are readable on white and on black.

use std::ops::Range;

use plotters::chart::{ChartContext, SeriesLabelPosition};
use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};
use plotters::prelude::{
    BLACK, Cartesian2d, ChartBuilder, Circle, Color, DashedLineSeries, IntoDrawingArea, IntoFont,
    LineSeries, PathElement, RGBColor, SVGBackend, ShapeStyle, Text,
};

use super::{Axis, Plot, Point, SERIES_MAX, Series};
use crate::ReportError;

/// Size in CSS pixels.
const SIZE: (u32, u32) = (760, 420);
/// Line, dot and bar colours, in order: distinct for the colour-blind as well (Okabe and Ito's palette without black, its
/// blue lighter for dark screens).
pub(super) const COLOURS: [RGBColor; SERIES_MAX] = [
    RGBColor(46, 134, 193),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
];
/// Grid lines; a page's style sheet knows this colour as `#D0D0D0`.
pub(super) const GRID: RGBColor = RGBColor(0xD0, 0xD0, 0xD0);
pub(super) const FONT: &str = "sans-serif";
const DOT_RADIUS: i32 = 3;
/// Half the width of an error bar's caps, as a share of the axis.
const CAP: f64 = 0.004;

pub(super) type Chart<'a> = ChartContext<'a, SVGBackend<'a>, Cartesian2d<Coordinate, Coordinate>>;
/// Transformed ends of both axes.
type Frame = ((f64, f64), (f64, f64));

/// The plot as an SVG document.
pub fn draw(plot: &Plot) -> Result<String, ReportError> {
    let frame = frame(plot).ok_or_else(|| ReportError::NothingToPlot {
        title: plot.title.clone(),
    })?;
    let mut svg = String::new();
    let root = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
    let mut chart = ChartBuilder::on(&root)
        .caption(&plot.title, (FONT, 16).into_font())
        .margin(10)
        .x_label_area_size(44)
        .y_label_area_size(64)
        .build_cartesian_2d(
            Coordinate::new(&plot.x, frame.0),
            Coordinate::new(&plot.y, frame.1),
        )
        .map_err(failed)?;
    mesh(&mut chart, plot)?;
    for mark in &plot.marks {
        let at = plot.x.scale.forward(mark.x);
        vertical(&mut chart, at, frame.1, &mark.label)?;
    }
    for (i, series) in plot.series.iter().enumerate() {
        let colour = COLOURS[i % COLOURS.len()];
        line(&mut chart, plot, series, colour)?;
        dots(&mut chart, plot, series, (colour, frame.0.1 - frame.0.0))?;
    }
    legend(&mut chart, plot, frame)?;
    drop(chart);
    root.present().map_err(failed)?;
    drop(root);
    Ok(svg)
}

/// The legend of series that fill the frame: above right, on the page's own ground.
pub(super) fn corner_legend(chart: &mut Chart<'_>) -> Result<(), ReportError> {
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .label_font((FONT, 13))
        .draw()
        .map_err(failed)
}

pub(super) fn failed(error: impl std::fmt::Display) -> ReportError {
    ReportError::Drawing {
        why: error.to_string(),
    }
}

/// Transformed ranges that hold every point, bar and mark.
fn frame(plot: &Plot) -> Option<Frame> {
    let marks = plot.marks.iter().map(|mark| mark.x);
    let x = plot.drawable().map(|point| point.x).chain(marks);
    let y = plot.drawable().flat_map(|point| [point.low, point.high]);
    let y = plot.y.range(y)?;
    Some((plot.x.range(x.filter(|x| plot.x.scale.holds(*x)))?, y))
}

/// A transformed axis: linear, with ticks where [`super::Scale::ticks`] wants them.
#[derive(Clone)]
pub(super) struct Coordinate {
    low: f64,
    high: f64,
    ticks: Vec<f64>,
}

impl Coordinate {
    pub(super) fn new(axis: &Axis, (low, high): (f64, f64)) -> Self {
        let ticks = axis.scale.ticks(low, high);
        Self { low, high, ticks }
    }

    /// With ticks at places of one's own.
    pub(super) fn at((low, high): (f64, f64), ticks: Vec<f64>) -> Self {
        Self { low, high, ticks }
    }
}

impl Ranged for Coordinate {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (start, end): (i32, i32)) -> i32 {
        let share = (value - self.low) / (self.high - self.low);
        start + (share * f64::from(end - start)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        match hint.weight().allow_light_points() {
            true => Vec::new(),
            false => self.ticks.clone(),
        }
    }

    fn range(&self) -> Range<f64> {
        self.low..self.high
    }
}

fn mesh(chart: &mut Chart<'_>, plot: &Plot) -> Result<(), ReportError> {
    let (x, y) = (plot.x.scale, plot.y.scale);
    chart
        .configure_mesh()
        .bold_line_style(GRID)
        .light_line_style(GRID)
        .axis_style(GRID)
        .label_style((FONT, 12))
        .axis_desc_style((FONT, 13))
        .x_desc(&plot.x.label)
        .y_desc(&plot.y.label)
        .x_label_formatter(&|place| x.label(*place))
        .y_label_formatter(&|place| y.label(*place))
        .draw()
        .map_err(failed)
}

/// A named vertical line.
fn vertical(
    chart: &mut Chart<'_>,
    x: f64,
    (low, high): (f64, f64),
    label: &str,
) -> Result<(), ReportError> {
    let style = ShapeStyle::from(BLACK.mix(0.6)).stroke_width(1);
    let path = vec![(x, low), (x, high)];
    let series = DashedLineSeries::new(path, 3, 3, style);
    chart.draw_series(series).map_err(failed)?;
    let place = (x, low + (high - low) * 0.06);
    let text = Text::new(format!(" {label}"), place, (FONT, 12).into_font());
    chart.draw_series([text]).map_err(failed)?;
    Ok(())
}

/// One series with its entry in the legend.
fn line(
    chart: &mut Chart<'_>,
    plot: &Plot,
    series: &Series,
    colour: RGBColor,
) -> Result<(), ReportError> {
    let points = series.points.iter();
    let points = points.filter(|point| point.is_drawable(&plot.x, &plot.y));
    let path: Vec<(f64, f64)> = points.map(|point| plot.place(point, point.y)).collect();
    let style = ShapeStyle::from(colour).stroke_width(2);
    let drawn = chart.draw_series(LineSeries::new(path, style));
    let drawn = drawn.map_err(failed)?;
    drawn.label(&series.name).legend(move |(x, y)| {
        let path = vec![(x, y), (x + 20, y)];
        PathElement::new(path, style)
    });
    Ok(())
}

/// Dots and error bars of what was measured.
fn dots(
    chart: &mut Chart<'_>,
    plot: &Plot,
    series: &Series,
    (colour, width): (RGBColor, f64),
) -> Result<(), ReportError> {
    let points = series.points.iter();
    let points = points.filter(|point| point.is_drawable(&plot.x, &plot.y));
    let dots = points.clone().map(|point| {
        let place = plot.place(point, point.y);
        Circle::new(place, DOT_RADIUS, colour.filled())
    });
    chart.draw_series(dots).map_err(failed)?;
    let bars = points.filter(|point| point.low < point.high);
    let bars = bars.flat_map(|point| {
        let ((x, low), (_, high)) = (plot.place(point, point.low), plot.place(point, point.high));
        bar(x, (low, high), width * CAP).map(|path| PathElement::new(path, colour))
    });
    chart.draw_series(bars).map_err(failed)?;
    Ok(())
}

/// An error bar: a line between two caps.
fn bar(x: f64, (low, high): (f64, f64), cap: f64) -> [Vec<(f64, f64)>; 3] {
    [
        vec![(x, low), (x, high)],
        vec![(x - cap, low), (x + cap, low)],
        vec![(x - cap, high), (x + cap, high)],
    ]
}

/// The legend, in the corner with the fewest points; none for a single line, which the title names.
fn legend(chart: &mut Chart<'_>, plot: &Plot, frame: Frame) -> Result<(), ReportError> {
    if plot.series.len() < 2 {
        return Ok(());
    }
    let ((left, right), (bottom, top)) = frame;
    let share = |point: &Point| {
        let (x, y) = plot.place(point, point.y);
        ((x - left) / (right - left), (y - bottom) / (top - bottom))
    };
    let corners = [
        (SeriesLabelPosition::UpperLeft, (0.0, 1.0)),
        (SeriesLabelPosition::LowerRight, (1.0, 0.0)),
        (SeriesLabelPosition::UpperRight, (1.0, 1.0)),
        (SeriesLabelPosition::LowerLeft, (0.0, 0.0)),
    ];
    let crowd = |(x, y): (f64, f64)| {
        plot.drawable()
            .map(share)
            .filter(|(px, py)| (px - x).abs() < 0.45 && (py - y).abs() < 0.35)
            .count()
    };
    let best = corners.into_iter().min_by_key(|(_, corner)| crowd(*corner));
    let position = best.map_or(SeriesLabelPosition::UpperLeft, |(position, _)| position);
    chart
        .configure_series_labels()
        .position(position)
        .label_font((FONT, 13))
        .draw()
        .map_err(failed)
}

#[cfg(test)]
mod tests {
    use crate::plot::{Axis, Mark, Plot, Point, Scale};
    use crate::spread::Spread;

    fn plot() -> Plot {
        let line = |factor: f64| {
            [16.0, 64.0, 256.0, 1024.0]
                .map(|x: f64| {
                    let y = factor * x;
                    Point::measured(x, &Spread::of(&[y * 0.9, y, y * 1.2]).unwrap())
                })
                .to_vec()
        };
        let mut plot = Plot::new(
            "Time <&> length",
            Axis::new("tokens", Scale::Log2),
            Axis::new("time, ms", Scale::Log10),
        )
        .with("with the cache", line(1.0))
        .with("without", line(9.0));
        plot.marks.push(Mark {
            x: 64.0,
            label: "knee".to_owned(),
        });
        plot
    }

    #[test]
    fn every_dot_line_tick_and_name_is_there() {
        let svg = plot().to_svg().unwrap();
        assert_eq!(svg.matches("<circle").count(), 8, "{svg}");
        // Three bars of three strokes at each dot; two lines; further paths are axes, grid and legend.
        assert!(svg.matches("<polyline").count() >= 8 * 3 + 2, "{svg}");
        for text in [
            "16",
            "1024",
            "with the cache",
            "without",
            "knee",
            "tokens",
            "time, ms",
        ] {
            assert!(svg.contains(&format!("{text}\n</text>")), "{text} in {svg}");
        }
        assert!(svg.contains("Time &lt;&amp;&gt; length"), "{svg}");
    }

    #[test]
    fn tags_are_balanced_and_numbers_finite() {
        let svg = plot().to_svg().unwrap();
        assert!(svg.starts_with("<svg ") && svg.trim_end().ends_with("</svg>"));
        assert_eq!(svg.matches("<text").count(), svg.matches("</text>").count());
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }

    #[test]
    fn points_without_a_place_are_left_out() {
        let plot = plot().with("zero", vec![Point::new(0.0, 1.0)]);
        assert_eq!(plot.to_svg().unwrap().matches("<circle").count(), 8);
    }

    #[test]
    fn a_plot_without_points_says_so() {
        let empty = Plot::new(
            "Nothing",
            Axis::new("x", Scale::Linear),
            Axis::new("y", Scale::Linear),
        );
        let error = empty.to_svg().unwrap_err().to_string();
        assert!(error.contains("Nothing"), "{error}");
    }
}
