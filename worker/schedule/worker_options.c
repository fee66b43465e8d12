/*
 * Parses flags by one table: name, field, range. Flags are written by the frontend and by people
 * who debug a worker, so every error names the flag and its valid values.
 */
#include "worker/schedule/worker_options.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "proto/limits.h"
#include "proto/must.h"
#include "proto/speculation.h"
#include "worker/backend/host/backend.h"

#define KV_CACHE_BYTES_MAX  (1ull << 48) /* address space of a process */
#define CPU_SEQUENCES       64u
#define GPU_SEQUENCES_MAX   512u /* a step of decodes gains little from more */
#define DEFAULT_KEPT_IMAGES 20u  /* enough for a few conversations */
#define CPU_STEP_TOKENS     512u
#define GPU_STEP_TOKENS     2048u /* fewer rows leave the matrix units of a large GPU idle */
#define ITL_TARGET_MS       100u  /* pause of a stream that readers hardly notice */

enum flag_type {
    FLAG_INT,
    FLAG_U32,
    FLAG_U64,
    FLAG_TEXT,
    FLAG_DEVICE,
    FLAG_CPU_TIER,
    FLAG_VULKAN_TIER,
    FLAG_POOLING,
    FLAG_KV_TYPE,
    FLAG_KV_SCHEME,
    FLAG_HALF_BITS,
    FLAG_SANDBOX,
    FLAG_LOG_LEVEL,
    FLAG_LOG_FORMAT
};

struct flag {
    const char *name;
    enum flag_type type;
    size_t offset;
    uint64_t low;
    uint64_t high;
    bool required;
};

#define FIELD(member) offsetof(struct worker_options, member)

