//! Who held which lane when: one row a lane, one bar a stay, the rest of the row empty.

use plotters::chart::ChartBuilder;
use plotters::prelude::{
    Color, IntoDrawingArea, IntoFont, RGBColor, Rectangle, SVGBackend, ShapeStyle, Text,
};

use super::svg::{COLOURS, Chart, Coordinate, FONT, GRID, corner_legend, failed};
use super::{Axis, Scale};
use crate::ReportError;

/// Width in CSS pixels.
const WIDTH: u32 = 760;
/// Height of a lane in CSS pixels; less with many of them.
const LANE_HEIGHT: u32 = 26;
/// Most pixels that all lanes take together.
const LANES_HEIGHT_MAX: u32 = 640;
/// Title, axis and legend.
const FRAME_HEIGHT: u32 = 150;
/// Share of a lane that a bar leaves free at each side.
const GAP: f64 = 0.12;
/// Rows above the first lane that the legend takes.
const LEGEND_LANES: f64 = 1.7;
/// Pixels between two bars in a row.
const SEAM_PIXELS: f64 = 1.5;
/// A bar is labelled when it is so many pixels wide for each character.
const LABEL_PIXELS: f64 = 8.0;

/// One bar: somebody in a lane for a while.
#[derive(Debug, Clone, PartialEq)]
pub struct Stay {
    /// When it begins.
    pub start: f64,
    /// When it ends.
    pub end: f64,
    /// Which of [`Gantt::kinds`].
    pub kind: usize,
    /// Written into the bar where there is room.
    pub label: String,
}

/// One row.
#[derive(Debug, Clone, PartialEq)]
pub struct Lane {
    /// Its name, left of it.
    pub name: String,
    /// In any order.
    pub stays: Vec<Stay>,
}

/// Lanes over a common axis of time.
#[derive(Debug, Clone, PartialEq)]
pub struct Gantt {
    /// What it shows.
    pub title: String,
    /// What the axis shows, with the unit.
    pub x_label: String,
    /// Where the axis ends at least, so that two pictures can be compared.
    pub x_end: f64,
    /// What bars mean, in the order of their colours.
    pub kinds: Vec<String>,
    /// From above.
    pub lanes: Vec<Lane>,
}

/// Pixels of the area between the axes, and what they stand for.
struct Frame {
    x_end: f64,
    height: u32,
    lanes: f64,
}

impl Gantt {
    /// The picture as an SVG document.
    ///
    /// # Errors
    /// [`ReportError::NothingToPlot`] without a bar of positive length, [`ReportError::Drawing`] when drawing fails.
    pub(crate) fn to_svg(&self) -> Result<String, ReportError> {
        let frame = self.frame().ok_or_else(|| ReportError::NothingToPlot {
            title: self.title.clone(),
        })?;
        let mut svg = String::new();
        let root = SVGBackend::with_string(&mut svg, (WIDTH, frame.height)).into_drawing_area();
        let mut chart = ChartBuilder::on(&root)
            .caption(&self.title, (FONT, 16).into_font())
            .margin(10)
            .x_label_area_size(44)
            .y_label_area_size(64)
            .build_cartesian_2d(
                Coordinate::new(&Axis::new("", Scale::Linear), (0.0, frame.x_end)),
                Coordinate::at((0.0, frame.lanes + LEGEND_LANES), self.lane_places()),
            )
            .map_err(failed)?;
        self.mesh(&mut chart)?;
        for kind in 0..self.kinds.len() {
            self.bars(&mut chart, (kind, frame.x_end))?;
        }
        self.labels(&mut chart, frame.x_end)?;
        corner_legend(&mut chart)?;
        drop(chart);
        root.present().map_err(failed)?;
        drop(root);
        Ok(svg)
    }

    fn frame(&self) -> Option<Frame> {
        let stays = self.lanes.iter().flat_map(|lane| &lane.stays);
        let last = stays
            .filter(|stay| stay.end > stay.start && stay.end.is_finite())
            .map(|stay| stay.end)
            .reduce(f64::max)?;
        let lanes = self.lanes.len() as u32;
        Some(Frame {
            x_end: last.max(self.x_end),
            height: FRAME_HEIGHT + (lanes * LANE_HEIGHT).min(LANES_HEIGHT_MAX),
            lanes: f64::from(lanes),
        })
    }

    /// Middle of each lane, from above.
    fn lane_places(&self) -> Vec<f64> {
        let lanes = self.lanes.len();
        (0..lanes).map(|lane| (lanes - lane) as f64 - 0.5).collect()
    }

    fn mesh(&self, chart: &mut Chart<'_>) -> Result<(), ReportError> {
        let lanes = self.lanes.len();
        let name = |place: &f64| {
            let lane = (lanes as f64 - place - 0.5).round() as usize;
            self.lanes
                .get(lane)
                .map_or("", |lane| &lane.name)
                .to_owned()
        };
        chart
            .configure_mesh()
            .bold_line_style(GRID)
            .light_line_style(GRID)
            .axis_style(GRID)
            .label_style((FONT, 12))
            .axis_desc_style((FONT, 13))
            .x_desc(&self.x_label)
            .x_label_formatter(&|place| Scale::Linear.label(*place))
            .y_label_formatter(&name)
            .draw()
            .map_err(failed)
    }

