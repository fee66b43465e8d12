/*
 * Head and records are mapped; the pools' memory is mapped by the backend (kv_vault.h has the
 * layout).
 *
 * One process uses the vault at a time: the frontend starts a worker, or rings a standby that has it
 * mapped, after it has reaped the one before. No lock is needed, and no order between processes.
 * A new pool is begun by truncating the file to nothing, which frees the old pool and clears all
 * commit words; the head follows last, so a death in between leaves a vault without an intact head.
 *
 * No size, count or offset is taken from the vault, except limit_bytes, which only the budget uses.
 */
#include "worker/cache/kv_vault.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/must.h"
#include "worker/plan/content_hash.h"

#define RECORDS_OFFSET 4096u
#define DATA_ALIGNMENT ((uint64_t)2 << 20) /* so that the pools can be on large pages */

static uint64_t align_up(uint64_t bytes, uint64_t alignment)
{
    return (bytes + alignment - 1) / alignment * alignment;
}

static uint64_t checksum_of(const struct kv_vault_head *head)
{
    return content_hash(head, offsetof(struct kv_vault_head, checksum), 0);
}

uint64_t kv_vault_draw_pool(void)
{
    uint64_t pool = keyed_hash_random_key().words[0];
    return pool ? pool : 1;
}

static uint64_t record_count(const struct kv_vault_shape *shape)
{
    uint64_t count = 0;
    for (uint32_t store = 0; store < PREFIX_STORES; store++)
        count += shape->counts[store];
    return count;
}

static uint64_t images_offset(const struct kv_vault_shape *shape)
{
    return RECORDS_OFFSET + record_count(shape) * sizeof(struct kv_ledger_record);
}

static struct kv_vault_head head_of(const struct kv_vault *vault)
{
    struct kv_vault_head head = {.version = KV_VAULT_VERSION,
                                 .record_bytes = sizeof(struct kv_ledger_record),
                                 .identity = vault->shape.identity,
                                 .limit_bytes = vault->shape.limit_bytes,
                                 .data_bytes = vault->shape.data_bytes,
                                 .images = vault->shape.images,
                                 .key = vault->key,
                                 .pool = vault->pool};
    memcpy(head.magic, KV_VAULT_MAGIC, sizeof head.magic);
    memcpy(head.counts, vault->shape.counts, sizeof head.counts);
    head.checksum = checksum_of(&head);
    return head;
}

static void write_head(struct kv_vault *vault)
{
    const struct kv_vault_head head = head_of(vault);
    memcpy(vault->bytes, &head, sizeof head);
}

/* H1, H2 and H3; RESULT_EMPTY: nothing was ever written. */
static enum result read_head(int fd, uint64_t identity, struct kv_vault_head *head,
                             struct error_text *reason)
{
    static const struct kv_vault_head nothing;
    if (pread(fd, head, sizeof *head, 0) != sizeof *head ||
        memcmp(head, &nothing, sizeof nothing) == 0)
        return RESULT_EMPTY;
    if (head->checksum != checksum_of(head))
        return error_set(reason, RESULT_CORRUPT, "H1: its head is damaged");
    if (memcmp(head->magic, KV_VAULT_MAGIC, sizeof head->magic) != 0 ||
        head->version != KV_VAULT_VERSION ||
        head->record_bytes != sizeof(struct kv_ledger_record) || head->pool == 0)
        return error_set(reason, RESULT_STALE, "H2: it is of another version");
    if (head->identity != identity)
        return error_set(reason, RESULT_STALE,
                         "H3: it is of another checkpoint, program or set of options");
    return RESULT_OK;
}

uint64_t kv_vault_limit(int fd, uint64_t identity)
{
    struct kv_vault_head head;
    struct error_text unused;
    return read_head(fd, identity, &head, &unused) == RESULT_OK ? head.limit_bytes : 0;
}

static enum result check(int fd, const struct kv_vault_shape *shape, uint64_t file_bytes,
                         struct kv_vault_head *head, struct error_text *reason)
{
    enum result result = read_head(fd, shape->identity, head, reason);
    if (result != RESULT_OK)
        return result;
    if (memcmp(head->counts, shape->counts, sizeof head->counts) != 0 ||
        head->images != shape->images || head->data_bytes != shape->data_bytes)
        return error_set(reason, RESULT_STALE, "H4: it has other numbers of blocks or images");
    struct stat status;
    if (fstat(fd, &status) != 0 || status.st_size < 0 || (uint64_t)status.st_size != file_bytes)
        return error_set(reason, RESULT_CORRUPT, "H5: it has another size");
    return RESULT_OK;
}

enum result kv_vault_open(int fd, const struct kv_vault_shape *shape, struct kv_vault *vault,
                          struct error_text *error)
{
    *vault = (struct kv_vault){.shape = *shape};
    uint64_t byte_count = images_offset(shape) + shape->images * sizeof(struct feature_record);
    vault->data_offset = align_up(byte_count, DATA_ALIGNMENT);
    uint64_t file_bytes = vault->data_offset + shape->data_bytes;
    struct kv_vault_head head;
    vault->adopted = check(fd, shape, file_bytes, &head, &vault->reason) == RESULT_OK;
    if (!vault->adopted && shape->in_use)
        return error_set(error, RESULT_STALE, "it cannot be shared with a running worker: %.150s",
                         vault->reason.text[0] ? vault->reason.text : "it is empty");
    if (!vault->adopted &&
        (file_bytes > INT64_MAX || ftruncate(fd, 0) != 0 || ftruncate(fd, (off_t)file_bytes) != 0))
        return error_set(error, RESULT_IO, "it cannot get %llu bytes: %s",
                         (unsigned long long)file_bytes, strerror(errno));
    void *bytes = mmap(NULL, byte_count, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (bytes == MAP_FAILED)
        return error_set(error, RESULT_IO, "it cannot be mapped: %s", strerror(errno));
    vault->bytes = bytes;
    vault->byte_count = byte_count;
    if (vault->adopted) {
        vault->key = head.key;
        vault->pool = head.pool;
    } else {
        vault->key = keyed_hash_random_key();
        vault->pool = kv_vault_draw_pool();
        write_head(vault);
    }
    return RESULT_OK;
}

void kv_vault_renew(struct kv_vault *vault, uint64_t pool)
{
    must(vault->bytes && pool != 0);
    memset(vault->bytes, 0, vault->byte_count);
    vault->pool = pool;
    vault->adopted = false;
    write_head(vault);
}

void kv_vault_renew_with_key(struct kv_vault *vault, const struct keyed_hash_key *key)
{
    vault->key = *key;
    kv_vault_renew(vault, vault->pool);
}

struct kv_ledger_memory kv_vault_ledger(const struct kv_vault *vault)
{
    must(vault->bytes);
    struct kv_ledger_memory memory = {
        .records = (struct kv_ledger_record *)(void *)(vault->bytes + RECORDS_OFFSET),
        .key = vault->key};
    memcpy(memory.counts, vault->shape.counts, sizeof memory.counts);
    return memory;
}

struct feature_ledger_memory kv_vault_feature_ledger(const struct kv_vault *vault)
{
    must(vault->bytes);
    return (struct feature_ledger_memory){
        .records = (struct feature_record *)(void *)(vault->bytes + images_offset(&vault->shape)),
        .count = vault->shape.images,
        .key = vault->key};
}

void kv_vault_close(struct kv_vault *vault)
{
    if (vault->bytes)
        munmap(vault->bytes, vault->byte_count);
    *vault = (struct kv_vault){0};
}
