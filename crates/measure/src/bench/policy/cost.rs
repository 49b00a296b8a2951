//! What a step costs.

use serde::Serialize;

/// Seconds of a step, from who is in it.
#[derive(Debug, Clone, PartialEq)]
pub enum StepCost {
    /// The same whoever is in it.
    Constant(f64),
    /// A part that every step pays, and one for each sequence.
    Affine {
        /// Seconds of a step with nobody in it.
        fixed: f64,
        /// Seconds more for each sequence.
        each: f64,
    },
    /// As measured.
    Measured(Grid),
}

impl StepCost {
    /// Seconds of a step in which `decoding` sequences get their next token and `starting` ones their first, their prompts
    /// with it.
    pub fn seconds(&self, decoding: usize, starting: usize) -> f64 {
        match self {
            Self::Constant(seconds) => *seconds,
            Self::Affine { fixed, each } => fixed + each * (decoding + starting) as f64,
            Self::Measured(grid) => grid.seconds(decoding, starting),
        }
    }
}

/// Seconds of steps that were measured, linear in between.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Grid {
    /// Numbers of sequences, of both kinds, ascending from 0; at least two.
    pub sequences: Vec<usize>,
    /// Seconds `[starting][decoding]` at those numbers.
    pub seconds: Vec<Vec<f64>>,
}

impl Grid {
    /// 0, the powers of two below `slots`, and `slots`.
    pub fn axis(slots: usize) -> Vec<usize> {
        let powers = std::iter::successors(Some(1), |n| Some(n * 2));
        let mut axis = vec![0];
        axis.extend(powers.take_while(|n| *n < slots));
        axis.push(slots.max(1));
        axis
    }

    /// Calls `measure(decoding, starting)` for each pair of numbers on the axis but nobody at all.
    ///
    /// # Errors
    /// What `measure` reports.
    pub fn of<E>(
        sequences: Vec<usize>,
        mut measure: impl FnMut(usize, usize) -> Result<f64, E>,
    ) -> Result<Self, E> {
        let mut seconds = Vec::with_capacity(sequences.len());
        for &starting in &sequences {
            let row = sequences.iter().map(|&decoding| match decoding + starting {
                0 => Ok(0.0),
                _ => measure(decoding, starting),
            });
            seconds.push(row.collect::<Result<Vec<f64>, E>>()?);
        }
        Ok(Self { sequences, seconds })
    }

    /// Bilinear between the four measured neighbours; beyond the last, the last slope goes on.
    fn seconds(&self, decoding: usize, starting: usize) -> f64 {
        let ((row, down), (column, right)) = (self.place(starting), self.place(decoding));
        let along = |row: usize| {
            let (left, next) = (self.seconds[row][column], self.seconds[row][column + 1]);
            left + (next - left) * right
        };
        along(row) + (along(row + 1) - along(row)) * down
    }

    /// The measured number at or below `count`, and how far beyond it towards the next one.
    fn place(&self, count: usize) -> (usize, f64) {
        let axis = &self.sequences;
        let above = axis.partition_point(|n| *n <= count);
        let low = above.clamp(1, axis.len() - 1) - 1;
        let width = (axis[low + 1] - axis[low]) as f64;
        (low, (count as f64 - axis[low] as f64) / width)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_axis_holds_powers_of_two_and_the_slots() {
        for (slots, axis) in [
            (1, vec![0, 1]),
            (2, vec![0, 1, 2]),
            (6, vec![0, 1, 2, 4, 6]),
            (8, vec![0, 1, 2, 4, 8]),
        ] {
            assert_eq!(Grid::axis(slots), axis);
        }
    }

    #[test]
    fn a_plane_is_met_everywhere_and_measured_points_exactly() {
        let plane =
            |decoding: usize, starting: usize| 2.0 + decoding as f64 + 5.0 * starting as f64;
        let grid = Grid::of(Grid::axis(8), |d, s| Ok::<_, ()>(plane(d, s))).unwrap();
        let cost = StepCost::Measured(grid);
        for (decoding, starting) in [(1, 0), (3, 1), (8, 0), (5, 3), (8, 8), (2, 7), (9, 0)] {
            let expected = match (decoding, starting) {
                // Between nobody (which costs nothing) and one there is no step.
                (0, 0) => 0.0,
                _ => plane(decoding, starting),
            };
            let found = cost.seconds(decoding, starting);
            assert!(
                (found - expected).abs() < 1e-9,
                "{decoding} {starting}: {found}"
            );
        }
    }

    #[test]
    fn plain_costs_are_what_they_say() {
        assert_eq!(StepCost::Constant(3.0).seconds(5, 2), 3.0);
        let cost = StepCost::Affine {
            fixed: 1.0,
            each: 0.5,
        };
        assert_eq!(cost.seconds(3, 1), 3.0);
    }
}
