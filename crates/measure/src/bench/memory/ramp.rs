//! How many users a pool holds at once: the engine's rules of admission as plain arithmetic.
//!
//! Users who have so much to say already come in order and go on for long. A step has room for `step_rows` tokens: first one
//! of everybody whose past is in the cache, then what is left of pasts, then newcomers. A newcomer is let in while its
//! blocks, what those inside still lack for their next token, and **one spare block for each of them** are free: without the
//! spare, the newcomer would be thrown out at somebody's next block border.

use ucuz_llm::sequence_blocks;
use ucuz_tensor::CacheSpec;
use ucuz_tensor::cache::{BLOCK_TOKENS, PagedGroup};

/// KV blocks and who may use them.
#[derive(Debug, Clone, Copy)]
pub struct Pool<'a> {
    /// Shape of the cache.
    pub spec: &'a CacheSpec,
    /// Blocks of each group.
    pub blocks: &'a [usize],
    /// Tokens computed in one step.
    pub step_rows: usize,
    /// Users that may run at once.
    pub sequences: usize,
}

/// A pool that nobody more fits into.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Full {
    /// Users inside.
    pub users: usize,
    /// Blocks that they hold, of each group.
    pub used: Vec<usize>,
    /// Tokens in the cache.
    pub tokens: usize,
    /// Steps until then.
    pub steps: usize,
}

/// A user inside.
#[derive(Debug, Clone, Copy)]
struct User {
    known: usize,
    computed: usize,
    /// Tokens in the cache once this step has ended, and where its rows began.
    scheduled: usize,
    start: usize,
}

impl User {
    fn of(known: usize) -> Self {
        Self {
            known,
            computed: 0,
            scheduled: 0,
            start: 0,
        }
    }

    fn pending(&self) -> usize {
        self.known - self.scheduled
    }

    /// Whoever has all its tokens in the cache gets one more.
    fn end_step(&mut self) {
        self.computed = self.scheduled;
        self.known += usize::from(self.computed == self.known);
    }

    /// Blocks of `group` that it holds: up to the last row, less those behind the window of the step's first.
    fn held(&self, group: &PagedGroup) -> usize {
        let behind = group.window.map_or(0, |window| {
            (self.start + 1).saturating_sub(window) / BLOCK_TOKENS
        });
        self.scheduled.div_ceil(BLOCK_TOKENS).saturating_sub(behind)
    }
}

/// Lets users with `tokens` of past in, in this order, until the pool is full or all are in; what is told is the end of the step
/// in which the last one came.
pub fn fill(pool: &Pool<'_>, tokens: &[usize]) -> Full {
    let mut users: Vec<User> = Vec::new();
    let mut waiting = tokens.iter().copied().peekable();
    let mut full = Full {
        users: 0,
        used: vec![0; pool.blocks.len()],
        tokens: 0,
        steps: 0,
    };
    for step in 1.. {
        let mut rows = pool.step_rows;
        if !go_on(pool, &mut users, &mut rows) {
            break;
        }
        let had_rows = rows > 0;
        while rows > 0
            && users.len() < pool.sequences
            && let Some(&next) = waiting.peek()
            && (users.is_empty() || has_room(pool, &users, next))
        {
            waiting.next();
            let mut user = User::of(next);
            take(&mut user, &mut rows);
            users.push(user);
        }
        if users.len() > full.users {
            full = Full {
                users: users.len(),
                used: used(pool, &users),
                tokens: users.iter().map(|user| user.scheduled).sum(),
                steps: step,
            };
        } else if had_rows {
            break;
        }
        users.iter_mut().for_each(User::end_step);
    }
    full
}

/// Schedules those inside; `false` when somebody would have to be thrown out.
fn go_on(pool: &Pool<'_>, users: &mut [User], rows: &mut usize) -> bool {
    for is_single in [true, false] {
        for user in users.iter_mut() {
            if (user.known - user.computed == 1) == is_single {
                take(user, rows);
            }
        }
    }
    let fits = |(used, blocks): (&usize, &usize)| used <= blocks;
    let used = used(pool, users);
    used.iter().zip(pool.blocks).all(fits)
}

fn take(user: &mut User, rows: &mut usize) {
    let taken = user.pending().min(*rows);
    if taken > 0 {
        user.start = user.scheduled;
        user.scheduled += taken;
        *rows -= taken;
    }
}

fn used(pool: &Pool<'_>, users: &[User]) -> Vec<usize> {
    let groups = pool.spec.groups.iter();
    groups
        .map(|group| users.iter().map(|user| user.held(group)).sum())
        .collect()
}

/// Whether a newcomer's blocks, what the others lack and a spare one for each of them are free in every group.
fn has_room(pool: &Pool<'_>, users: &[User], next: usize) -> bool {
    let whole =
        |group: &PagedGroup, known: usize| sequence_blocks(group, known + 1, pool.step_rows);
    let groups = pool.spec.groups.iter().zip(pool.blocks);
    groups.into_iter().all(|(group, &blocks)| {
        let inside = users.iter().map(|user| {
            let held = user.held(group);
            held.max(whole(group, user.known)) + 1
        });
        inside.sum::<usize>() + whole(group, next) <= blocks
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ucuz_tensor::KvDtype;

    fn spec(windows: &[Option<usize>]) -> CacheSpec {
        let group = |&window: &Option<usize>| PagedGroup {
            layers: 1,
            kv_heads: 1,
            k_dim: 4,
            v_dim: 4,
            dtype: KvDtype::Bf16,
            window,
        };
        CacheSpec {
            groups: windows.iter().map(group).collect(),
            layers: Vec::new(),
        }
    }

    fn users(spec: &CacheSpec, blocks: &[usize], step_rows: usize, tokens: &[usize]) -> Full {
        let pool = Pool {
            spec,
            blocks,
            step_rows,
            sequences: 1000,
        };
        fill(&pool, tokens)
    }

    #[test]
    fn each_user_takes_its_blocks_and_a_spare_one() {
        let spec = spec(&[None]);
        // 40 tokens are two blocks; with the spare three, the newcomer needs no spare: 3 n - 1 <= 30.
        let full = users(&spec, &[30], 10_000, &[40; 100]);
        assert_eq!((full.users, full.used[0]), (10, 20));
        // A block border away: 31 and the next token are one block, 32 are two.
        assert_eq!(users(&spec, &[30], 10_000, &[31; 100]).users, 15);
        assert_eq!(users(&spec, &[30], 10_000, &[32; 100]).users, 10);
    }

    #[test]
    fn all_may_fit_and_one_always_does() {
        let spec = spec(&[None]);
        assert_eq!(users(&spec, &[30], 10_000, &[40; 4]).users, 4);
        assert_eq!(users(&spec, &[2], 64, &[64; 4]).users, 1);
    }

    #[test]
    fn small_steps_let_early_users_grow_meanwhile() {
        let spec = spec(&[None]);
        let large = users(&spec, &[300], 100_000, &[30; 1000]);
        let small = users(&spec, &[300], 200, &[30; 1000]);
        assert!(small.users < large.users, "{small:?} {large:?}");
        assert!(small.steps > 10 && large.steps == 1);
    }

    #[test]
    fn a_window_holds_less_of_a_long_past() {
        let window = spec(&[Some(64)]);
        let full = users(&window, &[100], 32, &[1000; 100]);
        let all = users(&spec(&[None]), &[100], 32, &[1000; 100]);
        assert!(full.users > 2 * all.users, "{full:?} {all:?}");
    }
}
