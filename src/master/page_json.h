/* What the master's pages share: answers in JSON, and what they know of nodes. */
#ifndef MASTER_PAGE_JSON_H
#define MASTER_PAGE_JSON_H

#include "base/bytes.h"
#include "http/http.h"
#include "master/master.h"
#include "wire/messages.h"

#include <jansson.h>

#define PAGE_NOT_NOW "the master can not answer now"

/* Takes the value over; NULL: no memory. */
void page_json_reply(struct http_reply *reply, json_t *value);
void page_json_failure(struct http_reply *reply, uint32_t status, int code, const char *message);
/* Any bytes as a text that JSON can hold. */
json_t *page_json_bytes(struct bytes bytes);

/* All of them, until the next question; NULL: not now. */
const struct wire_nodes_rep *page_nodes(struct master *master);
/* The name that a node gave itself; one without has its address. */
struct bytes page_node_name(const struct wire_node_info *node);
bool page_node_is_served(const struct wire_node_info *node);

#endif
