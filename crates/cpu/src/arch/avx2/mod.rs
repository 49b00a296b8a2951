//! The AVX2 tier: one vector is half a panel, 8 output rows. Needs AVX2, FMA and F16C.

pub mod activation;
pub mod attention;
pub mod ceiling;
pub mod codebook;
pub mod float;
pub mod integer;
pub mod norm;
pub mod portable;
pub mod rope;
pub mod row_scaled;
