//! Choosing tokens from logits that the head has just written.
//!
//! Cost of a row: its logits read once, one comparison each. Noise, sorting and probabilities are not counted.

use anyhow::Result;
use ucuz_tensor::backend::StepInputs;
use ucuz_tensor::sampling::{SampleRow, SamplingParams, Take};
use ucuz_tensor::{CeilingKind, Queue, Tensor, TensorResult};

use super::super::case::{Case, Cost, Label};
use super::super::operation::Operation;
use super::super::{Options, data};

/// Most rows: a step samples one a sequence, in slices like this.
const ROWS_MAX: usize = 32;
/// Tokens of the vocabulary for each of a hidden row's numbers: 131,072 at 2,048.
const VOCAB_FACTOR: usize = 64;

/// Greedy choice, and the usual sampling.
///
/// # Errors
/// Memory.
pub fn sample(options: &Options) -> Result<Vec<Case>> {
    let sampled = SamplingParams {
        temperature: 0.8,
        top_k: 40,
        top_p: 0.95,
        ..SamplingParams::greedy()
    };
    let mut rows: Vec<usize> = options
        .rows
        .iter()
        .map(|rows| ROWS_MAX.min(*rows))
        .collect();
    rows.dedup();
    let mut cases = Vec::new();
    for (name, params) in [
        ("greedy", SamplingParams::greedy()),
        ("T 0.8, top-k 40, top-p 0.95", sampled),
    ] {
        for &rows in &rows {
            cases.push(case(options, name, params.clone(), rows)?);
        }
    }
    Ok(cases)
}

fn case(options: &Options, name: &str, params: SamplingParams, rows: usize) -> Result<Case> {
    let vocab = options.shape.cols * VOCAB_FACTOR;
    let logits = data::activations(rows, vocab)?;
    let mut limits = data::limits(rows, rows, 1);
    limits.vocab = vocab;
    limits.logit_rows = rows;
    Ok(Case {
        label: Label::new(Operation::Sample, name, rows, format!("vocabulary {vocab}")),
        cost: Cost {
            memory_bytes: 0,
            cache_bytes: (rows * vocab * 4) as u64,
            operations: (rows * vocab) as u64,
            unit: CeilingKind::Float32,
        },
        limits,
        batch: data::step(rows, 1, 1),
        body: Box::new(move |queue, inputs| choose(queue, &logits, &params, inputs)),
    })
}

fn choose(
    queue: &mut dyn Queue,
    logits: &Tensor,
    params: &SamplingParams,
    inputs: &StepInputs<'_>,
) -> TensorResult<()> {
    let orders: Vec<SampleRow<'_>> = (0..logits.num_rows())
        .map(|row| SampleRow {
            take: Take::Sample,
            params,
            sample: row as u32,
            position: 1,
            counts: &[],
            mask: None,
            forbidden: &[],
            logprobs: None,
        })
        .collect();
    // Sampling ends a step; the next call is in one again.
    queue.begin(inputs.batch)?;
    let ticket = queue.sample(logits.view(), &orders)?;
    queue.wait(ticket).map(|_| ())
}
