/*
 * One row for each dated type. The names of inputs and commands are those that clients of the API
 * implement; the descriptions are this server's.
 */
#include "frontend/api/messages/messages_builtin_tools.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <string.h>

#include "frontend/api/generation/request_fields.h"

#define STRING         "{\"type\":\"string\"}"
#define WHOLE          "{\"type\":\"integer\",\"minimum\":0}"
#define PAIR           "{\"type\":\"array\",\"items\":{\"type\":\"integer\"},\"minItems\":2,\"maxItems\":2}"
#define QUAD           "{\"type\":\"array\",\"items\":{\"type\":\"integer\"},\"minItems\":4,\"maxItems\":4}"
#define CHOICES(words) "{\"type\":\"string\",\"enum\":[" words "]}"
#define OBJECT(members, required)                                                                  \
    "{\"type\":\"object\",\"properties\":{" members "},\"required\":[" required "]}"

#define BASH_SCHEMA OBJECT("\"command\":" STRING ",\"restart\":{\"type\":\"boolean\"}", "")
#define BASH_WORDS                                                                                 \
    "Runs a command in a persistent bash shell and returns its output. With restart true the "     \
    "shell is started again instead."

#define FILE_MEMBERS                                                                               \
    ",\"path\":" STRING ",\"file_text\":" STRING ",\"old_str\":" STRING ",\"new_str\":" STRING     \
    ",\"insert_line\":" WHOLE ",\"insert_text\":" STRING ",\"view_range\":" PAIR
#define EDITOR_SCHEMA(commands)                                                                    \
    OBJECT("\"command\":" CHOICES(commands) FILE_MEMBERS, "\"command\",\"path\"")
#define EDIT_COMMANDS "\"view\",\"create\",\"str_replace\",\"insert\""
#define EDITOR_WORDS                                                                               \
    "Views and edits files by absolute path. view: shows a file, or lists a directory; "           \
    "view_range limits it to lines [first, last], -1 for the end. create: writes file_text. "      \
    "str_replace: replaces old_str, which must occur exactly once, by new_str. insert: puts "      \
    "insert_text after line insert_line, 0 for the beginning."

#define MEMORY_SCHEMA                                                                              \
    OBJECT("\"command\":" CHOICES(EDIT_COMMANDS ",\"delete\",\"rename\"") FILE_MEMBERS             \
           ",\"old_path\":" STRING ",\"new_path\":" STRING,                                        \
           "\"command\"")
#define MEMORY_WORDS                                                                               \
    "Keeps notes in files below /memories that last beyond this conversation. Look there "         \
    "before a task. Commands as of a text editor (view, create, str_replace, insert), delete "     \
    "of a path, and rename of old_path to new_path."

#define OLD_ACTIONS                                                                                \
    "\"key\",\"type\",\"mouse_move\",\"left_click\",\"left_click_drag\",\"right_click\","          \
    "\"middle_click\",\"double_click\",\"screenshot\",\"cursor_position\""
#define NEW_ACTIONS                                                                                \
    OLD_ACTIONS ",\"left_mouse_down\",\"left_mouse_up\",\"scroll\",\"hold_key\",\"wait\","         \
                "\"triple_click\""
#define COMPUTER_SCHEMA(actions)                                                                   \
    OBJECT("\"action\":" CHOICES(                                                                  \
               actions) ",\"coordinate\":" PAIR ",\"start_coordinate\":" PAIR ",\"text\":" STRING  \
                        ",\"scroll_direction\":" CHOICES(                                          \
                            "\"up\",\"down\",\"left\",\"right\"") ",\"scroll_amount\":" WHOLE      \
                                                                  ",\"duration\":{\"type\":"       \
                                                                  "\"number\",\"minimum\":0},"     \
                                                                  "\"region\":" QUAD,              \
           "\"action\"")
#define COMPUTER_WORDS                                                                             \
    "Controls mouse and keyboard of a screen and takes screenshots of it. coordinate is [x, y] "   \
    "in pixels from the top left; text is what to type, or the key to press such as ctrl+s; "      \
    "duration is in seconds; region is [x0, y0, x1, y1] to zoom into."

