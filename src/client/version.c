/* The version of the library, from the numbers that its header has. */
#include "snowskin/snowskin.h"

#define TEXT_OF(number) #number
#define TEXT(number) TEXT_OF(number)

const char *snow_version(void)
{
    return TEXT(SNOW_VERSION_MAJOR) "." TEXT(SNOW_VERSION_MINOR) "." TEXT(SNOW_VERSION_PATCH);
}
