//! A report: facts, then sections of words, tables and plots. As text for a terminal, as one self-contained page.

use std::fmt::Write;

use crate::ReportError;
use crate::html::escape;
use crate::plot::{Bars, Gantt, Plot};
use crate::table::Table;

/// Characters of a line of words on a terminal.
const LINE_WIDTH: usize = 100;
const STYLE: &str = include_str!("style.css");

/// Something known of a run: the model, the machine, the command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fact {
    /// What.
    pub name: String,
    /// Its value.
    pub value: String,
}

impl Fact {
    /// A fact.
    pub fn new(name: impl Into<String>, value: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            value: value.into(),
        }
    }
}

/// A part of a section.
#[derive(Debug, Clone, PartialEq)]
pub enum Block {
    /// Words.
    Paragraph(String),
    /// Numbers.
    Table(Table),
    /// A picture; text leaves it out.
    Plot(Plot),
    /// Who held which lane when; text leaves it out.
    Gantt(Gantt),
    /// Numbers as bars; text leaves it out.
    Bars(Bars),
}

/// Blocks under a heading.
#[derive(Debug, Clone, PartialEq)]
pub struct Section {
    /// The heading.
    pub heading: String,
    /// In order.
    pub blocks: Vec<Block>,
}

/// A whole report.
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    /// What it is about.
    pub title: String,
    /// What is known of the run.
    pub facts: Vec<Fact>,
    /// In order.
    pub sections: Vec<Section>,
}

impl Document {
    /// The report for a terminal; plots are left out.
    pub fn to_text(&self) -> String {
        let mut out = String::new();
        let width = self
            .facts
            .iter()
            .map(|fact| fact.name.chars().count())
            .max();
        let width = width.unwrap_or(0);
        for fact in &self.facts {
            // A string takes everything.
            let _ = writeln!(out, "{:<width$}  {}", fact.name, fact.value);
        }
        for section in &self.sections {
            let _ = writeln!(out, "\n{}", section.heading);
            for block in &section.blocks {
                let _ = match block {
                    Block::Paragraph(text) => writeln!(out, "\n{}", wrapped(text)),
                    Block::Table(table) => write!(out, "\n{}", table.to_text()),
                    Block::Plot(_) | Block::Gantt(_) | Block::Bars(_) => Ok(()),
                };
            }
        }
        out
    }

    /// The report as one HTML page: styles and plots inside, no script, nothing from the network.
    ///
    /// # Errors
    /// A plot that cannot be drawn.
    pub fn to_html(&self) -> Result<String, ReportError> {
        let title = escape(&self.title);
        let mut out = format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width\">\n\
             <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n<dl>\n"
        );
        for fact in &self.facts {
            let (name, value) = (escape(&fact.name), escape(&fact.value));
            let _ = writeln!(out, "<dt>{name}</dt><dd>{value}</dd>");
        }
        out.push_str("</dl>\n");
        for section in &self.sections {
            let _ = writeln!(out, "<h2>{}</h2>", escape(&section.heading));
            for block in &section.blocks {
                out.push_str(&block_html(block)?);
            }
        }
        out.push_str("</body>\n</html>\n");
        Ok(out)
    }
}

/// `text` broken into lines at spaces.
fn wrapped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut width = 0;
    for word in text.split_whitespace() {
        let length = word.chars().count();
        let (gap, before) = match width {
            0 => ("", 0),
            _ if width + 1 + length > LINE_WIDTH => ("\n", 0),
            _ => (" ", width + 1),
        };
        out.push_str(gap);
        out.push_str(word);
        width = before + length;
    }
    out
}

fn block_html(block: &Block) -> Result<String, ReportError> {
    Ok(match block {
        Block::Paragraph(text) => format!("<p>{}</p>\n", escape(text)),
        Block::Table(table) => table.to_html(),
        Block::Plot(plot) => figure(&plot.title, &plot.to_svg()?),
        Block::Gantt(gantt) => figure(&gantt.title, &gantt.to_svg()?),
        Block::Bars(bars) => figure(&bars.title, &bars.to_svg()?),
    })
}

fn figure(title: &str, svg: &str) -> String {
    let title = escape(title);
    format!("<figure role=\"img\" aria-label=\"{title}\">\n{svg}</figure>\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::{Axis, Point, Scale};
    use crate::table::{Cell, Column};

    fn document() -> Document {
        let mut table = Table::new("", vec![Column::new("batch", "")]);
        table.push(vec![Cell::Count(4)]);
        let axis = || Axis::new("x", Scale::Log2);
        let plot = Plot::new("Picture", axis(), axis());
        let points = vec![Point::new(1.0, 2.0), Point::new(2.0, 4.0)];
        let plot = plot.with("line", points);
        Document {
            title: "Speed of <m>".to_owned(),
            facts: vec![
                Fact::new("model", "m & co"),
                Fact::new("machine", "2 cores"),
            ],
            sections: vec![Section {
                heading: "Batches".to_owned(),
                blocks: vec![
                    Block::Paragraph("Words.".to_owned()),
                    Block::Table(table),
                    Block::Plot(plot),
                ],
            }],
        }
    }

    #[test]
    fn text_holds_facts_words_and_tables() {
        let expected = "model    m & co\nmachine  2 cores\n\nBatches\n\nWords.\n\nbatch\n    4\n";
        assert_eq!(document().to_text(), expected);
    }

    #[test]
    fn words_are_broken_at_spaces_only() {
        let text = format!("{} {} end", "a".repeat(60), "b".repeat(39));
        let expected = format!("{} {}\nend", "a".repeat(60), "b".repeat(39));
        assert_eq!(wrapped(&text), expected);
        assert_eq!(wrapped(&"c".repeat(200)), "c".repeat(200));
        assert_eq!(wrapped(""), "");
    }

    #[test]
    fn a_page_needs_nothing_from_outside() {
        let html = document().to_html().unwrap();
        assert!(html.starts_with("<!doctype html>") && html.ends_with("</html>\n"));
        assert!(html.contains("<title>Speed of &lt;m&gt;</title>"), "{html}");
        assert!(html.contains("<dt>model</dt><dd>m &amp; co</dd>"), "{html}");
        assert!(html.contains("<svg ") && html.contains("<table>"));
        // The only address is the name of SVG itself.
        let addresses = html.matches("http").count();
        assert_eq!(
            addresses,
            html.matches("xmlns=\"http://www.w3.org/2000/svg\"").count()
        );
        for word in ["<script", "<link", "src=", "@import", "url("] {
            assert!(!html.contains(word), "{word}");
        }
    }
}
