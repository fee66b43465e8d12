/*
 * Steps as bytes. They also come from files, so each length is checked before it is used.
 */
#include "frontend/api/responses/response_script.h"

#include <stdint.h>

#include "proto/must.h"

#define HEAD_BYTES 9u

bool response_step_is_last(enum response_step_kind kind)
{
    return kind >= STEP_COMPLETED;
}

static void length_put(size_t length, unsigned char *bytes)
{
    for (unsigned i = 0; i < 4; i++)
        bytes[i] = (unsigned char)(length >> (8 * i));
}

static size_t length_get(const unsigned char *bytes)
{
    return (size_t)bytes[0] | (size_t)bytes[1] << 8 | (size_t)bytes[2] << 16 |
           (size_t)bytes[3] << 24;
}

void response_script_append(struct text_buffer *script, const struct response_step *step)
{
    unsigned char head[HEAD_BYTES] = {(unsigned char)step->kind};
    must(step->text_bytes <= UINT32_MAX && step->more_bytes <= UINT32_MAX);
    length_put(step->text_bytes, head + 1);
    length_put(step->more_bytes, head + 5);
    text_buffer_append(script, (const char *)head, HEAD_BYTES);
    if (step->text_bytes > 0)
        text_buffer_append(script, step->text, step->text_bytes);
    if (step->more_bytes > 0)
        text_buffer_append(script, step->more, step->more_bytes);
}

bool response_script_read(const char *script, size_t script_bytes, size_t *offset,
                          struct response_step *step)
{
    if (*offset > script_bytes || script_bytes - *offset < HEAD_BYTES)
        return false;
    const unsigned char *head = (const unsigned char *)script + *offset;
    size_t left = script_bytes - *offset - HEAD_BYTES;
    size_t text_bytes = length_get(head + 1), more_bytes = length_get(head + 5);
    if (head[0] < STEP_QUEUED || head[0] > STEP_CANCELLED || text_bytes > left ||
        more_bytes > left - text_bytes)
        return false;
    const char *text = script + *offset + HEAD_BYTES;
    *step = (struct response_step){.kind = (enum response_step_kind)head[0],
                                   .text = text_bytes ? text : NULL,
                                   .text_bytes = text_bytes,
                                   .more = more_bytes ? text + text_bytes : NULL,
                                   .more_bytes = more_bytes};
    *offset += HEAD_BYTES + text_bytes + more_bytes;
    return true;
}
