/*
 * A scanner without recursion: the brackets that are open are bits on a stack, and `expect` says what may stand at the current
 * position.
 */
#include "frontend/base/json_text.h"

#include <cjson/cJSON.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "proto/must.h"
#include "proto/utf8.h"

/* What may stand next. FIRST: an element or name, or the end of the bracket just opened. */
enum expect { EXPECT_VALUE, EXPECT_FIRST, EXPECT_NAME, EXPECT_COLON, EXPECT_COMMA };

struct scan {
    const char *at;
    const char *end;
    size_t depth;
    size_t max_depth;
    uint8_t objects[JSON_DEPTH_MAX / 8]; /* bit d: the bracket at depth d is '{' */
    enum expect expect;
    const char *reason; /* NULL: no problem */
};

static bool fail(struct scan *scan, const char *reason)
{
    scan->reason = reason;
    return false;
}

static bool in_object(const struct scan *scan)
{
    size_t level = scan->depth - 1;
    return scan->depth > 0 && (scan->objects[level / 8] >> level % 8 & 1) != 0;
}

static bool is_digit(const struct scan *scan)
{
    return scan->at < scan->end && *scan->at >= '0' && *scan->at <= '9';
}

static bool skip_digits(struct scan *scan)
{
    if (!is_digit(scan))
        return fail(scan, "a number is malformed");
    while (is_digit(scan))
        scan->at++;
    return true;
}

static bool number_skip(struct scan *scan)
{
    if (*scan->at == '-')
        scan->at++;
    const char *first = scan->at;
    if (!skip_digits(scan))
        return false;
    if (*first == '0' && scan->at - first > 1)
        return fail(scan, "a number begins with 0");
    if (scan->at < scan->end && *scan->at == '.') {
        scan->at++;
        if (!skip_digits(scan))
            return false;
    }
    if (scan->at < scan->end && (*scan->at == 'e' || *scan->at == 'E')) {
        scan->at++;
        if (scan->at < scan->end && (*scan->at == '+' || *scan->at == '-'))
            scan->at++;
        return skip_digits(scan);
    }
    return true;
}

static bool escape_skip(struct scan *scan)
{
    size_t left = (size_t)(scan->end - scan->at);
    if (left >= 2 && scan->at[1] != '\0' && strchr("\"\\/bfnrt", scan->at[1])) {
        scan->at += 2;
        return true;
    }
    if (left < 6 || scan->at[1] != 'u')
        return fail(scan, "an escape is malformed");
    for (size_t i = 2; i < 6; i++) {
        if (!scan->at[i] || !strchr("0123456789abcdefABCDEF", scan->at[i]))
            return fail(scan, "an escape is malformed");
    }
    if (memcmp(scan->at + 2, "0000", 4) == 0)
        return fail(scan, "NUL characters are not accepted");
    scan->at += 6;
    return true;
}

static bool character_skip(struct scan *scan)
{
    bool well_formed;
    size_t bytes = utf8_scan(scan->at, (size_t)(scan->end - scan->at), &well_formed);
    if (!well_formed)
        return fail(scan, "a string is not valid UTF-8");
    scan->at += bytes;
    return true;
}

static bool string_skip(struct scan *scan)
{
    for (scan->at++; scan->at < scan->end;) {
        unsigned char c = (unsigned char)*scan->at;
        if (c == '"') {
            scan->at++;
            return true;
        }
        if (c < 0x20)
            return fail(scan, c ? "a string holds a control character that is not escaped"
                                : "NUL characters are not accepted");
        if (c == '\\' ? !escape_skip(scan) : !character_skip(scan))
            return false;
    }
    return fail(scan, "a string does not end");
}

static bool word_skip(struct scan *scan)
{
    static const char *const words[] = {"true", "false", "null"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        size_t bytes = strlen(words[i]);
        if ((size_t)(scan->end - scan->at) >= bytes && memcmp(scan->at, words[i], bytes) == 0) {
            scan->at += bytes;
            return true;
        }
    }
    return fail(scan, "a value is malformed");
}

