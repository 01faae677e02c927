/* Addresses as text: "host:port", "1.2.3.4:port", "[v6]:port", "unix:@name", "unix:/path". */
#ifndef ENV_ADDRESS_H
#define ENV_ADDRESS_H

#include "base/status.h"

#include <stddef.h>

/* Splits one; host without brackets.  port_0: port 0 is allowed.  INVALID: it is no address. */
MUST_CHECK enum snow_status env_address_split(const char *text, bool port_0, char *host,
                                              size_t host_size, uint16_t *port);

#define ENV_LOCAL_NAME_MAX 100 /* bytes of what follows "unix:" */

/* What follows "unix:" when the address names a process of this host, else NULL. */
const char *env_address_local(const char *text);

/* OK, or INVALID: too long, no "@name" nor "/path".  any: "@" alone is allowed. */
MUST_CHECK enum snow_status env_address_local_check(const char *name, bool any);

#endif
