#include "ext.h"

#include <stdio.h>
#include <string.h>

static const struct row {
    enum snow_status status;
    const char *name;
    const char *text;
} rows[ERROR_COUNT] = {
#define STATUS(name, code, verdict, text) {SNOW_##name, #name, text},
#include <snowskin/status.def>
#undef STATUS
};

/* GROUP_BROKEN: GroupBrokenError. */
static void class_name(const char *name, char *to, size_t size)
{
    bool upper = true;
    size_t at = 0;

    for (; *name != 0 && at + 6 < size; name++) {
        if (*name == '_') {
            upper = true;
            continue;
        }
        to[at++] = upper ? *name : (char)(*name + ('a' - 'A'));
        upper = false;
    }
    snprintf(to + at, size - at, "Error");
}

static PyObject *make_class(PyObject *module, const char *name, const char *text, PyObject *base)
{
    char full[96];
    PyObject *made;

    snprintf(full, sizeof(full), "snowskin.%s", name);
    made = PyErr_NewExceptionWithDoc(full, text, base, NULL);
    if (made != NULL && PyModule_AddObjectRef(module, name, made) < 0)
        Py_CLEAR(made);
    return made;
}

static int set_int(PyObject *object, const char *name, long value)
{
    PyObject *number = PyLong_FromLong(value);
    int failed = number == NULL ? -1 : PyObject_SetAttrString(object, name, number);

    Py_XDECREF(number);
    return failed;
}

static int set_text(PyObject *object, const char *name, const char *value)
{
    PyObject *text = PyUnicode_FromString(value);
    int failed = text == NULL ? -1 : PyObject_SetAttrString(object, name, text);

    Py_XDECREF(text);
    return failed;
}

/* TimeoutError and MemoryError of Python are what people catch. */
static PyObject *bases_of(enum snow_status status, PyObject *verdict)
{
    PyObject *second = status == SNOW_TIMEOUT     ? PyExc_TimeoutError
                       : status == SNOW_NO_MEMORY ? PyExc_MemoryError
                       : status == SNOW_INVALID   ? PyExc_ValueError
                                                  : NULL;

    return second == NULL ? PyTuple_Pack(1, verdict) : PyTuple_Pack(2, verdict, second);
}

static int add_class(PyObject *module, struct state *state, int index)
{
    const struct row *row = &rows[index];
    enum snow_verdict verdict = snow_status_verdict(row->status);
    PyObject *bases;
    char name[64];

    if (verdict == SNOW_DONE)
        return 0;
    class_name(row->name, name, sizeof(name));
    bases = bases_of(row->status, state->verdicts[verdict]);
    if (bases == NULL)
        return -1;
    state->errors[index] = make_class(module, name, row->text, bases);
    Py_DECREF(bases);
    if (state->errors[index] == NULL)
        return -1;
    return set_int(state->errors[index], "code", row->status) < 0
               ? -1
               : set_text(state->errors[index], "name", row->name);
}

int errors_init(PyObject *module, struct state *state)
{
    state->error = make_class(module, "Error", "What went wrong in the store; see code and name.",
                              PyExc_Exception);
    if (state->error == NULL || set_int(state->error, "code", 0) < 0 ||
        set_text(state->error, "name", "") < 0)
        return -1;
    state->verdicts[SNOW_RETRY] =
        make_class(module, "RetryError", "The same call may succeed soon.", state->error);
    state->verdicts[SNOW_REDIRECT] =
        make_class(module, "RedirectError", "Another master has to be asked.", state->error);
    state->verdicts[SNOW_FINAL] =
        make_class(module, "FinalError", "Repeating the call changes nothing.", state->error);
    for (int i = SNOW_RETRY; i <= SNOW_FINAL; i++) {
        if (state->verdicts[i] == NULL)
            return -1;
    }
    for (int i = 0; i < ERROR_COUNT; i++) {
        if (add_class(module, state, i) < 0)
            return -1;
    }
    return 0;
}

PyObject *error_make(struct state *state, enum snow_status status, const char *reason,
                     PyObject *about)
{
    PyObject *made = state->error;
    PyObject *text;
    PyObject *error;

    for (int i = 0; i < ERROR_COUNT; i++) {
        if (rows[i].status == status && state->errors[i] != NULL)
            made = state->errors[i];
    }
    if (reason == NULL || reason[0] == 0)
        reason = snow_status_text(status);
    text = about == NULL ? PyUnicode_FromString(reason)
                         : PyUnicode_FromFormat("%R: %s", about, reason);
    error = text == NULL ? NULL : PyObject_CallFunctionObjArgs(made, text, NULL);
    Py_XDECREF(text);
    return error;
}

PyObject *error_raise(struct state *state, enum snow_status status, const char *reason,
                      PyObject *about)
{
    PyObject *error = error_make(state, status, reason, about);

    if (error != NULL)
        PyErr_SetObject((PyObject *)Py_TYPE(error), error);
    Py_XDECREF(error);
    return NULL;
}
