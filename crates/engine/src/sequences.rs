//! All requests inside the engine: those that hold blocks, those that wait for some, and in what order they get them.
//!
//! The next to run is of the tenant that was served least; within a tenant, who has waited [`PATIENCE`] goes first, then
//! the lower priority number, then the older. Seniority is the order of arrival.

use std::collections::VecDeque;
use std::time::Duration;

use crate::handle::RequestId;
use crate::sequence::Sequence;
use crate::tenants::{TenantId, Tenants};

/// Time after which a waiting request goes before all priorities of its tenant.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Running and waiting sequences, both ascending by seniority, and the accounts of their tenants.
#[derive(Default)]
pub(crate) struct Sequences {
    /// They have a slot and may hold blocks; taken out by [`Sequences::take_running`].
    pub running: Vec<Sequence>,
    /// They hold nothing; taken out by [`Sequences::take_waiting`].
    pub waiting: VecDeque<Sequence>,
    /// Who was served how much.
    pub tenants: Tenants,
    next_seniority: u64,
}

impl Sequences {
    /// Lines up a new sequence behind all others.
    pub(crate) fn accept(&mut self, mut sequence: Sequence) {
        sequence.seniority = self.next_seniority;
        self.next_seniority += 1;
        self.tenants.join(sequence.tenant());
        self.waiting.push_back(sequence);
    }

    /// Index among the running of the sequence with this seniority.
    pub(crate) fn find_running(&self, seniority: u64) -> Option<usize> {
        self.running
            .binary_search_by_key(&seniority, |s| s.seniority)
            .ok()
    }

    /// Takes out a waiting sequence that is about to [`Sequences::run`].
    pub(crate) fn take_to_run(&mut self, seniority: u64) -> Option<Sequence> {
        self.waiting.remove(self.find_waiting(seniority)?)
    }

    /// Puts a sequence that waited among the running, at its rank.
    pub(crate) fn run(&mut self, sequence: Sequence) -> usize {
        assert!(sequence.slot.is_some(), "a running sequence has a slot");
        let index = self
            .running
            .partition_point(|s| s.seniority < sequence.seniority);
        self.tenants.start(sequence.tenant());
        self.running.insert(index, sequence);
        index
    }

    /// Takes out a running sequence that is about to [`Sequences::wait`].
    pub(crate) fn take_to_wait(&mut self, index: usize) -> Sequence {
        self.running.remove(index)
    }

    /// Puts a sequence that ran and gave up its blocks among the waiting, at its rank.
    pub(crate) fn wait(&mut self, sequence: Sequence) {
        assert!(sequence.slot.is_none(), "a waiting sequence has no slot");
        assert_eq!(
            sequence.progress.scheduled, 0,
            "a waiting sequence holds nothing"
        );
        let index = self
            .waiting
            .partition_point(|s| s.seniority < sequence.seniority);
        self.tenants.stop(sequence.tenant());
        self.waiting.insert(index, sequence);
    }

    /// Takes out a running sequence that ends.
    pub(crate) fn take_running(&mut self, index: usize) -> Sequence {
        let sequence = self.running.remove(index);
        self.tenants.leave_running(sequence.tenant());
        sequence
    }

    /// Takes out the waiting sequence with this seniority, which ends.
    pub(crate) fn take_waiting(&mut self, seniority: u64) -> Option<Sequence> {
        let index = self.find_waiting(seniority)?;
        let sequence = self.waiting.remove(index)?;
        self.tenants.leave_waiting(sequence.tenant());
        Some(sequence)
    }

    /// Index among the waiting of the sequence with this seniority.
    pub(crate) fn find_waiting(&self, seniority: u64) -> Option<usize> {
        self.waiting
            .binary_search_by_key(&seniority, |s| s.seniority)
            .ok()
    }

    /// Seniority of the waiting sequence that is next at `now`, those in `passed` left out.
    pub(crate) fn next_waiting(&self, now: Duration, passed: &[u64]) -> Option<u64> {
        let waiting = self.waiting.iter();
        let candidates = waiting.filter(|s| !passed.contains(&s.seniority));
        let next = candidates.min_by_key(|s| self.rank(s, now));
        next.map(|s| s.seniority)
    }

    /// Order in which sequences get slots, and rows of a step beyond one: the lowest first.
    pub(crate) fn rank(&self, sequence: &Sequence, now: Duration) -> impl Ord + use<> {
        let waited = now.saturating_sub(sequence.submitted_at);
        let tenant = sequence.tenant();
        let account = self.tenants.account(tenant);
        let priority = match waited >= PATIENCE {
            true => i32::MIN,
            false => sequence.request.class.priority,
        };
        (
            (account.served, account.running, tenant),
            priority,
            sequence.seniority,
        )
    }

    /// Whom to take blocks or a slot from, as an index among the running: a sequence of the tenant that runs most, the least
    /// urgent, the youngest. Never the oldest, which is what rules out livelock.
    pub(crate) fn victim(&self) -> Option<usize> {
        let running = self.running.iter().enumerate().skip(1);
        let victim = running.max_by_key(|(_, s)| {
            let account = self.tenants.account(s.tenant());
            (account.running, s.request.class.priority, s.seniority)
        });
        victim.map(|(index, _)| index)
    }

    /// As [`Sequences::victim`], when `tenant` will not run more than the victim's tenant after both changed places.
    pub(crate) fn fair_victim(&self, tenant: TenantId) -> Option<usize> {
        let has = self.tenants.account(tenant).running;
        self.victim().filter(|&index| {
            let victim = self.running[index].tenant();
            has + 1 < self.tenants.account(victim).running
        })
    }

    /// Seniority of a request.
    pub(crate) fn find(&self, id: RequestId) -> Option<u64> {
        let mut all = self.running.iter().chain(&self.waiting);
        all.find(|s| s.id == id).map(|s| s.seniority)
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.running.len() + self.waiting.len()
    }

    /// Whether there is nobody.
    pub(crate) fn is_empty(&self) -> bool {
        self.running.is_empty() && self.waiting.is_empty()
    }

    /// Seniorities of those whose receiver is gone.
    pub(crate) fn closed(&self) -> Vec<u64> {
        let all = self.running.iter().chain(&self.waiting);
        all.filter(|s| s.sink.is_closed())
            .map(|s| s.seniority)
            .collect()
    }

    /// Seniorities of everybody.
    pub(crate) fn all(&self) -> Vec<u64> {
        self.running
            .iter()
            .chain(&self.waiting)
            .map(|s| s.seniority)
            .collect()
    }

    /// Asserts that the order holds and that accounts count who is there.
    ///
    /// # Panics
    /// When they do not.
    pub(crate) fn check_integrity(&self) {
        assert!(self.running.is_sorted_by_key(|s| s.seniority), "running");
        assert!(
            self.waiting.iter().is_sorted_by_key(|s| s.seniority),
            "waiting"
        );
        for (tenant, account) in self.tenants.accounts() {
            let of = |s: &&Sequence| s.tenant() == tenant;
            let counts = (
                self.running.iter().filter(of).count(),
                self.waiting.iter().filter(of).count(),
            );
            assert_eq!(counts, (account.running, account.waiting), "{tenant:?}");
        }
    }
}
