//! Checks of the sampler's door; what it chooses is the row sampler's business.

use super::data::{LIMITS, Noise, queue};
use crate::backend::{Backend, Ticket};
use crate::sampling::{SampleRow, SampleScratch, SamplingParams, Take, sample_row};
use crate::tensor::Tensor;

/// Greedy, drawn, scored, tied and bad rows: what the row sampler says of each, in order.
pub fn sampling_equals_the_row_sampler(backend: &dyn Backend) {
    let vocab = LIMITS.vocab;
    let mut noise = Noise::new(11);
    let mut values = noise.units(6 * vocab);
    values[2 * vocab..3 * vocab].fill(0.25);
    values[4 * vocab + 17] = f32::NAN;
    let logits = Tensor::from_values(&values, vocab, "logits").unwrap();
    let greedy = SamplingParams::greedy();
    let drawn = SamplingParams {
        temperature: 0.8,
        top_k: 40,
        seed: 5,
        ..SamplingParams::greedy()
    };
    let row = |params, take, position| SampleRow {
        take,
        params,
        sample: 0,
        position,
        counts: &[],
        mask: None,
        forbidden: &[],
        logprobs: Some(3),
    };
    let rows = [
        row(&greedy, Take::Sample, 1),
        row(&drawn, Take::Sample, 2),
        row(&greedy, Take::Sample, 3),
        row(&greedy, Take::Score(44), 4),
        row(&greedy, Take::Sample, 5),
        row(&drawn, Take::Sample, 6),
    ];
    let mut scratch = SampleScratch::new(vocab);
    let expected: Vec<_> = rows
        .iter()
        .enumerate()
        .map(|(i, row)| sample_row(logits.view().row(i), row, &mut scratch))
        .collect();
    assert!(expected[4].is_err(), "a NaN is a fault of its row");
    let mut queue = queue(backend);
    let first = queue.sample(logits.view(), &rows).expect("rows of logits");
    let second = queue
        .sample(logits.rows(0..2), &rows[..2])
        .expect("rows of logits");
    assert_eq!(queue.wait(first).expect("a result").rows, expected);
    assert_eq!(queue.wait(second).expect("a result").rows, expected[..2]);
    assert!(queue.wait(first).is_err(), "a ticket serves once");
    assert!(queue.wait(Ticket(u64::MAX)).is_err(), "an unknown ticket");
    assert!(
        queue.sample(logits.rows(0..3), &rows[..2]).is_err(),
        "a row without orders"
    );
}
