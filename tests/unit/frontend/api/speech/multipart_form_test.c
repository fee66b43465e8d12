/*
 * Forms: their parts, names in all spellings, what is refused, and 20,000 damaged ones, whose parts lie inside the body.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <stdlib.h>

#include "frontend/api/speech/multipart_form.h"
#include "proto/must.h"
#include "tests/support/test_random.h"

static const char whole[] =
    "--b1\r\n"
    "Content-Disposition: form-data; name=\"file\"; filename=\"a \\\"b.wav\"\r\n"
    "Content-Type: audio/wav\r\n\r\n"
    "RIFF\r\n--b\r\n--b1x\r\n--b1\r\n"
    "content-disposition:form-data;name=language\r\n\r\nde\r\n--b1\r\n"
    "X-Other: 1\r\nContent-Disposition: form-data; name=\"empty\"\r\n\r\n\r\n"
    "--b1--\r\n";

static void expect_part(const struct multipart_part *part, const char *bytes, bool is_file)
{
    assert_non_null(part);
    assert_int_equal(part->byte_count, strlen(bytes));
    assert_memory_equal(part->bytes, bytes, part->byte_count);
    assert_int_equal(part->is_file, is_file);
}

static void test_parts(void **state)
{
    (void)state;
    static struct multipart_form form;
    struct error_text error = {""};
    static const char body[] =
        "--b1\r\n"
        "Content-Disposition: form-data; filename=\"name=x\"; name=\"file\"\r\n"
        "Content-Type: audio/wav\r\n\r\n"
        "RIFF\r\n--b\r\n--B1\r\n--b1\r\n"
        "content-disposition:form-data;name=language\r\n\r\nde\r\n--b1\r\n"
        "X-Other: 1\r\nContent-Disposition: form-data; name=\"e\\\"y\"\r\n\r\n\r\n"
        "--b1--";
    assert_int_equal(multipart_form_read(body, sizeof body - 1, &form, &error), RESULT_OK);
    assert_int_equal(form.count, 3);
    expect_part(multipart_form_find(&form, "file"), "RIFF\r\n--b\r\n--B1", true);
    expect_part(multipart_form_find(&form, "language"), "de", false);
    expect_part(multipart_form_find(&form, "e\"y"), "", false);
    assert_null(multipart_form_find(&form, "model"));
}

static void refuse(const char *body, size_t bytes, enum result expected, const char *words)
{
    static struct multipart_form form;
    struct error_text error = {""};
    assert_int_equal(multipart_form_read(body, bytes, &form, &error), expected);
    if (!strstr(error.text, words))
        fail_msg("\"%s\" does not say \"%s\"", error.text, words);
}

static void test_refusals(void **state)
{
    (void)state;
    static const struct {
        const char *body;
        const char *words;
    } wrong[] = {
        {"", "not multipart"},
        {"{\"file\": 1}", "not multipart"},
        {"--\r\n\r\n----", "not multipart"},
        {"--b1", "not multipart"},
        {"--b1\r\n", "do not end"},
        {"--b1\r\nA: b\r\n\r\n1\r\n--b1--", "no name"},
        {"--b1\r\nContent-Disposition: form-data; name=\"a\r\n\r\n1\r\n--b1--", "name"},
        {"--b1\r\nContent-Disposition: form-data; name=a\r\n\r\n1\r\n--b2--", "within a part"},
        {"--b1\r\nContent-Disposition: form-data; name=a\r\n\r\n1\r\n--b1", "no end"}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct error_text error = {""};
        static struct multipart_form form;
        assert_int_not_equal(
            multipart_form_read(wrong[i].body, strlen(wrong[i].body), &form, &error), RESULT_OK);
        if (!strstr(error.text, wrong[i].words))
            fail_msg("%zu: \"%s\" does not say \"%s\"", i, error.text, wrong[i].words);
    }
    static char many[8192] = "--b", *at = many + 3;
    for (unsigned i = 0; i <= MULTIPART_PARTS_MAX; i++)
        at = stpcpy(at, "\r\nContent-Disposition: form-data; name=a\r\n\r\n1\r\n--b");
    refuse(many, strlen(many), RESULT_TOO_LARGE, "more than 64 parts");
    static char longer[2 * MULTIPART_HEADER_BYTES] = "--b\r\nA: ";
    memset(longer + strlen(longer), 'x', sizeof longer - strlen(longer) - 1);
    refuse(longer, strlen(longer), RESULT_TOO_LARGE, "4096");
}

static void test_damage(void **state)
{
    (void)state;
    static struct multipart_form form;
    struct test_random random = {.state = 11};
    for (uint32_t round = 0; round < 20000; round++) {
        size_t bytes = sizeof whole - 1;
        char *body = must_alloc(bytes, 1); /* exact, for sanitizers */
        memcpy(body, whole, bytes);
        for (uint32_t i = test_random_below(&random, 5); i > 0; i--)
            body[test_random_below(&random, (uint32_t)bytes)] =
                "\r\n-b\";=\0\\"[test_random_below(&random, 9)];
        bytes -= test_random_below(&random, 4) == 0 ? test_random_below(&random, 60) : 0;
        struct error_text error = {""};
        enum result result = multipart_form_read(body, bytes, &form, &error);
        assert_int_equal(result == RESULT_OK, error.text[0] == '\0');
        for (unsigned i = 0; result == RESULT_OK && i < form.count; i++) {
            assert_true(form.parts[i].bytes >= body &&
                        form.parts[i].byte_count <= (size_t)(body + bytes - form.parts[i].bytes));
            assert_true(memchr(form.parts[i].name, '\0', sizeof form.parts[i].name) != NULL);
        }
        free(body);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_parts),
                                       cmocka_unit_test(test_refusals),
                                       cmocka_unit_test(test_damage)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
