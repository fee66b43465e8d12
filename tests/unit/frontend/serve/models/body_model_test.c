/*
 * The model that a body names: chosen cases, and random bodies against cJSON's reading of the same.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>
#include <cmocka.h>

#include "frontend/serve/models/body_model.h"

static void test_cases(void **state)
{
    (void)state;
    static const struct {
        const char *json;
        enum body_model found;
        const char *name;
    } cases[] = {
        {"{\"model\":\"a\"}", BODY_MODEL_NAMED, "a"},
        {" \t\r\n{ \"model\" : \"a/b:c\" }", BODY_MODEL_NAMED, "a/b:c"},
        {"{\"messages\":[{\"model\":\"inner\"}],\"model\":\"outer\"}", BODY_MODEL_NAMED, "outer"},
        {"{\"x\":\"\\\"model\\\":\\\"no\\\"\",\"model\":\"yes\"}", BODY_MODEL_NAMED, "yes"},
        {"{\"x\":\"\\\\\",\"model\":\"yes\"}", BODY_MODEL_NAMED, "yes"},
        {"{\"x\":\"model\",\"y\":1}", BODY_MODEL_ABSENT, ""},
        {"{\"x\":[\"model\",\"a\"],\"model\":\"b\"}", BODY_MODEL_NAMED, "b"},
        {"{\"model\":\"\\u0061\\n\\\"\"}", BODY_MODEL_NAMED, "a\n\""},
        {"{\"model\":\"\"}", BODY_MODEL_NAMED, ""},
        {"{\"model\":\"0123456789abcde\"}", BODY_MODEL_NAMED, "0123456789abcde"},
        {"{\"model\":\"0123456789abcdef\"}", BODY_MODEL_INVALID, ""},
        {"{\"model\":null}", BODY_MODEL_INVALID, ""},
        {"{\"model\":7}", BODY_MODEL_INVALID, ""},
        {"{\"model\":{\"model\":\"a\"}}", BODY_MODEL_INVALID, ""},
        {"{\"model\":\"cut", BODY_MODEL_INVALID, ""},
        {"{\"model\"", BODY_MODEL_ABSENT, ""},
        {"{\"model\" \"a\"}", BODY_MODEL_ABSENT, ""},
        {"{\"model", BODY_MODEL_ABSENT, ""},
        {"{}{\"model\":\"a\"}", BODY_MODEL_ABSENT, ""},
        {"[{\"model\":\"a\"}]", BODY_MODEL_ABSENT, ""},
        {"\"model\":\"a\"", BODY_MODEL_ABSENT, ""},
        {"", BODY_MODEL_ABSENT, ""},
        {"}]}{", BODY_MODEL_ABSENT, ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char name[16];
        char *exact = malloc(strlen(cases[i].json) + 1); /* no byte behind the body is read */
        memcpy(exact, cases[i].json, strlen(cases[i].json));
        enum body_model found = body_model_find(exact, strlen(cases[i].json), name, sizeof name);
        free(exact);
        assert_int_equal(found, cases[i].found);
        assert_string_equal(name, cases[i].name);
    }
}

static uint32_t seed = 20261127;

static uint32_t draw(uint32_t below)
{
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % below;
}

static cJSON *draw_value(int depth)
{
    static const char *const texts[] = {"model", "stream",          "a\"b", "\\",
                                        "{}",    "\"model\":\"x\"", ",",    "name"};
    uint32_t kind = draw(depth > 0 ? 5 : 3);
    cJSON *value = kind == 3 ? cJSON_CreateArray() : kind == 4 ? cJSON_CreateObject() : NULL;
    if (kind == 0)
        return cJSON_CreateNumber(draw(1000));
    if (kind == 1)
        return draw(2) ? cJSON_CreateNull() : cJSON_CreateBool((cJSON_bool)draw(2));
    if (kind == 2)
        return cJSON_CreateString(texts[draw(sizeof texts / sizeof texts[0])]);
    for (uint32_t i = draw(4); i > 0; i--) {
        if (kind == 3)
            cJSON_AddItemToArray(value, draw_value(depth - 1));
        else
            cJSON_AddItemToObject(value, texts[draw(sizeof texts / sizeof texts[0])],
                                  draw_value(depth - 1));
    }
    return value;
}

static void test_random_bodies(void **state)
{
    (void)state;
    uint32_t named = 0, streams = 0;
    for (uint32_t round = 0; round < 10000; round++) {
        cJSON *body = draw_value(4);
        while (round % 8 != 0 && (!cJSON_IsObject(body) || !body->child)) {
            cJSON_Delete(body);
            body = draw_value(4);
        }
        char *json = draw(2) ? cJSON_PrintUnformatted(body) : cJSON_Print(body);
        const cJSON *member =
            cJSON_IsObject(body) ? cJSON_GetObjectItemCaseSensitive(body, "model") : NULL;
        const char *text = cJSON_GetStringValue(member);
        char name[64];
        enum body_model found = body_model_find(json, strlen(json), name, sizeof name);
        assert_int_equal(found, !member ? BODY_MODEL_ABSENT
                                : text  ? BODY_MODEL_NAMED
                                        : BODY_MODEL_INVALID);
        if (text)
            assert_string_equal(name, text);
        member = cJSON_IsObject(body) ? cJSON_GetObjectItemCaseSensitive(body, "stream") : NULL;
        assert_int_equal(body_model_streams(json, strlen(json)), cJSON_IsTrue(member));
        streams += cJSON_IsTrue(member) ? 1 : 0;
        named += text != NULL;
        for (uint32_t cut = 0; cut < 4; cut++) { /* broken bodies end, and read nothing outside */
            size_t bytes = draw((uint32_t)strlen(json) + 1);
            char *part = malloc(bytes + 1);
            memcpy(part, json, bytes);
            (void)body_model_find(part, bytes, name, sizeof name);
            (void)body_model_streams(part, bytes);
            free(part);
        }
        cJSON_free(json);
        cJSON_Delete(body);
    }
    assert_true(named > 100 && streams > 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cases),
        cmocka_unit_test(test_random_bodies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
