/* Memory of GPUs, by the driver that the program itself has loaded (libcuda.so.1).
 *
 * Problem.  An engine's pages lie in memory that the CPU can not touch: a memcpy of it is a signal.
 * Idea.     Who has such memory has loaded its driver.  So nothing is loaded here and nothing is
 *           linked: where the process has the driver, it is asked what a pointer is, and copies.
 * Invariants.
 *   D1  Memory that the driver does not know, or moves by itself (managed), is the host's.
 *   D2  A copy that returned true has ended; one that the driver refuses is false, never a signal.
 * Threads.  Any. */
#ifndef ENV_LINUX_DEVICE_H
#define ENV_LINUX_DEVICE_H

#include <stdbool.h>
#include <stddef.h>

struct devices;

/* NULL: no memory. */
struct devices *device_open(void);
/* Nothing of it is under way. */
void device_close(struct devices *devices);

/* Looks whether the driver was loaded meanwhile; costs little while nothing is loaded. */
void device_look(struct devices *devices);
/* As of the last look. */
bool device_has(struct devices *devices, const void *at);
/* Memory that will be asked for again: what it is, is found out now.  It stays what it is until
 * it is forgotten; a range that can not be kept is asked about each time. */
void device_learn(struct devices *devices, const void *at, size_t size);
void device_forget(struct devices *devices, const void *at);

/* Between the host's memory and a device's. */
bool device_copy(struct devices *devices, void *to, const void *from, size_t size, bool to_device);

/* Memory of the host that the driver copies fast; else any.  NULL: none. */
void *device_stage(struct devices *devices, size_t size);
void device_unstage(struct devices *devices, void *at);

#endif
