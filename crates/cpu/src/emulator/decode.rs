//! Bytes of tile instructions. Source: Intel SDM volume 2, the pages of each instruction; all are `VEX.128.xx.0F38.W0`.
//!
//! | bytes after the prefix | none | 66 | F3 | F2 |
//! |---|---|---|---|---|
//! | 49, memory | `ldtilecfg` | | | |
//! | 49, registers | `tilerelease` | | | `tilezero` |
//! | 4B, memory with SIB | | `tileloaddt1` | `tilestored` | `tileloadd` |
//! | 5C, registers | | | `tdpbf16ps` | |
//! | 5E, registers | `tdpbuud` | `tdpbusd` | `tdpbsud` | `tdpbssd` |

/// A decoded tile instruction; tiles are register numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Instruction {
    /// `ldtilecfg`.
    LoadConfig(Memory),
    /// `tilerelease`.
    Release,
    /// `tilezero`.
    Zero(usize),
    /// `tileloadd`, `tileloaddt1`.
    Load(usize, Memory),
    /// `tilestored`.
    Store(usize, Memory),
    /// `C += A · B`, as `[C, A, B]`.
    Dot(Dot, [usize; 3]),
}

/// What the operands of a product are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dot {
    /// bf16 by bf16.
    Bf16,
    /// Unsigned by unsigned bytes.
    UnsignedUnsigned,
    /// Unsigned by signed bytes.
    UnsignedSigned,
    /// Signed by unsigned bytes.
    SignedUnsigned,
    /// Signed by signed bytes.
    SignedSigned,
}

/// An address: registers by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Memory {
    pub(super) base: u8,
    /// The register that holds the distance of rows.
    pub(super) index: Option<u8>,
    /// The index counts `2^shift` bytes.
    pub(super) shift: u8,
    pub(super) displacement: i32,
}

/// Decodes one instruction from its bytes, taken in order; `None` when it is no tile instruction, or has no base register.
pub(super) fn decode(mut next: impl FnMut() -> u8) -> Option<Instruction> {
    const VEX3: u8 = 0xc4;
    const MAP_0F38: u8 = 2;
    if next() != VEX3 {
        return None;
    }
    let (first, second, opcode, modrm) = (next(), next(), next(), next());
    let (vector_bits, prefix) = (second & 0b1000_0100, second & 3);
    if first & 31 != MAP_0F38 || vector_bits != 0 {
        return None;
    }
    let tile = |number: u8| usize::from(number & 7);
    let (reg, rm) = (modrm >> 3, modrm);
    let registers = [tile(reg), tile(rm), tile(!second >> 3)];
    if modrm >> 6 == 3 {
        return match (opcode, prefix) {
            (0x49, 0) if modrm == 0xc0 => Some(Instruction::Release),
            (0x49, 3) if rm & 7 == 0 => Some(Instruction::Zero(tile(reg))),
            (0x5c, 2) => Some(Instruction::Dot(Dot::Bf16, registers)),
            (0x5e, 0) => Some(Instruction::Dot(Dot::UnsignedUnsigned, registers)),
            (0x5e, 1) => Some(Instruction::Dot(Dot::UnsignedSigned, registers)),
            (0x5e, 2) => Some(Instruction::Dot(Dot::SignedUnsigned, registers)),
            (0x5e, 3) => Some(Instruction::Dot(Dot::SignedSigned, registers)),
            _ => None,
        };
    }
    let memory = memory(modrm, first, next)?;
    match (opcode, prefix) {
        (0x49, 0) if reg & 7 == 0 => Some(Instruction::LoadConfig(memory)),
        (0x4b, 1 | 3) => Some(Instruction::Load(tile(reg), memory)),
        (0x4b, 2) => Some(Instruction::Store(tile(reg), memory)),
        _ => None,
    }
}

