/*
 * One table of kinds and one of item types. Items are kept with the members named here; what the
 * API adds later is dropped, as in other items.
 */
#include "frontend/api/responses/response_calls.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COMMANDS(name)                                                                             \
    "{\"type\":\"object\",\"properties\":{\"" name                                                 \
    "\":{\"type\":\"array\",\"items\":{\"type\":\"string\"}},"

static const struct response_client_tool client_tools[] = {
    {"local_shell", RESPONSE_CALL_LOCAL_SHELL,
     "Runs a program on the user's machine. `command` is the program and its arguments.",
     COMMANDS("command") "\"working_directory\":{\"type\":\"string\"},"
                         "\"timeout_ms\":{\"type\":\"integer\"}},"
                         "\"required\":[\"command\"],\"additionalProperties\":false}"},
    {"shell", RESPONSE_CALL_SHELL,
     "Runs shell commands on the user's machine and returns what they print.",
     COMMANDS("commands") "\"timeout_ms\":{\"type\":\"integer\"},"
                          "\"max_output_length\":{\"type\":\"integer\"}},"
                          "\"required\":[\"commands\"],\"additionalProperties\":false}"},
    {"apply_patch", RESPONSE_CALL_APPLY_PATCH,
     "Creates, updates or deletes a file. `diff` has the lines of the new file or the hunks to "
     "change, each line with '+', '-' or a blank before it, hunks after lines that begin with @@.",
     "{\"type\":\"object\",\"properties\":{\"type\":{\"type\":\"string\",\"enum\":["
     "\"create_file\",\"update_file\",\"delete_file\"]},\"path\":{\"type\":\"string\"},"
     "\"diff\":{\"type\":\"string\"}},\"required\":[\"type\",\"path\"],"
     "\"additionalProperties\":false}"},
};

static const struct {
    const char *type;
    char letter;
    const char *object; /* the member with the arguments */
} kinds[] = {
    [RESPONSE_CALL_FUNCTION] = {"function_call", 'f', NULL},
    [RESPONSE_CALL_CUSTOM] = {"custom_tool_call", 'c', NULL},
    [RESPONSE_CALL_LOCAL_SHELL] = {"local_shell_call", 'l', "action"},
    [RESPONSE_CALL_SHELL] = {"shell_call", 's', "action"},
    [RESPONSE_CALL_APPLY_PATCH] = {"apply_patch_call", 'p', "operation"},
};

enum { KINDS = sizeof kinds / sizeof kinds[0], MEMBERS = 5 };

/* `required`: strings without which the item is refused. */
static const struct item_type {
    const char *type;
    bool is_output;
    const char *required[MEMBERS];
    const char *kept[MEMBERS];
} item_types[] = {
    {"function_call", false, {"name", "arguments"}, {"call_id", "name", "namespace", "arguments"}},
    {"custom_tool_call", false, {"name", "input"}, {"call_id", "name", "namespace", "input"}},
    {"local_shell_call", false, {NULL}, {"call_id", "action"}},
    {"shell_call", false, {NULL}, {"call_id", "action"}},
    {"apply_patch_call", false, {NULL}, {"call_id", "operation"}},
    {"function_call_output", true, {NULL}, {NULL}},
    {"custom_tool_call_output", true, {NULL}, {NULL}},
    {"local_shell_call_output", true, {NULL}, {"call_id", "output"}},
    {"shell_call_output", true, {NULL}, {"call_id", "output", "max_output_length"}},
    {"apply_patch_call_output", true, {NULL}, {"call_id", "output"}},
};

static const cJSON *member(const cJSON *object, const char *name)
{
    return cJSON_GetObjectItemCaseSensitive(object, name);
}

static const char *text_of(const cJSON *object, const char *name)
{
    return cJSON_GetStringValue(member(object, name));
}

static void json_write(const cJSON *value, struct text_buffer *out)
{
    char *text = cJSON_PrintUnformatted(value);
    out->failed = out->failed || !text;
    text_buffer_append_text(out, text ? text : "");
    free(text);
}

const struct response_client_tool *response_client_tool_find(const char *type)
{
    for (size_t i = 0; i < sizeof client_tools / sizeof client_tools[0]; i++) {
        if (strcmp(client_tools[i].type, type) == 0)
            return &client_tools[i];
    }
    return NULL;
}

