/*
 * The text of `input`: random objects, spelled by cJSON or with every character escaped, cut into
 * random pieces; cJSON reads the same.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cjson/cJSON.h>
#include <cmocka.h>

#include "frontend/api/responses/call_input.h"
#include "proto/utf8.h"

/* Pushes the text in pieces of at most `most` characters. */
static void expect(const char *json, const char *text, unsigned most)
{
    struct call_input input = {0};
    struct text_buffer out = {0};
    size_t length = strlen(json);
    for (size_t at = 0; at < length;) {
        size_t bytes = 0;
        for (unsigned n = 1 + (unsigned)rand() % most; n > 0 && at + bytes < length; n--) {
            uint32_t code_point;
            bytes += utf8_decode(json + at + bytes, length - at - bytes, &code_point);
        }
        call_input_push(&input, json + at, bytes, &out);
        at += bytes;
    }
    assert_string_equal(out.bytes ? out.bytes : "", text);
    text_buffer_fini(&out);
}

static void text_draw(char *text, unsigned most)
{
    static const uint32_t points[] = {'"', '\\', '\n', '{',  '}',    ':',
                                      ',', 'a',  1,    0xe9, 0x20ac, 0x1f600};
    unsigned count = (unsigned)rand() % most;
    size_t used = 0;
    for (unsigned i = 0; i < count; i++)
        used +=
            utf8_encode(points[(size_t)rand() % (sizeof points / sizeof points[0])], text + used);
    text[used] = '\0';
}

/* Every character as \uXXXX, in pairs beyond the first plane. */
static void escape_all(const char *text, char *out)
{
    for (size_t at = 0, length = strlen(text); at < length;) {
        uint32_t c;
        at += utf8_decode(text + at, length - at, &c);
        if (c >= 0x10000)
            out += sprintf(out, "\\u%04x\\u%04X", 0xd800 + ((c - 0x10000) >> 10),
                           0xdc00 + ((c - 0x10000) & 0x3ff));
        else
            out += sprintf(out, "\\u%04x", c);
    }
    *out = '\0';
}

static void random_objects(void **state)
{
    (void)state;
    unsigned seed = (unsigned)time(NULL);
    print_message("seed %u\n", seed);
    srand(seed);
    for (int round = 0; round < 2000; round++) {
        char text[128], other[128], escaped[1024], json[1400];
        text_draw(text, 24);
        text_draw(other, 8);
        cJSON *object = cJSON_CreateObject();
        cJSON *nested = cJSON_CreateObject();
        cJSON_AddStringToObject(object, rand() % 2 ? "inputs" : "in\"put", other);
        cJSON_AddStringToObject(nested, "input", other);
        cJSON_AddItemToObject(object, "nested", nested);
        cJSON_AddStringToObject(object, "input", text);
        cJSON_AddStringToObject(object, "last", other);
        char *printed = rand() % 2 ? cJSON_Print(object) : cJSON_PrintUnformatted(object);
        expect(printed, text, 1 + (unsigned)rand() % 9);
        escape_all(text, escaped);
        snprintf(json, sizeof json, "{\"a\": [\"input\", {\"input\": 1}], \"input\" : \"%s\"}",
                 escaped);
        expect(json, text, 1 + (unsigned)rand() % 9);
        cJSON_free(printed);
        cJSON_Delete(object);
    }
}

static void what_is_no_text(void **state)
{
    (void)state;
    expect("{\"input\": \"a\\ud800b\\udc00\\ud800\"}",
           "a\xef\xbf\xbd"
           "b\xef\xbf\xbd\xef\xbf\xbd",
           1);
    expect("{\"input\": \"cut \\u00", "cut ", 3);
    expect("{\"input\": 7}", "", 3);
    expect("{\"input\": \"one\", \"input\": \"two\"}", "one", 4);
    expect("]]}}{\"input\": \"x\"}", "x", 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_objects),
                                       cmocka_unit_test(what_is_no_text)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
