/* Finding an option by its name, and setting it.  Private to conf: every source ends here. */
#ifndef CONF_SLOTS_H
#define CONF_SLOTS_H

#include "conf/conf.h"

/* Who gives a value: for errors, "--lease-min", "SNOWSKIN_LEASE_MIN", "snow.yaml:3". */
struct conf_source {
    enum conf_origin origin;
    const char *place; /* zero-terminated */
};

/* The slot of a name with underscores, in lower case; module NULL: any, and the name may have its
 * module before it.  INVALID with the error told: unknown (the nearest name is suggested), or
 * shared by several modules in use.  *slot NULL with OK: shared by modules that are not in use.
 * used_only: modules that are not in use do not count. */
MUST_CHECK enum snow_status conf_slot_find(struct conf *conf, const char *module, struct bytes name,
                                           bool used_only, const struct conf_source *source,
                                           struct conf_slot **slot);

/* Parses the value and keeps it, unless a stronger source has spoken. */
MUST_CHECK enum snow_status conf_slot_set(struct conf *conf, struct conf_slot *slot,
                                          struct bytes value, const struct conf_source *source);

/* True when some table has this module's name. */
bool conf_module_exists(const struct conf *conf, struct bytes module);

#define CONF_NAME_SIZE 64 /* bytes of a name with its module; longer ones are unknown */

#endif
