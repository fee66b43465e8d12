/*
 * One mapping with the same layout in two processes, which neither can shrink under the other.
 *
 * The layout follows from three numbers (two ring capacities and the slab's size). The frontend
 * computes it once and writes it into the header; the worker reads those three numbers, bounds
 * them, computes the layout again and requires that the rest of the header and the file's size are
 * equal. After that neither side reads the header again: each keeps addresses and sizes in its own
 * struct segment.
 *
 * The file is a sealed memfd: it never has a name, so a crash leaves nothing behind, and its size
 * is fixed, so a peer cannot cause a SIGBUS. segment_attach() rejects a segment of another version
 * and a descriptor that is not a sealed memory file of the right size.
 */
#include "shm/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/limits.h"
#include "proto/must.h"
#include "shm/payload_slab.h"

#define GAUGES_OFFSET  256u
#define SUBMIT_OFFSET  1536u
#define EVENT_OFFSET   2048u
#define ROSTER_OFFSET  3072u
#define TRACE_OFFSET   4096u
#define RECORDS_OFFSET 8192u
#define PAGE_BYTES     4096u /* of the layout, whatever the machine's page size is */
#define SEALS          (F_SEAL_SHRINK | F_SEAL_GROW)

_Static_assert(sizeof(struct segment_header) <= GAUGES_OFFSET, "byte map");
_Static_assert(GAUGES_OFFSET + sizeof(struct worker_gauges) <= SUBMIT_OFFSET, "byte map");
_Static_assert(SUBMIT_OFFSET + sizeof(struct spsc_ring_shared) + sizeof(struct doorbell_shared) <=
                   EVENT_OFFSET,
               "byte map");
_Static_assert(EVENT_OFFSET + sizeof(struct spsc_ring_shared) + sizeof(struct doorbell_shared) <=
                   ROSTER_OFFSET,
               "byte map");
_Static_assert(ROSTER_OFFSET + sizeof(struct step_roster) <= TRACE_OFFSET, "byte map");
_Static_assert(TRACE_OFFSET + sizeof(struct step_trace) <= RECORDS_OFFSET, "byte map");

struct layout {
    uint64_t event_records_offset;
    uint64_t slab_offset;
    uint64_t segment_bytes;
};

