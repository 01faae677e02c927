/* Store: groups. */
#ifndef GROUPS_H
#define GROUPS_H

#include "batch.h"

#include <snowskin/groups.h>

/* What puts say of groups: one Member, or of many a sequence of Member or None.  They live until
 * groups_forget.  False with an exception. */
bool groups_take(struct batch *batch, PyObject *value);
/* The member of an item; NULL: it is of no group. */
const struct snow_member *groups_member(const struct batch *batch, Py_ssize_t index);
void groups_forget(struct batch *batch);

/* An exists that is to tell groups as well.  False with an exception. */
bool groups_ask(struct batch *batch);
/* What it told of one: a dict, None, or the exception. */
PyObject *groups_told(struct batch *batch, Py_ssize_t index);

PyObject *store_group_stat(PyObject *self, PyObject *const *args, Py_ssize_t count,
                           PyObject *names);
PyObject *store_group_stat_many(PyObject *self, PyObject *const *args, Py_ssize_t count,
                                PyObject *names);
PyObject *store_group_get(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names);
PyObject *store_group_get_into(PyObject *self, PyObject *const *args, Py_ssize_t count,
                               PyObject *names);
PyObject *store_group_hold(PyObject *self, PyObject *const *args, Py_ssize_t count,
                           PyObject *names);
PyObject *store_group_hold_join(PyObject *self, PyObject *const *args, Py_ssize_t count,
                                PyObject *names);
PyObject *store_group_hold_leave(PyObject *self, PyObject *const *args, Py_ssize_t count,
                                 PyObject *names);
PyObject *store_group_remove(PyObject *self, PyObject *const *args, Py_ssize_t count,
                             PyObject *names);
PyObject *store_group_remove_many(PyObject *self, PyObject *const *args, Py_ssize_t count,
                                  PyObject *names);
PyObject *store_match_prefix(PyObject *self, PyObject *const *args, Py_ssize_t count,
                             PyObject *names);
PyObject *store_locate_prefix(PyObject *self, PyObject *const *args, Py_ssize_t count,
                              PyObject *names);

#endif
