#include "base/assert.h"

#include <stdio.h>
#include <stdlib.h>

void assert_failed(const char *file, int line, const char *what)
{
    fprintf(stderr, "snowskin: broken invariant at %s:%d: %s\n", file, line, what);
    fflush(stderr);
    abort();
}