/// The address that follows `modrm`; `vex` holds the inverted upper bits of the register numbers.
fn memory(modrm: u8, vex: u8, mut next: impl FnMut() -> u8) -> Option<Memory> {
    const BY_SIB: u8 = 4;
    const NONE: u8 = 5;
    let upper = |bit: u8| (!vex >> bit & 1) << 3;
    let mode = modrm >> 6;
    let mut memory = Memory {
        base: modrm & 7,
        index: None,
        shift: 0,
        displacement: 0,
    };
    if memory.base == BY_SIB {
        let sib = next();
        let index = sib >> 3 & 7 | upper(6);
        memory.base = sib & 7;
        memory.index = (index != BY_SIB).then_some(index);
        memory.shift = sib >> 6;
    }
    if mode == 0 && memory.base == NONE {
        return None;
    }
    memory.base |= upper(5);
    memory.displacement = match mode {
        0 => 0,
        1 => i32::from(next() as i8),
        _ => i32::from_le_bytes([next(), next(), next(), next()]),
    };
    Some(memory)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes are an assembler's.
    #[test]
    fn instructions_decode_as_they_were_assembled() {
        let memory = |base, index, shift, displacement| Memory {
            base,
            index,
            shift,
            displacement,
        };
        let cases: [(&[u8], Instruction); 14] = [
            (
                // ldtilecfg [rax]
                &[0xc4, 0xe2, 0x78, 0x49, 0x00],
                Instruction::LoadConfig(memory(0, None, 0, 0)),
            ),
            (
                // ldtilecfg [rsp + 128]
                &[0xc4, 0xe2, 0x78, 0x49, 0x84, 0x24, 0x80, 0, 0, 0],
                Instruction::LoadConfig(memory(4, None, 0, 128)),
            ),
            // tilerelease
            (&[0xc4, 0xe2, 0x78, 0x49, 0xc0], Instruction::Release),
            // tilezero tmm5
            (&[0xc4, 0xe2, 0x7b, 0x49, 0xe8], Instruction::Zero(5)),
            (
                // tileloadd tmm3, [rax + rcx*1]
                &[0xc4, 0xe2, 0x7b, 0x4b, 0x1c, 0x08],
                Instruction::Load(3, memory(0, Some(1), 0, 0)),
            ),
            (
                // tileloaddt1 tmm3, [rax + rcx*1]
                &[0xc4, 0xe2, 0x79, 0x4b, 0x1c, 0x08],
                Instruction::Load(3, memory(0, Some(1), 0, 0)),
            ),
            (
                // tileloadd tmm7, [r13 + r12*4 - 8]
                &[0xc4, 0x82, 0x7b, 0x4b, 0x7c, 0xa5, 0xf8],
                Instruction::Load(7, memory(13, Some(12), 2, -8)),
            ),
            (
                // tileloadd tmm0, [rbx] (rows 0 bytes apart)
                &[0xc4, 0xe2, 0x7b, 0x4b, 0x04, 0x23],
                Instruction::Load(0, memory(3, None, 0, 0)),
            ),
            (
                // tilestored [rax + rcx*1], tmm6
                &[0xc4, 0xe2, 0x7a, 0x4b, 0x34, 0x08],
                Instruction::Store(6, memory(0, Some(1), 0, 0)),
            ),
            (
                // tdpbssd tmm1, tmm2, tmm3
                &[0xc4, 0xe2, 0x63, 0x5e, 0xca],
                Instruction::Dot(Dot::SignedSigned, [1, 2, 3]),
            ),
            (
                &[0xc4, 0xe2, 0x62, 0x5e, 0xca],
                Instruction::Dot(Dot::SignedUnsigned, [1, 2, 3]),
            ),
            (
                &[0xc4, 0xe2, 0x61, 0x5e, 0xca],
                Instruction::Dot(Dot::UnsignedSigned, [1, 2, 3]),
            ),
            (
                &[0xc4, 0xe2, 0x60, 0x5e, 0xca],
                Instruction::Dot(Dot::UnsignedUnsigned, [1, 2, 3]),
            ),
            (
                &[0xc4, 0xe2, 0x62, 0x5c, 0xca],
                Instruction::Dot(Dot::Bf16, [1, 2, 3]),
            ),
        ];
        for (bytes, expected) in cases {
            let mut taken = bytes.iter();
            let got = decode(|| *taken.next().expect("no byte past the instruction"));
            assert_eq!(got, Some(expected), "{bytes:02x?}");
            assert_eq!(taken.len(), 0, "{bytes:02x?}: all bytes are taken");
        }
    }

    #[test]
    fn other_instructions_are_left_alone() {
        let cases: [[u8; 6]; 6] = [
            // ud2
            [0x0f, 0x0b, 0, 0, 0, 0],
            // tilezero with VEX.L
            [0xc4, 0xe2, 0x7f, 0x49, 0xe8, 0],
            // andn, of the same map
            [0xc4, 0xe2, 0x60, 0xf2, 0xca, 0],
            // a tile load by instruction pointer
            [0xc4, 0xe2, 0x7b, 0x4b, 0x1d, 0],
            // sttilecfg [rax]
            [0xc4, 0xe2, 0x79, 0x49, 0x00, 0],
            // tilezero with a second operand
            [0xc4, 0xe2, 0x7b, 0x49, 0xe9, 0],
        ];
        for bytes in cases {
            let mut taken = bytes.iter();
            let got = decode(|| taken.next().copied().unwrap_or(0));
            assert_eq!(got, None, "{bytes:02x?}");
        }
    }
}
