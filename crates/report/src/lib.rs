//! ucuz-report.
