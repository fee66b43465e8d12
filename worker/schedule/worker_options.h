/*
 * The worker's options: one struct, set by flags (table in worker/README.md), printed at start.
 */
#ifndef SHOAL_WORKER_SCHEDULE_WORKER_OPTIONS_H
#define SHOAL_WORKER_SCHEDULE_WORKER_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/device_name.h"
#include "proto/kv_cache_type.h"
#include "proto/kv_quantization.h"
#include "proto/log.h"
#include "proto/pooling.h"
#include "proto/result.h"
#include "worker/backend/host/cpu_tier.h"
#include "worker/backend/host/vulkan_tier.h"
#include "worker/schedule/worker_sandbox.h"

struct worker_options {
    int segment_fd;
    int submit_bell_fd;
    int event_bell_fd;
    int weights_fd;      /* the vault, or -1 */
    int weights_send_fd; /* socket that fills a vault of descriptors, or -1 */
    int kv_memory_fd;    /* vault of the KV cache: its memory, or -1 */
    int kv_vault_fd;     /* for a device: the vault of descriptors of the KV cache, or -1 */
    int kv_send_fd;      /* and the socket that fills it, or -1 */
    int prefix_load_fd;  /* file with the prefix cache of an earlier server, or -1 */
    int prefix_save_fd;  /* file for this worker's prefix cache when it drains, or -1 */
    int adapter_fd;      /* memory of LoRA adapters, or -1 */
    int standby_fd;      /* eventfd: this worker waits until it is rung (standby_wait.h); -1: no */
    int life_fd; /* held to the end of the process: the frontend sees when it is closed; or -1 */
    int device_work_fd; /* memory for marks of the device's work (shm/device_work.h), or -1 */
    int parent_pid;
    const char *model;            /* path; points into argv */
    const char *mmproj;           /* projector file of a GGUF model, or NULL */
    uint32_t mmproj_optional;     /* 1: if it cannot be used, the text is served */
    const char *checkpoint_files; /* that it may have (proto/checkpoint_files.h); NULL: any */
    const char *checkpoint_fds;   /* descriptors of these (proto/opened_files.h), or NULL */
    uint32_t worker_index;
    uint32_t worker_count;   /* workers on this machine; defaults are shares of it */
    uint32_t device_workers; /* of these, workers on the same device; 0 = all */
    struct device_set devices;
    enum device_kind device_kind; /* of `devices`: the CPU only if all are */
    enum cpu_tier cpu_tier;
    enum vulkan_tier vulkan_tier; /* highest tier to use */
    uint32_t vulkan_validation;   /* 1: run under the validation layer */
    const char *pipeline_cache;   /* directory, or NULL */
    uint32_t profile;             /* 1: log the times of ops */
    uint32_t batch_invariant;     /* 1: a row's numbers depend on its sequence only */
    uint32_t threads;
    uint32_t activation_bits; /* on a CPU: 8 or 16 */
    uint32_t max_sequences;   /* or of the choice, at most */
    uint32_t sequences_limit; /* of the choice, at most */
    bool chooses_sequences;   /* --max-sequences 0 on a GPU: the memory decides */
    uint32_t step_tokens;
    uint32_t mixed_prefill_tokens; /* 0 = chosen by the price of rows */
    uint32_t itl_target_ms;
    uint32_t step_depth;     /* maximum steps launched and not read; 0 = the backend's choice */
    uint32_t speculation;    /* enum speculation; tokens are drafted where that is exact */
    const char *draft_model; /* path of a smaller model that drafts, or NULL */
    uint32_t context_tokens; /* 0 = the model's, limited by the KV memory */
    enum pooling pooling;    /* not OFF: requests get vectors, not text */
    enum kv_cache_type kv_cache_type;
    struct kv_quantization_request kv_request; /* values of the flags */
    struct kv_quantization kv_quantization;    /* resolved from kv_request */
    uint64_t kv_cache_bytes;                   /* 0 = chosen by the memory of machine or device */
    uint32_t vision_patches;                   /* maximum rows of the vision tower at once */
    uint32_t vision_cache_size;                /* images whose features are kept */
    uint64_t vision_cache_bytes; /* size of the feature pool; 0 = chosen from the two above */
    uint32_t kv_cache_share;     /* instead of kv_cache_bytes: percent of the memory; 0 = not set */
    uint32_t prefix_cache;       /* 1: computed prefixes are kept and shared */
    uint64_t prefix_save_bytes;  /* maximum size of the file */
    uint32_t verify_weights;     /* 1: compare an adopted vault with its checksums */
    enum worker_sandbox sandbox;
    uint32_t allow_debug; /* 1: debuggers and core dumps are allowed */
    const char *fault;    /* text of --fault or NULL (worker_fault.h) */
    enum log_level log_level;
    enum log_format log_format;
};

/* Sets all defaults, then the flags. RESULT_INVALID names the flag that is unknown, missing, out of
 * range or inconsistent with another one. */
enum result worker_options_parse(int argc, char **argv, struct worker_options *options,
                                 struct error_text *error) RESULT_CHECKED;
/* Writes one log line. */
void worker_options_print(const struct worker_options *options);

#endif
