//! A runner without a model: what it samples depends on everything it reads back from its cache.
//!
//! Its logits are a hash of the tokens and positions found through the block tables, so a wrong table, a block given to
//! two sequences or a position computed twice changes the tokens. Sampling is the real one. Only for tests of this crate
//! and, with the feature `test-support`, of those above; broken promises of the engine panic here.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ucuz_tensor::backend::{Limits, Ticket};
use ucuz_tensor::cache::{BLOCK_TOKENS, NO_BLOCK, PagedGroup};
use ucuz_tensor::sampling::{
    RowFault, SampleRow, SampleScratch, Sampled, SampledRow, Take, sample_row,
};
use ucuz_tensor::{Batch, CacheSpec, KvDtype, TensorError, TensorResult};

use crate::clock::Clock;
use crate::runner::Runner;

/// Makes the likeliest next token from the tokens so far; `None` leaves it to the hash.
pub type Reply = Arc<dyn Fn(&[u32]) -> Option<u32> + Send + Sync>;

/// Called in each step with its rows: moves a clock, or sleeps.
pub type Pace = Box<dyn FnMut(usize) + Send>;

/// Shape of a simulated model.
pub struct SimOptions {
    /// Sizes.
    pub limits: Limits,
    /// Window of each cache group; the first should see everything if `reply` is used.
    pub windows: Vec<Option<usize>>,
    /// Blocks of each group.
    pub blocks: Vec<usize>,
    /// Scripted answers.
    pub reply: Option<Reply>,
    /// What a step costs.
    pub pace: Option<Pace>,
}

impl SimOptions {
    /// One group, no window, `blocks` blocks; free steps; 97 tokens of vocabulary.
    pub fn new(step_rows: usize, sequences: usize, context: usize, blocks: usize) -> Self {
        Self {
            limits: Limits {
                step_rows,
                sequences,
                logit_rows: 8,
                context,
                cols_max: 8,
                vocab: 97,
            },
            windows: vec![None],
            blocks: vec![blocks],
            reply: None,
            pace: None,
        }
    }
}

/// A fault to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SimFault {
    /// The step's first result is not finite.
    Row,
    /// The launch fails and leaves garbage in the cache.
    Launch,
    /// The wait fails.
    Wait,
    /// The device is lost.
    Device,
    /// The runner panics.
    Panic,
}

/// Faults of the steps to come, one a step; held by the test and the runner.
#[derive(Debug, Clone, Default)]
pub struct SimControl {
    faults: Arc<Mutex<VecDeque<Option<SimFault>>>>,
}

impl SimControl {
    /// Breaks the next step that is not yet spoken for; `None` lets it pass.
    pub fn inject(&self, fault: Option<SimFault>) {
        self.faults
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push_back(fault);
    }

    fn next(&self) -> Option<SimFault> {
        self.faults
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop_front()
            .flatten()
    }
}

/// A clock that only moves when told to; held by the test, the engine and its handles.
#[derive(Debug, Clone, Default)]
pub struct ManualClock {
    now: Arc<Mutex<Duration>>,
}

