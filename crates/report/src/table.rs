//! Tables: aligned text for a terminal, `<table>` for a page.
//!
//! Units stand in the headings, numbers are rounded to what their spread supports and aligned at the decimal point.

use std::fmt::Write;

use crate::html::escape;
use crate::number;
use crate::spread::Spread;

/// Heading of one column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// What it is.
    pub name: String,
    /// Unit, or empty.
    pub unit: String,
}

impl Column {
    /// A column with a unit; an empty unit is none.
    pub fn new(name: impl Into<String>, unit: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            unit: unit.into(),
        }
    }
}

/// One entry of a row.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    /// Nothing to say.
    Empty,
    /// Words, aligned to the left.
    Text(String),
    /// An exact number.
    Count(u64),
    /// A measured number and what it can be trusted to; 0 when that is not known.
    Number {
        /// The number.
        value: f64,
        /// Half the distance between its quartiles.
        uncertainty: f64,
    },
    /// Smallest and largest of a measured number.
    Range {
        /// Smallest.
        low: f64,
        /// Largest.
        high: f64,
        /// Of the number whose range it is.
        uncertainty: f64,
    },
}

impl Cell {
    /// Words.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// The median.
    pub fn median(spread: &Spread) -> Self {
        Self::Number {
            value: spread.median,
            uncertainty: spread.uncertainty(),
        }
    }

    /// Smallest to largest; nothing for a single measurement, which has no spread.
    pub fn extremes(spread: &Spread) -> Self {
        match spread.repetitions {
            1 => Self::Empty,
            _ => Self::Range {
                low: spread.min,
                high: spread.max,
                uncertainty: spread.uncertainty(),
            },
        }
    }

    /// A derived number of which three digits are shown.
    pub fn number(value: f64) -> Self {
        Self::Number {
            value,
            uncertainty: 0.0,
        }
    }

    fn shown(&self) -> String {
        match self {
            Self::Empty => String::new(),
            Self::Text(text) => text.clone(),
            Self::Count(count) => count.to_string(),
            Self::Number { value, uncertainty } => number::rounded(*value, *uncertainty),
            Self::Range {
                low,
                high,
                uncertainty,
            } => number::range(*low, *high, *uncertainty),
        }
    }

    fn is_number(&self) -> bool {
        matches!(self, Self::Count(_) | Self::Number { .. })
    }
}

/// Columns and rows.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    /// What it shows, in a line; may be empty.
    pub caption: String,
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    /// An empty table.
    pub fn new(caption: impl Into<String>, columns: Vec<Column>) -> Self {
        Self {
            caption: caption.into(),
            columns,
            rows: Vec::new(),
        }
    }

    /// Adds a row.
    ///
    /// # Panics
    /// When it has not one cell a column.
    pub fn push(&mut self, row: Vec<Cell>) {
        assert_eq!(row.len(), self.columns.len(), "one cell a column");
        self.rows.push(row);
    }

    /// The table as aligned lines, caption first, without trailing spaces.
    pub(crate) fn to_text(&self) -> String {
        let columns: Vec<TextColumn> = (0..self.columns.len())
            .map(|i| TextColumn::of(self, i))
            .collect();
        let mut out = String::new();
        if !self.caption.is_empty() {
            // A string takes everything.
            let _ = writeln!(out, "{}", self.caption);
        }
        let lines = columns.first().map_or(0, |column| column.lines.len());
        for line in 0..lines {
            let cells: Vec<&str> = columns.iter().map(|c| c.lines[line].as_str()).collect();
            let _ = writeln!(out, "{}", cells.join("  ").trim_end());
        }
        out
    }

    /// The table as HTML.
    pub(crate) fn to_html(&self) -> String {
        let mut out = String::from("<div class=\"scroll\"><table>");
        if !self.caption.is_empty() {
            let _ = write!(out, "<caption>{}</caption>", escape(&self.caption));
        }
        out.push_str("<thead><tr>");
        for (i, column) in self.columns.iter().enumerate() {
            let class = if self.is_left(i) { " class=\"l\"" } else { "" };
            let name = escape(&column.name);
            let _ = write!(out, "<th{class}>{name}");
            if !column.unit.is_empty() {
                let _ = write!(out, "<small>{}</small>", escape(&column.unit));
            }
            out.push_str("</th>");
        }
        out.push_str("</tr></thead><tbody>");
        for row in &self.rows {
            out.push_str("<tr>");
            for (i, cell) in row.iter().enumerate() {
                let class = if self.is_left(i) { " class=\"l\"" } else { "" };
                let _ = write!(out, "<td{class}>{}</td>", escape(&cell.shown()));
            }
            out.push_str("</tr>");
        }
        out.push_str("</tbody></table></div>\n");
        out
    }

    /// Columns of words start at the left.
    fn is_left(&self, column: usize) -> bool {
        self.rows
            .iter()
            .any(|row| matches!(row[column], Cell::Text(_)))
    }
}

