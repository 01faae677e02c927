/* The methods of Store that ask whether objects are there. */
#ifndef EXISTS_H
#define EXISTS_H

#include "batch.h"

PyObject *store_exists(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names);
PyObject *store_exists_many(PyObject *self, PyObject *const *args, Py_ssize_t count,
                            PyObject *names);
PyObject *store_size(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names);
PyObject *store_size_many(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names);

#endif
