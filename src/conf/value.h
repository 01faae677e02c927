/* Values of options as text.  Private to conf. */
#ifndef CONF_VALUE_H
#define CONF_VALUE_H

#include "conf/conf.h"

/* Text to the number of an option that is no TEXT.
 * INVALID: it does not read as the type, or is out of range. */
MUST_CHECK enum snow_status conf_number_parse(const struct conf_option *option, struct bytes text,
                                              uint64_t *number);

/* "2s", "4KiB", "25%", "true", "lru": what conf_number_parse reads. */
void conf_number_print(const struct conf_option *option, uint64_t number, struct text *text);

/* "1ms to 1h", "lru, fifo", "at most 256 bytes", "true or false": what is allowed. */
void conf_range_print(const struct conf_option *option, struct text *text);

/* "DURATION", "BYTES", ... */
const char *conf_type_name(enum conf_type type);

uint64_t conf_number_get(const struct conf_option *option, const void *options);
void conf_number_set(const struct conf_option *option, void *options, uint64_t number);
const char *conf_text_get(const struct conf_option *option, const void *options);
void conf_text_set(const struct conf_option *option, void *options, const char *value);

#endif
