/*
 * Commands from the frontend to a worker, through the submit ring: run a request, cancel it, drain,
 * clear the caches, take the vocabulary, or read an adapter.
 *
 * Byte map of struct submit_record, 256 bytes. Written by the frontend.
 *
 *   offset  size  field               rule
 *   0       4     kind                S1: a value of enum submit_kind
 *   4       4     payload_generation  S6: equals the slab chunk's generation word when read
 *   8       8     request             S3: slot < LIMIT_LIVE_REQUESTS
 *   8       8     adapter             ADAPTER: S25: slot < LIMIT_ADAPTERS
 *   16      8     payload_offset      S4: offset + payload_bytes lies in the slab, 64-byte aligned
 *   24      8     payload_bytes       S5: submit_payload_bytes() of `run`; of a vocabulary,
 *                                         token_table_bytes()
 *   32      224   run                 RUN: S2, S7-S19, S21-S24: proto/run_params.h
 *   32      16    vocabulary          VOCABULARY: S20: proto/token_table.h
 *
 * The payload lies in the slab, and belongs to this record until the worker gives it back with
 * TOKEN_EVENT_PAYLOAD_DONE. proto/submit_payload.h describes the sections of a request's.
 */
#ifndef SHOAL_PROTO_SUBMIT_RECORD_H
#define SHOAL_PROTO_SUBMIT_RECORD_H

#include <stddef.h>
#include <stdint.h>

#include "proto/image_record.h"
#include "proto/limits.h"
#include "proto/result.h"
#include "proto/run_params.h"
#include "proto/token_table.h"

/*
 * A request as both processes name it: a slot of the frontend's table and that slot's generation.
 *
 * Byte map of struct request_id, 8 bytes. Written by the frontend in submit records, by the worker
 * in token events.
 *
 *   offset  size  field       rule
 *   0       4     slot        S3, T3: < LIMIT_LIVE_REQUESTS
 *   4       4     generation  any; the frontend drops events of a stale one
 */
struct request_id {
    uint32_t slot;
    uint32_t generation;
};
_Static_assert(sizeof(struct request_id) == 8, "crosses shared memory: layout is fixed");

enum submit_kind {
    SUBMIT_RUN = 1,
    SUBMIT_CANCEL = 2,     /* only kind and request count; an unknown request has just ended */
    SUBMIT_DRAIN = 3,      /* finish what is running, then exit with status 0 */
    SUBMIT_RESET = 4,      /* drop cached prefixes and features; running requests continue */
    SUBMIT_VOCABULARY = 5, /* the bytes of all tokens, before the first request with a grammar */
    SUBMIT_ADAPTER = 6     /* load or drop what the slot's entry of the adapters' memory says now */
};

/*
 * A slot of the adapters' memory (adapter_memory.h) at one of its versions. The answer, TOKEN_EVENT_ADAPTER, has the same.
 *
 * Byte map of struct adapter_id, 8 bytes. Written by the frontend in submit records, by the worker
 * in token events.
 *
 *   offset  size  field    rule
 *   0       4     slot     S25, T19: < LIMIT_ADAPTERS
 *   4       4     version  any; an answer of another version is dropped
 */
struct adapter_id {
    uint32_t slot;
    uint32_t version;
};
_Static_assert(sizeof(struct adapter_id) == 8, "crosses shared memory: layout is fixed");

struct submit_record {
    uint32_t kind;
    uint32_t payload_generation;
    union {
        struct request_id request;
        struct adapter_id adapter; /* ADAPTER */
    };
    uint64_t payload_offset;
    uint64_t payload_bytes;
    union {
        struct run_params run;
        struct token_table_sizes vocabulary;
    };
};
_Static_assert(sizeof(struct submit_record) == 256, "ring slot is 256 bytes");

/*
 * Checks rules S1-S25 against a slab of `slab_bytes`. RESULT_CORRUPT, and the error text begins
 * with the rule's name. Pure: reads only the (already copied-out) record. S6 is checked by
 * payload_view(), the token ids inside the payload by submit_payload_check(), image records by
 * image_record_check(), a vocabulary by token_table_check().
 */
enum result submit_record_check(const struct submit_record *record, uint64_t slab_bytes,
                                struct error_text *error) RESULT_CHECKED;

#endif
