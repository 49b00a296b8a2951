//! The tile unit as the manual describes it. Source: Intel SDM volume 1, "Programming with Intel AMX", and the operation
//! sections of volume 2.

use super::decode::Dot;

/// Bytes of a tile's row.
const TILE_ROW_BYTES: usize = 64;
const TILE_ROWS: usize = 16;
const TILES: usize = 8;

type TileData = [[u8; TILE_ROW_BYTES]; TILE_ROWS];

/// A rule that was broken, for which a processor would raise an exception.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fault(pub(super) &'static str);

/// Used rows of a tile, and used bytes of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shape {
    rows: usize,
    row_bytes: usize,
}

/// Configuration and tiles of one thread.
pub(super) struct Unit {
    /// `None` while released.
    shapes: Option<[Shape; TILES]>,
    tiles: [TileData; TILES],
}

impl Unit {
    /// As a thread finds it.
    pub(super) const RELEASED: Self = Self {
        shapes: None,
        tiles: [[[0; TILE_ROW_BYTES]; TILE_ROWS]; TILES],
    };

    /// Back to the state that needs no saving.
    pub(super) fn release(&mut self) {
        *self = Self::RELEASED;
    }

    /// Reads a configuration: `[palette, start row, 14 reserved, u16 row bytes of 16 tiles, u8 rows of 16 tiles]`.
    pub(super) fn configure(&mut self, bytes: &[u8; 64]) -> Result<(), Fault> {
        let (palette, rest) = (bytes[0], &bytes[1..16]);
        match palette {
            0 => {
                self.release();
                return Ok(());
            }
            1 => {}
            _ => return Err(Fault("ldtilecfg: there is no such palette")),
        }
        if rest.iter().any(|byte| *byte != 0) {
            return Err(Fault(
                "ldtilecfg: a reserved byte or the start row is not 0",
            ));
        }
        let shape = |tile: usize| Shape {
            rows: bytes[48 + tile].into(),
            row_bytes: u16::from_le_bytes([bytes[16 + 2 * tile], bytes[17 + 2 * tile]]).into(),
        };
        let valid = |shape: &Shape| {
            shape.rows <= TILE_ROWS
                && shape.row_bytes <= TILE_ROW_BYTES
                && (shape.rows == 0) == (shape.row_bytes == 0)
        };
        let unused = Shape {
            rows: 0,
            row_bytes: 0,
        };
        let shapes: [Shape; TILES] = std::array::from_fn(shape);
        if !shapes.iter().all(valid) || (TILES..16).any(|tile| shape(tile) != unused) {
            return Err(Fault("ldtilecfg: a tile has no valid shape"));
        }
        self.release();
        self.shapes = Some(shapes);
        Ok(())
    }

    /// Makes a tile zero.
    pub(super) fn zero(&mut self, tile: usize) -> Result<(), Fault> {
        self.shape(tile)?;
        self.tiles[tile] = [[0; TILE_ROW_BYTES]; TILE_ROWS];
        Ok(())
    }

    /// Fills a tile row by row; what its shape leaves out becomes zero.
    pub(super) fn load(
        &mut self,
        tile: usize,
        mut read: impl FnMut(usize, &mut [u8]),
    ) -> Result<(), Fault> {
        let shape = self.shape(tile)?;
        self.zero(tile)?;
        for (row, bytes) in self.tiles[tile].iter_mut().enumerate().take(shape.rows) {
            read(row, &mut bytes[..shape.row_bytes]);
        }
        Ok(())
    }

    /// Hands out a tile row by row.
    pub(super) fn store(
        &self,
        tile: usize,
        mut write: impl FnMut(usize, &[u8]),
    ) -> Result<(), Fault> {
        let shape = self.shape(tile)?;
        for (row, bytes) in self.tiles[tile].iter().enumerate().take(shape.rows) {
            write(row, &bytes[..shape.row_bytes]);
        }
        Ok(())
    }

