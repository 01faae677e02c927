/* Assertions.  ASSERT is on in every build: a broken invariant of our own is a crash with a report.
 * CHECK is for costly ones: debug and simulation builds.  Nothing from a socket, file or caller
 * may trip either. */
#ifndef BASE_ASSERT_H
#define BASE_ASSERT_H

#include <stdbool.h>

/* Prints the report and aborts. */
_Noreturn void assert_failed(const char *file, int line, const char *what);

#define ASSERT(condition) \
    do { \
        if (__builtin_expect(!(condition), 0)) \
            assert_failed(__FILE__, __LINE__, #condition); \
    } while (0)

#ifdef SNOW_DEBUG
#define CHECK(condition) ASSERT(condition)
#define CHECK_ENABLED true
#else
#define CHECK(condition) ((void)0)
#define CHECK_ENABLED false
#endif

#endif
