/*
 * The command line: defaults, values, and errors that name the option.
 */
// tags: threads
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/serve/settings/option_parser.h"

/* Splits at spaces and parses. */
static enum result parse(enum options_command command, const char *line, struct options *options,
                         struct error_text *error)
{
    static char text[512];
    static char *words[32]; /* options point to them */
    int count = 0;
    snprintf(text, sizeof text, "%s", line);
    for (char *word = strtok(text, " "); word; word = strtok(NULL, " "))
        words[count++] = word;
    return options_parse(command, count, words, options, error);
}

static void options_have_defaults(void **state)
{
    (void)state;
    struct options options;
    struct error_text error;
    assert_int_equal(parse(OPTIONS_SERVE, "--model m.gguf", &options, &error), RESULT_OK);
    assert_string_equal(options.model, "m.gguf");
    assert_string_equal(options.host, "127.0.0.1");
    assert_int_equal(options.port, 8080);
    assert_int_equal(options.max_queue, 256);
    assert_int_equal(options.prepare_threads, 2);
    assert_int_equal(options.max_body_bytes, 8 << 20);
    assert_int_equal(options.keepalive_comment_s, 10);
    assert_int_equal(options.log_level, LOG_INFO);
    assert_int_equal(options.served_model_names.count, 0);
}

/* A second process is for servers of one model, unless it is asked for. */
static void a_standby_is_for_servers_of_one_model(void **state)
{
    (void)state;
    struct options options, own;
    struct error_text error;
    assert_int_equal(parse(OPTIONS_SERVE, "--model m", &options, &error), RESULT_OK);
    assert_string_equal(options.standby, "auto");
    assert_int_equal(parse(OPTIONS_GENERATE, "--model m --prompt p", &options, &error), RESULT_OK);
    assert_string_equal(options.standby, "off");
    assert_int_equal(parse(OPTIONS_SERVE, "--models-dir d", &options, &error), RESULT_OK);
    assert_int_equal(options_parse_model(&options, "m", NULL, 0, &own, &error), RESULT_OK);
    assert_string_equal(own.standby, "off");
    assert_int_equal(parse(OPTIONS_SERVE, "--models-dir d --standby on", &options, &error),
                     RESULT_OK);
    assert_int_equal(options_parse_model(&options, "m", NULL, 0, &own, &error), RESULT_OK);
    assert_string_equal(own.standby, "on");
    assert_int_equal(
        parse(OPTIONS_SERVE, "--model m --standby on --prefix-cache 0", &options, &error),
        RESULT_INVALID);
    assert_int_equal(parse(OPTIONS_SERVE, "--model m --standby 1", &options, &error),
                     RESULT_INVALID);
}