    /// `C += A · B`.
    pub(super) fn dot(&mut self, kind: Dot, [c, a, b]: [usize; 3]) -> Result<(), Fault> {
        let shapes = [self.shape(c)?, self.shape(a)?, self.shape(b)?];
        check_product([c, a, b], shapes)?;
        let [shape, a_shape, _] = shapes;
        let (first, second) = (self.tiles[a], self.tiles[b]);
        let depth = a_shape.row_bytes / 4;
        let cells = shape.row_bytes / 4;
        for (row, values) in self.tiles[c].iter_mut().zip(&first).take(shape.rows) {
            let values = &values.as_chunks::<4>().0[..depth];
            let mut sums: [u32; 16] = bytemuck::cast(*row);
            match kind {
                Dot::Bf16 => add_bf16(&mut sums, values, &second),
                _ => add_bytes(kind, &mut sums, values, &second),
            }
            sums[cells..].fill(0);
            *row = bytemuck::cast(sums);
        }
        for row in &mut self.tiles[c][shape.rows..] {
            *row = [0; TILE_ROW_BYTES];
        }
        Ok(())
    }

    fn shape(&self, tile: usize) -> Result<Shape, Fault> {
        let shapes = self.shapes.ok_or(Fault("the unit is not configured"))?;
        let shape = shapes[tile];
        if shape.rows == 0 {
            return Err(Fault("the tile is not configured"));
        }
        Ok(shape)
    }
}

fn check_product([c, a, b]: [usize; 3], shapes: [Shape; 3]) -> Result<(), Fault> {
    let [c_shape, a_shape, b_shape] = shapes;
    if c == a || c == b || a == b {
        return Err(Fault("a product names a tile twice"));
    }
    if shapes.iter().any(|shape| shape.row_bytes % 4 != 0) {
        return Err(Fault("a product's tile has rows of no whole words"));
    }
    let fit = c_shape.rows == a_shape.rows
        && c_shape.row_bytes == b_shape.row_bytes
        && a_shape.row_bytes == 4 * b_shape.rows;
    if !fit {
        return Err(Fault("the tiles of a product have other shapes"));
    }
    Ok(())
}

/// `sums[n] += Σ a[4k + i] · b[k][4n + i]` in i32, wrapping.
fn add_bytes(kind: Dot, sums: &mut [u32; 16], a: &[[u8; 4]], b: &TileData) {
    let signed = |byte: u8| i32::from(byte as i8);
    let unsigned = |byte: u8| i32::from(byte);
    match kind {
        Dot::UnsignedUnsigned => add_products(sums, a, b, (unsigned, unsigned)),
        Dot::UnsignedSigned => add_products(sums, a, b, (unsigned, signed)),
        Dot::SignedUnsigned => add_products(sums, a, b, (signed, unsigned)),
        _ => add_products(sums, a, b, (signed, signed)),
    }
}

#[inline(always)]
fn add_products(
    sums: &mut [u32; 16],
    a: &[[u8; 4]],
    b: &TileData,
    (of_a, of_b): (impl Fn(u8) -> i32, impl Fn(u8) -> i32),
) {
    for (a, b) in a.iter().zip(b) {
        let a = a.map(&of_a);
        for (sum, b) in sums.iter_mut().zip(b.as_chunks::<4>().0) {
            for (a, b) in a.iter().zip(b) {
                *sum = sum.wrapping_add(a.wrapping_mul(of_b(*b)) as u32);
            }
        }
    }
}

/// `c[n] = c[n] + (even + odd)`, even and odd k summed apart in order; f32, half to even, denormals are zeros, whatever MXCSR says.
fn add_bf16(cells: &mut [u32; 16], a: &[[u8; 4]], b: &TileData) {
    /// The same with the processor's own fused operation, which the library's is twenty times slower than.
    #[target_feature(enable = "avx2,fma")]
    fn fused(cells: &mut [u32; 16], a: &[[u8; 4]], b: &TileData) {
        add_bf16_pairs(cells, a, b);
    }
    if std::is_x86_feature_detected!("avx2") && std::is_x86_feature_detected!("fma") {
        // SAFETY: just detected.
        unsafe { fused(cells, a, b) }
    } else {
        add_bf16_pairs(cells, a, b);
    }
}

#[inline(always)]
fn add_bf16_pairs(cells: &mut [u32; 16], a: &[[u8; 4]], b: &TileData) {
    let mut sums = [[0.0f32; 16]; 2];
    for (a, b) in a.iter().zip(b) {
        let a = numbers(*a);
        let b: [[u8; 4]; 16] = bytemuck::cast(*b);
        let b = b.map(numbers);
        for side in 0..2 {
            for n in 0..16 {
                sums[side][n] = flush(a[side].mul_add(b[n][side], sums[side][n]));
            }
        }
    }
    for (n, cell) in cells.iter_mut().enumerate() {
        let both = flush(sums[0][n] + sums[1][n]);
        *cell = flush(flush(f32::from_bits(*cell)) + both).to_bits();
    }
}