impl ManualClock {
    /// Moves it on.
    pub fn advance(&self, by: Duration) {
        *self.now.lock().unwrap_or_else(PoisonError::into_inner) += by;
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Duration {
        *self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Token and position that a cache cell holds.
type Cell = (u32, u32);

/// The simulated runner.
pub struct SimRunner {
    options: SimOptions,
    spec: CacheSpec,
    /// Cells `[group][block * 32 + offset]`.
    cells: Vec<Vec<Cell>>,
    control: SimControl,
    scratch: SampleScratch,
    logits: Vec<f32>,
    in_flight: VecDeque<(Ticket, TensorResult<Sampled>)>,
    next_ticket: u64,
}

impl SimRunner {
    /// A runner and the handle to break it.
    pub fn new(options: SimOptions) -> (Self, SimControl) {
        let group = |&window: &Option<usize>| PagedGroup {
            layers: 1,
            kv_heads: 1,
            k_dim: 4,
            v_dim: 4,
            dtype: KvDtype::Bf16,
            window,
        };
        let control = SimControl::default();
        let runner = Self {
            spec: CacheSpec {
                groups: options.windows.iter().map(group).collect(),
                layers: Vec::new(),
            },
            cells: options
                .blocks
                .iter()
                .map(|n| vec![(0, 0); n * BLOCK_TOKENS])
                .collect(),
            control: control.clone(),
            scratch: SampleScratch::new(options.limits.vocab),
            logits: vec![0.0; options.limits.vocab],
            in_flight: VecDeque::new(),
            next_ticket: 0,
            options,
        };
        (runner, control)
    }

    /// Stores the step's tokens; `salt` other than 0 makes garbage of them.
    fn store(&mut self, batch: &Batch, salt: u32) {
        for sequence in 0..batch.num_sequences() {
            for row in batch.sequence_rows(sequence) {
                let position = batch.positions[row];
                for (group, cells) in self.cells.iter_mut().enumerate() {
                    let place = batch.slot_of(group, sequence, position as usize);
                    let (block, offset) = place.expect_place(position);
                    cells[block * BLOCK_TOKENS + offset] = (batch.tokens[row] ^ salt, position);
                }
            }
        }
    }

    /// Hash of what a query at `position` sees in all groups.
    fn hash(&self, batch: &Batch, sequence: usize, position: usize) -> u64 {
        let mut hash = 0;
        for (group, window) in self.options.windows.iter().enumerate() {
            let first = window.map_or(0, |window| (position + 1).saturating_sub(window));
            for seen in first..=position {
                let (token, stored_at) = self.cell(batch, group, sequence, seen);
                hash = mix(hash ^ (u64::from(token) << 32 | u64::from(stored_at)));
            }
        }
        hash
    }

    fn cell(&self, batch: &Batch, group: usize, sequence: usize, position: usize) -> Cell {
        let place = batch.slot_of(group, sequence, position);
        let (block, offset) = place.expect_place(position as u32);
        self.cells[group][block * BLOCK_TOKENS + offset]
    }

    fn sample(
        &mut self,
        batch: &Batch,
        logit_row: usize,
        order: &SampleRow<'_>,
    ) -> Result<SampledRow, RowFault> {
        let row = batch.logit_rows[logit_row] as usize;
        let sequence = batch
            .seq_starts
            .partition_point(|&start| start as usize <= row)
            - 1;
        let position = batch.positions[row] as usize;
        assert_eq!(
            order.position as usize,
            position + 1,
            "a row chooses the next position"
        );
        let hash = self.hash(batch, sequence, position);
        if order.take == Take::Hidden {
            let value = |i| (mix(hash ^ i) >> 40) as f32 / (1 << 24) as f32;
            let hidden: Vec<f32> = (0..HIDDEN).map(value).collect();
            return SampledRow::of_hidden(&hidden);
        }
        for (id, logit) in (0u64..).zip(&mut self.logits) {
            *logit = (mix(hash ^ id) >> 40) as f32 / (1 << 21) as f32;
        }
        if let Some(reply) = &self.options.reply {
            let history = (0..=position).map(|p| self.cell(batch, 0, sequence, p).0);
            if let Some(token) = reply(&history.collect::<Vec<_>>()) {
                self.logits[token as usize] = 100.0;
            }
        }
        sample_row(&self.logits, order, &mut self.scratch)
    }

    fn check(&self, batch: &Batch, rows: &[SampleRow<'_>]) {
        let limits = &self.options.limits;
        assert!(batch.num_rows() > 0 && batch.num_rows() <= limits.step_rows);
        assert!(batch.num_sequences() <= limits.sequences);
        assert_eq!(rows.len(), batch.logit_rows.len());
        assert_eq!(batch.seq_starts.len(), batch.num_sequences() + 1);
        let slots: HashSet<_> = batch.slots.iter().collect();
        assert_eq!(
            slots.len(),
            batch.num_sequences(),
            "each sequence has its own slot"
        );
        for sequence in 0..batch.num_sequences() {
            let rows = batch.sequence_rows(sequence);
            let end = batch.kv_lens[sequence];
            assert!(end as usize <= limits.context);
            let positions = end - rows.len() as u32..end;
            assert!(
                positions.eq(batch.positions[rows].iter().copied()),
                "consecutive positions"
            );
        }
        for group in 0..batch.groups.len() {
            self.check_writers(batch, group);
        }
    }

    /// A block may be read by many, but one that is written in this step is in one table.
    fn check_writers(&self, batch: &Batch, group: usize) {
        let mut holders: HashMap<u32, usize> = HashMap::new();
        let blocks = batch.groups[group].blocks.iter();
        for &block in blocks.filter(|&&block| block != NO_BLOCK) {
            assert!((block as usize) < self.options.blocks[group]);
            *holders.entry(block).or_default() += 1;
        }
        for sequence in 0..batch.num_sequences() {
            for row in batch.sequence_rows(sequence) {
                let position = batch.positions[row];
                let place = batch.slot_of(group, sequence, position as usize);
                let (block, _) = place.expect_place(position);
                assert_eq!(
                    holders.get(&(block as u32)),
                    Some(&1),
                    "block {block} of group {group} is written and shared"
                );
            }
        }
    }
}

impl Runner for SimRunner {
    fn limits(&self) -> &Limits {
        &self.options.limits
    }

    fn cache(&self) -> &CacheSpec {
        &self.spec
    }

    fn blocks(&self) -> &[usize] {
        &self.options.blocks
    }

    fn launch(&mut self, batch: &Batch, rows: &[SampleRow<'_>]) -> TensorResult<Ticket> {
        self.check(batch, rows);
        if let Some(pace) = &mut self.options.pace {
            pace(batch.num_rows());
        }
        let fault = self.control.next();
        self.store(batch, u32::from(fault == Some(SimFault::Launch)) << 20);
        match fault {
            Some(SimFault::Launch) => return Err(broken("launch")),
            Some(SimFault::Device) => {
                return Err(TensorError::Device {
                    backend: "sim",
                    why: "it was told to".to_owned(),
                });
            }
            Some(SimFault::Panic | SimFault::Row | SimFault::Wait) | None => {}
        }
        assert_ne!(
            fault,
            Some(SimFault::Panic),
            "the simulated runner was told to panic"
        );
        let orders = rows.iter().enumerate();
        let mut sampled: Vec<_> = orders
            .map(|(index, order)| self.sample(batch, index, order))
            .collect();
        if fault == Some(SimFault::Row)
            && let Some(first) = sampled.first_mut()
        {
            *first = Err(RowFault::NonFinite);
        }
        let result = match fault {
            Some(SimFault::Wait) => Err(broken("wait")),
            _ => Ok(Sampled { rows: sampled }),
        };
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        self.in_flight.push_back((ticket, result));
        Ok(ticket)
    }

    fn wait(&mut self, ticket: Ticket) -> TensorResult<Sampled> {
        match self.in_flight.pop_front() {
            Some((oldest, result)) if oldest == ticket => result,
            other => Err(TensorError::shape(
                "ticket",
                "the oldest in flight",
                other.map(|o| o.0),
            )),
        }
    }
}

trait ExpectPlace {
    fn expect_place(self, position: u32) -> (usize, usize);
}

impl ExpectPlace for Option<(usize, usize)> {
    fn expect_place(self, position: u32) -> (usize, usize) {
        assert!(
            self.is_some(),
            "position {position} is inside of the window"
        );
        self.unwrap_or_default()
    }
}

fn broken(what: &str) -> TensorError {
    TensorError::shape(format!("simulated {what}"), "no fault", "a fault")
}

/// Numbers of a hidden row.
const HIDDEN: u64 = 4;

/// The finalizer of SplitMix64 (Steele, Lea, Flood 2014).
fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let x = (x ^ x >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let x = (x ^ x >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ x >> 31
}
