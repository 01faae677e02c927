/* Descriptors that a child of a fork does not keep.
 *
 * Problem.  A child of a fork shares the parent's sockets: a peer would not see the parent's end
 *           while the child lives, and a lock on a folder would outlive its holder.  The handler
 *           that runs in the child may call little more than close, and no list can be walked: the
 *           thread that was changing it is not there.
 * Idea.     A bit for each number.  It is set when a descriptor is ours, and cleared before that is
 *           closed; the child closes what is set.
 * Invariants.
 *   D1  A set bit is an open descriptor of ours.
 *   Numbers from DESCRIPTORS_MAX on are not kept; nor is one that another thread was opening at the
 *   very moment of the fork.  Both stay open in a child that does not exec: all have CLOEXEC.
 * Threads.  Any.   Private to env/linux/. */
#ifndef ENV_LINUX_DESCRIPTORS_H
#define ENV_LINUX_DESCRIPTORS_H

#define DESCRIPTORS_MAX 65536

/* From now on it is ours; answers it.  A negative one is passed through. */
int descriptors_keep(int descriptor);
/* Closes one, ours or not. */
void descriptors_close(int descriptor);

/* In the child of a fork: closes all that are ours.  Safe in a handler. */
void descriptors_close_all(void);

#endif