/// The two numbers of a pair.
#[inline(always)]
fn numbers([low0, high0, low1, high1]: [u8; 4]) -> [f32; 2] {
    [[low0, high0], [low1, high1]]
        .map(|bytes| flush(f32::from_bits(u32::from(u16::from_le_bytes(bytes)) << 16)))
}

/// A denormal becomes a zero of its sign.
#[inline(always)]
fn flush(x: f32) -> f32 {
    let sign = x.to_bits() & 0x8000_0000;
    let normal = x.to_bits() & 0x7f80_0000 != 0;
    f32::from_bits(if normal { x.to_bits() } else { sign })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A configuration of eight tiles.
    fn config(shapes: [(u8, u8); TILES]) -> [u8; 64] {
        let mut bytes = [0; 64];
        bytes[0] = 1;
        for (tile, (rows, row_bytes)) in shapes.into_iter().enumerate() {
            bytes[16 + 2 * tile] = row_bytes;
            bytes[48 + tile] = rows;
        }
        bytes
    }

    const SMALL: [(u8, u8); TILES] = [
        (3, 20),
        (3, 8),
        (2, 20),
        (0, 0),
        (16, 64),
        (3, 12),
        (3, 16),
        (3, 6),
    ];

    #[test]
    fn broken_rules_are_faults() {
        let mut unit = Unit::RELEASED;
        let released = Err(Fault("the unit is not configured"));
        assert_eq!(unit.zero(0), released);
        assert_eq!(unit.store(0, |_, _| {}), released);
        unit.configure(&config(SMALL)).unwrap();
        assert_eq!(unit.dot(Dot::SignedSigned, [0, 1, 2]), Ok(()));
        let cases = [
            ([0, 1, 3], "the tile is not configured"),
            ([0, 0, 2], "a product names a tile twice"),
            ([0, 1, 1], "a product names a tile twice"),
            ([4, 1, 2], "the tiles of a product have other shapes"),
            ([0, 5, 2], "the tiles of a product have other shapes"),
            ([6, 1, 2], "the tiles of a product have other shapes"),
            ([7, 1, 2], "a product's tile has rows of no whole words"),
        ];
        for (tiles, why) in cases {
            assert_eq!(unit.dot(Dot::Bf16, tiles), Err(Fault(why)), "{tiles:?}");
        }
        unit.release();
        assert_eq!(unit.dot(Dot::SignedSigned, [0, 1, 2]), released);
    }

    #[test]
    fn invalid_configurations_are_faults() {
        let broken: [fn(&mut [u8; 64]); 7] = [
            |bytes| bytes[0] = 2,
            |bytes| bytes[1] = 1,
            |bytes| bytes[9] = 1,
            |bytes| bytes[48] = 17,
            |bytes| bytes[16] = 65,
            |bytes| bytes[48] = 0,
            |bytes| bytes[56] = 1,
        ];
        for change in broken {
            let mut bytes = config(SMALL);
            change(&mut bytes);
            let mut unit = Unit::RELEASED;
            assert!(unit.configure(&bytes).is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn what_a_shape_leaves_out_is_zero() {
        let mut unit = Unit::RELEASED;
        unit.configure(&config(SMALL)).unwrap();
        unit.tiles = [[[0xff; TILE_ROW_BYTES]; TILE_ROWS]; TILES];
        unit.load(1, |row, bytes| bytes.fill(row as u8 + 1))
            .unwrap();
        unit.load(2, |_, bytes| bytes.fill(1)).unwrap();
        assert_eq!(unit.tiles[1][2][..9], [3, 3, 3, 3, 3, 3, 3, 3, 0]);
        assert_eq!(unit.tiles[1][3..], [[0; TILE_ROW_BYTES]; 13]);
        unit.dot(Dot::SignedSigned, [0, 1, 2]).unwrap();
        let sums: [u32; 16] = bytemuck::cast(unit.tiles[0][1]);
        assert_eq!(sums[..5], [16 - 1; 5]);
        assert_eq!(sums[5..], [0; 11]);
        assert_eq!(unit.tiles[0][3..], [[0; TILE_ROW_BYTES]; 13]);
    }
}
