#include "env/linux/descriptors.h"

#include <stdatomic.h>
#include <stdint.h>
#include <unistd.h>

/* It belongs to the process, as descriptors do. */
static _Atomic uint64_t ours[DESCRIPTORS_MAX / 64];

int descriptors_keep(int descriptor)
{
    if (descriptor >= 0 && descriptor < DESCRIPTORS_MAX)
        atomic_fetch_or(&ours[descriptor / 64], UINT64_C(1) << descriptor % 64);
    return descriptor;
}

void descriptors_close(int descriptor)
{
    if (descriptor >= 0 && descriptor < DESCRIPTORS_MAX)
        atomic_fetch_and(&ours[descriptor / 64], ~(UINT64_C(1) << descriptor % 64));
    close(descriptor);
}

void descriptors_close_all(void)
{
    for (int i = 0; i < DESCRIPTORS_MAX / 64; i++) {
        uint64_t bits = atomic_exchange(&ours[i], 0);

        for (; bits != 0; bits &= bits - 1)
            close(i * 64 + __builtin_ctzll(bits));
    }
}
