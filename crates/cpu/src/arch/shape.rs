//! Shapes of coded panels as types, so that a kernel is compiled once for each and carries no tests in its loops.

/// Geometry of a coded panel with int8 arithmetic, known at compile time.
pub trait Shape {
    /// Bits of a stored code: 4 or 8.
    const BITS: u8;
    /// What is added to a code before it is stored.
    const BIAS: u8;
    /// Groups that share a scale.
    const GROUPS: usize;
    /// Integer sub-scales of a group.
    const SUBS: usize;
    /// Whether there is a minimum.
    const MINIMUM: bool;
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
    /// Q5_0, Q8_0.
    Byte = (8, 128, 1, 0, false);
    /// Q5_1.
    ByteMinimum = (8, 128, 1, 0, true);
    /// Q2_K.
    Nibble2Minimum = (4, 0, 8, 2, true);
    /// Q3_K.
    Nibble2 = (4, 8, 8, 2, false);
    /// Q4_K.
    Nibble1Minimum = (4, 0, 8, 1, true);
    /// Q5_K.
    Byte1Minimum = (8, 128, 8, 1, true);
    /// Q6_K.
    Byte2 = (8, 128, 8, 2, false);
}

pub(crate) use with_shape;
