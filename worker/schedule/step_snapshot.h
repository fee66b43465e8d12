/*
 * What the step policies look at: plain numbers copied from the running sequences and the block
 * pools, so that a decision can be tested without either.
 */
#ifndef SHOAL_WORKER_SCHEDULE_STEP_SNAPSHOT_H
#define SHOAL_WORKER_SCHEDULE_STEP_SNAPSHOT_H

#include <stdbool.h>
#include <stdint.h>

#include "worker/plan/kv_layout.h"
#include "worker/schedule/image_tiles.h"

/* A running sequence. */
struct step_candidate {
    bool decoding;            /* else it prefills */
    bool resumes;             /* prefills again what its reader has seen tokens of */
    bool ends;                /* its last token is being drawn: it gets no more rows */
    bool shows;               /* it prefills a prompt with pictures for the first time */
    uint32_t known_tokens;    /* > computed_tokens; one that decodes may know it only later */
    uint32_t computed_tokens; /* whose blocks it holds */
    uint32_t most_rows; /* in one step, behind which something is due; 0: a picture's features */
    /* Tiles whose rows must be in one step together, all of the sequence's; none where spans may be
     * cut. */
    const struct image_tile *whole_tiles;
    uint32_t whole_tile_count;
    uint32_t held_blocks[KV_GROUPS_MAX]; /* some may be others' too */
};

struct step_snapshot {
    uint32_t group_count;
    uint32_t free_blocks[KV_GROUPS_MAX]; /* those that only the prefix cache has among them */
    /* Positions from there on take no blocks of the group; 0: all do. */
    uint32_t opening_tokens[KV_GROUPS_MAX];
    uint32_t step_tokens;          /* rows of a step at most */
    uint32_t mixed_prefill_tokens; /* prompt rows at most of a step for which streams wait */
    uint32_t shown_prefill_tokens; /* of them, those of prompts with pictures */
    uint32_t lone_prefill_tokens;  /* and of one for which none does; > 0 */
    uint32_t candidate_count;
    const struct step_candidate *candidates; /* oldest first */
};

#endif
