//! Floor 5: what produces the numbers.
//!
//! Here: [`mod@bench`]es, which measure a model on a backend and return typed, serialisable results that know how to become a
//! [`Document`](ucuz_report::Document); [`mod@load`], which puts requests on a server over HTTP; and the [`Provenance`] that
//! every result carries. Deliberately not here: files, arguments, the terminal, the list of backends, the clock, except that
//! of `load`, which belongs to its runtime. `cli` hands in what a bench needs of the world as a [`Host`].

pub mod bench;
mod host;
pub mod load;
mod provenance;

pub use host::{Host, repeat};
pub use provenance::{DeviceFacts, Machine, Provenance};
