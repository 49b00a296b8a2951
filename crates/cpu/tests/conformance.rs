//! Every tier passes the suite that every backend passes.

use ucuz_cpu::{CpuBackend, CpuOptions, Tier};

/// The tier on two unpinned threads; `None` where the processor lacks it.
fn backend(tier: Tier) -> Option<CpuBackend> {
    CpuBackend::new(CpuOptions::quiet(tier, 2)).ok()
}

mod generic {
    ucuz_tensor::conformance!(optional: super::backend(super::Tier::Generic));
}

mod avx2 {
    ucuz_tensor::conformance!(optional: super::backend(super::Tier::Avx2));
}

mod avx512 {
    ucuz_tensor::conformance!(optional: super::backend(super::Tier::Avx512));
}
