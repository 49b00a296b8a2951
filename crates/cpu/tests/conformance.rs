//! Every tier passes the suite that every backend passes.

use ucuz_cpu::{CpuBackend, Tier, emulator};

/// The tier on two unpinned threads, tiles emulated where there are none; `None` where the processor lacks it.
fn backend(tier: Tier) -> Option<CpuBackend> {
    emulator::backend(tier, 2)
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

mod amx {
    ucuz_tensor::conformance!(optional: super::backend(super::Tier::Amx));
}
