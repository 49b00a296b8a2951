use super::*;
use crate::sampling::{RowMask, TokenCount};

fn params(temperature: f32) -> SamplingParams {
    SamplingParams {
        temperature,
        seed: 42,
        ..SamplingParams::greedy()
    }
}

fn row(params: &SamplingParams, position: u32) -> SampleRow<'_> {
    SampleRow {
        take: Take::Sample,
        params,
        sample: 0,
        position,
        counts: &[],
        mask: None,
        forbidden: &[],
        logprobs: None,
    }
}

fn token(logits: &[f32], row: &SampleRow<'_>) -> Result<u32, RowFault> {
    sample_row(logits, row, &mut SampleScratch::new(logits.len())).map(|r| r.token)
}

/// Logits like a model's: a broad bulk, a few high ones, some ties.
fn model_row(seed: u64, vocab: usize) -> Vec<f32> {
    let key = NoiseKey {
        seed,
        sample: 7,
        position: 7,
    };
    (0..vocab as u32)
        .map(|id| {
            let bits = key.bits(id)[0];
            (f64::from(bits >> 16) / 8192.0 + 2.0 * gumbel(bits)) as f32
        })
        .map(|v| (v * 64.0).round() / 64.0)
        .collect()
}

/// The rule word by word: sort everything, keep prefixes, score every kept id.
fn plain_rule(logits: &[f32], row: &SampleRow<'_>) -> u32 {
    let p = row.params;
    let scale = Scale {
        max: logits.iter().copied().fold(f32::MIN, f32::max),
        inverse_temperature: 1.0 / p.temperature,
    };
    let mut ids: Vec<u32> = (0..logits.len() as u32).collect();
    ids.sort_by(|&a, &b| likelier(logits, a, b));
    if p.top_k > 0 {
        ids.truncate(p.top_k as usize);
    }
    if p.top_p < 1.0 {
        let weight = |id: u32| f64::from(exp(scale.nats(logits[id as usize])));
        let total: f64 = ids.iter().map(|&id| weight(id)).sum();
        let mut sum = 0.0;
        let kept = ids.iter().position(|&id| {
            sum += weight(id);
            sum >= total * f64::from(p.top_p)
        });
        ids.truncate(kept.map_or(ids.len(), |last| last + 1));
    }
    if p.min_p > 0.0 {
        ids.retain(|&id| scale.nats(logits[id as usize]) >= ln(f64::from(p.min_p)) as f32);
    }
    let key = NoiseKey {
        seed: p.seed,
        sample: row.sample,
        position: row.position,
    };
    let score = |id: u32| {
        let noise = gumbel(key.bits(id / 4)[id as usize % 4]);
        f64::from(logits[id as usize]) / f64::from(p.temperature) + noise
    };
    ids.into_iter()
        .min_by(|&a, &b| score(b).total_cmp(&score(a)).then(a.cmp(&b)))
        .unwrap()
}

#[test]
fn greedy_takes_the_lowest_of_equal_ids() {
    let mut logits = vec![-1.0; 1000];
    for id in [70, 71, 900] {
        logits[id] = 3.5;
    }
    assert_eq!(token(&logits, &row(&params(0.0), 0)), Ok(70));
    logits[5] = 3.6;
    assert_eq!(token(&logits, &row(&params(0.0), 0)), Ok(5));
    assert_eq!(token(&[0.0, -0.0], &row(&params(0.0), 0)), Ok(0));
    assert_eq!(token(&[-0.0, 0.0], &row(&params(0.0), 0)), Ok(0));
}

#[test]
fn pruned_race_equals_the_plain_rule() {
    for vocab in [1usize, 3, 64, 130, 5003] {
        let logits = model_row(vocab as u64, vocab);
        for (temperature, top_k, top_p, min_p) in [
            (1.0, 0, 1.0, 0.0),
            (0.8, 0, 0.95, 0.0),
            (0.3, 40, 1.0, 0.0),
            (1.5, 40, 0.9, 0.0),
            (1.0, 0, 1.0, 0.05),
            (2.5, 500, 0.99, 0.001),
            (9.0, 0, 1.0, 0.0),
        ] {
            let p = SamplingParams {
                top_k,
                top_p,
                min_p,
                ..params(temperature)
            };
            for position in 0..40 {
                let row = row(&p, position);
                assert_eq!(
                    token(&logits, &row),
                    Ok(plain_rule(&logits, &row)),
                    "vocab {vocab}, {p:?}, position {position}"
                );
            }
        }
    }
}

