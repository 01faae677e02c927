/* The messages of the tables (records.def, master.def, node.def) as C: structs, encode, decode,
 * print, random values.
 *
 * For every RECORD(name): struct wire_<name>, wire_<name>_encode, _decode, _print, _random.
 * For every RPC(name, number, ...): WIRE_<name> = number (as in WIRE_put_start), request struct
 * wire_<name>_req, reply struct wire_<name>_rep.
 * For every ONEWAY(name, number, ...): WIRE_<name>, struct wire_<name>_msg.
 * A LIST(record, items) is the members `struct wire_<record> *items; uint32_t items_count;`.
 * Decoded bytes are views into the body; decoded lists lie in the arena: both live as long as the
 * caller keeps them. */
#ifndef WIRE_MESSAGES_H
#define WIRE_MESSAGES_H

#include "wire/terms.h"
