/* The methods of Store that move bytes, and kinds of calls.  store.c has what they say of
 * themselves. */
#ifndef MOVE_H
#define MOVE_H

#include "batch.h"

/* Names of what a put takes by name only, in order of enum put_arg. */
#define PUT_OPTIONS \
    "replace", "replicas", "pin", "pin_timeout", "depth", "segment", "wait", "wait_writer", \
        "timeout", "priority", "expires_after", "done", "member"

/* By enum snow_pin. */
extern const char *const pin_names[];

PyObject *store_put(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names);
PyObject *store_put_many(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names);
PyObject *store_get(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names);
PyObject *store_get_many(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names);
PyObject *store_get_into(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names);
PyObject *store_get_into_many(PyObject *self, PyObject *const *args, Py_ssize_t count,
                              PyObject *names);
PyObject *store_view(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names);
PyObject *store_view_many(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names);

extern const struct operation operation_put;
extern const struct operation operation_get;
extern const struct operation operation_get_into;

/* store.c */
extern const struct operation operation_exists;
extern const struct operation operation_remove;

#endif
