/*
 * Command lines that are understood, and others that are refused with words.
 */
// tags: threads
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "scripts/load/load_options.h"

#define WORDS_MAX 24

/* Splits at spaces; the words live in `line`. */
static enum result parse(char *line, struct load_options *options, struct error_text *error)
{
    char *words[WORDS_MAX] = {"shoal-load"};
    int count = 1;
    for (char *word = strtok(line, " "); word; word = strtok(NULL, " "))
        words[count++] = word;
    return load_options_parse(count, words, options, error);
}

static void a_whole_line_is_understood(void **state)
{
    (void)state;
    char line[] = "--base-url http://[::1]:8080/proxy/v1/ --request-rate 2.5 --burstiness 0.5 "
                  "--goodput ttft:500 e2el:2000.5 --metric-percentiles 50,99.9 --duration 10 "
                  "--seed 9 --fail-on-error --extra-body {}";
    struct load_options options;
    struct error_text error;
    assert_int_equal(parse(line, &options, &error), RESULT_OK);
    assert_string_equal(options.host, "::1");
    assert_string_equal(options.port, "8080");
    assert_string_equal(options.prefix, "/proxy");
    assert_true(options.request_rate == 2.5 && options.burstiness == 0.5);
    assert_true(options.slo_ms[LOAD_SLO_TTFT] == 500 && options.slo_ms[LOAD_SLO_E2EL] == 2000.5);
    assert_true(options.slo_ms[LOAD_SLO_TPOT] < 0);
    assert_int_equal(options.percentile_count, 2);
    assert_true(options.percentiles[1] == 99.9);
    assert_int_equal(options.num_requests, LOAD_REQUESTS);
    assert_int_equal(options.seed, 9);
    assert_true(options.fail_on_error && !options.save_detailed);
    load_options_fini(&options);
}

static void defaults_are_those_of_the_help(void **state)
{
    (void)state;
    char line[] = "--base-url http://localhost --concurrency 4";
    struct load_options options;
    struct error_text error;
    assert_int_equal(parse(line, &options, &error), RESULT_OK);
    assert_string_equal(options.host, "localhost");
    assert_string_equal(options.port, "80");
    assert_string_equal(options.prefix, "");
    assert_int_equal(options.num_requests, 100);
    assert_int_equal(options.input_words, 64);
    assert_int_equal(options.output_tokens, 128);
    assert_true(options.timeout_s == 600);
    load_options_fini(&options);
}

static void others_are_refused(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "",
        "--concurrency 4",
        "--base-url https://x --concurrency 4",
        "--base-url http:// --concurrency 4",
        "--base-url http://x:port --concurrency 4",
        "--base-url http://x:123456 --concurrency 4",
        "--base-url http://x/?a --concurrency 4",
        "--base-url http://x",
        "--base-url http://x --concurrency 4 --request-rate 2",
        "--base-url http://x --concurrency 0",
        "--base-url http://x --concurrency 1.5",
        "--base-url http://x --concurrency 99999999",
        "--base-url http://x --request-rate nan",
        "--base-url http://x --request-rate -1",
        "--base-url http://x --request-rate inf --duration 5",
        "--base-url http://x --request-rate 1 --burstiness 0",
        "--base-url http://x --concurrency 1 --goodput ttft",
        "--base-url http://x --concurrency 1 --goodput tea:5",
        "--base-url http://x --concurrency 1 --goodput ttft:-5",
        "--base-url http://x --concurrency 1 --metric-percentiles 50,101",
        "--base-url http://x --concurrency 1 --metric-percentiles 50,",
        "--base-url http://x --concurrency 1 --dataset f --input-words 5",
        "--base-url http://x --concurrency 1 --input-tokens 5 --input-words 5",
        "--base-url http://x --concurrency 1 --disconnect-share 0.6 --bad-request-share 0.6",
        "--base-url http://x --concurrency 1 --save-detailed",
        "--base-url http://x --concurrency 1 --seed",
        "--base-url http://x --concurrency 1 --colour blue",
    };
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        char line[256];
        struct load_options options;
        struct error_text error = {""};
        strcpy(line, lines[i]);
        if (parse(line, &options, &error) != RESULT_INVALID || error.text[0] == '\0')
            fail_msg("taken: %s", lines[i]);
        load_options_fini(&options);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_whole_line_is_understood),
        cmocka_unit_test(defaults_are_those_of_the_help),
        cmocka_unit_test(others_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
