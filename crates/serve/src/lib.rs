//! ucuz-serve.