#[test]
fn frequencies_follow_the_softmax() {
    let logits = [1.0f32, 0.0, -1.0, 2.0, 0.5, -3.0, 1.0];
    for (temperature, top_k) in [(1.0f64, 0), (0.7, 0), (1.0, 3)] {
        let draws = 60_000u32;
        let p = SamplingParams {
            top_k,
            ..params(temperature as f32)
        };
        let mut seen = [0u32; 7];
        let mut scratch = SampleScratch::new(logits.len());
        for position in 0..draws {
            let row = row(&p, position);
            seen[sample_row(&logits, &row, &mut scratch).unwrap().token as usize] += 1;
        }
        let kept = |id: usize| top_k == 0 || [3, 0, 6].contains(&id);
        let weight = |id: usize| match kept(id) {
            true => (f64::from(logits[id]) / temperature).exp(),
            false => 0.0,
        };
        let total: f64 = (0..7).map(weight).sum();
        let mut chi_square = 0.0;
        for (id, &count) in seen.iter().enumerate() {
            let expected = f64::from(draws) * weight(id) / total;
            assert!(expected > 0.0 || count == 0);
            if expected > 0.0 {
                chi_square += (f64::from(count) - expected).powi(2) / expected;
            }
        }
        // 99.9 % point of chi-square with 6 degrees of freedom.
        assert!(
            chi_square < 22.46,
            "{chi_square} at T = {temperature}, top_k = {top_k}"
        );
    }
}

#[test]
fn seed_sample_and_position_each_change_the_noise() {
    let logits = vec![0.0; 4096];
    let p = params(1.0);
    let base = row(&p, 10);
    let first = token(&logits, &base);
    assert_eq!(token(&logits, &base), first);
    assert_ne!(
        token(
            &logits,
            &SampleRow {
                position: 11,
                ..base
            }
        ),
        first
    );
    assert_ne!(token(&logits, &SampleRow { sample: 1, ..base }), first);
    let other = SamplingParams {
        seed: 43,
        ..p.clone()
    };
    assert_ne!(
        token(
            &logits,
            &SampleRow {
                params: &other,
                ..base
            }
        ),
        first
    );
    let high = SamplingParams {
        seed: 42 + (1 << 40),
        ..p.clone()
    };
    assert_ne!(
        token(
            &logits,
            &SampleRow {
                params: &high,
                ..base
            }
        ),
        first
    );
}

#[test]
fn scratch_carries_nothing_from_row_to_row() {
    let mut scratch = SampleScratch::new(500);
    let logits = model_row(1, 500);
    let biased = SamplingParams {
        logit_bias: vec![(3, 50.0)],
        top_p: 0.5,
        ..params(1.0)
    };
    let p = SamplingParams {
        top_k: 20,
        top_p: 0.9,
        ..params(1.0)
    };
    let alone = sample_row(&logits, &row(&p, 3), &mut SampleScratch::new(500));
    for position in 0..50 {
        sample_row(&model_row(2, 500), &row(&biased, position), &mut scratch).unwrap();
        assert_eq!(sample_row(&logits, &row(&p, 3), &mut scratch), alone);
    }
}

#[test]
fn penalties_bias_and_constraints_move_the_argmax() {
    let logits = [2.0, 3.0, 2.5, -1.0];
    let seen = |id, prompt, output| TokenCount { id, prompt, output };
    let check = |p: SamplingParams, counts: &[TokenCount], expected| {
        assert_eq!(
            token(
                &logits,
                &SampleRow {
                    counts,
                    ..row(&p, 0)
                }
            ),
            Ok(expected),
            "{p:?}"
        );
    };
    let greedy = SamplingParams::greedy();
    check(greedy.clone(), &[seen(1, 1, 1)], 1);
    let repetition = SamplingParams {
        repetition_penalty: 2.0,
        ..greedy.clone()
    };
    check(repetition, &[seen(1, 1, 0)], 2);
    let presence = SamplingParams {
        presence_penalty: 0.6,
        ..greedy.clone()
    };
    check(presence.clone(), &[seen(1, 1, 0)], 1);
    check(presence, &[seen(1, 0, 9)], 2);
    let frequency = SamplingParams {
        frequency_penalty: 0.2,
        ..greedy.clone()
    };
    check(frequency.clone(), &[seen(1, 0, 2)], 1);
    check(frequency, &[seen(1, 0, 3)], 2);
    let biased = SamplingParams {
        logit_bias: vec![(0, 1.5), (99, 100.0)],
        ..greedy.clone()
    };
    check(biased, &[], 0);
    let forbidden = SampleRow {
        forbidden: &[1, 77],
        ..row(&greedy, 0)
    };
    assert_eq!(token(&logits, &forbidden), Ok(2));
    let masked = SampleRow {
        mask: Some(&RowMask::new([0b1001])),
        ..row(&greedy, 0)
    };
    assert_eq!(token(&logits, &masked), Ok(0));
    let both = SampleRow {
        mask: Some(&RowMask::new([0b1001])),
        forbidden: &[0],
        ..row(&greedy, 0)
    };
    assert_eq!(token(&logits, &both), Ok(3));
    let sampled = params(3.0);
    for position in 0..200 {
        let row = SampleRow {
            mask: Some(&RowMask::new([0b0100])),
            ..row(&sampled, position)
        };
        assert_eq!(token(&logits, &row), Ok(2));
    }
}

