//! Q8_0 blocks.

use super::Group;

/// Splits one block into groups.
pub fn unpack(_block: &[u8], _groups: &mut [Group]) {}
