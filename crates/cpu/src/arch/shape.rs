//! Shapes of coded panels as types, so that a kernel is compiled once for each and carries no tests in its loops.

use ucuz_tensor::layout::{CodedPanel, ScaleKind};

/// Geometry of a coded panel with int8 arithmetic, known at compile time.
pub trait Shape {
    /// Bits of a stored code: 2, 3, 4, 5, 6 or 8.
    const BITS: u8;
    /// What is added to a code before it is stored.
    const BIAS: u8;
    /// Bits of the plane that holds the low bits of codes.
    const LOW_BITS: u8 = Self::PANEL.low_bits();
    /// Bits of the plane that holds the rest.
    const HIGH_BITS: u8 = Self::BITS - Self::LOW_BITS;
    /// Whether a sub-scale and its minimum share a byte.
    const PACKED_SUBS: bool = Self::PANEL.packed_subs();
    /// Groups that share a scale.
    const GROUPS: usize;
    /// Integer sub-scales of a group.
    const SUBS: usize;
    /// Whether there is a minimum.
    const MINIMUM: bool;
    /// The same as the layout has it.
    const PANEL: CodedPanel = CodedPanel {
        bits: Self::BITS,
        bias: Self::BIAS,
        groups_per_scale: Self::GROUPS,
        sub_scales: Self::SUBS,
        minimum: Self::MINIMUM,
        scale: ScaleKind::F16,
    };
}

macro_rules! shapes {
    ($($(#[$doc:meta])* $name:ident = ($bits:literal, $bias:literal, $groups:literal, $subs:literal, $minimum:literal);)*) => {
        $(
            $(#[$doc])*
            #[derive(Debug)]
            pub struct $name;

            impl Shape for $name {
                const BITS: u8 = $bits;
                const BIAS: u8 = $bias;
                const GROUPS: usize = $groups;
                const SUBS: usize = $subs;
                const MINIMUM: bool = $minimum;
            }
        )*

        /// Runs `$body` with `$S` standing for the shape of `$coded`; `$other` where no kernel is compiled for it.
        macro_rules! with_shape {
            ($coded:expr, $S:ident => $body:expr, $other:expr) => {{
                use $crate::arch::shape;
                let c = &$coded;
                match (c.bits, c.bias, c.groups_per_scale, c.sub_scales, c.minimum) {
                    $(($bits, $bias, $groups, $subs, $minimum) => {
                        type $S = shape::$name;
                        $body
                    })*
                    _ => $other,
                }
            }};
        }
    };
}

shapes! {
    /// Q4_0.
    Nibble = (4, 8, 1, 0, false);
    /// Q4_1.
    NibbleMinimum = (4, 0, 1, 0, true);
    /// Q8_0.
    Byte = (8, 128, 1, 0, false);
    /// Q5_0.
    Five = (5, 16, 1, 0, false);
    /// Q5_1.
    FiveMinimum = (5, 0, 1, 0, true);
    /// Q2_K.
    Two2Minimum = (2, 0, 8, 2, true);
    /// Q3_K.
    Three2 = (3, 4, 8, 2, false);
    /// Q4_K.
    Nibble1Minimum = (4, 0, 8, 1, true);
    /// Q5_K.
    Five1Minimum = (5, 0, 8, 1, true);
    /// Q6_K.
    Six2 = (6, 32, 8, 2, false);
}

pub(crate) use with_shape;
