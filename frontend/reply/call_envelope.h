/*
 * A call as one JSON object, read byte by byte: {"name": "f", "arguments": {…}}.
 *
 * Members in any order. Also read: `parameters` for arguments, `tool_name` or `function` for the
 * name, `id` or `tool_call_id`, arguments that are null, absent or a string containing an object,
 * and {"type": "function", "function": {…}} around the whole. Other members are skipped.
 */
#ifndef SHOAL_FRONTEND_REPLY_CALL_ENVELOPE_H
#define SHOAL_FRONTEND_REPLY_CALL_ENVELOPE_H

#include "frontend/reply/call_writer.h"

struct call_envelope {
    uint8_t state;
    uint8_t member;  /* the member whose value is being read */
    bool is_wrapped; /* inside "function": {…} */
    bool has_arguments;
    bool known_only; /* the first member must be one of the above, since bare JSON is often not a
                        call */
    struct json_value_scanner scanner;
    struct text_buffer text; /* of a key, a name, an id, or arguments in a string */
};

/* The object's { has been read. `text` keeps its memory between uses; zero-initialized before the
 * first. */
void call_envelope_begin(struct call_envelope *envelope, bool known_only);
void call_envelope_fini(struct call_envelope *envelope);
enum call_step call_envelope_push(struct call_envelope *envelope, struct call_writer *writer,
                                  char byte, size_t *unread);

#endif