static void a_model_has_options_of_its_own(void **state)
{
    (void)state;
    struct options common, own;
    struct error_text error;
    const struct option_setting settings[] = {{"context", "4096"},
                                              {"served-model-name", "one"},
                                              {"served-model-name", "two"},
                                              {"reranking", "false"},
                                              {"strict-fields", "true"}};
    const char *line = "--models-dir d --context 100 --threads 3 --device cpu,cpu --port 1";
    assert_int_equal(parse(OPTIONS_SERVE, line, &common, &error), RESULT_OK);
    if (options_parse_model(&common, "m.gguf", settings, 3, &own, &error) != RESULT_OK)
        fail_msg("%s", error.text);
    assert_string_equal(own.model, "m.gguf");
    assert_null(own.models_dir);
    assert_int_equal(own.context_tokens, 4096);
    assert_int_equal(own.threads, 3);
    assert_int_equal(own.workers, 2);
    assert_int_equal(own.served_model_names.count, 2);
    assert_string_equal(own.served_model_names.items[1], "two");
    assert_false(own.strict_fields);
    assert_int_equal(options_parse_model(&common, "m", &settings[4], 1, &own, &error), RESULT_OK);
    assert_true(own.strict_fields);
    assert_int_equal(own.context_tokens, 100);
    const struct option_setting wrong[] = {
        {"port", "1"}, {"context", "x"}, {"strict-fields", "1"}, {"nothing", "1"}, {"model", "m"}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_int_equal(options_parse_model(&common, "m", &wrong[i], 1, &own, &error),
                         RESULT_INVALID);
    const struct option_setting twice[] = {{"context", "1"}, {"context", "2"}};
    assert_int_equal(options_parse_model(&common, "m", twice, 2, &own, &error), RESULT_INVALID);
    assert_int_equal(parse(OPTIONS_SERVE, "--models-dir d --model m", &common, &error),
                     RESULT_INVALID);
}

/* The devices of the first workers, as names with spaces between. */
static void expect_devices(const char *line, uint64_t workers, const char *names)
{
    struct options options;
    struct error_text error = {""};
    char found[128] = "";
    if (parse(OPTIONS_SERVE, line, &options, &error) != RESULT_OK)
        fail_msg("%s", error.text);
    assert_int_equal(options.workers, workers);
    for (uint32_t worker = 0; worker < workers; worker++) {
        char name[DEVICE_SET_BYTES];
        device_set_write(options_device(&options, worker), name);
        strncat(found, name, sizeof found - strlen(found) - 1);
        strncat(found, " ", sizeof found - strlen(found) - 1);
    }
    assert_string_equal(found, names);
}

static void devices_are_assigned_in_turn(void **state)
{
    (void)state;
    expect_devices("--model m", 1, "cpu ");
    expect_devices("--model m --workers 2", 2, "cpu cpu ");
    expect_devices("--model m --device vulkan", 1, "vulkan:0 ");
    expect_devices("--model m --device vulkan:1+cpu,vulkan:2", 2, "vulkan:1+cpu vulkan:2 ");
    expect_devices("--model m --device vulkan:1 --workers 2", 2, "vulkan:1 vulkan:1 ");
    expect_devices("--model m --device vulkan:0,vulkan:1", 2, "vulkan:0 vulkan:1 ");
    expect_devices("--model m --device vulkan:3 --device cpu,vulkan", 3, "vulkan:3 cpu vulkan:0 ");
    expect_devices("--model m --device vulkan:0,vulkan:1 --workers 5", 5,
                   "vulkan:0 vulkan:1 vulkan:0 vulkan:1 vulkan:0 ");
}

static void auto_stands_alone_and_is_the_default(void **state)
{
    (void)state;
    struct options options;
    struct error_text error;
    assert_int_equal(parse(OPTIONS_SERVE, "--model m", &options, &error), RESULT_OK);
    assert_true(options.device_auto);
    assert_int_equal(options.device_count, 1);
    assert_int_equal(parse(OPTIONS_SERVE, "--model m --device auto", &options, &error), RESULT_OK);
    assert_true(options.device_auto);
    assert_int_equal(parse(OPTIONS_SERVE, "--model m --device cpu", &options, &error), RESULT_OK);
    assert_false(options.device_auto);
    assert_int_equal(parse(OPTIONS_SERVE, "--model m --device cpu,auto", &options, &error),
                     RESULT_INVALID);
    assert_int_equal(parse(OPTIONS_SERVE, "--model m --device auto --device cpu", &options, &error),
                     RESULT_INVALID);
}

static void listing_devices_needs_no_model(void **state)
{
    (void)state;
    struct options options;
    struct error_text error;
    assert_int_equal(parse(OPTIONS_DEVICES, "", &options, &error), RESULT_OK);
    assert_false(options.json);
    assert_int_equal(parse(OPTIONS_DEVICES, "--json", &options, &error), RESULT_OK);
    assert_true(options.json);
    assert_int_equal(parse(OPTIONS_DEVICES, "--model m", &options, &error), RESULT_INVALID);
    assert_int_equal(parse(OPTIONS_SERVE, "--model m --json", &options, &error), RESULT_INVALID);
}

static void values_come_in_both_forms_and_with_suffixes(void **state)
{
    (void)state;
    struct options options;
    struct error_text error;
    assert_int_equal(parse(OPTIONS_SERVE,
                           "--port=0 --model m --kv-cache-bytes 2G --kv-cache-type=f32 "
                           "--max-body-bytes=64K "
                           "--log-level debug",
                           &options, &error),
                     RESULT_OK);
    assert_int_equal(options.port, 0);
    assert_int_equal(options.kv_cache_bytes, 2ull << 30);
    assert_string_equal(options.kv_cache_type, "f32");
    assert_int_equal(options.activation_bits, 8);
    assert_int_equal(options.prefix_cache, 1);
    assert_int_equal(
        parse(OPTIONS_SERVE, "--model m --kv-cache-bytes 40% --prefix-cache 0", &options, &error),
        RESULT_OK);
    assert_true(options.kv_cache_bytes == (OPTIONS_SHARE | 40));
    assert_int_equal(options.prefix_cache, 0);
    static const char *const bad[] = {"0%", "96%", "5%%", "%", "-5%", "5%x"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char words[64];
        snprintf(words, sizeof words, "--model m --kv-cache-bytes=%s", bad[i]);
        assert_int_equal(parse(OPTIONS_SERVE, words, &options, &error), RESULT_INVALID);
    }
    assert_int_equal(parse(OPTIONS_SERVE,
                           "--port=0 --model m --max-body-bytes=64K --log-level debug", &options,
                           &error),
                     RESULT_OK);
    assert_int_equal(options.max_body_bytes, 64 << 10);
    assert_int_equal(options.log_level, LOG_DEBUG);
}

static void mistakes_are_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *line;
        const char *words;
    } cases[] = {
        {"", "--model is required"},
        {"--model", "--model needs a value"},
        {"--model m --port 65536", "--port: 65536 is not within 0 and 65535"},
        {"--model m --port -1", "--port: '-1' is not a number"},
        {"--model m --port 1K", "--port: '1K' is not a number"},
        {"--model m --port 99999999999999999999", "is not a number"},
        {"--model m --kv-cache-bytes 99999999999G", "is not a number of bytes"},
        {"--model m --max-sequences 1025", "--max-sequences: 1025 is not within 0"},
        {"--model m --sport 1", "unknown option '--sport'"},
        {"--model m --prompt x", "unknown option '--prompt'"},
        {"--model m --port 1 --port 2", "--port is given twice"},
        {"--model m extra", "'extra' is not an option"},
        {"--model m --log-level loud", "--log-level: 'loud'"},
        {"--model m --log-format xml", "--log-format: 'xml'"},
        {"--model m --tls-cert c", "--tls-cert and --tls-key go together"},
        {"--model m --tls-key k", "--tls-cert and --tls-key go together"},
        {"--model m --device abacus", "--device: 'abacus' is neither cpu nor vulkan nor"},
        {"--model m --device cpu,", "--device: '' is neither"},
        {"--model m --device ,cpu", "--device: '' is neither"},
        {"--model m --device vulkan:16", "--device: 'vulkan:16'"},
        {"--model m --device vulkan:000000000000000000000000000000000000000000001", "--device: 'v"},
        {"--model m --device vulkan:0,vulkan:1 --workers 1", "names 2 devices for --workers 1"},
        {"--model m --device cpu --device=vulkan --device vulkan:2 --workers 2", "3 devices"},
        {"--model m --device cpu,cpu,cpu,cpu,cpu,cpu,cpu,cpu,cpu,cpu,cpu,cpu,cpu,cpu,cpu,cpu,cpu",
         "more than 16 devices"},
        {"--model m --workers 17", "--workers: 17 is not within 0 and 16"},
        {"--model m --kv-cache-type f64", "--kv-cache-type: 'f64' is neither f16 nor f32"},
        {"--model m --activation-bits 12", "--activation-bits: 12 is neither 8 nor 16"},
        {"--model m --activation-bits 32", "--activation-bits: 32 is not within 8 and 16"},
        {"--model m --activation-bits 16 --device cpu,vulkan", "16 works on the CPU only"},
        {"--model m --kv-bits 3.25", "--kv-bits: '3.25' is not a multiple of 0.5"},
        {"--model m --kv-value-bits x", "--kv-value-bits: 'x'"},
        {"--model m --kv-bits 4 --kv-quant-scheme polar", "--kv-quant-scheme: 'polar'"},
        {"--model m --quantized-kv-start 5000", "--quantized-kv-start 5000 needs --kv-bits"},
        {"--model m --kv-bits 4 --kv-quant-scheme turboquant --kv-group-size 64", "uniform only"},
        {"--model m --max-sequences 512 --max-queue 4000", "together exceed"},
        {"--model m --max-sequences 64 --step-tokens 63", "--step-tokens must not be below"},
        {"--model m --step-depth 3", "--step-depth"},
        {"--model m --help=yes", "--help takes no value"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct options options;
        struct error_text error = {""};
        assert_int_equal(parse(OPTIONS_SERVE, cases[i].line, &options, &error), RESULT_INVALID);
        if (!strstr(error.text, cases[i].words))
            print_error("'%s' gave '%s'\n", cases[i].line, error.text);
        assert_non_null(strstr(error.text, cases[i].words));
    }
}

