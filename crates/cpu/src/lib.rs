//! ucuz-cpu.
