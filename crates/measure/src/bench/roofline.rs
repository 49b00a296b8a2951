//! The floor under a step's time: nothing reads or multiplies faster than the device can.

use serde::Serialize;
use ucuz_report::Fact;

use super::work::Work;

/// What the device reached in this run, with all its threads.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Roofline {
    /// Reading from memory, bytes/s.
    pub memory_bytes_per_s: f64,
    /// 8-bit integer operations/s; a multiply-accumulate is two.
    pub int8_operations_per_s: f64,
    /// Floating-point operations/s of bf16 products, on devices without such units of f32.
    pub float_operations_per_s: f64,
}

impl Roofline {
    /// Least seconds that `work` can take: reading and computing overlap, integer and floating-point operations do not.
    pub fn floor_s(&self, work: &Work) -> f64 {
        let reading = work.bytes() as f64 / self.memory_bytes_per_s;
        let computing = 2.0 * work.int8_macs as f64 / self.int8_operations_per_s
            + 2.0 * work.float_macs as f64 / self.float_operations_per_s;
        reading.max(computing)
    }

    /// The same as a line of a report.
    pub fn fact(&self) -> Fact {
        Fact::new(
            "roofline",
            format!(
                "{:.1} GB/s from memory, {:.0} GOP/s in int8, {:.0} GFLOP/s",
                self.memory_bytes_per_s / 1e9,
                self.int8_operations_per_s / 1e9,
                self.float_operations_per_s / 1e9
            ),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slower_of_reading_and_computing_is_the_floor() {
        let roofline = Roofline {
            memory_bytes_per_s: 100.0,
            int8_operations_per_s: 40.0,
            float_operations_per_s: 10.0,
        };
        let mut work = Work {
            weight_bytes: 200,
            kv_bytes: 100,
            int8_macs: 20,
            float_macs: 5,
            ..Work::default()
        };
        assert_eq!(roofline.floor_s(&work), 3.0);
        work.float_macs = 50;
        assert_eq!(roofline.floor_s(&work), 11.0);
    }
}
