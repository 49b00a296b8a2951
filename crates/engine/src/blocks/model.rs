//! The pool against a naive memory, under any history: what is found is what was written, held blocks never change, and
//! nothing is lost.

use std::cell::Cell;
use std::collections::HashMap;

use proptest::prelude::*;
use proptest::test_runner::{RngSeed, TestRunner};
use ucuz_tensor::KvDtype;

use super::*;
use crate::prefix::{CacheScope, PrefixHasher};

#[derive(Debug, Clone, Copy)]
enum Act {
    /// A sequence comes; its tokens follow `path`, one branch a block.
    Come {
        path: u64,
        blocks: usize,
    },
    /// A sequence takes one more block and writes it.
    Grow(usize),
    /// A sequence makes its next written block visible.
    Publish(usize),
    /// A sequence frees its first block, as one behind a window.
    Pass(usize),
    /// A sequence goes.
    Go(usize),
    Launch,
    Retire,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        3 => (any::<u64>(), 1..7usize).prop_map(|(path, blocks)| Act::Come { path, blocks }),
        6 => any::<usize>().prop_map(Act::Grow),
        6 => any::<usize>().prop_map(Act::Publish),
        1 => any::<usize>().prop_map(Act::Pass),
        3 => any::<usize>().prop_map(Act::Go),
        1 => Just(Act::Launch),
        1 => Just(Act::Retire),
    ]
}

/// A sequence as the pool's user.
struct Holder {
    tokens: Vec<u32>,
    chain: Vec<BlockHash>,
    tables: Vec<Vec<u32>>,
    published: usize,
    is_name_taken: bool,
}

struct World {
    pool: BlockPool,
    hasher: PrefixHasher,
    holders: Vec<Holder>,
    /// Tokens up to and with each block's own, by (group, block): what was written there last.
    memory: HashMap<(usize, u32), Vec<u32>>,
    launched: u64,
    retired: u64,
}

/// Two branches at each block, so that many sequences begin alike.
fn tokens(path: u64, blocks: usize) -> Vec<u32> {
    let block = |index: usize| {
        let branch = (path >> index & 1) as u32;
        (0..BLOCK_TOKENS as u32).map(move |i| branch * 1000 + i)
    };
    (0..blocks).flat_map(block).collect()
}

impl World {
    fn new(windows: &[Option<usize>], blocks: usize, name_bits: u32) -> Self {
        let shape = |&window: &Option<usize>| PagedGroup {
            layers: 1,
            kv_heads: 1,
            k_dim: 4,
            v_dim: 4,
            dtype: KvDtype::Bf16,
            window,
        };
        let shapes: Vec<_> = windows.iter().map(shape).collect();
        Self {
            pool: BlockPool::new(shapes, &vec![blocks; windows.len()]),
            hasher: PrefixHasher::new([9; 16]).weak(name_bits),
            holders: Vec::new(),
            memory: HashMap::new(),
            launched: 0,
            retired: 0,
        }
    }

    fn perform(&mut self, act: Act) {
        let pick = |which: usize| which.checked_rem(self.holders.len());
        match act {
            Act::Come { path, blocks } => self.come(tokens(path, blocks)),
            Act::Grow(which) => pick(which).map_or((), |index| self.grow(index)),
            Act::Publish(which) => pick(which).map_or((), |index| self.publish(index)),
            Act::Pass(which) => pick(which).map_or((), |index| self.pass(index)),
            Act::Go(which) => pick(which).map_or((), |index| self.go(index)),
            Act::Launch => {
                self.launched += 1;
                self.pool.launched(self.launched);
            }
            Act::Retire if self.retired < self.launched => {
                self.retired += 1;
                self.pool.retired(self.retired);
            }
            Act::Retire => {}
        }
        self.check();
    }

    fn root(&self) -> BlockHash {
        self.hasher.root(CacheScope::default())
    }

    fn come(&mut self, tokens: Vec<u32>) {
        let mut chain = Vec::new();
        self.hasher
            .extend(CacheScope::default(), &mut chain, &tokens);
        let root = self.root();
        let prefix = Prefix {
            scope: CacheScope::default(),
            root,
            chain: &chain,
            tokens: &tokens,
        };
        let found = self.pool.longest(&prefix);
        let groups = 0..self.pool.shapes.len();
        let tables: Vec<_> = groups
            .map(|group| self.pool.adopt(group, &prefix, found))
            .collect();
        self.holders.push(Holder {
            tokens,
            chain,
            tables,
            published: found,
            is_name_taken: false,
        });
    }

