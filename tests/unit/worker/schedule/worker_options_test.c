/*
 * worker_options: defaults, every flag, and an error by name for every invalid value.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "worker/schedule/worker_options.h"

#define REQUIRED                                                                                   \
    "shoal-worker", "--segment-fd", "3", "--submit-bell-fd", "4", "--event-bell-fd", "5",          \
        "--parent-pid", "77", "--model", "m.gguf"

static enum result parse(char **argv, struct worker_options *options, struct error_text *error)
{
    int argc = 0;
    while (argv[argc])
        argc++;
    return worker_options_parse(argc, argv, options, error);
}

static void test_defaults(void **state)
{
    (void)state;
    char *argv[] = {REQUIRED, NULL};
    struct worker_options options;
    assert_int_equal(parse(argv, &options, NULL), RESULT_OK);
    assert_int_equal(options.segment_fd, 3);
    assert_int_equal(options.submit_bell_fd, 4);
    assert_int_equal(options.event_bell_fd, 5);
    assert_int_equal(options.parent_pid, 77);
    assert_string_equal(options.model, "m.gguf");
    assert_int_equal(options.max_sequences, 64);
    assert_false(options.chooses_sequences);
    assert_int_equal(options.step_tokens, 512);
    assert_int_equal(options.mixed_prefill_tokens, 0);
    assert_int_equal(options.itl_target_ms, 100);
    assert_int_equal(options.context_tokens, 0);
    assert_int_equal(options.kv_cache_bytes, 0);
    assert_int_equal(options.kv_cache_type, KV_CACHE_F16);
    assert_int_equal(options.activation_bits, 8);
    assert_int_equal(options.log_level, LOG_INFO);
    assert_int_equal(options.weights_fd, -1);
    assert_int_equal(options.verify_weights, 0);
    assert_int_equal(options.worker_count, 1);
    assert_int_equal(options.weights_send_fd, -1);
    assert_int_equal(options.device_kind, DEVICE_CPU);
    assert_int_equal(options.device_workers, 1);
    assert_int_equal(options.cpu_tier, CPU_TIER_BEST);
    assert_int_equal(options.vulkan_tier, VULKAN_TIER_HIGHEST);
    assert_null(options.pipeline_cache);
    assert_null(options.fault);
}

static void test_every_flag(void **state)
{
    (void)state;
    char *argv[] = {REQUIRED,
                    "--worker-index",
                    "2",
                    "--worker-count",
                    "4",
                    "--fault",
                    "hang-at-step=3",
                    "--threads",
                    "8",
                    "--max-sequences",
                    "600",
                    "--context",
                    "4096",
                    "--mixed-prefill-tokens",
                    "99",
                    "--kv-cache-bytes",
                    "5000000000",
                    "--activation-bits",
                    "16",
                    "--kv-cache-type",
                    "f32",
                    "--kv-quant-scheme",
                    "turboquant",
                    "--kv-bits",
                    "3.5",
                    "--log-level",
                    "debug",
                    NULL};
    struct worker_options options;
    assert_int_equal(parse(argv, &options, NULL), RESULT_OK);
    assert_int_equal(options.worker_index, 2);
    assert_int_equal(options.worker_count, 4);
    assert_string_equal(options.fault, "hang-at-step=3");
    assert_int_equal(options.threads, 8);
    assert_int_equal(options.max_sequences, 600);
    assert_false(options.chooses_sequences);
    assert_int_equal(options.step_tokens, 600); /* a row for every sequence */
    assert_int_equal(options.mixed_prefill_tokens, 99);
    assert_int_equal(options.context_tokens, 4096);
    assert_true(options.kv_cache_bytes == 5000000000ull);
    assert_int_equal(options.kv_cache_type, KV_CACHE_F32);
    assert_int_equal(options.activation_bits, 16);
    assert_int_equal(options.kv_quantization.scheme, KV_QUANT_TURBOQUANT);
    assert_int_equal(options.kv_quantization.key_half_bits, 6);
    assert_int_equal(options.kv_quantization.value_half_bits, 8);
    assert_int_equal(options.log_level, LOG_DEBUG);
}

