//! What can go wrong in a report.

/// An error of a report.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// No point of a plot has a place on its axes.
    #[error("plot `{title}` has no point to show; measure at least one")]
    NothingToPlot {
        /// Title of the plot.
        title: String,
    },
    /// The drawing library failed.
    #[error("drawing a plot failed: {why}")]
    Drawing {
        /// As it says.
        why: String,
    },
}
