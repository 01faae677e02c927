/* Putting checksums together.
 *
 * Problem.  The pieces of a large extent arrive over several connections in any order; a checksum
 *           runs in one.
 * Idea.     A crc is linear: that of A followed by B is crc(A) times x^(8 |B|), plus crc(B), modulo
 *           the polynomial.  The power takes a multiplication for each bit of |B| that is set, by
 *           the squares of x^8, which come again after 31 (as in zlib's crc32_combine, Adler).
 * Threads.  Pure.
 */
#include "transport/crc.h"

#define POLYNOMIAL 0x82f63b78u /* Castagnoli's, the lowest power in the highest bit */
#define ONE 0x80000000u        /* x^0 */
#define SQUARES 31u

/* x^(8 * 2^i): each is the square of the one before (tests/unit/transport/test_crc.c compares). */
static const uint32_t squares[SQUARES] = {
    0x00800000, 0x00008000, 0x82f63b78, 0x6ea2d55c, 0x18b8ea18, 0x510ac59a, 0xb82be955, 0xb8fdb1e7,
    0x88e56f72, 0x74c360a4, 0xe4172b16, 0x0d65762a, 0x35d73a62, 0x28461564, 0xbf455269, 0xe2ea32dc,
    0xfe7740e6, 0xf946610b, 0x3c204f8f, 0x538586e3, 0x59726915, 0x734d5309, 0xbc1ac763, 0x7d0722cc,
    0xd289cabe, 0xe94ca9bc, 0x05b74f3f, 0xa51e1f42, 0x40000000, 0x20000000, 0x08000000};

/* a * b modulo the polynomial. */
static uint32_t multiply(uint32_t a, uint32_t b)
{
    uint32_t product = 0;

    /* Masks instead of branches: nobody can foretell these bits. */
    for (; a != 0; a <<= 1) {
        product ^= b & (0u - (a >> 31));
        b = (b >> 1) ^ (POLYNOMIAL & (0u - (b & 1)));
    }
    return product;
}

uint32_t crc_combine(uint32_t first, uint32_t second, uint64_t size)
{
    uint32_t power = ONE;

    for (uint32_t i = 0; size > 0; size >>= 1, i++) {
        if (size & 1)
            power = multiply(power, squares[i % SQUARES]);
    }
    return multiply(power, first) ^ second;
}

uint32_t crc_append(uint32_t before, const uint32_t *sums, size_t step, size_t size)
{
    for (; size > 0; sums++) {
        size_t run = size < step ? size : step;

        before = crc_combine(before, *sums, run);
        size -= run;
    }
    return before;
}