#[test]
fn bad_rows_are_faults() {
    let p = params(1.0);
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        for at in [0, 17, 39] {
            let mut logits = vec![0.0; 40];
            logits[at] = bad;
            assert_eq!(token(&logits, &row(&p, 0)), Err(RowFault::NonFinite));
        }
    }
    let empty = SampleRow {
        mask: Some(&RowMask::new([0, 0])),
        ..row(&p, 0)
    };
    assert_eq!(token(&[0.0; 40], &empty), Err(RowFault::EmptyMask));
    let short = SampleRow {
        mask: Some(&RowMask::new([])),
        ..row(&p, 0)
    };
    assert_eq!(token(&[0.0; 40], &short), Err(RowFault::EmptyMask));
    let tiny = SamplingParams {
        repetition_penalty: 1e-38,
        ..SamplingParams::greedy()
    };
    let counts = [TokenCount {
        id: 0,
        prompt: 1,
        output: 0,
    }];
    let overflow = SampleRow {
        counts: &counts,
        ..row(&tiny, 0)
    };
    assert_eq!(token(&[9e9; 4], &overflow), Err(RowFault::NonFinite));
    let outside = SampleRow {
        take: Take::Score(40),
        ..row(&p, 0)
    };
    assert_eq!(token(&[0.0; 40], &outside), Err(RowFault::EmptyMask));
}

#[test]
fn logprobs_are_of_the_raw_logits() {
    let logits = model_row(5, 3001);
    let total: f64 = logits.iter().map(|&l| f64::from(l).exp()).sum();
    let expected = |id: u32| f64::from(logits[id as usize]) - total.ln();
    let p = SamplingParams {
        logit_bias: vec![(8, 99.0)],
        top_k: 5,
        ..params(0.5)
    };
    let row = SampleRow {
        logprobs: Some(20),
        ..row(&p, 0)
    };
    let got = sample_row(&logits, &row, &mut SampleScratch::new(3001)).unwrap();
    assert_eq!(got.token, 8);
    let error = |id: u32, logprob: f32| (f64::from(logprob) - expected(id)).abs();
    assert!(error(8, got.logprob.unwrap()) < 4e-6);
    assert_eq!(got.top.len(), 20);
    assert!(
        got.top
            .iter()
            .all(|&(id, logprob)| error(id, logprob) < 4e-6)
    );
    assert!(
        got.top
            .windows(2)
            .all(|w| w[0].1 > w[1].1 || (w[0].1 == w[1].1 && w[0].0 < w[1].0))
    );
    let scored = SampleRow {
        take: Take::Score(77),
        logprobs: None,
        ..row
    };
    let got = sample_row(&logits, &scored, &mut SampleScratch::new(3001)).unwrap();
    assert!(got.token == 77 && error(77, got.logprob.unwrap()) < 4e-6 && got.top.is_empty());
}

#[test]
fn extreme_temperatures_are_safe() {
    let logits = model_row(9, 700);
    let best = token(&logits, &row(&params(0.0), 0)).unwrap();
    for temperature in [f32::MIN_POSITIVE, 1e-45, 1e-4] {
        let p = SamplingParams {
            top_p: 0.9,
            ..params(temperature)
        };
        assert_eq!(token(&logits, &row(&p, 0)), Ok(best), "{temperature}");
    }
    let hot = SamplingParams {
        top_p: 0.9,
        min_p: 0.1,
        ..params(1e30)
    };
    assert!(token(&logits, &row(&hot, 0)).is_ok());
}
