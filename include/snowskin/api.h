/* What the headers share: visibility, and the library's version. */
#ifndef SNOWSKIN_API_H
#define SNOWSKIN_API_H

/* The only functions that the shared library exports. */
#if defined(__GNUC__)
#define SNOW_API __attribute__((visibility("default")))
#else
#define SNOW_API
#endif

/* Of this header; snow_version() tells the library's.  The build reads these lines. */
#define SNOW_VERSION_MAJOR 0
#define SNOW_VERSION_MINOR 1
#define SNOW_VERSION_PATCH 0

/* Counts up when programs have to be compiled again: the number in libsnowskin.so.N. */
#define SNOW_ABI 1

#endif
