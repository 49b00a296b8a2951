//! Q2_K blocks.

use super::Group;

/// Splits one block into groups.
pub fn unpack(_block: &[u8], _groups: &mut [Group]) {}
