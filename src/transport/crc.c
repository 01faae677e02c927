/* Putting checksums together.
 *
 * Problem.  The pieces of a large extent arrive over several connections in any order; a checksum
 *           runs in one.
 * Idea.     A crc is linear: that of A followed by B is crc(A) times x^(8 |B|), plus crc(B), modulo
 *           the polynomial.  The power takes a multiplication for each bit of |B| (as in zlib's
 *           crc32_combine, Adler).
 * Threads.  Pure.
 */
#include "transport/crc.h"

#define POLYNOMIAL 0x82f63b78u /* Castagnoli's, the lowest power in the highest bit */
#define ONE 0x80000000u        /* x^0 */
#define X8 0x00800000u         /* x^8 */

/* a * b modulo the polynomial. */
static uint32_t multiply(uint32_t a, uint32_t b)
{
    uint32_t product = 0;

    for (uint32_t bit = ONE; bit != 0; bit >>= 1) {
        if (a & bit)
            product ^= b;
        b = b & 1 ? (b >> 1) ^ POLYNOMIAL : b >> 1;
    }
    return product;
}

uint32_t crc_combine(uint32_t first, uint32_t second, uint64_t size)
{
    uint32_t power = ONE;
    uint32_t square = X8;

    for (; size > 0; size >>= 1) {
        if (size & 1)
            power = multiply(power, square);
        square = multiply(square, square);
    }
    return multiply(power, first) ^ second;
}
