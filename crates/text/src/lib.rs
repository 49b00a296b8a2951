//! ucuz-text.
