//! `ROWSxCOLS` of a weight, and the model it would belong to.

use std::fmt;
use std::str::FromStr;

use ucuz_tensor::backend::HeadShape;

/// Numbers of one head, in most models.
const HEAD_DIM: usize = 64;
/// Query heads that share a key head, in models of a billion weights.
const HEADS_PER_KV_HEAD: usize = 4;
/// Longest side of a weight: a vocabulary.
const SIDE_MAX: usize = 1 << 20;

/// Most weights: 8 GiB in f32. The largest heads of today have 1.4 billion (262144x5376).
const WEIGHTS_MAX: usize = 1 << 31;

/// Outputs and inputs of a weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Outputs.
    pub rows: usize,
    /// Inputs: the hidden size.
    pub cols: usize,
}

impl Shape {
    /// Heads of 64 that fill the hidden size, four to a key head where that divides.
    pub fn heads(&self) -> HeadShape {
        let heads = (self.cols / HEAD_DIM).max(1);
        let wanted = (heads / HEADS_PER_KV_HEAD).max(1);
        let divides = |n: &usize| heads.is_multiple_of(*n);
        HeadShape {
            heads,
            kv_heads: (1..=wanted).rev().find(divides).unwrap_or(1),
            head_dim: HEAD_DIM,
        }
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.rows, self.cols)
    }
}

/// A text that is no shape.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "a shape is ROWSxCOLS like 2048x2048, each from 1 to {SIDE_MAX}, columns a multiple of 32, at most {WEIGHTS_MAX} weights in all; got {0:?}"
)]
pub struct BadShape(pub String);

impl FromStr for Shape {
    type Err = BadShape;

    fn from_str(text: &str) -> Result<Self, BadShape> {
        let sides = text.split_once('x').and_then(|(rows, cols)| {
            let side = |text: &str| {
                let side = text.parse::<usize>().ok()?;
                (1..=SIDE_MAX).contains(&side).then_some(side)
            };
            Some((side(rows)?, side(cols)?))
        });
        match sides {
            Some((rows, cols)) if cols.is_multiple_of(32) && rows <= WEIGHTS_MAX / cols => {
                Ok(Self { rows, cols })
            }
            _ => Err(BadShape(text.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_parse_and_print() {
        assert_eq!(
            "49152x576".parse(),
            Ok(Shape {
                rows: 49152,
                cols: 576
            })
        );
        assert!("1048576x2048".parse::<Shape>().is_ok());
        assert_eq!("1x32".parse::<Shape>().unwrap().to_string(), "1x32");
        for text in [
            "",
            "2048",
            "x",
            "0x32",
            "8x0",
            "8x33",
            "8x-32",
            "99999999x32",
            "1048576x2080",
            "8x32x2",
        ] {
            let error = text.parse::<Shape>().unwrap_err();
            assert!(error.to_string().contains("ROWSxCOLS"), "{text}");
        }
    }

    #[test]
    fn heads_fill_the_hidden_size() {
        for (cols, heads, kv_heads) in [(2048, 32, 8), (576, 9, 1), (896, 14, 2), (32, 1, 1)] {
            let shape = Shape { rows: 1, cols }.heads();
            assert_eq!((shape.heads, shape.kv_heads), (heads, kv_heads), "{cols}");
        }
    }
}
