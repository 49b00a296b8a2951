//! What a step costs, learned from the steps that were run.
//!
//! A step's time is taken as `step + rows · row + reads · read + attended · attention`: weights are read once a step, each
//! row is multiplied, rows whose logits are read go through the head, and each row attends to all keys before it. The four
//! are fitted by least squares of the relative error, none below 0; older steps count less and less.

/// Weight of all earlier steps when one more is observed: half of what is known comes from the last 140 steps.
const MEMORY: f64 = 0.995;

/// What keeps prices apart that the steps so far cannot tell apart, as a share of each feature's own weight. Rows that begin
/// a prompt see few keys: until longer ones have been run, their time is the rows', not their attention's.
const RIDGE: [f64; 4] = [1e-6, 1e-6, 1e-6, 1e-3];

/// What counts in a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StepShape {
    /// Rows computed.
    pub rows: usize,
    /// Rows whose logits are read.
    pub reads: usize,
    /// Keys that all rows together see.
    pub attended: usize,
}

impl StepShape {
    fn features(self) -> [f64; 4] {
        let thousands = self.attended as f64 / 1e3;
        [1.0, self.rows as f64, self.reads as f64, thousands]
    }
}

/// Prices of a step and of what is in it, seconds; all 0 before the first step.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct StepCost {
    /// Of the step itself.
    pub step_s: f64,
    /// Of each row.
    pub row_s: f64,
    /// Of each row that is read.
    pub read_s: f64,
    /// Of each key that a row sees.
    pub attended_s: f64,
}

impl StepCost {
    /// Seconds that a step of this shape should take.
    pub fn seconds(&self, shape: StepShape) -> f64 {
        self.step_s
            + self.row_s * shape.rows as f64
            + self.read_s * shape.reads as f64
            + self.attended_s * shape.attended as f64
    }

    /// Whether nothing is known yet.
    pub fn is_unknown(&self) -> bool {
        *self == Self::default()
    }
}

/// Sums over steps, the older ones counting less.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    /// Σ x xᵀ / t², for the features x and the time t.
    products: [[f64; 4]; 4],
    /// Σ x / t.
    sums: [f64; 4],
}

impl Sums {
    fn observe(&mut self, shape: StepShape, seconds: f64) {
        let x = shape.features().map(|feature| feature / seconds);
        for (row, &a) in self.products.iter_mut().zip(&x) {
            for (cell, &b) in row.iter_mut().zip(&x) {
                *cell = *cell * MEMORY + a * b;
            }
        }
        for (sum, &a) in self.sums.iter_mut().zip(&x) {
            *sum = *sum * MEMORY + a;
        }
    }
}

/// The steps that were observed: those that only generate, and those that also compute prompts. Each kind is forgotten by
/// its own, so an hour of generating does not wipe out what a prompt costs.
#[derive(Debug, Clone, Default)]
pub(crate) struct CostFit {
    kinds: [Sums; 2],
}

impl CostFit {
    /// Takes in one step; one that took no time tells nothing.
    pub(crate) fn observe(&mut self, shape: StepShape, seconds: f64) {
        if seconds > 0.0 {
            let has_prompt = shape.rows > shape.reads;
            self.kinds[usize::from(has_prompt)].observe(shape, seconds);
        }
    }

    fn product(&self, i: usize, j: usize) -> f64 {
        self.kinds.iter().map(|kind| kind.products[i][j]).sum()
    }

    fn sum(&self, i: usize) -> f64 {
        self.kinds.iter().map(|kind| kind.sums[i]).sum()
    }

    /// The prices that explain the observed steps best.
    pub(crate) fn cost(&self) -> StepCost {
        let mut used = [true; 4];
        loop {
            let prices = self.solve(used);
            let lowest = (0..4).min_by(|&a, &b| prices[a].total_cmp(&prices[b]));
            match lowest {
                Some(index) if prices[index] < 0.0 => used[index] = false,
                _ => {
                    return StepCost {
                        step_s: prices[0],
                        row_s: prices[1],
                        read_s: prices[2],
                        attended_s: prices[3] / 1e3,
                    };
                }
            }
        }
    }