static const struct flag flags[] = {
    {"--segment-fd", FLAG_INT, FIELD(segment_fd), 0, INT_MAX, true},
    {"--submit-bell-fd", FLAG_INT, FIELD(submit_bell_fd), 0, INT_MAX, true},
    {"--event-bell-fd", FLAG_INT, FIELD(event_bell_fd), 0, INT_MAX, true},
    {"--weights-fd", FLAG_INT, FIELD(weights_fd), 0, INT_MAX, false},
    {"--weights-send-fd", FLAG_INT, FIELD(weights_send_fd), 0, INT_MAX, false},
    {"--kv-memory-fd", FLAG_INT, FIELD(kv_memory_fd), 0, INT_MAX, false},
    {"--kv-vault-fd", FLAG_INT, FIELD(kv_vault_fd), 0, INT_MAX, false},
    {"--kv-send-fd", FLAG_INT, FIELD(kv_send_fd), 0, INT_MAX, false},
    {"--prefix-load-fd", FLAG_INT, FIELD(prefix_load_fd), 0, INT_MAX, false},
    {"--prefix-save-fd", FLAG_INT, FIELD(prefix_save_fd), 0, INT_MAX, false},
    {"--prefix-save-bytes", FLAG_U64, FIELD(prefix_save_bytes), 0, KV_CACHE_BYTES_MAX, false},
    {"--adapter-fd", FLAG_INT, FIELD(adapter_fd), 0, INT_MAX, false},
    {"--standby-fd", FLAG_INT, FIELD(standby_fd), 0, INT_MAX, false},
    {"--life-fd", FLAG_INT, FIELD(life_fd), 0, INT_MAX, false},
    {"--device-work-fd", FLAG_INT, FIELD(device_work_fd), 0, INT_MAX, false},
    {"--parent-pid", FLAG_INT, FIELD(parent_pid), 1, INT_MAX, true},
    {"--model", FLAG_TEXT, FIELD(model), 0, 0, true},
    {"--mmproj", FLAG_TEXT, FIELD(mmproj), 0, 0, false},
    {"--mmproj-optional", FLAG_U32, FIELD(mmproj_optional), 0, 1, false},
    {"--checkpoint-files", FLAG_TEXT, FIELD(checkpoint_files), 0, 0, false},
    {"--checkpoint-fds", FLAG_TEXT, FIELD(checkpoint_fds), 0, 0, false},
    {"--worker-index", FLAG_U32, FIELD(worker_index), 0, LIMIT_WORKERS - 1, false},
    {"--worker-count", FLAG_U32, FIELD(worker_count), 1, LIMIT_WORKERS, false},
    {"--device-workers", FLAG_U32, FIELD(device_workers), 1, LIMIT_WORKERS, false},
    {"--device", FLAG_DEVICE, FIELD(devices), 0, 0, false},
    {"--cpu-tier", FLAG_CPU_TIER, FIELD(cpu_tier), 0, 0, false},
    {"--vulkan-tier", FLAG_VULKAN_TIER, FIELD(vulkan_tier), 0, 0, false},
    {"--vulkan-validation", FLAG_U32, FIELD(vulkan_validation), 0, 1, false},
    {"--pipeline-cache", FLAG_TEXT, FIELD(pipeline_cache), 0, 0, false},
    {"--profile", FLAG_U32, FIELD(profile), 0, 1, false},
    {"--batch-invariant", FLAG_U32, FIELD(batch_invariant), 0, 1, false},
    {"--threads", FLAG_U32, FIELD(threads), 0, LIMIT_THREADS, false},
    {"--activation-bits", FLAG_U32, FIELD(activation_bits), 8, 16, false},
    {"--max-sequences", FLAG_U32, FIELD(max_sequences), 0, LIMIT_SEQUENCES, false},
    {"--sequences-limit", FLAG_U32, FIELD(sequences_limit), 1, LIMIT_SEQUENCES, false},
    {"--step-tokens", FLAG_U32, FIELD(step_tokens), 1, LIMIT_STEP_ROWS, false},
    {"--mixed-prefill-tokens", FLAG_U32, FIELD(mixed_prefill_tokens), 0, LIMIT_STEP_ROWS, false},
    {"--itl-target-ms", FLAG_U32, FIELD(itl_target_ms), 1, LIMIT_ITL_TARGET_MS, false},
    {"--step-depth", FLAG_U32, FIELD(step_depth), 0, STEP_DEPTH_MAX, false},
    {"--speculation", FLAG_U32, FIELD(speculation), 0, SPECULATION_MTP, false},
    {"--draft-model", FLAG_TEXT, FIELD(draft_model), 0, 0, false},
    {"--context", FLAG_U32, FIELD(context_tokens), 0, LIMIT_CONTEXT_TOKENS, false},
    {"--pooling", FLAG_POOLING, FIELD(pooling), 0, 0, false},
    {"--kv-cache-type", FLAG_KV_TYPE, FIELD(kv_cache_type), 0, 0, false},
    {"--kv-bits", FLAG_HALF_BITS, FIELD(kv_request.half_bits), 0, 0, false},
    {"--kv-key-bits", FLAG_HALF_BITS, FIELD(kv_request.key_half_bits), 0, 0, false},
    {"--kv-value-bits", FLAG_HALF_BITS, FIELD(kv_request.value_half_bits), 0, 0, false},
    {"--kv-quant-scheme", FLAG_KV_SCHEME, FIELD(kv_request.scheme), 0, 0, false},
    {"--kv-group-size", FLAG_U32, FIELD(kv_request.group_size), 0, LIMIT_HEAD_DIM, false},
    {"--quantized-kv-start", FLAG_U32, FIELD(kv_request.start_tokens), 0, LIMIT_CONTEXT_TOKENS,
     false},
    {"--kv-cache-bytes", FLAG_U64, FIELD(kv_cache_bytes), 0, KV_CACHE_BYTES_MAX, false},
    {"--vision-patches", FLAG_U32, FIELD(vision_patches), 1, LIMIT_PATCH_ROWS, false},
    {"--vision-cache-size", FLAG_U32, FIELD(vision_cache_size), 0, LIMIT_KEPT_IMAGES, false},
    {"--vision-cache-bytes", FLAG_U64, FIELD(vision_cache_bytes), 0, KV_CACHE_BYTES_MAX, false},
    {"--kv-cache-share", FLAG_U32, FIELD(kv_cache_share), 0, 95, false},
    {"--prefix-cache", FLAG_U32, FIELD(prefix_cache), 0, 1, false},
    {"--verify-weights", FLAG_U32, FIELD(verify_weights), 0, 1, false},
    {"--sandbox", FLAG_SANDBOX, FIELD(sandbox), 0, 0, false},
    {"--allow-debug", FLAG_U32, FIELD(allow_debug), 0, 1, false},
    {"--fault", FLAG_TEXT, FIELD(fault), 0, 0, false},
    {"--log-level", FLAG_LOG_LEVEL, FIELD(log_level), 0, 0, false},
    {"--log-format", FLAG_LOG_FORMAT, FIELD(log_format), 0, 0, false},
};
#define FLAG_COUNT (sizeof flags / sizeof flags[0])

static enum result parse_number(const struct flag *flag, const char *text, uint64_t *number,
                                struct error_text *error)
{
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || text[0] < '0' || text[0] > '9' ||
        value < flag->low || value > flag->high)
        return error_set(error, RESULT_INVALID, "%s must be a number from %llu to %llu, not \"%s\"",
                         flag->name, (unsigned long long)flag->low, (unsigned long long)flag->high,
                         text);
    *number = value;
    return RESULT_OK;
}