/// One column as lines of equal width: name, unit (when any column has one), rows.
struct TextColumn {
    lines: Vec<String>,
}

impl TextColumn {
    fn of(table: &Table, column: usize) -> Self {
        let heading = &table.columns[column];
        let mut lines = vec![heading.name.clone()];
        if table.columns.iter().any(|c| !c.unit.is_empty()) {
            lines.push(heading.unit.clone());
        }
        let cells: Vec<&Cell> = table.rows.iter().map(|row| &row[column]).collect();
        lines.extend(aligned_at_point(&cells));
        let width = lines.iter().map(|l| l.chars().count()).max().unwrap_or(0);
        let is_left = table.is_left(column);
        for line in &mut lines {
            *line = match is_left {
                true => format!("{line:<width$}"),
                false => format!("{line:>width$}"),
            };
        }
        Self { lines }
    }
}

/// Cells as text, numbers padded on the right so that their points stand below each other.
fn aligned_at_point(cells: &[&Cell]) -> Vec<String> {
    let fraction = |text: &str| text.find('.').map_or(0, |point| text.len() - point);
    let widest = cells
        .iter()
        .filter(|cell| cell.is_number())
        .map(|cell| fraction(&cell.shown()))
        .max()
        .unwrap_or(0);
    cells
        .iter()
        .map(|cell| {
            let text = cell.shown();
            let padding = match cell.is_number() {
                true => widest - fraction(&text),
                false => 0,
            };
            text + &" ".repeat(padding)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let columns = vec![
            Column::new("operation", ""),
            Column::new("rows", ""),
            Column::new("time", "ms"),
            Column::new("min-max", "ms"),
        ];
        let mut table = Table::new("Products", columns);
        for (name, rows, samples) in [
            ("linear <Q4_1>", 1, [0.98, 1.02, 1.1]),
            ("rope", 512, [123.0, 124.0, 131.0]),
        ] {
            let spread = Spread::of(&samples).unwrap();
            table.push(vec![
                Cell::text(name),
                Cell::Count(rows),
                Cell::median(&spread),
                Cell::extremes(&spread),
            ]);
        }
        table
    }

    #[test]
    fn text_is_aligned_and_units_stand_in_the_heading() {
        let expected = "\
Products
operation      rows    time    min-max
                         ms         ms
linear <Q4_1>     1    1.02  0.98-1.10
rope            512  124       123-131
";
        assert_eq!(table().to_text(), expected);
    }

    #[test]
    fn a_single_measurement_has_no_range() {
        assert_eq!(Cell::extremes(&Spread::of(&[1.0]).unwrap()), Cell::Empty);
    }

    #[test]
    fn html_escapes_what_it_is_given() {
        let html = table().to_html();
        assert!(
            html.contains("<td class=\"l\">linear &lt;Q4_1&gt;</td>"),
            "{html}"
        );
        assert!(html.contains("<th>time<small>ms</small></th>"), "{html}");
        assert_eq!(html.matches("<tr>").count(), 3);
    }

    #[test]
    fn a_table_without_rows_has_its_headings() {
        let table = Table::new("", vec![Column::new("a", ""), Column::new("b", "")]);
        assert_eq!(table.to_text(), "a  b\n");
    }
}