static bool bracket_open(struct scan *scan, bool object)
{
    if (scan->depth >= scan->max_depth)
        return fail(scan, "it is nested too deep");
    uint8_t bit = (uint8_t)(1u << scan->depth % 8);
    uint8_t *byte = &scan->objects[scan->depth / 8];
    *byte = (uint8_t)(object ? *byte | bit : *byte & ~bit);
    scan->depth++;
    scan->at++;
    scan->expect = EXPECT_FIRST;
    return true;
}

static bool bracket_close(struct scan *scan)
{
    bool fits = scan->depth > 0 && *scan->at == (in_object(scan) ? '}' : ']');
    if (!fits || (scan->expect != EXPECT_FIRST && scan->expect != EXPECT_COMMA))
        return fail(scan, "a bracket closes nothing");
    scan->depth--;
    scan->at++;
    scan->expect = EXPECT_COMMA;
    return true;
}

static bool value_skip(struct scan *scan)
{
    char c = *scan->at;
    if (c == '{' || c == '[')
        return bracket_open(scan, c == '{');
    scan->expect = EXPECT_COMMA;
    if (c == '"')
        return string_skip(scan);
    return c == '-' || is_digit(scan) ? number_skip(scan) : word_skip(scan);
}

/* Steps over one token. */
static bool token_skip(struct scan *scan)
{
    char c = *scan->at;
    if (c == '}' || c == ']')
        return bracket_close(scan);
    if (scan->expect == EXPECT_COLON || (scan->expect == EXPECT_COMMA && scan->depth > 0)) {
        bool colon = scan->expect == EXPECT_COLON;
        if (c != (colon ? ':' : ','))
            return fail(scan, colon ? "a name has no colon" : "a comma or bracket is missing");
        scan->at++;
        scan->expect = colon || !in_object(scan) ? EXPECT_VALUE : EXPECT_NAME;
        return true;
    }
    if (scan->expect == EXPECT_COMMA)
        return fail(scan, "it goes on after its value");
    bool name = scan->expect == EXPECT_NAME || (scan->expect == EXPECT_FIRST && in_object(scan));
    if (!name)
        return value_skip(scan);
    scan->expect = EXPECT_COLON;
    return c == '"' ? string_skip(scan) : fail(scan, "the name of a member is not a string");
}

bool json_text_check(const char *text, size_t bytes, size_t max_depth, struct json_problem *problem)
{
    struct scan scan = {
        .at = text, .end = text + bytes, .max_depth = max_depth, .expect = EXPECT_VALUE};
    must(max_depth <= JSON_DEPTH_MAX);
    for (;;) {
        while (scan.at < scan.end && *scan.at != '\0' && strchr(" \t\r\n", *scan.at))
            scan.at++;
        if (scan.at == scan.end || !token_skip(&scan))
            break;
    }
    if (!scan.reason && (scan.depth > 0 || scan.expect != EXPECT_COMMA))
        (void)fail(&scan, "it ends too early");
    if (!scan.reason)
        return true;
    *problem = (struct json_problem){.reason = scan.reason, .offset = (size_t)(scan.at - text)};
    return false;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static const char *names_find_duplicate(const cJSON *object)
{
    size_t count = 0;
    for (const cJSON *member = object->child; member; member = member->next)
        count++;
    if (count < 2)
        return NULL;
    const char **names = must_alloc(count, sizeof *names);
    const char *found = NULL;
    size_t at = 0;
    for (const cJSON *member = object->child; member; member = member->next)
        names[at++] = member->string;
    qsort(names, count, sizeof *names, compare_names);
    for (size_t i = 1; i < count && !found; i++)
        found = strcmp(names[i - 1], names[i]) == 0 ? names[i] : NULL;
    free(names);
    return found;
}

const char *json_text_find_duplicate(const cJSON *root)
{
    const char *found = cJSON_IsObject(root) ? names_find_duplicate(root) : NULL;
    for (const cJSON *child = root->child; child && !found; child = child->next)
        found = json_text_find_duplicate(child);
    return found;
}