static const struct builtin_tool {
    const char *type;
    const char *name;
    const char *description;
    const char *schema;
} builtin_tools[] = {
    {"bash_20241022", "bash", BASH_WORDS, BASH_SCHEMA},
    {"bash_20250124", "bash", BASH_WORDS, BASH_SCHEMA},
    {"text_editor_20241022", "str_replace_editor", EDITOR_WORDS,
     EDITOR_SCHEMA(EDIT_COMMANDS ",\"undo_edit\"")},
    {"text_editor_20250124", "str_replace_editor", EDITOR_WORDS,
     EDITOR_SCHEMA(EDIT_COMMANDS ",\"undo_edit\"")},
    {"text_editor_20250429", "str_replace_based_edit_tool", EDITOR_WORDS,
     EDITOR_SCHEMA(EDIT_COMMANDS)},
    {"text_editor_20250728", "str_replace_based_edit_tool", EDITOR_WORDS,
     EDITOR_SCHEMA(EDIT_COMMANDS)},
    {"memory_20250818", "memory", MEMORY_WORDS, MEMORY_SCHEMA},
    {"computer_20241022", "computer", COMPUTER_WORDS, COMPUTER_SCHEMA(OLD_ACTIONS)},
    {"computer_20250124", "computer", COMPUTER_WORDS, COMPUTER_SCHEMA(NEW_ACTIONS)},
    {"computer_20251124", "computer", COMPUTER_WORDS, COMPUTER_SCHEMA(NEW_ACTIONS ",\"zoom\"")},
};

static enum result member_refuse(const char *place, const char *member, const char *why,
                                 struct api_error *error)
{
    char param[API_PARAM_BYTES];
    snprintf(param, sizeof param, "%.60s.%s", place, member);
    return api_error_invalid(error, param, "%s %s", member, why);
}

/* Reads a member that must be a whole number from 1 if it exists; *value stays otherwise. */
static enum result number_read(const cJSON *tool, const char *name, const char *place, int *value,
                               struct api_error *error)
{
    const cJSON *item = request_fields_member(tool, name);
    if (!item)
        return RESULT_OK;
    if (!cJSON_IsNumber(item) || !(item->valuedouble >= 1 && item->valuedouble <= 1e6) ||
        item->valuedouble != (double)item->valueint)
        return member_refuse(place, name, "must be a whole number from 1 to 1000000", error);
    *value = item->valueint;
    return RESULT_OK;
}

/* Description with what the tool's own fields say. */
static enum result words_make(const cJSON *tool, const struct builtin_tool *row, const char *place,
                              char *words, size_t capacity, struct api_error *error)
{
    int width = 0, height = 0, most = 0;
    enum result result = number_read(tool, "display_width_px", place, &width, error);
    if (result == RESULT_OK)
        result = number_read(tool, "display_height_px", place, &height, error);
    if (result == RESULT_OK)
        result = number_read(tool, "max_characters", place, &most, error);
    const cJSON *number = request_fields_member(tool, "display_number");
    if (result == RESULT_OK && number && !cJSON_IsNumber(number))
        result = member_refuse(place, "display_number", "must be a number", error);
    if (result != RESULT_OK)
        return result;
    if (strcmp(row->name, "computer") == 0 && (width == 0 || height == 0))
        return member_refuse(place, width == 0 ? "display_width_px" : "display_height_px",
                             "is missing", error);
    if (width > 0)
        snprintf(words, capacity, "%s The screen has %d x %d pixels.", row->description, width,
                 height);
    else if (most > 0)
        snprintf(words, capacity, "%s At most %d characters of a file are shown at once.",
                 row->description, most);
    else
        snprintf(words, capacity, "%s", row->description);
    return RESULT_OK;
}

enum result messages_builtin_tools_expand(cJSON *tool, const char *place, struct api_error *error)
{
    const char *type = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(tool, "type"));
    const char *name = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(tool, "name"));
    char words[1024];
    size_t i = 0;
    while (type && i < sizeof builtin_tools / sizeof builtin_tools[0] &&
           strcmp(builtin_tools[i].type, type) != 0)
        i++;
    if (!type || i == sizeof builtin_tools / sizeof builtin_tools[0])
        return RESULT_OK;
    const struct builtin_tool *row = &builtin_tools[i];
    if (!name || strcmp(name, row->name) != 0) {
        char why[96];
        snprintf(why, sizeof why, "must be '%s' for a tool of this type", row->name);
        return member_refuse(place, "name", why, error);
    }
    enum result result = words_make(tool, row, place, words, sizeof words, error);
    if (result != RESULT_OK)
        return result;
    cJSON *schema = cJSON_Parse(row->schema);
    cJSON_DeleteItemFromObjectCaseSensitive(tool, "type");
    cJSON_DeleteItemFromObjectCaseSensitive(tool, "description");
    cJSON_DeleteItemFromObjectCaseSensitive(tool, "input_schema");
    if (schema && cJSON_AddItemToObject(tool, "input_schema", schema) &&
        cJSON_AddStringToObject(tool, "description", words))
        return RESULT_OK;
    return api_error_memory(error);
}
