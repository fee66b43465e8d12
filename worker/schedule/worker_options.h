/*
 * The worker's options: one struct, set by flags (worker/README.md has the table), printed at
 * start.
 */
#ifndef SHOAL_WORKER_SCHEDULE_WORKER_OPTIONS_H
#define SHOAL_WORKER_SCHEDULE_WORKER_OPTIONS_H

#include <stdint.h>

#include "proto/device_name.h"
#include "proto/kv_cache_type.h"
#include "proto/kv_quantization.h"
#include "proto/log.h"
#include "proto/result.h"
#include "worker/backend/host/vulkan_tier.h"

struct worker_options {
    int segment_fd;
    int submit_bell_fd;
    int event_bell_fd;
    int weights_fd;      /* the vault, or -1 */
    int weights_send_fd; /* of a vault of descriptors: where it is filled; else -1 */
    int parent_pid;
    const char *model; /* path; points into argv */
    uint32_t worker_index;
    uint32_t worker_count;   /* that share the machine: defaults are parts of it */
    uint32_t device_workers; /* of these, those that share the device; 0 = all */
    struct device_name device;
    enum vulkan_tier vulkan_tier; /* nothing above it is used */
    uint32_t vulkan_validation;   /* 1: under the validation layer */
    const char *pipeline_cache;   /* folder, or NULL */
    uint32_t profile;             /* 1: times of ops in the log */
    uint32_t threads;
    uint32_t activation_bits; /* on a CPU: 8 or 16 */
    uint32_t max_sequences;
    uint32_t step_tokens;
    uint32_t mixed_prefill_tokens;
    uint32_t step_depth; /* steps launched and not yet read, at most; 0 = the backend's choice */
    uint32_t context_tokens; /* 0 = the model's, as far as the KV memory goes */
    enum kv_cache_type kv_cache_type;
    struct kv_quantization_wish kv_wish;    /* as flags say it */
    struct kv_quantization kv_quantization; /* what follows */
    uint64_t kv_cache_bytes;                /* 0 = chosen from the machine's memory */
    uint32_t vision_patches;                /* rows of the vision tower at once, at most */
    uint32_t vision_cache_size;             /* images whose features are kept */
    uint64_t vision_cache_bytes;            /* of the feature pool; 0 = chosen from the two */
    uint32_t kv_cache_share;                /* percent of the memory, instead; 0 = none */
    uint32_t prefix_cache;                  /* 1: computed prefixes are kept and shared */
    uint32_t verify_weights; /* 1: an adopted vault is read whole and held against its checksums */
    const char *fault;       /* as given, or NULL: worker_fault.h */
    enum log_level log_level;
    enum log_format log_format;
};

/* Fills in every default. RESULT_INVALID names the flag that is unknown, missing, out of range or
 * at odds with another one. */
enum result worker_options_parse(int argc, char **argv, struct worker_options *options,
                                 struct error_text *error) RESULT_CHECKED;
/* One log line. */
void worker_options_print(const struct worker_options *options);

#endif
