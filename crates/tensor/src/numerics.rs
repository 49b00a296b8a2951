//! Canonical scalar arithmetic shared by every backend: bf16 rounding, exponentials, counter-based noise.
