/*
 * Converts JSON to values.
 *
 * cJSON stores every number as a double, while Python distinguishes 1 from 1.0: a whole number
 * within +-2^53 becomes an integer, any other a float, which is right for every number that clients
 * write except `1.0`. Nesting over LIMIT_JSON_DEPTH is refused. Repeated keys keep the last value,
 * as in json.loads.
 */
#include "frontend/prompt/jinja/jinja_input.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <string.h>

#include "frontend/prompt/jinja/jinja_cursor.h"
#include "frontend/prompt/jinja/jinja_dict.h"
#include "frontend/prompt/jinja/jinja_string.h"
#include "proto/limits.h"

static bool convert(struct jinja_run *run, const struct cJSON *json, bool trusted, unsigned depth,
                    struct jinja_value *out);

static bool convert_list(struct jinja_run *run, const struct cJSON *json, bool trusted,
                         unsigned depth, struct jinja_value *out)
{
    struct jinja_items items = {0};
    for (const struct cJSON *child = json->child; child != NULL; child = child->next) {
        struct jinja_value item;
        if (!convert(run, child, trusted, depth + 1, &item) || !jinja_items_add(run, &items, item))
            return false;
    }
    return jinja_items_list(run, &items, JINJA_LIST, out);
}

static bool convert_member(struct jinja_run *run, const struct cJSON *child, bool trusted,
                           unsigned depth, struct jinja_dict *dict)
{
    struct jinja_value key;
    struct jinja_value value;
    const char *name = child->string == NULL ? "" : child->string;
    return jinja_string_view(run, name, strlen(name), trusted, &key) &&
           convert(run, child, trusted, depth + 1, &value) && jinja_dict_set(run, dict, key, value);
}

static bool convert_dict(struct jinja_run *run, const struct cJSON *json, bool trusted,
                         unsigned depth, struct jinja_value *out)
{
    struct jinja_dict *dict;
    if (!jinja_dict_make(run, 4, &dict))
        return false;
    for (const struct cJSON *child = json->child; child != NULL; child = child->next)
        if (!convert_member(run, child, trusted, depth, dict))
            return false;
    *out = (struct jinja_value){.kind = JINJA_DICT, .as.dict = dict};
    return true;
}

static bool convert(struct jinja_run *run, const struct cJSON *json, bool trusted, unsigned depth,
                    struct jinja_value *out)
{
    if (depth > LIMIT_JSON_DEPTH)
        return jinja_fail_bound(run, "variables nest too deep");
    if (!jinja_run_step(run, 1))
        return false;
    double number = json->valuedouble;
    switch (json->type & 0xff) {
    case cJSON_False: *out = jinja_bool(false); return true;
    case cJSON_True: *out = jinja_bool(true); return true;
    case cJSON_NULL: *out = jinja_none(); return true;
    case cJSON_Number:
        *out = fabs(number) <= 0x1p53 && number == floor(number) ? jinja_int((int64_t)number)
                                                                 : jinja_float(number);
        return true;
    case cJSON_String:
        run->steps_left += strlen(json->valuestring) * LIMIT_TEMPLATE_BYTE_STEPS;
        return jinja_string_view(run, json->valuestring, strlen(json->valuestring), trusted, out);
    case cJSON_Array: return convert_list(run, json, trusted, depth, out);
    case cJSON_Object: return convert_dict(run, json, trusted, depth, out);
    default: return jinja_fail(run, "variables hold something that is no JSON value");
    }
}

bool jinja_input_add(struct jinja_run *run, const struct cJSON *variables,
                     const char *const trusted_names[], struct jinja_dict *globals)
{
    if (!cJSON_IsObject(variables))
        return jinja_fail(run, "variables must be a JSON object");
    for (const struct cJSON *child = variables->child; child != NULL; child = child->next) {
        bool trusted = false;
        for (size_t i = 0; trusted_names != NULL && trusted_names[i] != NULL; i++)
            trusted = trusted || strcmp(trusted_names[i], child->string) == 0;
        if (!convert_member(run, child, trusted, 0, globals))
            return false;
    }
    return true;
}
