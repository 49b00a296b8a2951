//! The handler that takes a processor's refusal of an instruction as a call.

use std::cell::{Cell, UnsafeCell};
use std::sync::Once;

use super::decode::{self, Instruction, Memory};
use super::unit::{Fault, Unit};

/// General registers of the interrupted code.
type Registers = [libc::greg_t; 23];

thread_local! {
    /// The tile unit of this thread.
    static UNIT: UnsafeCell<Unit> = const { UnsafeCell::new(Unit::RELEASED) };
    /// Instructions that this thread had emulated.
    static INSTRUCTIONS: Cell<u64> = const { Cell::new(0) };
}

pub(super) fn instructions_of_this_thread() -> u64 {
    INSTRUCTIONS.get()
}

/// Takes over SIGILL, once a process.
pub(super) fn install() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        eprintln!("amx: no tile unit here, its instructions are emulated");
        // SAFETY: all zero is a valid action without flags, which is then filled in.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = on_illegal_instruction as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO;
        // SAFETY: the handler has the signature that SA_SIGINFO asks for, and the action is complete.
        let result =
            unsafe { libc::sigaction(libc::SIGILL, &raw const action, std::ptr::null_mut()) };
        assert_eq!(result, 0, "SIGILL cannot be handled");
    });
}

/// Executes the instruction that was interrupted, if it is one of the tile unit's, and those that follow it directly, which saves
/// a signal each; else gives the signal back to the system.
extern "C" fn on_illegal_instruction(
    _: libc::c_int,
    _: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    // SAFETY: with SA_SIGINFO the third argument is the interrupted context, which this handler alone uses.
    let registers = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
    let before = INSTRUCTIONS.get();
    while let Some((instruction, len)) = next_instruction(registers) {
        UNIT.with(|unit| {
            // SAFETY: the unit belongs to this thread, and no instruction is emulated inside the handler.
            let unit = unsafe { &mut *unit.get() };
            if let Err(fault) = execute(unit, instruction, registers) {
                die(fault);
            }
        });
        registers[libc::REG_RIP as usize] += len;
        INSTRUCTIONS.set(INSTRUCTIONS.get() + 1);
    }
    if INSTRUCTIONS.get() == before {
        // SAFETY: a valid call; on return the instruction faults again and ends the process as it would have.
        unsafe { libc::signal(libc::SIGILL, libc::SIG_DFL) };
    }
}

/// The tile instruction at the instruction pointer and its length, if there is one.
fn next_instruction(registers: &Registers) -> Option<(Instruction, libc::greg_t)> {
    let start = registers[libc::REG_RIP as usize] as *const u8;
    let mut len = 0;
    let instruction = decode::decode(|| {
        // SAFETY: the processor fetches an instruction from here, now or next; the decoder stops at the byte that decides.
        let byte = unsafe { *start.add(len) };
        len += 1;
        byte
    })?;
    Some((instruction, len as libc::greg_t))
}

/// Executes one instruction; its memory is the interrupted code's.
fn execute(unit: &mut Unit, instruction: Instruction, registers: &Registers) -> Result<(), Fault> {
    match instruction {
        Instruction::LoadConfig(memory) => {
            let (from, _) = address(&memory, registers);
            // SAFETY: the interrupted instruction reads these 64 bytes.
            unit.configure(unsafe { &*from.cast::<[u8; 64]>() })
        }
        Instruction::Release => {
            unit.release();
            Ok(())
        }
        Instruction::Zero(tile) => unit.zero(tile),
        Instruction::Load(tile, memory) => {
            let (from, stride) = address(&memory, registers);
            unit.load(tile, |row, bytes: &mut [u8]| {
                // SAFETY: the interrupted instruction reads these bytes.
                unsafe {
                    let from = from.wrapping_offset(stride.wrapping_mul(row as isize));
                    std::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), bytes.len());
                }
            })
        }
        Instruction::Store(tile, memory) => {
            let (to, stride) = address(&memory, registers);
            unit.store(tile, |row, bytes: &[u8]| {
                // SAFETY: the interrupted instruction writes these bytes.
                unsafe {
                    let to = to.wrapping_offset(stride.wrapping_mul(row as isize));
                    std::ptr::copy_nonoverlapping(bytes.as_ptr(), to.cast_mut(), bytes.len());
                }
            })
        }
        Instruction::Dot(kind, tiles) => unit.dot(kind, tiles),
    }
}

/// Address of row 0, and the distance of rows.
fn address(memory: &Memory, registers: &Registers) -> (*const u8, isize) {
    /// Places of the sixteen registers, by their number in an instruction.
    const PLACES: [libc::c_int; 16] = [
        libc::REG_RAX,
        libc::REG_RCX,
        libc::REG_RDX,
        libc::REG_RBX,
        libc::REG_RSP,
        libc::REG_RBP,
        libc::REG_RSI,
        libc::REG_RDI,
        libc::REG_R8,
        libc::REG_R9,
        libc::REG_R10,
        libc::REG_R11,
        libc::REG_R12,
        libc::REG_R13,
        libc::REG_R14,
        libc::REG_R15,
    ];
    let value = |register: u8| registers[PLACES[usize::from(register)] as usize];
    let stride = memory
        .index
        .map_or(0, |index| value(index).wrapping_shl(memory.shift.into()));
    let start = value(memory.base).wrapping_add(memory.displacement.into());
    (start as *const u8, stride as isize)
}

/// Says what a processor would have refused, and ends the process.
fn die(fault: Fault) -> ! {
    const BEFORE: &str = "emulated tile unit: ";
    for text in [BEFORE, fault.0, "\n"] {
        // SAFETY: the bytes are readable; `write` may be called in a signal handler.
        unsafe { libc::write(2, text.as_ptr().cast(), text.len()) };
    }
    std::process::abort()
}