static void test_flags_of_a_device(void **state)
{
    (void)state;
    char *argv[] = {REQUIRED,     "--worker-count",
                    "3",          "--device",
                    "vulkan:2",   "--weights-send-fd",
                    "9",          "--vulkan-tier",
                    "khr-matrix", "--vulkan-validation",
                    "1",          "--pipeline-cache",
                    "a/folder",   "--profile",
                    "1",          "--cpu-tier",
                    "avx512",     NULL,
                    NULL,         NULL};
    size_t last = sizeof argv / sizeof argv[0] - 3;
    struct worker_options options;
    assert_int_equal(parse(argv, &options, NULL), RESULT_OK);
    assert_int_equal(options.device_kind, DEVICE_VULKAN);
    assert_int_equal(options.devices.devices[0].index, 2);
    assert_int_equal(options.device_workers, 3); /* all of them, if nothing is said */
    assert_int_equal(options.step_tokens, 2048);
    assert_true(options.chooses_sequences);
    assert_int_equal(options.max_sequences, 512);
    assert_int_equal(options.mixed_prefill_tokens, 0);
    assert_int_equal(options.weights_send_fd, 9);
    assert_int_equal(options.cpu_tier, CPU_TIER_AVX512);
    assert_int_equal(options.vulkan_tier, VULKAN_KHR_MATRIX);
    assert_int_equal(options.vulkan_validation, 1);
    assert_string_equal(options.pipeline_cache, "a/folder");
    assert_int_equal(options.profile, 1);
    argv[last] = "--device-workers";
    argv[last + 1] = "2";
    assert_int_equal(parse(argv, &options, NULL), RESULT_OK);
    assert_int_equal(options.device_workers, 2);
    argv[last] = "--activation-bits"; /* a device has an arithmetic of its own */
    argv[last + 1] = "16";
    assert_int_equal(parse(argv, &options, NULL), RESULT_INVALID);
}

static void test_refusals_name_the_flag(void **state)
{
    (void)state;
    static char *const bad[][2] = {
        {"--threads", "257"},        {"--threads", "-1"},
        {"--threads", "2x"},         {"--threads", ""},
        {"--threads", " 2"},         {"--itl-target-ms", "0"},
        {"--max-sequences", "1025"}, {"--step-tokens", "0"},
        {"--step-tokens", "4097"},   {"--sequences-limit", "0"},
        {"--step-depth", "3"},       {"--context", "99999999999999999999999"},
        {"--parent-pid", "0"},       {"--kv-cache-type", "f8"},
        {"--log-level", "loud"},     {"--bogus", "1"},
        {"--threads", NULL},         {"--device", "gpu"},
        {"--device", "vulkan:16"},   {"--vulkan-tier", "NV matrix 2"},
        {"--profile", "2"},          {"--device-workers", "0"},
        {"--kv-bits", "3.25"},       {"--kv-quant-scheme", "none"},
        {"--kv-key-bits", "9"},      {"--quantized-kv-start", "1"},
        {"--kv-group-size", "48"},   {"--activation-bits", "12"},
        {"--cpu-tier", "avx"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char *argv[] = {REQUIRED, bad[i][0], bad[i][1], NULL};
        struct worker_options options;
        struct error_text error;
        assert_int_equal(parse(argv, &options, &error), RESULT_INVALID);
        if (!strstr(error.text, bad[i][0]))
            fail_msg("%s", error.text);
    }
}

static void test_required_flags(void **state)
{
    (void)state;
    for (int missing = 1; missing < 11; missing += 2) {
        char *argv[] = {REQUIRED, NULL};
        char *name = argv[missing];
        memmove(&argv[missing], &argv[missing + 2], (size_t)(10 - missing) * sizeof argv[0]);
        struct worker_options options;
        struct error_text error;
        assert_int_equal(parse(argv, &options, &error), RESULT_INVALID);
        assert_non_null(strstr(error.text, name));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),       cmocka_unit_test(test_flags_of_a_device),
        cmocka_unit_test(test_every_flag),     cmocka_unit_test(test_refusals_name_the_flag),
        cmocka_unit_test(test_required_flags),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
