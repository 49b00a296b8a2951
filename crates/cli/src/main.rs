//! ucuz-cli.
fn main() {}