/* Parses a flag whose value is one of some words: 0, or -1 with the valid words in *words. */
static int set_word(const struct flag *flag, const char *text, void *field, const char **words)
{
    switch (flag->type) {
    case FLAG_DEVICE:
        *words = "cpu, vulkan or vulkan:N, or several of these with + between";
        return device_set_parse(text, field);
    case FLAG_CPU_TIER:
        *words = "best, portable, avx2, avx512, amx, neon, dotprod or i8mm";
        return cpu_tier_parse(text, field);
    case FLAG_VULKAN_TIER:
        *words = "scalar, dot, khr-matrix, nv-matrix2 or ptx";
        return vulkan_tier_parse(text, field);
    case FLAG_POOLING:
        *words = "off, last, mean, cls, max or none";
        return pooling_parse(text, field);
    case FLAG_KV_TYPE: *words = "f16 or f32"; return kv_cache_type_parse(text, field);
    case FLAG_KV_SCHEME:
        *words = "uniform or turboquant";
        return kv_quant_scheme_parse(text, field);
    case FLAG_HALF_BITS:
        *words = "a multiple of 0.5, at most 8";
        return kv_half_bits_parse(text, field);
    case FLAG_SANDBOX: *words = "auto or off"; return worker_sandbox_parse(text, field);
    case FLAG_LOG_FORMAT: *words = "text or json"; return log_format_parse(text, field);
    case FLAG_LOG_LEVEL: *words = "error, warn, info or debug"; return log_level_parse(text, field);
    default:
        must(flag->type == FLAG_TEXT);
        *(const char **)field = text;
        return 0;
    }
}

static enum result set_flag(const struct flag *flag, const char *text,
                            struct worker_options *options, struct error_text *error)
{
    void *field = (char *)options + flag->offset;
    if (flag->type != FLAG_INT && flag->type != FLAG_U32 && flag->type != FLAG_U64) {
        const char *words = "";
        return set_word(flag, text, field, &words) == 0
                   ? RESULT_OK
                   : error_set(error, RESULT_INVALID, "%s must be %s, not \"%s\"", flag->name,
                               words, text);
    }
    uint64_t number = 0;
    enum result result = parse_number(flag, text, &number, error);
    if (result != RESULT_OK)
        return result;
    if (flag->type == FLAG_INT)
        *(int *)field = (int)number;
    else if (flag->type == FLAG_U32)
        *(uint32_t *)field = (uint32_t)number;
    else
        *(uint64_t *)field = number;
    return RESULT_OK;
}

/* The default on a CPU; the bound of the choice on a GPU (worker_process.c). */
static void choose_sequences(struct worker_options *options)
{
    if (options->max_sequences > 0)
        return;
    options->chooses_sequences = options->device_kind != DEVICE_CPU;
    options->max_sequences = options->chooses_sequences ? GPU_SEQUENCES_MAX : CPU_SEQUENCES;
    if (options->max_sequences > options->sequences_limit)
        options->max_sequences = options->sequences_limit;
    if (options->step_tokens > 0 && options->max_sequences > options->step_tokens)
        options->max_sequences = options->step_tokens;
}

/* Sets the options that depend on others. */
static enum result complete(struct worker_options *options, struct error_text *error)
{
    options->device_kind = device_set_kind(&options->devices);
    choose_sequences(options);
    uint32_t usual = options->device_kind == DEVICE_CPU ? CPU_STEP_TOKENS : GPU_STEP_TOKENS;
    if (options->step_tokens == 0)
        options->step_tokens = options->max_sequences > usual ? options->max_sequences : usual;
    if (options->step_tokens < options->max_sequences)
        return error_set(error, RESULT_INVALID,
                         "--step-tokens %u is below --max-sequences %u: a step has a row for "
                         "every sequence",
                         options->step_tokens, options->max_sequences);
    if (options->activation_bits != 8 && options->activation_bits != 16)
        return error_set(error, RESULT_INVALID, "--activation-bits %u: 8 or 16",
                         options->activation_bits);
    if (options->activation_bits == 16 && options->device_kind != DEVICE_CPU)
        return error_set(error, RESULT_INVALID, "--activation-bits 16 is only for the CPU");
    if (options->device_workers == 0)
        options->device_workers = options->worker_count;
    return kv_quantization_resolve(&options->kv_request, &options->kv_quantization, error);
}