void response_call_flat_name(const char *namespace, const char *name, struct text_buffer *out)
{
    size_t length = namespace ? strlen(namespace) : 0;
    text_buffer_append(out, namespace ? namespace : "", length);
    if (length > 0 && (length < 2 || strcmp(namespace + length - 2, "__") != 0))
        text_buffer_append_text(out, "__");
    text_buffer_append_text(out, name);
}

/* --- labels ---------------------------------------------------------------------------------- */

void response_call_label_write(enum response_call_kind kind, const char *namespace,
                               const char *name, struct text_buffer *out)
{
    bool has_namespace = namespace && namespace[0];
    text_buffer_append_text(out, name);
    if (kind == RESPONSE_CALL_FUNCTION && !has_namespace)
        return;
    text_buffer_append_format(out, "\n%c", kinds[kind].letter);
    text_buffer_append_text(out, has_namespace ? namespace : "");
}

struct response_call_label response_call_label_read(const char *text, size_t bytes)
{
    const char *line = bytes > 0 ? memchr(text, '\n', bytes) : NULL;
    struct response_call_label label = {.name = text, .name_bytes = bytes};
    if (!line || line + 1 == text + bytes)
        return label;
    label.name_bytes = (size_t)(line - text);
    label.namespace = line + 2;
    label.namespace_bytes = (size_t)(text + bytes - label.namespace);
    for (size_t i = 0; i < KINDS; i++) {
        if (kinds[i].letter == line[1])
            label.kind = (enum response_call_kind)i;
    }
    return label;
}

const char *response_call_type(enum response_call_kind kind)
{
    return kinds[kind].type;
}

void response_call_action_write(enum response_call_kind kind, const struct text_buffer *arguments,
                                struct text_buffer *out)
{
    const char *name = kinds[kind].object;
    if (!name)
        return;
    cJSON *action =
        arguments->length > 0 ? cJSON_ParseWithLength(arguments->bytes, arguments->length) : NULL;
    if (!cJSON_IsObject(action)) {
        cJSON_Delete(action);
        action = cJSON_CreateObject();
    }
    bool good = action != NULL;
    if (kind == RESPONSE_CALL_LOCAL_SHELL) {
        good = good && cJSON_AddStringToObject(action, "type", "exec") &&
               (member(action, "command") || cJSON_AddArrayToObject(action, "command")) &&
               (member(action, "env") || cJSON_AddObjectToObject(action, "env"));
    } else if (kind == RESPONSE_CALL_SHELL) {
        good = good && (member(action, "commands") || cJSON_AddArrayToObject(action, "commands"));
    } else if (!member(action, "diff")) {
        const char *type = text_of(action, "type");
        good = good && ((type && strcmp(type, "delete_file") == 0) ||
                        cJSON_AddStringToObject(action, "diff", ""));
    }
    text_buffer_append_format(out, ",\"%s\":", name);
    if (good)
        json_write(action, out);
    else
        out->failed = true;
    cJSON_Delete(action);
}

/* --- a client's items ------------------------------------------------------------------------ */

static const struct item_type *type_find(const char *type)
{
    for (size_t i = 0; i < sizeof item_types / sizeof item_types[0]; i++) {
        if (strcmp(item_types[i].type, type) == 0)
            return &item_types[i];
    }
    return NULL;
}

bool response_call_is(const char *type)
{
    const struct item_type *found = type_find(type);
    return found && !found->is_output;
}

bool response_call_is_output(const char *type)
{
    const struct item_type *found = type_find(type);
    return found && found->is_output;
}

static enum response_call_kind kind_of(const char *type)
{
    size_t i = KINDS - 1;
    while (i > 0 && strcmp(kinds[i].type, type) != 0)
        i--;
    return (enum response_call_kind)i;
}

const char *response_call_id(const cJSON *item)
{
    const char *id = text_of(item, "call_id");
    return id ? id : text_of(item, "id");
}

static enum result member_refuse(const char *place, const char *name, const char *what,
                                 struct api_error *error)
{
    char where[API_PARAM_BYTES];
    snprintf(where, sizeof where, "%s.%s", place, name);
    return api_error_invalid(error, where, "this item needs %s '%s'", what, name);
}

