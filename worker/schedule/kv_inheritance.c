/*
 * The identity is a hash of everything that decides keys, values and their layout: the program file,
 * the checkpoint's fingerprint and the options. All of these give the same layouts and the same
 * numbers, so a vault of the same identity needs no further description, except the sizes that
 * follow from memory.
 */
#include "worker/schedule/kv_inheritance.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "proto/log.h"
#include "worker/plan/content_hash.h"

#define SAVE_MS  3000u /* the frontend waits 5 s for a drained worker to end */
#define MEGABYTE 1000000.0

/* Without padding, so that it can be hashed. */
struct identity {
    uint64_t program_device;
    uint64_t program_inode;
    uint64_t program_bytes;
    int64_t program_modified_s;
    int64_t program_modified_ns;
    uint64_t feature_rows;
    uint64_t cpu_tier;
    struct model_fingerprint checkpoint;
    uint32_t device_kind;
    uint32_t device_index;
    uint32_t vulkan_tier;
    uint32_t activation_bits;
    uint32_t batch_invariant;
    uint32_t kv_cache_type;
    uint32_t quant_scheme;
    uint32_t key_half_bits;
    uint32_t value_half_bits;
    uint32_t group_size;
    uint32_t start_tokens;
    uint32_t vision_patches;
};
_Static_assert(sizeof(struct identity) == 7 * 8 + sizeof(struct model_fingerprint) + 12 * 4,
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
        .feature_rows = backend->feature_rows,
        .cpu_tier = options->cpu_tier,
        .checkpoint = backend->checkpoint,
        .device_kind = options->device_kind,
        .device_index = options->devices.devices[0].index,
        .vulkan_tier = options->vulkan_tier,
        .activation_bits = options->activation_bits,
        .batch_invariant = options->batch_invariant,
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

/* Where blocks and checkpoints are in the pools' memory. */
static void describe_pools(struct kv_inheritance *inheritance, const struct plan *plan,
                           const struct kv_budget *budget, const struct backend_options *backend)
{
    struct prefix_file_pools *saved = &inheritance->saved;
    const struct kept_pools_places places =
        kept_pools_lay(plan, backend->kv_type, backend->kv_blocks, backend->state_slots,
                       backend_feature_bytes(backend));
    *saved = (struct prefix_file_pools){.identity = inheritance->identity};
    for (uint32_t group = 0; group < plan->kv.group_count; group++) {
        saved->offsets[group] = places.groups[group];
        saved->block_bytes[group] =
            kv_layout_block_bytes(&plan->kv, group, kv_cache_type_bytes(backend->kv_type));
    }
    if (budget->checkpoint_slots > 0) {
        uint64_t slot_bytes = state_layout_slot_bytes(&plan->state);
        saved->offsets[PREFIX_CHECKPOINT] = places.state + budget->max_sequences * slot_bytes;
        saved->block_bytes[PREFIX_CHECKPOINT] = slot_bytes;
    }
    if (backend->vision) {
        saved->offsets[PREFIX_FILE_FEATURES] = places.features;
        saved->block_bytes[PREFIX_FILE_FEATURES] =
            backend_feature_bytes(backend) / backend->feature_rows;
    }
    inheritance->pool_bytes = places.byte_count;
}

void kv_inheritance_open(struct kv_inheritance *inheritance, const struct plan *plan,
                         const struct kv_budget *budget, uint64_t limit_bytes,
                         struct backend_options *backend)
{
    const struct worker_options *options = inheritance->options;
    if (!inheritance->is_on)
        return;
    struct kv_vault *vault = &inheritance->vault;
    struct kv_vault_shape shape = {.identity = inheritance->identity,
                                   .limit_bytes = limit_bytes,
                                   .in_use = options->standby_fd >= 0};
    for (uint32_t group = 0; group < plan->kv.group_count; group++)
        shape.counts[group] = budget->blocks[group];
    shape.counts[PREFIX_CHECKPOINT] = budget->checkpoint_slots;
    if (backend->vision)
        shape.images = feature_cache_capacity(options->vision_cache_size);
    inheritance->first_checkpoint = budget->max_sequences;
    if (options->device_kind == DEVICE_CPU) {
        describe_pools(inheritance, plan, budget, backend);
        shape.data_bytes = inheritance->pool_bytes;
    }
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
    backend->kept.in_use = shape.in_use;
    backend->kept.pool = vault->pool;
    backend->kept.next_pool = kv_vault_draw_pool();
    backend->kept.memory_offset = vault->data_offset;
}

static enum result device_copy(void *context, uint32_t store, uint32_t number, bool out,
                               void *bytes, struct error_text *error)
{
    struct kv_inheritance *inheritance = context;
    /* Checkpoints are the slots after those of running sequences. */
    uint32_t first = store == PREFIX_CHECKPOINT ? inheritance->first_checkpoint : 0;
    const struct kept_pools_copy copy = {
        .out = out, .store = store, .number = first + number, .bytes = bytes};
    return inheritance->backend->interface->kept_block_copy(inheritance->backend, &copy, error);
}

_Static_assert(PREFIX_CHECKPOINT == KEPT_POOLS_STATE && PREFIX_FILE_FEATURES == KEPT_POOLS_FEATURES,
               "stores of the file are the pools'");

/* The same for pools on a device, once they are there. */
static void describe_device_pools(struct kv_inheritance *inheritance, struct backend *backend)
{
    const struct kept_pools_blocks blocks = backend->interface->kept_blocks(backend);
    struct prefix_file_pools *saved = &inheritance->saved;
    inheritance->backend = backend;
    *saved = (struct prefix_file_pools){
        .identity = content_hash(&blocks.identity, sizeof blocks.identity, inheritance->identity),
        .copy = device_copy,
        .context = inheritance};
    for (uint32_t store = 0; store < PREFIX_STORES; store++)
        saved->block_bytes[store] =
            inheritance->vault.shape.counts[store] > 0 ? blocks.bytes[store] : 0;
    saved->block_bytes[PREFIX_FILE_FEATURES] = blocks.bytes[PREFIX_FILE_FEATURES];
}

/* Makes the pools accessible: host memory, which the backend has mapped too, is mapped. */
static bool pools_map(struct kv_inheritance *inheritance)
{
    if (inheritance->backend)
        return true;
    void *memory = mmap(NULL, inheritance->pool_bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
                        inheritance->options->kv_memory_fd, (off_t)inheritance->vault.data_offset);
    inheritance->saved.memory = memory == MAP_FAILED ? NULL : memory;
    return inheritance->saved.memory != NULL;
}

static void pools_unmap(struct kv_inheritance *inheritance)
{
    if (inheritance->backend)
        return;
    munmap(inheritance->saved.memory, inheritance->pool_bytes);
    inheritance->saved.memory = NULL;
}

static void ledger_begin(struct kv_inheritance *inheritance)
{
    const struct kv_ledger_memory memory = kv_vault_ledger(&inheritance->vault);
    if (kv_ledger_create(&memory, &inheritance->ledger) != RESULT_OK)
        log_warn("KV cache: it ends with this worker: no memory for the ledger's books");
}

/* After the vault was renewed, if it was. */
static void features_begin(struct kv_inheritance *inheritance, const struct backend *backend,
                           const struct backend_options *options)
{
    if (!options->vision)
        return;
    struct feature_ledger_memory memory = kv_vault_feature_ledger(&inheritance->vault);
    memory.encodes_at_once = backend->interface->kept_blocks == NULL;
    inheritance->features = feature_ledger_create(&memory);
    inheritance->saved.features = inheritance->features;
    inheritance->saved.feature_rows = options->feature_rows;
    inheritance->saved.kept_images = inheritance->options->vision_cache_size;
}

static void ledgers_end(struct kv_inheritance *inheritance)
{
    kv_ledger_destroy(inheritance->ledger);
    feature_ledger_destroy(inheritance->features);
    inheritance->ledger = NULL;
    inheritance->features = inheritance->saved.features = NULL;
}

/* The ledgers that follow are empty unless the whole file is valid. */
static void load_file(struct kv_inheritance *inheritance, const struct backend *backend,
                      const struct backend_options *options)
{
    int fd = inheritance->options->prefix_load_fd;
    struct prefix_file_head head;
    struct error_text error = {"its memory cannot be mapped"};
    enum result result = RESULT_OUT_OF_MEMORY;
    if (pools_map(inheritance)) {
        result = prefix_file_open(fd, &inheritance->saved, &head, &error);
        if (result == RESULT_OK) {
            kv_vault_renew_with_key(&inheritance->vault, &head.key);
            ledger_begin(inheritance);
            features_begin(inheritance, backend, options);
        }
        if (result == RESULT_OK && inheritance->ledger) {
            result = prefix_file_load(fd, &inheritance->saved, &head, inheritance->ledger,
                                      &inheritance->loaded, &error);
            if (result != RESULT_OK) {
                /* The key may be known to others. */
                const struct keyed_hash_key key = keyed_hash_random_key();
                ledgers_end(inheritance);
                kv_vault_renew_with_key(&inheritance->vault, &key);
            }
        }
        pools_unmap(inheritance);
    }
    if (result != RESULT_OK)
        log_warn("prefix cache: the saved one is not used: %s", error.text);
}

void kv_inheritance_settle(struct kv_inheritance *inheritance, struct backend *backend,
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
    if (inheritance->pool_bytes == 0)
        describe_device_pools(inheritance, backend);
    if (origin == KEPT_POOLS_NEW && inheritance->options->prefix_load_fd >= 0)
        load_file(inheritance, backend, options);
    if (!inheritance->ledger)
        ledger_begin(inheritance);
    if (inheritance->ledger && !inheritance->features)
        features_begin(inheritance, backend, options);
}

bool kv_inheritance_save(struct kv_inheritance *inheritance)
{
    const struct worker_options *options = inheritance->options;
    const struct prefix_file_limits limits = {.bytes = options->prefix_save_bytes,
                                              .save_ms = SAVE_MS};
    struct prefix_file_figures figures;
    struct error_text error = {"its memory cannot be mapped"};
    if (!inheritance->ledger || options->prefix_save_fd < 0)
        return true;
    enum result result = RESULT_OUT_OF_MEMORY;
    if (pools_map(inheritance)) {
        result = prefix_file_save(options->prefix_save_fd, &inheritance->saved, inheritance->ledger,
                                  &limits, &figures, &error);
        pools_unmap(inheritance);
    }
    if (result == RESULT_OK)
        log_info("prefix cache: %u blocks saved in %.1f MB; %u left out by the limits",
                 figures.blocks, (double)figures.bytes / MEGABYTE, figures.left);
    if (result == RESULT_OK && inheritance->features)
        log_info("features of images: %u saved with it; %u left out by the limits", figures.images,
                 figures.images_left);
    if (result != RESULT_OK)
        log_warn("prefix cache: it cannot be saved: %s", error.text);
    return result == RESULT_OK;
}

void kv_inheritance_log(const struct kv_inheritance *inheritance,
                        const struct prefix_restored *restored,
                        const struct feature_restored *features)
{
    if (inheritance->ledger && inheritance->vault.adopted)
        log_info("KV cache: %u blocks of an earlier worker taken over; %u damaged records, %u "
                 "redundant",
                 restored->blocks, restored->damaged, restored->redundant);
    if (inheritance->features && inheritance->vault.adopted)
        log_info("features of images: %u of an earlier worker taken over; %u damaged records",
                 features->images, features->damaged);
    if (inheritance->loaded.bytes > 0)
        log_info("prefix cache: %u blocks of an earlier server loaded from %.1f MB; %u had no room",
                 restored->blocks, (double)inheritance->loaded.bytes / MEGABYTE,
                 inheritance->loaded.left);
    if (inheritance->loaded.bytes > 0 && inheritance->features)
        log_info("features of images: %u of an earlier server loaded; %u had no room",
                 features->images, inheritance->loaded.images_left);
}

void kv_inheritance_fini(struct kv_inheritance *inheritance)
{
    ledgers_end(inheritance);
    kv_vault_close(&inheritance->vault);
    *inheritance = (struct kv_inheritance){0};
}
