//! The AVX-512 tier: one vector is 16 output rows. Needs AVX-512 F, BW, VL, DQ, VBMI and VNNI.

pub mod codebook;
pub mod integer;
pub mod portable;
pub mod activation;
pub mod attention;
pub mod norm;
pub mod rope;
