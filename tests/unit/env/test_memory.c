#include "base/limits.h"
#include "env/linux.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

struct fixture {
    struct env *env;
    struct env_loop *loop;
    char dir[64];
};

static int setup(void **state)
{
    static struct fixture fixture;

    fixture.env = env_linux_create();
    snprintf(fixture.dir, sizeof fixture.dir, "/tmp/snowskin-test-XXXXXX");
    *state = &fixture;
    if (mkdtemp(fixture.dir) == NULL)
        return 1;
    return env_loop_create(fixture.env, "test", &fixture.loop) != SNOW_OK;
}

static void remove_file(struct fixture *fixture, const char *name)
{
    char path[128];

    snprintf(path, sizeof path, "%s/%s", fixture->dir, name);
    unlink(path);
}

static int teardown(void **state)
{
    struct fixture *fixture = *state;

    env_loop_destroy(fixture->loop);
    env_linux_destroy(fixture->env);
    remove_file(fixture, "data.0");
    remove_file(fixture, "file");
    return rmdir(fixture->dir);
}

static void test_anonymous_memory(void **state)
{
    struct fixture *fixture = *state;
    struct env_memory memory;
    struct stat info;
    size_t size = 5 * MIB + 100;
    size_t done = 0;

    assert_int_equal(env_memory_open(fixture->env, NULL, "data", size, &memory), SNOW_OK);
    assert_int_equal((uintptr_t)memory.at % (2 * MIB), 0);
    assert_int_equal(memory.size, size);
    assert_false(memory.existed);
    assert_int_equal(fstat(memory.descriptor, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    assert_int_not_equal(ftruncate(memory.descriptor, 1), 0); /* sealed */
    assert_int_equal(env_memory_populate(fixture->env, &memory, 0, 2 * MIB, &done), SNOW_OK);
    assert_int_equal(done, 2 * MIB);
    assert_int_equal(env_memory_populate(fixture->env, &memory, 2 * MIB, size - 2 * MIB, &done),
                     SNOW_OK);
    assert_int_equal(done, size - 2 * MIB);
    assert_true(memory.page_size == 4096 || memory.page_size == 2 * MIB);
    for (size_t i = 0; i < size; i += 4096)
        assert_int_equal(memory.at[i], 0);
    memory.at[size - 1] = 7;
    assert_int_equal(env_memory_populate(fixture->env, &memory, size, 1, &done), SNOW_INVALID);
    env_memory_close(fixture->env, &memory);
}

static void test_file_memory_survives(void **state)
{
    struct fixture *fixture = *state;
    struct env_memory memory;
    struct env_memory other;
    size_t done;

    assert_int_equal(env_memory_open(fixture->env, fixture->dir, "data.0", 3 * MIB, &memory),
                     SNOW_OK);
    assert_false(memory.existed);
    assert_int_equal(env_memory_populate(fixture->env, &memory, 0, 3 * MIB, &done), SNOW_OK);
    memory.at[3 * MIB - 1] = 42;
    assert_int_equal(env_memory_open(fixture->env, fixture->dir, "data.0", 3 * MIB, &other),
                     SNOW_IN_USE);
    env_memory_close(fixture->env, &memory);
    assert_int_equal(env_memory_open(fixture->env, fixture->dir, "data.0", 2 * MIB, &other),
                     SNOW_INVALID);
    assert_int_equal(env_memory_open(fixture->env, fixture->dir, "data.0", 3 * MIB, &memory),
                     SNOW_OK);
    assert_true(memory.existed);
    assert_int_equal(env_memory_populate(fixture->env, &memory, 0, 3 * MIB, &done), SNOW_OK);
    assert_int_equal(memory.at[3 * MIB - 1], 42);
    env_memory_close(fixture->env, &memory);
}

static void test_bad_memory_is_refused(void **state)
{
    char long_name[65];
    const char *const bad[] = {"", "a/b", "..", ".x", "A", long_name};
    struct fixture *fixture = *state;
    struct env_memory memory;

    memset(long_name, 'a', 64);
    long_name[64] = 0;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(env_memory_open(fixture->env, NULL, bad[i], 4096, &memory), SNOW_INVALID);
    assert_int_equal(env_memory_open(fixture->env, NULL, "x", 0, &memory), SNOW_INVALID);
    assert_int_equal(env_memory_open(fixture->env, NULL, "x", 1024 * TIB, &memory), SNOW_NO_SPACE);
}

static void test_copy(void **state)
{
    struct fixture *fixture = *state;
    char to[8] = "";
    struct env_copy copy = {.to = to, .from = "abcdefg", .size = 8};

    assert_true(env_copy(fixture->loop, &copy));
    assert_string_equal(to, "abcdefg");
    env_copy_cancel(&copy);
}

static void test_files(void **state)
{
    struct fixture *fixture = *state;
    char path[128];
    uint8_t *data;
    size_t size;
    static uint8_t big[10000];

    snprintf(path, sizeof path, "%s/file", fixture->dir);
    assert_int_equal(env_file_read(fixture->env, path, 100, &data, &size), SNOW_NOT_FOUND);
    assert_int_equal(env_file_replace(fixture->env, path, bytes_of_string("one")), SNOW_OK);
    assert_int_equal(env_file_read(fixture->env, path, 100, &data, &size), SNOW_OK);
    assert_int_equal(size, 3);
    assert_memory_equal(data, "one", 3);
    free(data);
    memset(big, 7, sizeof big);
    assert_int_equal(env_file_replace(fixture->env, path, bytes_of(big, sizeof big)), SNOW_OK);
    assert_int_equal(env_file_read(fixture->env, path, sizeof big - 1, &data, &size), SNOW_LIMIT);
    assert_int_equal(env_file_read(fixture->env, path, sizeof big, &data, &size), SNOW_OK);
    assert_int_equal(size, sizeof big);
    assert_memory_equal(data, big, sizeof big);
    free(data);
    assert_int_equal(env_file_read(fixture->env, fixture->dir, 100, &data, &size), SNOW_INVALID);
    assert_int_equal(env_file_replace(fixture->env, "/nowhere/file", bytes_of_string("x")),
                     SNOW_INVALID);
}

static void test_dir_lock(void **state)
{
    struct fixture *fixture = *state;
    struct env *other = env_linux_create();
    char path[128];

    snprintf(path, sizeof path, "%s/state", fixture->dir);
    assert_int_equal(env_dir_lock(fixture->env, path), SNOW_OK);
    assert_int_equal(env_dir_lock(other, path), SNOW_IN_USE);
    assert_int_equal(env_dir_lock(other, "/nowhere/state"), SNOW_INVALID);
    env_linux_destroy(other);
    rmdir(path);
}

#define MEMORY_TEST(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        MEMORY_TEST(test_anonymous_memory),
        MEMORY_TEST(test_file_memory_survives),
        MEMORY_TEST(test_bad_memory_is_refused),
        MEMORY_TEST(test_copy),
        MEMORY_TEST(test_files),
        MEMORY_TEST(test_dir_lock),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
