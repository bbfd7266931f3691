//! The field GF(2^8) of the erasure code: logarithms, and multiplication by a constant as tables.
//!
//! reads   field elements, one byte each
//! writes  field elements; tables made at compile time
//! memory  static: 768 B of logarithms, 8 KiB of nibble products, 2 KiB of bit matrices
//! source  the polynomial x^8 + x^4 + x^3 + x^2 + 1 and the generator 2, as in `reed-solomon-erasure`

/// The reduction polynomial without its leading term, x^4 + x^3 + x^2 + 1.
const POLYNOMIAL: u8 = 0x1d;

/// Product of two elements, bit by bit; for making tables.
const fn slow_mul(mut a: u8, mut b: u8) -> u8 {
    let mut product = 0;
    while b != 0 {
        if b & 1 != 0 {
            product ^= a;
        }
        a = (a << 1) ^ if a & 0x80 != 0 { POLYNOMIAL } else { 0 };
        b >>= 1;
    }
    product
}

/// `EXP[i]` is 2^i, twice over so that a sum of two logarithms needs no reduction.
const EXP: [u8; 510] = {
    let mut exp = [0; 510];
    let (mut i, mut x) = (0, 1);
    while i < exp.len() {
        exp[i] = x;
        x = slow_mul(x, 2);
        i += 1;
    }
    exp
};

/// `LOG[x]` is the i below 255 for which 2^i is x; that of zero is never read.
const LOG: [u8; 256] = {
    let mut log = [0; 256];
    let mut i = 0;
    while i < 255 {
        log[EXP[i] as usize] = i as u8;
        i += 1;
    }
    log
};

static EXP_TABLE: [u8; 510] = EXP;
static LOG_TABLE: [u8; 256] = LOG;

/// `NIBBLES[c]` multiplies by `c`: 16 products of low nibbles, then 16 of high nibbles.
pub(super) static NIBBLES: [[u8; 32]; 256] = {
    let mut tables = [[0; 32]; 256];
    let mut c = 0;
    while c < 256 {
        let mut nibble = 0;
        while nibble < 16 {
            tables[c][nibble] = slow_mul(c as u8, nibble as u8);
            tables[c][16 + nibble] = slow_mul(c as u8, (nibble as u8) << 4);
            nibble += 1;
        }
        c += 1;
    }
    tables
};

/// `MATRICES[c]` multiplies by `c` as a matrix over bits, in the form that `gf2p8affineqb` takes:
/// byte 7 − i holds the bits of the operand that make up bit i of the product.
#[cfg(target_arch = "x86_64")]
pub(super) static MATRICES: [u64; 256] = {
    let mut matrices = [0; 256];
    let mut c = 0;
    while c < 256 {
        let mut bit = 0;
        while bit < 8 {
            let column = slow_mul(c as u8, 1 << bit);
            let mut row = 0;
            while row < 8 {
                matrices[c] |= ((column >> row & 1) as u64) << (8 * (7 - row) + bit);
                row += 1;
            }
            bit += 1;
        }
        c += 1;
    }
    matrices
};

/// Product of two elements.
pub(super) fn mul(a: u8, b: u8) -> u8 {
    if a == 0 || b == 0 {
        return 0;
    }
    EXP_TABLE[LOG_TABLE[a as usize] as usize + LOG_TABLE[b as usize] as usize]
}

/// Quotient of two elements. Panics when `b` is zero.
pub(super) fn div(a: u8, b: u8) -> u8 {
    assert!(b != 0, "division by zero");
    if a == 0 {
        return 0;
    }
    EXP_TABLE[LOG_TABLE[a as usize] as usize + 255 - LOG_TABLE[b as usize] as usize]
}

/// Product of two elements at compile time.
pub(super) const fn const_mul(a: u8, b: u8) -> u8 {
    slow_mul(a, b)
}

/// Inverse of a non-zero element at compile time.
pub(super) const fn const_inverse(a: u8) -> u8 {
    assert!(a != 0);
    EXP[255 - LOG[a as usize] as usize]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_agree_with_bitwise_products() {
        for a in 0..=255u8 {
            for b in 0..=255u8 {
                let product = slow_mul(a, b);
                assert_eq!(mul(a, b), product);
                let nibbles = &NIBBLES[a as usize];
                assert_eq!(nibbles[(b & 15) as usize] ^ nibbles[16 + (b >> 4) as usize], product);
                if b != 0 {
                    assert_eq!(div(product, b), a);
                }
            }
        }
    }

    #[test]
    fn inverses() {
        assert!((1..=255u8).all(|a| const_mul(a, const_inverse(a)) == 1));
    }
}
