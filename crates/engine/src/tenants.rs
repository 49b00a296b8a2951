//! Fairness between those who send requests: who has been served how much.
//!
//! Each tenant has an account of served tokens; the one with the least is next. A tenant that comes back after a pause
//! cannot have saved up more than [`CREDIT_TOKENS`], so nobody is shut out by the idle, and nobody idle is punished: who
//! uses less than a fair share is always next. Work that is done again after a preemption is nobody's.
//!
//! Source: virtual token counters (Sheng et al., "Fairness in Serving Large Language Models", OSDI 2024), with their
//! weights of 1 for a prompt token and 2 for a generated one.

use std::collections::BTreeMap;

use crate::stats::TenantStats;

/// What a generated token counts, where a computed prompt token counts 1.
pub(crate) const GENERATED_WEIGHT: u64 = 2;

/// Most that a pause may save up: a prompt of 2,000 tokens and an answer of 1,000.
const CREDIT_TOKENS: u64 = 4096;

/// Who sends requests: an index that the caller gives out, one a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct TenantId(pub u32);

/// One tenant's account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Account {
    /// Weighted tokens.
    pub served: u64,
    /// Requests that hold a slot.
    pub running: usize,
    /// Requests that wait.
    pub waiting: usize,
}

impl Account {
    fn is_active(&self) -> bool {
        self.running + self.waiting > 0
    }
}

/// All accounts. Those who could not tell themselves from newcomers are forgotten.
#[derive(Debug, Default)]
pub(crate) struct Tenants {
    accounts: BTreeMap<TenantId, Account>,
    /// Least that a tenant with waiting requests has been served, or what the last of those had been when its last request
    /// stopped waiting; never falls. Whoever takes all it wants without waiting does not hold it down.
    floor: u64,
}

impl Tenants {
    /// A request of `tenant` begins to wait.
    pub(crate) fn join(&mut self, tenant: TenantId) {
        self.raise_floor();
        let least = self.floor.saturating_sub(CREDIT_TOKENS);
        let account = self.accounts.entry(tenant).or_default();
        if account.waiting == 0 {
            account.served = account.served.max(least);
        }
        account.waiting += 1;
    }

    /// A waiting request gets a slot.
    pub(crate) fn start(&mut self, tenant: TenantId) {
        self.change(tenant, |account| {
            account.waiting -= 1;
            account.running += 1;
        });
        self.leave_queue(tenant);
    }

    /// A running request goes back to wait.
    pub(crate) fn stop(&mut self, tenant: TenantId) {
        self.change(tenant, |account| {
            account.running -= 1;
            account.waiting += 1;
        });
    }

    /// A running request ends.
    pub(crate) fn leave_running(&mut self, tenant: TenantId) {
        self.change(tenant, |account| account.running -= 1);
    }

    /// A waiting request ends.
    pub(crate) fn leave_waiting(&mut self, tenant: TenantId) {
        self.change(tenant, |account| account.waiting -= 1);
        self.leave_queue(tenant);
    }

    /// When nobody waits any more, the last who did sets the floor.
    fn leave_queue(&mut self, tenant: TenantId) {
        if self.accounts.values().all(|account| account.waiting == 0) {
            self.floor = self.floor.max(self.account(tenant).served);
        }
    }

    /// `tenant` was served `tokens`, weighted.
    pub(crate) fn charge(&mut self, tenant: TenantId, tokens: u64) {
        self.change(tenant, |account| account.served += tokens);
    }

    /// The account of `tenant`; of nobody, all zeros.
    pub(crate) fn account(&self, tenant: TenantId) -> Account {
        self.accounts.get(&tenant).copied().unwrap_or_default()
    }

    /// What those have inside who have something inside.
    pub(crate) fn stats(&self) -> Vec<TenantStats> {
        let active = self.accounts.iter().filter(|(_, a)| a.is_active());
        let stats = |(&tenant, account): (&TenantId, &Account)| TenantStats {
            tenant,
            running: account.running,
            waiting: account.waiting,
        };
        active.map(stats).collect()
    }

    /// All accounts.
    pub(crate) fn accounts(&self) -> impl Iterator<Item = (TenantId, Account)> + '_ {
        self.accounts
            .iter()
            .map(|(&tenant, &account)| (tenant, account))
    }

    fn change(&mut self, tenant: TenantId, change: impl FnOnce(&mut Account)) {
        let account = self.accounts.get_mut(&tenant);
        assert!(account.is_some(), "{tenant:?} has joined");
        if let Some(account) = account {
            change(account);
        }
        self.raise_floor();
    }

    fn raise_floor(&mut self) {
        let queued = self.accounts.values().filter(|a| a.waiting > 0);
        if let Some(least) = queued.map(|a| a.served).min() {
            self.floor = self.floor.max(least);
        }
        let least = self.floor.saturating_sub(CREDIT_TOKENS);
        self.accounts
            .retain(|_, account| account.is_active() || account.served > least);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: TenantId = TenantId(1);
    const B: TenantId = TenantId(2);

    #[test]
    fn a_pause_saves_up_a_little_and_no_more() {
        let mut tenants = Tenants::default();
        tenants.join(A);
        tenants.charge(A, 100_000);
        tenants.join(B);
        assert_eq!(tenants.account(B).served, 100_000 - CREDIT_TOKENS);
        tenants.leave_waiting(B);
        tenants.charge(A, 1_000);
        tenants.join(B);
        assert_eq!(tenants.account(B).served, 101_000 - CREDIT_TOKENS);
    }

    #[test]
    fn who_leaves_owing_comes_back_owing() {
        let mut tenants = Tenants::default();
        tenants.join(A);
        tenants.join(B);
        tenants.charge(A, 50_000);
        tenants.leave_waiting(A);
        tenants.join(A);
        assert_eq!(tenants.account(A).served, 50_000);
        assert_eq!((tenants.stats().len(), tenants.account(B).served), (2, 0));
    }

    #[test]
    fn who_never_waits_saves_up_no_more_than_who_pauses() {
        let mut tenants = Tenants::default();
        tenants.join(B);
        tenants.start(B);
        tenants.join(A);
        tenants.charge(A, 1_000_000);
        // B always had one request running and now turns greedy; C is new.
        tenants.join(B);
        tenants.join(TenantId(3));
        for tenant in [B, TenantId(3)] {
            assert_eq!(tenants.account(tenant).served, 1_000_000 - CREDIT_TOKENS);
        }
    }

    #[test]
    fn who_was_served_without_a_queue_is_not_behind_a_newcomer() {
        let mut tenants = Tenants::default();
        for _ in 0..2 {
            tenants.join(A);
            tenants.start(A);
            tenants.charge(A, 500_000);
        }
        tenants.join(B);
        assert_eq!(tenants.account(B).served, 500_000 - CREDIT_TOKENS);
    }

    #[test]
    fn accounts_of_many_passers_by_are_forgotten() {
        let mut tenants = Tenants::default();
        for i in 0..10_000 {
            tenants.join(TenantId(i));
            tenants.charge(TenantId(i), 10_000);
            tenants.leave_waiting(TenantId(i));
        }
        assert!(tenants.accounts.len() < 3, "{}", tenants.accounts.len());
    }
}