    fn grow(&mut self, index: usize) {
        let holder = &mut self.holders[index];
        let place = holder.tables[0].len();
        let groups = 0..holder.tables.len();
        let is_whole = place >= holder.chain.len();
        if is_whole
            || groups
                .clone()
                .any(|group| self.pool.room(group, 1) != Room::Now)
        {
            return;
        }
        for group in groups {
            let block = self.pool.allocate(group).unwrap();
            holder.tables[group].push(block);
            let written = holder.tokens[..(place + 1) * BLOCK_TOKENS].to_vec();
            self.memory.insert((group, block), written);
        }
    }

    fn publish(&mut self, index: usize) {
        let root = self.root();
        let holder = &mut self.holders[index];
        let block = holder.published;
        if block >= holder.tables[0].len() || holder.is_name_taken {
            return;
        }
        let prefix = Prefix {
            scope: CacheScope::default(),
            root,
            chain: &holder.chain,
            tokens: &holder.tokens,
        };
        let content = prefix.content(block);
        for (group, table) in holder.tables.iter_mut().enumerate() {
            if table[block] == NO_BLOCK {
                continue;
            }
            match self.pool.publish(group, table[block], &content) {
                Published::Visible => {}
                Published::Equal(other) => {
                    self.pool.retain(group, other);
                    let own = std::mem::replace(&mut table[block], other);
                    self.pool.release(group, own);
                }
                Published::Taken => holder.is_name_taken = true,
            }
        }
        holder.published += usize::from(!holder.is_name_taken);
    }

    /// Only what no query sees any more may go.
    fn pass(&mut self, index: usize) {
        let holder = &mut self.holders[index];
        for (group, table) in holder.tables.iter_mut().enumerate() {
            let unseen = first_seen(&self.pool.shapes[group], table.len());
            for block in &mut table[..unseen] {
                if *block != NO_BLOCK {
                    self.pool.release(group, std::mem::replace(block, NO_BLOCK));
                }
            }
        }
    }

    fn go(&mut self, index: usize) {
        let holder = self.holders.swap_remove(index);
        for (group, table) in holder.tables.iter().enumerate() {
            for &block in table.iter().rev().filter(|&&block| block != NO_BLOCK) {
                self.pool.release(group, block);
            }
        }
    }

    fn check(&self) {
        let tables = self.holders.iter();
        let tables = tables.flat_map(|h| h.tables.iter().map(Vec::as_slice).enumerate());
        self.pool.check_integrity(tables);
        for holder in &self.holders {
            for (group, table) in holder.tables.iter().enumerate() {
                for (place, &block) in table.iter().enumerate() {
                    if block != NO_BLOCK {
                        let expected = &holder.tokens[..(place + 1) * BLOCK_TOKENS];
                        assert_eq!(self.memory[&(group, block)], expected, "block {block}");
                    }
                }
            }
        }
    }
}

#[test]
fn what_is_found_is_what_was_written() {
    let is_long = crate::tests::is_long();
    let config = ProptestConfig {
        cases: if is_long { 10_000 } else { 1_000 },
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(3),
        ..ProptestConfig::default()
    };
    // Where every layer slides, what lies behind the window is known by name only; so names must be whole.
    let shapes = prop_oneof![
        (Just(vec![None]), prop_oneof![Just(128), 0..4u32]),
        (Just(vec![None, Some(40)]), prop_oneof![Just(128), 0..4u32]),
        (Just(vec![Some(70)]), Just(128)),
    ];
    let acts = prop::collection::vec(act(), 1..240);
    let operations = Cell::new(0);
    let outcome = TestRunner::new(config).run(
        &(shapes, 2..12usize, acts),
        |((windows, name_bits), blocks, acts)| {
            operations.set(operations.get() + acts.len());
            let mut world = World::new(&windows, blocks, name_bits);
            acts.into_iter().for_each(|act| world.perform(act));
            Ok(())
        },
    );
    if let Err(error) = outcome {
        panic!("{error}");
    }
    eprintln!("{} operations", operations.get());
}