static void generate_has_options_of_its_own(void **state)
{
    (void)state;
    struct options options;
    struct error_text error;
    assert_int_equal(
        parse(OPTIONS_GENERATE, "--model m --prompt hi --raw --temperature 0.5", &options, &error),
        RESULT_OK);
    assert_true(options.raw);
    assert_false(options.stats);
    assert_string_equal(options.temperature, "0.5");
    assert_int_equal(options.log_level, LOG_WARN);
    assert_int_equal(parse(OPTIONS_GENERATE, "--model m", &options, &error), RESULT_INVALID);
    assert_int_equal(
        parse(OPTIONS_GENERATE, "--model m --prompt x --seed 1,\"a\":2", &options, &error),
        RESULT_INVALID);
    assert_int_equal(parse(OPTIONS_GENERATE, "--model m --prompt x --port 1", &options, &error),
                     RESULT_INVALID);
}

static void a_server_may_have_a_seed(void **state)
{
    (void)state;
    static const char *const refused[] = {"--model m --seed -1", "--model m --seed 1x",
                                          "--model m --seed 9007199254740993",
                                          "--model m --seed 99999999999999999999"};
    struct options options;
    struct error_text error;
    assert_int_equal(parse(OPTIONS_SERVE, "--model m", &options, &error), RESULT_OK);
    assert_true(options.request_seed == UINT64_MAX);
    assert_int_equal(parse(OPTIONS_SERVE, "--model m --seed 9007199254740992", &options, &error),
                     RESULT_OK);
    assert_true(options.request_seed == UINT64_C(9007199254740992));
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
        assert_int_equal(parse(OPTIONS_SERVE, refused[i], &options, &error), RESULT_INVALID);
}

