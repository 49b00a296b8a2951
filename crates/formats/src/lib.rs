//! ucuz-formats.
