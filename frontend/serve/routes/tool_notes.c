/*
 * A list of names is cut at LOOSE_NAMES_BYTES, after a whole name.
 */
#include "frontend/serve/routes/tool_notes.h"

#include <stdio.h>
#include <string.h>

#include "frontend/base/shared_bytes.h"
#include "frontend/reply/tool_format.h"
#include "proto/log.h"

#define LOOSE_NAMES_BYTES 2048u /* of names of tools in a header and in the log */

static void note(struct http_exchange *exchange, const char *request_id, const char *event,
                 const char *header, const char *names)
{
    const struct log_field fields[] = {LOG_TEXT("request_id", request_id),
                                       LOG_TEXT("tools", names)};
    log_event(LOG_INFO, event, fields, sizeof fields / sizeof fields[0]);
    if (exchange)
        http_exchange_header(exchange, header, names, strlen(names));
}

void tool_notes_add(struct http_exchange *exchange, const char *request_id,
                    const struct generation_request *request, const struct model_assets *assets)
{
    const struct tool_format *format = assets->formats.tools;
    if (exchange && format && request->tools && request->tool_choice != TOOL_CHOICE_NONE)
        exchange->tool_format = tool_format_name(format);
    if (request->ignored_tools)
        note(exchange, request_id, "tools_ignored", "x-shoal-ignored-tools",
             request->ignored_tools);
    if (!request->loose_tools)
        return;
    char names[LOOSE_NAMES_BYTES];
    size_t length = shared_bytes_length(request->loose_tools);
    bool is_long = length >= sizeof names;
    snprintf(names, sizeof names, "%.*s", (int)length,
             (const char *)shared_bytes_data(request->loose_tools));
    if (is_long)
        strcpy(strrchr(names, ','), ", ...");
    note(exchange, request_id, "tools_held_loosely", "x-shoal-loose-tools", names);
}
