//! ucuz-engine.
