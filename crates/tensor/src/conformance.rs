//! What every backend must show: one macro that its tests call.
//!
//! Each public function is one check. Accuracy is measured against sums in f64 over the exact decoded weights, within a
//! bound that follows from the format's [`Arithmetic`](crate::Arithmetic) and the length of the sum, and never from
//! experience. Promises of exactness (rows, chunks, fused = plain) are compared bit for bit. The plain reference passes
//! the same checks. Tests call this; nothing else does.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test suite: a failed check is a panic with its case in the text"
)]

mod attention;
mod bounds;
mod data;
mod linear;
mod pointwise;
mod sampling;

pub use attention::*;
pub use linear::*;
pub use pointwise::*;
pub use sampling::*;

/// Makes one test of each check: `conformance!(backend)`, or `conformance!(optional: maybe_backend)` for a tier that a
/// machine may lack; `None` skips and says so. The expression is evaluated once a test.
#[macro_export]
macro_rules! conformance {
    (optional: $backend:expr) => {
        $crate::conformance! { @cases $backend;
            linear_stays_within_the_bound_of_its_arithmetic
            linear_computes_each_part_in_its_own_format
            linear_row_alone_equals_row_in_a_batch
            linear_add_equals_linear_then_add
            linear_gated_equals_linear_then_gate
            linear_keeps_a_bad_row_to_itself
            conversion_on_load_equals_stored_rows
            embed_decodes_rows_exactly
            attention_stays_within_the_bound_of_its_cache
            attention_over_many_blocks_stays_within_its_bound
            attention_in_chunks_equals_whole
            attention_alone_equals_in_a_batch
            attention_does_not_depend_on_block_numbers
            attention_never_reads_behind_the_window
            attention_keeps_a_bad_token_to_the_rows_that_see_it
            rms_norm_stays_within_its_bound
            rope_rotates_both_styles_with_and_without_norms
            activations_stay_within_their_bound
            pointwise_row_alone_equals_row_in_a_batch
            add_and_take_rows_are_exact
            shapes_that_disagree_are_errors
            sampling_equals_the_row_sampler
        }
    };
    (@cases $backend:expr; $($case:ident)+) => {
        $(
            #[test]
            fn $case() {
                match $backend {
                    Some(backend) => $crate::conformance::$case(&backend),
                    None => eprintln!("skipped: this machine lacks what the backend needs"),
                }
            }
        )+
    };
    ($backend:expr) => {
        $crate::conformance!(optional: Some($backend));
    };
}
