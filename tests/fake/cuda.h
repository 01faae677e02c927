/* A driver for tests (libcuda.so.1): memory of a device that the CPU can not touch.
 *
 * Idea.     Each allocation is mapped twice: the caller has it without any right, so that a touch
 *           is a signal; the driver has another view.  Copies happen when their stream is waited
 *           for: who does not wait has nothing. */
#ifndef TESTS_FAKE_CUDA_H
#define TESTS_FAKE_CUDA_H

#include <stddef.h>
#include <stdint.h>

/* Memory of a device; managed 1: of host and device, which both may touch. */
void *fake_alloc(size_t size, int managed);
void fake_free(void *at);
/* The driver's view of it. */
uint8_t *fake_view(const void *at);
/* The next count copies fail. */
void fake_refuse(int count);
/* How many there were. */
int fake_copies(void);
/* Bytes of pinned memory that is allocated now. */
size_t fake_pinned(void);

#endif
