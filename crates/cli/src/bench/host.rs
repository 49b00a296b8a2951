//! The machine's clock, its memory, and progress on stderr.

use std::fs;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use ucuz_measure::Host;

use crate::process::status_bytes;

/// Lines of progress that a stage prints where there is no terminal.
const LINES: u64 = 5;

/// [`Host`] for a person at a terminal, or for a log.
pub struct TerminalHost {
    origin: Instant,
    is_terminal: bool,
    stage: Option<Stage>,
}

/// What is under way.
struct Stage {
    what: String,
    units: u64,
    done: u64,
    bar: Option<ProgressBar>,
}

impl TerminalHost {
    /// A host whose clock starts at zero.
    pub fn start() -> Self {
        Self {
            origin: Instant::now(),
            is_terminal: std::io::stderr().is_terminal(),
            stage: None,
        }
    }
}

impl Host for TerminalHost {
    fn now(&self) -> Duration {
        self.origin.elapsed()
    }

    fn begin(&mut self, what: &str, units: u64) {
        let bar = self.is_terminal.then(|| bar(what, units));
        if bar.is_none() {
            note!("{what}");
        }
        self.stage = Some(Stage {
            what: what.to_owned(),
            units: units.max(1),
            done: 0,
            bar,
        });
    }

    fn advance(&mut self, units: u64) {
        let Some(stage) = &mut self.stage else {
            return;
        };
        let lines = |done: u64| u128::from(done) * u128::from(LINES) / u128::from(stage.units);
        let shown = lines(stage.done);
        stage.done = stage.done.saturating_add(units).min(stage.units);
        match &stage.bar {
            Some(bar) => bar.set_position(stage.done),
            None if lines(stage.done) > shown => {
                let percent = 100 * u128::from(stage.done) / u128::from(stage.units);
                note!("{}: {percent} %", stage.what);
            }
            None => {}
        }
    }

    fn end(&mut self) {
        if let Some(bar) = self.stage.take().and_then(|stage| stage.bar) {
            bar.finish_and_clear();
        }
    }

    fn reset_peak_memory(&mut self) -> bool {
        // Source: proc_pid_clear_refs(5): 5 sets the peak resident size to the current one.
        fs::write("/proc/self/clear_refs", "5").is_ok()
    }

    fn peak_memory_bytes(&self) -> Option<u64> {
        status_bytes("self", "VmHWM:")
    }

    fn resident_memory_bytes(&self, pid: u32) -> Option<u64> {
        status_bytes(&pid.to_string(), "VmRSS:")
    }
}

fn bar(what: &str, units: u64) -> ProgressBar {
    let bar = ProgressBar::new(units).with_message(what.to_owned());
    bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(4));
    if let Ok(style) = ProgressStyle::with_template("{msg} {wide_bar} {percent} % {eta}") {
        bar.set_style(style);
    }
    bar
}
