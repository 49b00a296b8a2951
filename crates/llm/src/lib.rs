//! ucuz-llm.