    /// Least squares over the `used` features, the others at 0: Gauss elimination, a little ridge for what never varied.
    fn solve(&self, used: [bool; 4]) -> [f64; 4] {
        let mut system = [[0.0; 5]; 4];
        for i in 0..4 {
            for j in 0..4 {
                system[i][j] = if used[i] && used[j] {
                    self.product(i, j)
                } else {
                    0.0
                };
            }
            system[i][4] = if used[i] { self.sum(i) } else { 0.0 };
            system[i][i] += self.product(i, i) * RIDGE[i] + f64::MIN_POSITIVE;
            if !used[i] {
                system[i][i] = 1.0;
            }
        }
        eliminate(&mut system);
        system.map(|row| row[4])
    }
}

/// Solves a positive definite system in place; the last column becomes the solution.
fn eliminate(system: &mut [[f64; 5]; 4]) {
    for pivot in 0..4 {
        let scale = system[pivot][pivot];
        for cell in &mut system[pivot] {
            *cell /= scale;
        }
        let row = system[pivot];
        for (index, other) in system.iter_mut().enumerate() {
            let factor = other[pivot];
            if index != pivot {
                for (cell, value) in other.iter_mut().zip(&row) {
                    *cell -= factor * value;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(rows: usize, reads: usize, attended: usize) -> StepShape {
        StepShape {
            rows,
            reads,
            attended,
        }
    }

    #[test]
    fn prices_that_made_the_steps_are_found_again() {
        let truth = StepCost {
            step_s: 4e-3,
            row_s: 4e-4,
            read_s: 2e-3,
            attended_s: 1e-7,
        };
        let mut fit = CostFit::default();
        for i in 0..400usize {
            let reads = i % 17;
            let step = shape(reads + i * 37 % 200, reads, (i * i * 31) % 90_000);
            fit.observe(step, truth.seconds(step));
        }
        let found = fit.cost();
        for step in [
            shape(1, 1, 500),
            shape(512, 1, 130_000),
            shape(32, 32, 20_000),
        ] {
            let ratio = found.seconds(step) / truth.seconds(step);
            assert!((ratio - 1.0).abs() < 1e-3, "{step:?}: {ratio}");
        }
    }

    #[test]
    fn two_steps_already_tell_small_from_large() {
        let mut fit = CostFit::default();
        assert!(fit.cost().is_unknown());
        fit.observe(shape(64, 1, 2080), 0.034);
        fit.observe(shape(1, 1, 65), 0.008);
        let cost = fit.cost();
        let small = cost.seconds(shape(1, 1, 65));
        let large = cost.seconds(shape(512, 1, 131_000));
        assert!((small - 0.008).abs() < 1e-3, "{small}");
        // 512 rows at 0.41 ms, and little for attention that nobody has seen yet.
        assert!((0.2..0.26).contains(&large), "{large}");
    }

    #[test]
    fn an_hour_of_generating_leaves_what_a_prompt_costs() {
        let mut fit = CostFit::default();
        fit.observe(shape(64, 1, 2080), 0.034);
        fit.observe(shape(512, 1, 131_000), 0.260);
        for i in 0..100_000usize {
            let sequences = 1 + i % 4;
            fit.observe(
                shape(sequences, sequences, sequences * 300),
                0.006 + 0.002 * sequences as f64,
            );
        }
        let large = fit.cost().seconds(shape(400, 1, 80_000));
        assert!((0.15..0.26).contains(&large), "{large}");
    }

    #[test]
    fn prices_are_never_negative_and_follow_the_machine() {
        let mut fit = CostFit::default();
        for i in 0..2000usize {
            // The larger the step the faster, then everything at half the speed.
            let rows = 1 + i % 64;
            let speed = if i < 1000 { 1.0 } else { 0.5 };
            fit.observe(shape(rows, 1, rows), (0.1 - rows as f64 * 1e-4) / speed);
        }
        let cost = fit.cost();
        let prices = [cost.step_s, cost.row_s, cost.read_s, cost.attended_s];
        assert!(prices.iter().all(|&price| price >= 0.0), "{cost:?}");
        let one = cost.seconds(shape(32, 1, 32));
        assert!((0.17..0.22).contains(&one), "{one}");
    }
}
