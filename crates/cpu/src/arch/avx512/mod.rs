//! The AVX-512 tier: one vector is 16 output rows. Needs AVX-512 F, BW, VL, DQ, VBMI and VNNI.

pub mod activation;
pub mod attention;
pub mod ceiling;
pub mod codebook;
pub mod float;
pub mod integer;
pub mod norm;
pub mod portable;
pub mod quantise;
pub mod quantise_rows;
pub mod rope;
pub mod row_scaled;
