//! Whether tiles can be used here: what the system grants, and that the unit adds in the canonical order.
//!
//! Asked once a process, and only where the processor has the instructions.

use std::sync::OnceLock;

use super::unit::{TileConfig, Tiles, WHOLE};

/// Bits of XCR0 for tile configuration and tile data. Source: Intel SDM volume 1, "Intel AMX: XSAVE-managed state".
const XCR0_TILES: u64 = 1 << 17 | 1 << 18;

/// Why this process cannot use tiles on a processor that has AMX-TILE, AMX-INT8 and AMX-BF16; `None` when it can.
pub fn refusal() -> Option<&'static str> {
    static ANSWER: OnceLock<Option<&'static str>> = OnceLock::new();
    *ANSWER.get_or_init(|| {
        if !system_saves_tiles() {
            Some("the system does not save tile registers")
        } else if !system_permits_tiles() {
            Some("the system does not let this process use tile registers")
        // SAFETY: the processor has tiles (the caller's condition), the system saves them and has just permitted them.
        } else if !unsafe { adds_in_canonical_order() } {
            Some("this processor's tile unit adds in another order")
        } else {
            None
        }
    })
}

/// Whether the system switches tile registers with threads.
fn system_saves_tiles() -> bool {
    use std::arch::x86_64::{__cpuid, _xgetbv};
    const OSXSAVE: u32 = 1 << 27;
    #[target_feature(enable = "xsave")]
    fn xcr0() -> u64 {
        // SAFETY: register 0 exists wherever the instruction does.
        unsafe { _xgetbv(0) }
    }
    // SAFETY: OSXSAVE says that `xgetbv` may be used.
    __cpuid(1).ecx & OSXSAVE != 0 && unsafe { xcr0() } & XCR0_TILES == XCR0_TILES
}

/// Asks Linux for the right to use tile data, which holds for the whole process from then on: without it the first tile
/// instruction is a fault. Source: Linux documentation, `arch/x86/xstate.rst`.
#[cfg(target_os = "linux")]
fn system_permits_tiles() -> bool {
    const ARCH_PRCTL: u64 = 158;
    const ARCH_REQ_XCOMP_PERM: u64 = 0x1023;
    const XFEATURE_XTILEDATA: u64 = 18;
    let mut result = ARCH_PRCTL;
    // SAFETY: this call reads and writes no memory of the process; `syscall` changes rcx and r11 beside the result.
    unsafe {
        core::arch::asm!(
            "syscall",
            inlateout("rax") result,
            in("rdi") ARCH_REQ_XCOMP_PERM,
            in("rsi") XFEATURE_XTILEDATA,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack)
        );
    }
    result == 0
}

/// Other systems have their own ways, which nobody has tried here.
#[cfg(not(target_os = "linux"))]
fn system_permits_tiles() -> bool {
    false
}

/// Values of one row of the probe, against ones: 2^16 in places where it swallows low bits of other partial sums in each
/// order of addition.
const PROBE: [u16; 32] = {
    const LARGE: u16 = 0x4780;
    let mut row = [0x3c01; 32];
    (row[2], row[9], row[20], row[27]) = (LARGE, LARGE, LARGE | 0x8000, LARGE | 0x8000);
    row
};
/// What is in the cell before.
const PROBE_CELL: f32 = 1.0 / 3.0;

/// Whether one bf16 product keeps one sum of even and one of odd k before it adds them to the cell.
///
/// # Safety
/// As for [`Tiles::configure`].
pub unsafe fn adds_in_canonical_order() -> bool {
    const CONFIG: TileConfig = TileConfig::new([WHOLE; 8]);
    const ONE: u16 = 0x3f80;
    let (a, b) = ([PROBE; 16], [[ONE; 32]; 16]);
    let mut c = [[PROBE_CELL; 16]; 16];
    // SAFETY: the caller's promise; each array is 16 rows of 64 bytes.
    unsafe {
        let tiles = Tiles::configure(&CONFIG);
        tiles.load::<0>(c.as_ptr().cast(), 64);
        tiles.load::<1>(a.as_ptr().cast(), 64);
        tiles.load::<2>(b.as_ptr().cast(), 64);
        tiles.dot_bf16::<0, 1, 2>();
        tiles.store::<0>(c.as_mut_ptr().cast(), 64);
    }
    let expected = canonical_cell();
    c.as_flattened().iter().all(|cell| *cell == expected)
}

/// The probe's numbers.
fn probe_values() -> [f32; 32] {
    PROBE.map(|bits| f32::from_bits(u32::from(bits) << 16))
}

/// The probe's cell after the product, by the rule.
fn canonical_cell() -> f32 {
    let side = |first: usize| {
        let values = probe_values();
        values
            .iter()
            .skip(first)
            .step_by(2)
            .fold(0.0, |sum, x| sum + x)
    };
    PROBE_CELL + (side(0) + side(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_orders_of_addition_fail_the_probe() {
        let values = probe_values();
        let pairs = || {
            values
                .as_chunks::<2>()
                .0
                .iter()
                .map(|[even, odd]| even + odd)
        };
        let others = [
            (
                "into the cell, k ascending",
                values.iter().fold(PROBE_CELL, |sum, x| sum + x),
            ),
            (
                "k ascending, then the cell",
                PROBE_CELL + values.iter().fold(0.0, |sum, x| sum + x),
            ),
            (
                "pairs first, into the cell",
                pairs().fold(PROBE_CELL, |sum, x| sum + x),
            ),
            (
                "pairs first, then the cell",
                PROBE_CELL + pairs().fold(0.0, |sum, x| sum + x),
            ),
            (
                "odd before even in a pair, into the cell",
                values
                    .as_chunks::<2>()
                    .0
                    .iter()
                    .fold(PROBE_CELL, |sum, [even, odd]| sum + odd + even),
            ),
            (
                "k descending",
                PROBE_CELL + {
                    let side = |first: usize| {
                        values
                            .iter()
                            .skip(first)
                            .step_by(2)
                            .rev()
                            .fold(0.0, |sum, x| sum + x)
                    };
                    side(0) + side(1)
                },
            ),
            (
                "rounded once",
                (f64::from(PROBE_CELL) + values.iter().map(|x| f64::from(*x)).sum::<f64>()) as f32,
            ),
        ];
        for (order, cell) in others {
            assert_ne!(cell, canonical_cell(), "{order}");
        }
    }
}
