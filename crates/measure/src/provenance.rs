//! Where numbers come from: without it they cannot be compared.

use serde::Serialize;
use ucuz_report::Fact;

/// What computes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DeviceFacts {
    /// Name of the backend.
    pub backend: String,
    /// The device in words, e.g. the tier of kernels.
    pub device: String,
    /// Threads that compute.
    pub threads: usize,
}

/// The machine and the device on it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Machine {
    /// The processor in words.
    pub processor: String,
    /// Cores, each counted once.
    pub physical_cores: usize,
    /// All memory.
    pub memory_bytes: Option<u64>,
    /// What computes; absent where only a client ran here.
    #[serde(flatten)]
    pub device: Option<DeviceFacts>,
}

/// What every result carries.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Provenance {
    /// The command that made it.
    pub command: String,
    /// Version of the program.
    pub version: String,
    /// When it was made, in seconds since 1970.
    pub created_unix_s: u64,
    /// The same for people: date and time in UTC.
    pub created: String,
    /// Version of the arithmetic: equal versions give equal tokens.
    pub arithmetic_version: u32,
    /// Where.
    pub machine: Machine,
}

impl Provenance {
    /// The same as lines of a report.
    pub fn facts(&self) -> Vec<Fact> {
        let machine = &self.machine;
        let memory = machine.memory_bytes.map_or_else(String::new, |bytes| {
            format!(", {:.1} GiB of memory", bytes as f64 / f64::from(1 << 30))
        });
        let mut facts = vec![
            Fact::new("command", &self.command),
            Fact::new(
                "version",
                format!("{}, arithmetic {}", self.version, self.arithmetic_version),
            ),
            Fact::new("made", &self.created),
            Fact::new(
                "machine",
                format!(
                    "{}, {} cores{memory}",
                    machine.processor, machine.physical_cores
                ),
            ),
        ];
        facts.extend(machine.device.as_ref().map(|device| {
            let DeviceFacts {
                backend,
                device,
                threads,
            } = device;
            Fact::new("device", format!("{device} ({backend}), {threads} threads"))
        }));
        facts
    }
}