static void help_names_every_option_with_its_default(void **state)
{
    (void)state;
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    options_print_help(OPTIONS_SERVE, out);
    fclose(out);
    static const char *const names[] = {"--model TEXT",
                                        "--host TEXT",
                                        "[127.0.0.1]",
                                        "--port N",
                                        "[8080]",
                                        "--context N",
                                        "--max-tokens N",
                                        "--max-sequences N",
                                        "--max-queue N",
                                        "--threads N",
                                        "--step-tokens N",
                                        "--kv-cache-type TEXT",
                                        "--kv-bits TEXT",
                                        "--kv-cache-bytes BYTES",
                                        "--prepare-threads",
                                        "--max-body-bytes BYTES",
                                        "[8M]",
                                        "--max-connections N",
                                        "--worker-timeout N",
                                        "--drain-timeout N",
                                        "--log-level TEXT",
                                        "--keepalive-comment N",
                                        "--device TEXT",
                                        "--served-model-name TEXT"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        assert_non_null(strstr(text, names[i]));
    assert_null(strstr(text, "--prompt"));
    assert_null(strstr(text, "\nRequest:")); /* a heading without a row */
    free(text);
}

static void help_begins_with_ten_common_options(void **state)
{
    (void)state;
    char *text = NULL;
    char *common = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    options_print_help(OPTIONS_SERVE, out);
    fclose(out);
    out = open_memstream(&common, &bytes);
    options_print_common(out);
    fclose(out);
    const char *first = strstr(text, "\nCommon options:\n  --model TEXT ");
    assert_non_null(first);
    assert_memory_equal(first, common, bytes);
    uint32_t lines = 0;
    for (const char *at = common; (at = strstr(at, "\n  --")) != NULL; at++)
        lines++;
    assert_int_equal(lines, 10);
    free(text);
    free(common);
}

static void lists_are_gathered_in_order(void **state)
{
    (void)state;
    struct options options;
    struct error_text error;
    assert_int_equal(parse(OPTIONS_SERVE,
                           "--model m --api-key one --cors-origin=* --api-key=two --cors-origin "
                           "https://a.example",
                           &options, &error),
                     RESULT_OK);
    assert_int_equal(options.api_keys.count, 2);
    assert_string_equal(options.api_keys.items[0], "one");
    assert_string_equal(options.api_keys.items[1], "two");
    assert_int_equal(options.cors_origins.count, 2);
    assert_string_equal(options.cors_origins.items[1], "https://a.example");
    assert_int_equal(options.log_format, LOG_FORMAT_TEXT);

    char *many[2 * LIMIT_OPTION_REPEATS + 4];
    int count = 0;
    many[count++] = "--model";
    many[count++] = "m";
    for (unsigned i = 0; i <= LIMIT_OPTION_REPEATS; i++)
        many[count++] = "--api-key=k";
    assert_int_equal(options_parse(OPTIONS_SERVE, count - 1, many, &options, &error), RESULT_OK);
    assert_int_equal(options_parse(OPTIONS_SERVE, count, many, &options, &error), RESULT_TOO_LARGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_are_gathered_in_order),
        cmocka_unit_test(options_have_defaults),
        cmocka_unit_test(a_standby_is_for_servers_of_one_model),
        cmocka_unit_test(a_model_has_options_of_its_own),
        cmocka_unit_test(devices_are_assigned_in_turn),
        cmocka_unit_test(auto_stands_alone_and_is_the_default),
        cmocka_unit_test(listing_devices_needs_no_model),
        cmocka_unit_test(values_come_in_both_forms_and_with_suffixes),
        cmocka_unit_test(mistakes_are_refused_by_name),
        cmocka_unit_test(generate_has_options_of_its_own),
        cmocka_unit_test(a_server_may_have_a_seed),
        cmocka_unit_test(help_names_every_option_with_its_default),
        cmocka_unit_test(help_begins_with_ten_common_options),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
