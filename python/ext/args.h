/* Arguments of fast calls; knows nothing of modules, so that every extension here can use it. */
#ifndef ARGS_H
#define ARGS_H

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030b0000
#include <Python.h>

#include <snowskin/snowskin.h>
#include <stdbool.h>

/* What a fast method is declared as. */
#define FAST(function) (PyCFunction)(void (*)(void))(function), METH_FASTCALL | METH_KEYWORDS

#define ARGS_MAX 16

/* Names of a function's arguments, in order, then NULL; the first `required` must be there, those
 * from `keywords` on only by name. */
struct args_spec {
    const char *function;
    int required;
    int keywords;
    const char *names[ARGS_MAX + 1];
};

/* Sorts arguments of a fast call into values (borrowed; NULL: not given).  False with an
 * exception. */
bool args_take(const struct args_spec *spec, PyObject *const *args, Py_ssize_t count,
               PyObject *names, PyObject **values);

/* An argument that is neither left out nor None. */
bool args_is_given(PyObject *value);
/* Conversions; NULL or None leave *to as it is.  False with an exception that names it. */
bool args_uint32(PyObject *value, const char *name, uint32_t *to);
bool args_uint64(PyObject *value, const char *name, uint64_t *to);
bool args_flag(PyObject *value, uint32_t flag, uint32_t *to);
bool args_seconds(PyObject *value, const char *name, uint32_t *to_ms); /* above 0 */
bool args_text(PyObject *value, const char *name, const char **to);
bool args_choice(PyObject *value, const char *name, const char *const *choices, uint32_t *to);

/* The key of a str; below, of what is none of exactly that type. */
static inline bool args_str_key(PyObject *value, struct snow_key *to)
{
    Py_ssize_t size;

    to->at = PyUnicode_AsUTF8AndSize(value, &size);
    to->size = (size_t)size;
    return to->at != NULL;
}
bool args_other_key(PyObject *value, struct snow_key *to);

/* A key: str (as UTF-8) or bytes; lives as long as the object. */
static inline bool args_key(PyObject *value, struct snow_key *to)
{
    return PyUnicode_CheckExact(value) ? args_str_key(value, to) : args_other_key(value, to);
}

/* A tuple of the items of any sequence but text; it keeps them alive.  NULL with an exception. */
PyObject *args_items(PyObject *value, const char *name);

#endif
