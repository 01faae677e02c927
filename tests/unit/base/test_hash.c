/* Hashes against published values: crc32c (RFC 3720, B.4), SipHash-2-4 (vectors of its authors). */
#include "base/hash.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void test_crc32c_known(void **state)
{
    uint8_t zeroes[32] = {0};

    (void)state;
    assert_int_equal(crc32c(0, "123456789", 9), 0xE3069283u);
    assert_int_equal(crc32c(0, zeroes, 32), 0x8A9136AAu);
    assert_int_equal(crc32c(0, "", 0), 0);
}

static void test_crc32c_continues(void **state)
{
    (void)state;
    for (size_t cut = 0; cut <= 9; cut++) {
        uint32_t crc = crc32c(0, "123456789", cut);

        assert_int_equal(crc32c(crc, &"123456789"[cut], 9 - cut), 0xE3069283u);
    }
}

/* Key 00 01 .. 0f, message 00 01 .. (size - 1). */
static void test_siphash_vectors(void **state)
{
    static const struct {
        size_t size;
        uint64_t expected;
    } vectors[] = {
        {0, UINT64_C(0x726fdb47dd0e0e31)},  {1, UINT64_C(0x74f839c593dc67fd)},
        {2, UINT64_C(0x0d6c8009d9a94f5a)},  {3, UINT64_C(0x85676696d7fb7e2d)},
        {7, UINT64_C(0xab0200f58b01d137)},  {8, UINT64_C(0x93f5f5799a932462)},
        {15, UINT64_C(0xa129ca6149be45e5)}, {63, UINT64_C(0x958a324ceb064572)},
    };
    struct hash128 key = {UINT64_C(0x0706050403020100), UINT64_C(0x0f0e0d0c0b0a0908)};
    uint8_t message[64];

    (void)state;
    for (size_t i = 0; i < sizeof(message); i++)
        message[i] = (uint8_t)i;
    for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++)
        assert_true(siphash(&key, message, vectors[i].size) == vectors[i].expected);
}

static void test_key_hash_is_fixed(void **state)
{
    struct hash128 empty = hash_key(0, bytes_of(NULL, 0));
    struct hash128 a = hash_key(0, bytes_of_string("key"));
    struct hash128 b = hash_key(1, bytes_of_string("key"));

    (void)state;
    /* XXH3_128bits of nothing, as published with xxHash. */
    assert_true(empty.high == UINT64_C(0x99aa06d3014798d8));
    assert_true(empty.low == UINT64_C(0x6001c324468d497f));
    assert_true(a.low != b.low && a.high != b.high);
    assert_true(hash_seeded(bytes_of_string("key"), 1) != hash_seeded(bytes_of_string("key"), 2));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_crc32c_known),
        cmocka_unit_test(test_crc32c_continues),
        cmocka_unit_test(test_siphash_vectors),
        cmocka_unit_test(test_key_hash_is_fixed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