static uint64_t page_round_up(uint64_t bytes)
{
    return (bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
}

/* Sizes must have passed sizes_fault(): nothing here can overflow then. */
static struct layout layout_of(const struct segment_sizes *sizes)
{
    struct layout layout;
    layout.event_records_offset =
        RECORDS_OFFSET + (uint64_t)sizes->submit_capacity * sizeof(struct submit_record);
    layout.slab_offset = page_round_up(
        layout.event_records_offset + (uint64_t)sizes->event_capacity * sizeof(struct token_event));
    layout.segment_bytes = page_round_up(layout.slab_offset + sizes->slab_bytes);
    return layout;
}

static bool capacity_fits(uint32_t capacity)
{
    return capacity > 0 && capacity <= LIMIT_RING_RECORDS && (capacity & (capacity - 1)) == 0;
}

/* The name of the size that is out of bounds, or NULL. */
static const char *sizes_fault(const struct segment_sizes *sizes)
{
    if (!capacity_fits(sizes->submit_capacity))
        return "submit_capacity";
    if (!capacity_fits(sizes->event_capacity))
        return "event_capacity";
    if (sizes->slab_bytes == 0 || sizes->slab_bytes > LIMIT_SLAB_BYTES ||
        sizes->slab_bytes % PAYLOAD_CHUNK_HEADER_BYTES != 0)
        return "slab_bytes";
    return NULL;
}

/* The name of the header field that differs from this build's layout, or NULL. */
static const char *header_fault(const struct segment_header *header, uint64_t file_bytes)
{
    if (header->magic != SEGMENT_MAGIC)
        return "magic";
    if (header->version != SEGMENT_VERSION)
        return "version";
    if (header->submit_record_bytes != sizeof(struct submit_record))
        return "submit_record_bytes";
    if (header->event_bytes != sizeof(struct token_event))
        return "event_bytes";
    struct segment_sizes sizes = {.submit_capacity = header->submit_capacity,
                                  .event_capacity = header->event_capacity,
                                  .slab_bytes = header->slab_bytes};
    const char *fault = sizes_fault(&sizes);
    if (fault)
        return fault;
    struct layout layout = layout_of(&sizes);
    if (header->slab_offset != layout.slab_offset)
        return "slab_offset";
    if (header->segment_bytes != layout.segment_bytes || file_bytes != layout.segment_bytes)
        return "segment_bytes";
    for (size_t i = 0; i < sizeof header->reserved; i++) {
        if (header->reserved[i] != 0)
            return "reserved";
    }
    return NULL;
}

/* Points every member into the mapping. */
static void place(struct segment *segment, const struct segment_sizes *sizes)
{
    struct layout layout = layout_of(sizes);
    uint8_t *base = segment->base;
    segment->header = (struct segment_header *)(void *)base;
    segment->gauges = (struct worker_gauges *)(void *)(base + GAUGES_OFFSET);
    segment->submit_shared = (struct spsc_ring_shared *)(void *)(base + SUBMIT_OFFSET);
    segment->submit_bell = (struct doorbell_shared *)(void *)(segment->submit_shared + 1);
    segment->event_shared = (struct spsc_ring_shared *)(void *)(base + EVENT_OFFSET);
    segment->event_bell = (struct doorbell_shared *)(void *)(segment->event_shared + 1);
    segment->roster = (struct step_roster *)(void *)(base + ROSTER_OFFSET);
    segment->trace = (struct step_trace *)(void *)(base + TRACE_OFFSET);
    segment->submit_records = base + RECORDS_OFFSET;
    segment->event_records = base + layout.event_records_offset;
    segment->slab = base + layout.slab_offset;
    segment->slab_bytes = sizes->slab_bytes;
    segment->submit_capacity = sizes->submit_capacity;
    segment->event_capacity = sizes->event_capacity;
}

static enum result map_file(struct segment *segment, int fd, uint64_t bytes,
                            struct error_text *error)
{
    void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (base == MAP_FAILED)
        return error_set(error, RESULT_IO, "segment: mmap of %llu bytes: %s",
                         (unsigned long long)bytes, strerror(errno));
    segment->base = base;
    segment->segment_bytes = bytes;
    return RESULT_OK;
}

enum result segment_create(const struct segment_sizes *sizes, uint32_t generation,
                           struct segment *segment, struct error_text *error)
{
    *segment = (struct segment){.fd = -1};
    const char *fault = sizes_fault(sizes);
    if (fault)
        return error_set(error, RESULT_INVALID, "segment: %s is out of bounds", fault);
    struct layout layout = layout_of(sizes);

    enum result result = RESULT_IO;
    int fd = memfd_create("shoal-segment", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return error_set(error, RESULT_IO, "segment: memfd_create: %s", strerror(errno));
    if (ftruncate(fd, (off_t)layout.segment_bytes) != 0) {
        error_set(error, RESULT_IO, "segment: ftruncate: %s", strerror(errno));
        goto out;
    }
    if (fcntl(fd, F_ADD_SEALS, SEALS | F_SEAL_SEAL) != 0) {
        error_set(error, RESULT_IO, "segment: sealing: %s", strerror(errno));
        goto out;
    }
    result = map_file(segment, fd, layout.segment_bytes, error);
    if (result != RESULT_OK)
        goto out;

    place(segment, sizes);
    *segment->header = (struct segment_header){
        .magic = SEGMENT_MAGIC,
        .version = SEGMENT_VERSION,
        .generation = generation,
        .segment_bytes = layout.segment_bytes,
        .slab_offset = layout.slab_offset,
        .slab_bytes = sizes->slab_bytes,
        .submit_capacity = sizes->submit_capacity,
        .event_capacity = sizes->event_capacity,
        .submit_record_bytes = sizeof(struct submit_record),
        .event_bytes = sizeof(struct token_event),
    };
    segment->fd = fd;
    fd = -1;
out:
    if (fd >= 0)
        close(fd);
    return result;
}

/* RESULT_OK when `fd` is a memory file that can no longer change its size; its size is then
 * *file_bytes. */
static enum result check_file(int fd, uint64_t *file_bytes, struct error_text *error)
{
    struct stat status;
    if (fstat(fd, &status) != 0)
        return error_set(error, RESULT_IO, "segment: fstat of fd %d: %s", fd, strerror(errno));
    if (!S_ISREG(status.st_mode))
        return error_set(error, RESULT_CORRUPT, "segment: fd %d is not a memory file", fd);
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || (seals & SEALS) != SEALS)
        return error_set(error, RESULT_CORRUPT, "segment: fd %d is not sealed", fd);
    if (status.st_size < (off_t)RECORDS_OFFSET)
        return error_set(error, RESULT_CORRUPT, "segment: file of %lld bytes",
                         (long long)status.st_size);
    *file_bytes = (uint64_t)status.st_size;
    return RESULT_OK;
}

enum result segment_attach(int fd, struct segment *segment, struct error_text *error)
{
    *segment = (struct segment){.fd = -1};
    uint64_t file_bytes = 0;
    enum result result = check_file(fd, &file_bytes, error);
    if (result != RESULT_OK)
        return result;
    result = map_file(segment, fd, file_bytes, error);
    if (result != RESULT_OK)
        return result;

    /* Copied out first, so that the checked values are the used ones. */
    struct segment_header header;
    memcpy(&header, segment->base, sizeof header);
    const char *fault = header_fault(&header, file_bytes);
    if (fault) {
        segment_detach(segment);
        return error_set(error, RESULT_CORRUPT, "segment: header field %s does not fit", fault);
    }
    place(segment, &(struct segment_sizes){.submit_capacity = header.submit_capacity,
                                           .event_capacity = header.event_capacity,
                                           .slab_bytes = header.slab_bytes});
    segment->fd = fd;
    return RESULT_OK;
}

void segment_detach(struct segment *segment)
{
    if (!segment->base)
        return;
    must(munmap(segment->base, segment->segment_bytes) == 0);
    if (segment->fd >= 0)
        close(segment->fd);
    *segment = (struct segment){.fd = -1};
}
