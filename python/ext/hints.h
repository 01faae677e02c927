/* The methods of Store that tell how long something is worth keeping. */
#ifndef HINTS_H
#define HINTS_H

#include "batch.h"

/* 0 to SNOW_PRIORITY_MAX; None: *to stays.  False with an exception. */
bool hints_priority(PyObject *value, uint32_t *to);

PyObject *store_touch(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names);
PyObject *store_touch_many(PyObject *self, PyObject *const *args, Py_ssize_t count,
                           PyObject *names);
PyObject *store_expire(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names);
PyObject *store_expire_many(PyObject *self, PyObject *const *args, Py_ssize_t count,
                            PyObject *names);

#endif
