//! A few numbers beside each other: groups of upright bars from zero, the number above each.

use plotters::chart::ChartBuilder;
use plotters::prelude::{Color, IntoDrawingArea, IntoFont, Rectangle, SVGBackend, Text};

use super::svg::{COLOURS, Chart, Coordinate, FONT, GRID, corner_legend, failed};
use super::{Axis, Scale};
use crate::{ReportError, number};

/// Size in CSS pixels.
const SIZE: (u32, u32) = (760, 340);
/// Share of a group's width that its bars take together.
const FILL: f64 = 0.8;

/// Bars that belong together.
#[derive(Debug, Clone, PartialEq)]
pub struct BarGroup {
    /// Below the group.
    pub name: String,
    /// One a series; zero or more.
    pub values: Vec<f64>,
}

/// Groups of bars, one colour a series.
#[derive(Debug, Clone, PartialEq)]
pub struct Bars {
    /// What it shows.
    pub title: String,
    /// What the height is, with the unit.
    pub y_label: String,
    /// Names of the series, at most [`super::SERIES_MAX`] for distinct colours.
    pub series: Vec<String>,
    /// From the left.
    pub groups: Vec<BarGroup>,
}

impl Bars {
    /// The picture as an SVG document.
    ///
    /// # Errors
    /// [`ReportError::NothingToPlot`] without a value, [`ReportError::Drawing`] when drawing fails.
    pub(crate) fn to_svg(&self) -> Result<String, ReportError> {
        let axis = Axis::new(self.y_label.as_str(), Scale::Linear);
        let nothing = || ReportError::NothingToPlot {
            title: self.title.clone(),
        };
        let (_, top) = axis.range(self.values()).ok_or_else(nothing)?;
        // Room for the legend and the numbers.
        let y = Coordinate::new(&axis, (0.0, top * 1.2));
        let middles = (0..self.groups.len()).map(|group| group as f64 + 0.5);
        let x = Coordinate::at((0.0, self.groups.len() as f64), middles.collect());
        let mut svg = String::new();
        let root = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        let mut chart = ChartBuilder::on(&root)
            .caption(&self.title, (FONT, 16).into_font())
            .margin(10)
            .x_label_area_size(30)
            .y_label_area_size(64)
            .build_cartesian_2d(x, y)
            .map_err(failed)?;
        self.mesh(&mut chart)?;
        for series in 0..self.series.len() {
            self.draw(&mut chart, series)?;
        }
        corner_legend(&mut chart)?;
        drop(chart);
        root.present().map_err(failed)?;
        drop(root);
        Ok(svg)
    }

    fn values(&self) -> impl Iterator<Item = f64> {
        let values = self.groups.iter().flat_map(|group| &group.values);
        values.copied().filter(|value| value.is_finite())
    }

    fn mesh(&self, chart: &mut Chart<'_>) -> Result<(), ReportError> {
        let name = |place: &f64| {
            let group = self.groups.get(place.floor() as usize);
            group.map_or("", |group| &group.name).to_owned()
        };
        chart
            .configure_mesh()
            .disable_x_mesh()
            .bold_line_style(GRID)
            .light_line_style(GRID)
            .axis_style(GRID)
            .label_style((FONT, 12))
            .axis_desc_style((FONT, 13))
            .y_desc(&self.y_label)
            .x_label_formatter(&name)
            .y_label_formatter(&|place| Scale::Linear.label(*place))
            .draw()
            .map_err(failed)
    }

    /// The bars of one series and the numbers above them.
    fn draw(&self, chart: &mut Chart<'_>, series: usize) -> Result<(), ReportError> {
        let style = COLOURS[series % COLOURS.len()].mix(0.85).filled();
        let width = FILL / self.series.len() as f64;
        let left = |group: usize| group as f64 + (1.0 - FILL) / 2.0 + series as f64 * width;
        let of_series = |(group, bars): (usize, &BarGroup)| {
            let value = bars.values.get(series).filter(|value| value.is_finite());
            value.map(|value| (left(group), *value))
        };
        let bars: Vec<(f64, f64)> = self
            .groups
            .iter()
            .enumerate()
            .filter_map(of_series)
            .collect();
        let shapes = bars
            .iter()
            .map(|&(x, value)| Rectangle::new([(x, 0.0), (x + width * 0.92, value)], style));
        let drawn = chart.draw_series(shapes).map_err(failed)?;
        drawn
            .label(&self.series[series])
            .legend(move |(x, y)| Rectangle::new([(x, y - 5), (x + 18, y + 5)], style));
        let lift = self.values().fold(0.0, f64::max) * 0.055;
        let numbers = bars.iter().map(|&(x, value)| {
            let text = number::short(value, 3);
            Text::new(text, (x, value + lift), (FONT, 11).into_font())
        });
        chart.draw_series(numbers).map_err(failed)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bars() -> Bars {
        let group = |name: &str, values: &[f64]| BarGroup {
            name: name.to_owned(),
            values: values.to_vec(),
        };
        Bars {
            title: "Users <held>".to_owned(),
            y_label: "users".to_owned(),
            series: vec!["naive".to_owned(), "paged".to_owned()],
            groups: vec![group("1k", &[4.0, 87.0]), group("8k", &[f64::NAN, 12.0])],
        }
    }

    #[test]
    fn every_finite_number_has_a_bar_and_is_written() {
        let svg = bars().to_svg().unwrap();
        for text in ["naive", "paged", "users", "1k", "8k", "4", "87", "12"] {
            assert!(svg.contains(&format!("{text}\n</text>")), "{text} in {svg}");
        }
        assert!(svg.contains("Users &lt;held&gt;"));
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }

    #[test]
    fn no_number_is_nothing_to_plot() {
        let mut empty = bars();
        empty.groups.clear();
        assert!(empty.to_svg().is_err());
    }
}