enum result response_call_check(const cJSON *item, const char *type, const char *place,
                                struct api_error *error)
{
    const struct item_type *shape = type_find(type);
    const cJSON *namespace = member(item, "namespace");
    bool by_id = strcmp(type, "local_shell_call") == 0 ||
                 strcmp(type, "local_shell_call_output") == 0; /* whose older form has no call_id */
    const char *id = by_id ? response_call_id(item) : text_of(item, "call_id");
    if (!id || !id[0])
        return member_refuse(place, "call_id", "a string", error);
    for (size_t i = 0; i < MEMBERS && shape->required[i]; i++) {
        const char *name = shape->required[i], *text = text_of(item, name);
        if (!text || (!text[0] && strcmp(name, "input") != 0))
            return member_refuse(place, name, "a string", error);
    }
    if (namespace && !cJSON_IsNull(namespace) && !cJSON_IsString(namespace))
        return member_refuse(place, "namespace", "a string", error);
    const char *object = shape->is_output ? NULL : kinds[kind_of(type)].object;
    if (object && !cJSON_IsObject(member(item, object)))
        return member_refuse(place, object, "an object", error);
    if (strcmp(type, "local_shell_call_output") == 0 && !text_of(item, "output"))
        return member_refuse(place, "output", "a string", error);
    if (strcmp(type, "shell_call_output") == 0 && !cJSON_IsArray(member(item, "output")))
        return member_refuse(place, "output", "a list", error);
    return RESULT_OK;
}

void response_call_read(const cJSON *item, const char *type, struct text_buffer *name,
                        struct text_buffer *arguments)
{
    enum response_call_kind kind = kind_of(type);
    if (!kinds[kind].object) {
        const char *input = text_of(item, "input");
        response_call_flat_name(text_of(item, "namespace"), text_of(item, "name"), name);
        if (kind == RESPONSE_CALL_FUNCTION) {
            text_buffer_append_text(arguments, text_of(item, "arguments"));
            return;
        }
        text_buffer_append_text(arguments, "{\"input\": ");
        text_buffer_append_json_string(arguments, input, strlen(input));
        text_buffer_append_text(arguments, "}");
        return;
    }
    const cJSON *from = member(item, kinds[kind].object), *part;
    const char *comma = "";
    text_buffer_append(name, type, strlen(type) - strlen("_call"));
    text_buffer_append_text(arguments, "{");
    cJSON_ArrayForEach(part, from)
    {
        bool is_own = kind != RESPONSE_CALL_APPLY_PATCH && strcmp(part->string, "type") == 0;
        bool is_empty = (cJSON_IsObject(part) && !part->child) || cJSON_IsNull(part);
        if (is_own || is_empty)
            continue;
        text_buffer_append_text(arguments, comma);
        text_buffer_append_json_string(arguments, part->string, strlen(part->string));
        text_buffer_append_text(arguments, ": ");
        json_write(part, arguments);
        comma = ", ";
    }
    text_buffer_append_text(arguments, "}");
}

bool response_call_output_is_content(const char *type)
{
    return strcmp(type, "function_call_output") == 0 ||
           strcmp(type, "custom_tool_call_output") == 0;
}

void response_call_output_write(const cJSON *item, struct text_buffer *out)
{
    const cJSON *output = member(item, "output");
    const char *status = text_of(item, "status");
    if (status && strcmp(status, "failed") == 0)
        text_buffer_append_text(out, "failed\n");
    if (cJSON_IsString(output))
        text_buffer_append_text(out, output->valuestring);
    else if (output && !cJSON_IsNull(output))
        json_write(output, out);
    else if (!status || strcmp(status, "failed") != 0)
        text_buffer_append_text(out, "completed");
}

void response_call_keep(const cJSON *item, const char *type, struct text_buffer *out)
{
    const struct item_type *shape = type_find(type);
    const char *status = text_of(item, "status");
    for (size_t i = 0; i < MEMBERS && shape->kept[i]; i++) {
        const cJSON *part = member(item, shape->kept[i]);
        if (!part && strcmp(shape->kept[i], "call_id") == 0)
            part = member(item, "id");
        if (!part || cJSON_IsNull(part))
            continue;
        text_buffer_append_format(out, ",\"%s\":", shape->kept[i]);
        json_write(part, out);
    }
    if (status && (strcmp(status, "incomplete") == 0 || strcmp(status, "failed") == 0))
        text_buffer_append_format(out, ",\"status\":\"%s\"", status);
    else
        text_buffer_append_text(out, ",\"status\":\"completed\"");
}
