/*
 * The identity is a hash of everything that decides keys, values and their layout: the program file,
 * the checkpoint's fingerprint and the options. All of these give the same layouts and the same
 * numbers, so a vault of the same identity needs no further description, except the sizes that
 * follow from memory.
 */
#include "worker/schedule/kv_inheritance.h"

#include <sys/stat.h>

#include "proto/log.h"
#include "worker/plan/content_hash.h"

/* Without padding, so that it can be hashed. */
struct identity {
    uint64_t program_device;
    uint64_t program_inode;
    uint64_t program_bytes;
    int64_t program_modified_s;
    int64_t program_modified_ns;
    struct model_fingerprint checkpoint;
    uint32_t device_kind;
    uint32_t device_index;
    uint32_t vulkan_tier;
    uint32_t activation_bits;
    uint32_t kv_cache_type;
    uint32_t quant_scheme;
    uint32_t key_half_bits;
    uint32_t value_half_bits;
    uint32_t group_size;
    uint32_t start_tokens;
    uint32_t vision_patches;
    uint32_t reserved;
};
_Static_assert(sizeof(struct identity) == 5 * 8 + sizeof(struct model_fingerprint) + 12 * 4,
               "hashed as bytes: no padding");

void kv_inheritance_identify(struct kv_inheritance *inheritance,
                             const struct worker_options *options, struct backend_options *backend)
{
    struct stat program;
    *inheritance = (struct kv_inheritance){.options = options};
    if (options->kv_memory_fd < 0)
        return;
    if (options->prefix_cache == 0) {
        log_info("KV cache: it ends with this worker, because the prefix cache is off");
        return;
    }
    if (stat("/proc/self/exe", &program) != 0) {
        log_warn("KV cache: it ends with this worker: /proc/self/exe cannot be read");
        return;
    }
    const struct kv_quantization *quantization = &options->kv_quantization;
    const struct identity identity = {
        .program_device = program.st_dev,
        .program_inode = program.st_ino,
        .program_bytes = (uint64_t)program.st_size,
        .program_modified_s = program.st_mtim.tv_sec,
        .program_modified_ns = program.st_mtim.tv_nsec,
        .checkpoint = backend->checkpoint,
        .device_kind = options->device.kind,
        .device_index = options->device.index,
        .vulkan_tier = options->vulkan_tier,
        .activation_bits = options->activation_bits,
        .kv_cache_type = options->kv_cache_type,
        .quant_scheme = quantization->scheme,
        .key_half_bits = quantization->key_half_bits,
        .value_half_bits = quantization->value_half_bits,
        .group_size = quantization->group_size,
        .start_tokens = quantization->start_tokens,
        .vision_patches = options->vision_patches,
    };
    inheritance->identity = content_hash(&identity, sizeof identity, 0);
    inheritance->is_on = true;
    backend->kept = (struct kept_pools){.is_given = true,
                                        .memory_fd = options->kv_memory_fd,
                                        .vault_fd = options->kv_vault_fd,
                                        .send_fd = options->kv_send_fd};
}

uint64_t kv_inheritance_limit(const struct kv_inheritance *inheritance)
{
    if (!inheritance->is_on)
        return 0;
    return kv_vault_limit(inheritance->options->kv_memory_fd, inheritance->identity);
}

void kv_inheritance_open(struct kv_inheritance *inheritance, const struct plan *plan,
                         const struct kv_budget *budget, uint64_t limit_bytes,
                         struct backend_options *backend)
{
    const struct worker_options *options = inheritance->options;
    if (!inheritance->is_on)
        return;
    struct kv_vault *vault = &inheritance->vault;
    struct kv_vault_shape shape = {.identity = inheritance->identity, .limit_bytes = limit_bytes};
    for (uint32_t group = 0; group < plan->kv.group_count; group++)
        shape.counts[group] = budget->blocks[group];
    shape.counts[PREFIX_CHECKPOINT] = budget->checkpoint_slots;
    if (options->device.kind == DEVICE_CPU)
        shape.data_bytes =
            kept_pools_lay(plan, backend->kv_type, backend->kv_blocks, backend->state_slots)
                .byte_count;
    struct error_text error;
    if (kv_vault_open(options->kv_memory_fd, &shape, vault, &error) != RESULT_OK) {
        log_warn("KV cache: it ends with this worker: %s", error.text);
        inheritance->is_on = false;
        backend->kept = (struct kept_pools){.is_given = false};
        return;
    }
    if (vault->reason.text[0])
        log_info("KV cache: that of an earlier worker is not used: %s", vault->reason.text);
    backend->kept.adopt = vault->adopted;
    backend->kept.pool = vault->pool;
    backend->kept.next_pool = kv_vault_draw_pool();
    backend->kept.memory_offset = vault->data_offset;
}

void kv_inheritance_settle(struct kv_inheritance *inheritance, const struct backend *backend,
                           const struct backend_options *options)
{
    if (!inheritance->is_on)
        return;
    const char *reason;
    enum kept_pools_origin origin = backend->interface->pools_origin(backend, &reason);
    if (origin == KEPT_POOLS_PRIVATE) {
        log_warn("KV cache: it ends with this worker: %s", reason);
        /* Another worker's records must not be taken for this one's. */
        kv_vault_renew(&inheritance->vault, options->kept.next_pool);
        return;
    }
    if (origin == KEPT_POOLS_NEW && inheritance->vault.adopted) {
        log_info("KV cache: that of an earlier worker is not used: %s", reason);
        kv_vault_renew(&inheritance->vault, options->kept.next_pool);
    }
    const struct kv_ledger_memory memory = kv_vault_ledger(&inheritance->vault);
    if (kv_ledger_create(&memory, &inheritance->ledger) != RESULT_OK)
        log_warn("KV cache: it ends with this worker: no memory for the ledger's books");
}

void kv_inheritance_log(const struct kv_inheritance *inheritance,
                        const struct prefix_restored *restored)
{
    if (inheritance->ledger && inheritance->vault.adopted)
        log_info("KV cache: %u blocks of an earlier worker taken over; %u damaged records, %u "
                 "redundant",
                 restored->blocks, restored->damaged, restored->redundant);
}

void kv_inheritance_fini(struct kv_inheritance *inheritance)
{
    kv_ledger_destroy(inheritance->ledger);
    kv_vault_close(&inheritance->vault);
    *inheritance = (struct kv_inheritance){0};
}