enum result worker_options_parse(int argc, char **argv, struct worker_options *options,
                                 struct error_text *error)
{
    *options = (struct worker_options){.weights_fd = -1,
                                       .weights_send_fd = -1,
                                       .kv_memory_fd = -1,
                                       .kv_vault_fd = -1,
                                       .kv_send_fd = -1,
                                       .prefix_load_fd = -1,
                                       .prefix_save_fd = -1,
                                       .adapter_fd = -1,
                                       .standby_fd = -1,
                                       .life_fd = -1,
                                       .device_work_fd = -1,
                                       .devices = {.count = 1, .devices = {{DEVICE_CPU, 0}}},
                                       .vulkan_tier = VULKAN_TIER_HIGHEST,
                                       .worker_count = 1,
                                       .activation_bits = 8,
                                       .sequences_limit = LIMIT_SEQUENCES,
                                       .itl_target_ms = ITL_TARGET_MS,
                                       .prefix_cache = 1,
                                       .vision_patches = LIMIT_PATCH_ROWS,
                                       .vision_cache_size = DEFAULT_KEPT_IMAGES,
                                       .log_level = LOG_INFO};
    bool given[FLAG_COUNT] = {false};
    for (int i = 1; i < argc; i += 2) {
        size_t at = 0;
        while (at < FLAG_COUNT && strcmp(argv[i], flags[at].name) != 0)
            at++;
        if (at == FLAG_COUNT)
            return error_set(error, RESULT_INVALID, "unknown flag \"%s\"", argv[i]);
        if (i + 1 >= argc)
            return error_set(error, RESULT_INVALID, "%s needs a value", argv[i]);
        enum result result = set_flag(&flags[at], argv[i + 1], options, error);
        if (result != RESULT_OK)
            return result;
        given[at] = true;
    }
    for (size_t at = 0; at < FLAG_COUNT; at++) {
        if (flags[at].required && !given[at])
            return error_set(error, RESULT_INVALID, "%s is missing", flags[at].name);
    }
    return complete(options, error);
}

void worker_options_print(const struct worker_options *options)
{
    char device[DEVICE_SET_BYTES];
    device_set_write(&options->devices, device);
    char quantization[KV_QUANTIZATION_TEXT_BYTES];
    kv_quantization_write(&options->kv_quantization, quantization);
    log_info("options: model %s, parent-pid %d, segment-fd %d, submit-bell-fd %d, event-bell-fd "
             "%d, weights-fd %d, weights-send-fd %d, kv-memory-fd %d, kv-vault-fd %d, kv-send-fd "
             "%d, prefix-load-fd %d, prefix-save-fd %d, prefix-save-bytes %llu, adapter-fd %d, "
             "standby-fd %d, life-fd %d, device-work-fd %d, "
             "worker-index %u, "
             "worker-count %u, "
             "device-workers %u, device %s, cpu-tier %s, vulkan-tier %s, vulkan-validation %u, "
             "pipeline-cache "
             "%s, profile %u, batch-invariant %u, threads %u, activation-bits %u, max-sequences "
             "%u, step-tokens %u, "
             "mixed-prefill-tokens "
             "%u, itl-target-ms %u, step-depth %u, speculation %u, draft-model %s, context %u, "
             "pooling %s, "
             "kv-cache-type %s, "
             "kv quantization "
             "%s, kv-cache-bytes "
             "%llu, vision-patches "
             "%u, vision-cache-size %u, vision-cache-bytes %llu, kv-cache-share %u, "
             "prefix-cache %u, "
             "verify-weights %u, sandbox %s, allow-debug %u, fault %s, log-level %d",
             options->model, options->parent_pid, options->segment_fd, options->submit_bell_fd,
             options->event_bell_fd, options->weights_fd, options->weights_send_fd,
             options->kv_memory_fd, options->kv_vault_fd, options->kv_send_fd,
             options->prefix_load_fd, options->prefix_save_fd,
             (unsigned long long)options->prefix_save_bytes, options->adapter_fd,
             options->standby_fd, options->life_fd, options->device_work_fd, options->worker_index,
             options->worker_count, options->device_workers, device,
             cpu_tier_name(options->cpu_tier), vulkan_tier_name(options->vulkan_tier),
             options->vulkan_validation, options->pipeline_cache ? options->pipeline_cache : "none",
             options->profile, options->batch_invariant, options->threads, options->activation_bits,
             options->max_sequences, options->step_tokens, options->mixed_prefill_tokens,
             options->itl_target_ms, options->step_depth, options->speculation,
             options->draft_model ? options->draft_model : "none", options->context_tokens,
             pooling_name(options->pooling), kv_cache_type_name(options->kv_cache_type),
             quantization, (unsigned long long)options->kv_cache_bytes, options->vision_patches,
             options->vision_cache_size, (unsigned long long)options->vision_cache_bytes,
             options->kv_cache_share, options->prefix_cache, options->verify_weights,
             worker_sandbox_name(options->sandbox), options->allow_debug,
             options->fault ? options->fault : "none", (int)options->log_level);
}
