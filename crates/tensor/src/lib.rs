//! ucuz-tensor.
