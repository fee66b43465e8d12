/*
 * Calls of tools other than plain functions: items of the Responses API on one side, calls of
 * functions in the prompt and the answer on the other.
 *
 *   item                  function in the prompt     its arguments
 *   function_call         name; namespace__name      as they are
 *   custom_tool_call      likewise                   {"input": text}
 *   local_shell_call      local_shell                the item's `action` without its type
 *   shell_call            shell                      likewise
 *   apply_patch_call      apply_patch                the item's `operation`
 */
#ifndef SHOAL_FRONTEND_API_RESPONSES_RESPONSE_CALLS_H
#define SHOAL_FRONTEND_API_RESPONSES_RESPONSE_CALLS_H

#include <stdbool.h>
#include <stddef.h>

#include "frontend/base/api_error.h"
#include "frontend/base/text_buffer.h"

struct cJSON;

enum response_call_kind {
    RESPONSE_CALL_FUNCTION = 0,
    RESPONSE_CALL_CUSTOM,
    RESPONSE_CALL_LOCAL_SHELL,
    RESPONSE_CALL_SHELL,
    RESPONSE_CALL_APPLY_PATCH
};

/* The built-in tools that the client runs: type and function's name are one. NULL: `type` is none
 * of them. */
struct response_client_tool {
    const char *type;
    enum response_call_kind kind;
    const char *description;
    const char *parameters; /* JSON schema */
};
const struct response_client_tool *response_client_tool_find(const char *type);

/* The name in prompts of a tool in a namespace ("" or NULL: none). */
void response_call_flat_name(const char *namespace, const char *name, struct text_buffer *out);

/*
 * How a call is shown, as a text: of a plain function its name; otherwise the name, a line break, a
 * letter for the kind, the namespace. Scripts (response_script.h) keep it.
 */
struct response_call_label {
    enum response_call_kind kind;
    const char *name;
    size_t name_bytes;
    const char *namespace; /* namespace_bytes 0: none */
    size_t namespace_bytes;
};
void response_call_label_write(enum response_call_kind kind, const char *namespace,
                               const char *name, struct text_buffer *out);
struct response_call_label response_call_label_read(const char *text, size_t bytes);

/* The type of the items of this kind. */
const char *response_call_type(enum response_call_kind kind);
/* `,"action":{…}` of a built-in tool's call, from the arguments; of other kinds nothing. An action
 * of arguments that were cut is empty. */
void response_call_action_write(enum response_call_kind kind, const struct text_buffer *arguments,
                                struct text_buffer *out);

/* A client's item: true if `type` is a call, or the output of one. */
bool response_call_is(const char *type);
bool response_call_is_output(const char *type);
/* Checks the members that the functions below read, except `output`. */
enum result response_call_check(const struct cJSON *item, const char *type, const char *place,
                                struct api_error *error) RESULT_CHECKED;
/* The id by which a call and its output find each other. */
const char *response_call_id(const struct cJSON *item);
/* The call's function and its arguments. */
void response_call_read(const struct cJSON *item, const char *type, struct text_buffer *name,
                        struct text_buffer *arguments);
/* True if `output` is a string or a list of content parts. False: response_call_output_write()
 * writes what the prompt has of it. */
bool response_call_output_is_content(const char *type);
void response_call_output_write(const struct cJSON *item, struct text_buffer *out);
/* Writes the item's members, each after a comma, as they are kept. */
void response_call_keep(const struct cJSON *item, const char *type, struct text_buffer *out);

#endif
