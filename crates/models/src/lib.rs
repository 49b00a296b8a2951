//! ucuz-models.