    /// All bars of one kind, which is one entry of the legend.
    fn bars(&self, chart: &mut Chart<'_>, (kind, x_end): (usize, f64)) -> Result<(), ReportError> {
        let style = style(kind);
        let seam = SEAM_PIXELS * x_end / f64::from(WIDTH);
        let lanes = self.lanes.iter().zip(self.lane_places());
        let bars = lanes.flat_map(|(lane, place)| {
            let stays = lane.stays.iter().filter(move |stay| stay.kind == kind);
            stays.map(move |stay| {
                let corner = (stay.start, place - 0.5 + GAP);
                let end = (stay.end - seam).max(stay.start + seam / 2.0);
                Rectangle::new([corner, (end, place + 0.5 - GAP)], style)
            })
        });
        let drawn = chart.draw_series(bars).map_err(failed)?;
        drawn
            .label(&self.kinds[kind])
            .legend(move |(x, y)| Rectangle::new([(x, y - 5), (x + 18, y + 5)], style));
        Ok(())
    }

    fn labels(&self, chart: &mut Chart<'_>, x_end: f64) -> Result<(), ReportError> {
        let pixel = x_end / f64::from(WIDTH);
        let lanes = self.lanes.iter().zip(self.lane_places());
        let texts = lanes.flat_map(|(lane, place)| {
            let fits = move |stay: &&Stay| {
                let width = stay.label.chars().count() as f64 * LABEL_PIXELS * pixel;
                !stay.label.is_empty() && stay.end - stay.start >= width
            };
            lane.stays.iter().filter(fits).map(move |stay| {
                let place = (stay.start + 3.0 * pixel, place + 0.25);
                Text::new(stay.label.clone(), place, (FONT, 11).into_font())
            })
        });
        chart.draw_series(texts).map_err(failed)?;
        Ok(())
    }
}

/// Bars of the first kind are solid; of the others light, so that what is in them stays behind.
fn style(kind: usize) -> ShapeStyle {
    let colour: RGBColor = COLOURS[kind % COLOURS.len()];
    match kind {
        0 => colour.mix(0.75).filled(),
        _ => colour.mix(0.35).filled(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stay(start: f64, end: f64, kind: usize, label: &str) -> Stay {
        Stay {
            start,
            end,
            kind,
            label: label.to_owned(),
        }
    }

    fn gantt() -> Gantt {
        let lane = |name: &str, stays: Vec<Stay>| Lane {
            name: name.to_owned(),
            stays,
        };
        Gantt {
            title: "Slots <static>".to_owned(),
            x_label: "time, steps".to_owned(),
            x_end: 100.0,
            kinds: vec!["works".to_owned(), "held".to_owned()],
            lanes: vec![
                lane("slot 1", vec![stay(0.0, 40.0, 0, "long one")]),
                lane(
                    "slot 2",
                    vec![stay(0.0, 4.0, 0, "does not fit"), stay(4.0, 40.0, 1, "")],
                ),
            ],
        }
    }

    /// (left, width) of the bars in the colour of `kind`.
    fn bars(svg: &str, kind: usize) -> Vec<(i32, i32)> {
        let RGBColor(r, g, b) = COLOURS[kind];
        let colour = format!("fill=\"#{r:02X}{g:02X}{b:02X}\"");
        let number = |line: &str, key: &str| -> i32 {
            let rest = line.split(&format!(" {key}=\"")).nth(1).unwrap();
            rest.split('"').next().unwrap().parse().unwrap()
        };
        let lines = svg.split("<rect").filter(|line| {
            let tag = line.split("/>").next().unwrap();
            tag.contains(&colour)
        });
        lines
            .map(|line| (number(line, "x"), number(line, "width")))
            .collect()
    }

    #[test]
    fn a_bar_is_as_long_as_its_stay() {
        let svg = gantt().to_svg().unwrap();
        // Two bars, and the square of the legend.
        let works = bars(&svg, 0);
        assert_eq!(works.len(), 3, "{svg}");
        let (long, short) = (works[0], works[1]);
        assert_eq!(long.0, short.0, "both begin at zero");
        assert!((f64::from(long.1) / f64::from(short.1) - 10.0).abs() < 0.8);
        let held = bars(&svg, 1)[0];
        assert!(
            (held.0 - short.0 - short.1).abs() <= 3,
            "one after the other"
        );
        assert!(
            (held.0 + held.1 - long.0 - long.1).abs() <= 1,
            "both end at 40"
        );
    }

    #[test]
    fn names_axis_legend_and_fitting_labels_are_written() {
        let svg = gantt().to_svg().unwrap();
        for text in [
            "slot 1",
            "slot 2",
            "works",
            "held",
            "time, steps",
            "long one",
            "100",
        ] {
            assert!(svg.contains(&format!("{text}\n</text>")), "{text} in {svg}");
        }
        assert!(!svg.contains("does not fit"));
        assert!(svg.contains("Slots &lt;static&gt;"));
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
    }

    #[test]
    fn nobody_anywhere_is_nothing_to_plot() {
        let mut empty = gantt();
        empty.lanes.iter_mut().for_each(|lane| lane.stays.clear());
        assert!(empty.to_svg().unwrap_err().to_string().contains("Slots"));
    }
}
