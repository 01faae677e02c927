/* Status codes and their verdicts, one row each in status.def. */
#ifndef SNOWSKIN_STATUS_H
#define SNOWSKIN_STATUS_H

#include "snowskin/api.h"

#ifdef __cplusplus
extern "C" {
#endif

enum snow_status {
#define STATUS(name, code, verdict, text) SNOW_##name = (code),
#include "snowskin/status.def"
#undef STATUS
};

/* What a caller should do with a status.  Retry loops read this and never list codes. */
enum snow_verdict { SNOW_DONE, SNOW_RETRY, SNOW_REDIRECT, SNOW_FINAL };

/* The verdict of a status; SNOW_FINAL for a number that is no status.  Any thread. */
SNOW_API enum snow_verdict snow_status_verdict(enum snow_status status);

/* Its name ("NOT_FOUND") and one line of text; "?" for a number that is no status.  Static. */
SNOW_API const char *snow_status_name(enum snow_status status);
SNOW_API const char *snow_status_text(enum snow_status status);

#ifdef __cplusplus
}
#endif
#endif
