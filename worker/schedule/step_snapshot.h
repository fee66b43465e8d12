/*
 * The input of the step policies: plain numbers copied from the running sequences and the block
 * pools, so that decisions can be tested without either.
 */
#ifndef SHOAL_WORKER_SCHEDULE_STEP_SNAPSHOT_H
#define SHOAL_WORKER_SCHEDULE_STEP_SNAPSHOT_H

#include <stdbool.h>
#include <stdint.h>

#include "worker/plan/kv_layout.h"
#include "worker/schedule/image_tiles.h"

/* A running sequence. */
struct step_candidate {
    bool decoding;            /* false: it prefills */
    bool resumes;             /* prefills again: its reader has tokens of it already */
    bool ends;                /* its last token is being drawn, so it gets no more rows */
    bool is_unread;           /* decodes, and its token is being drawn by the step under way */
    bool has_images;          /* prefills a prompt with images for the first time */
    uint32_t known_tokens;    /* > computed_tokens; includes a token that is drawn but unread */
    uint32_t computed_tokens; /* positions whose blocks it holds */
    uint32_t max_rows; /* rows until a checkpoint or features are due; 0: waits for features */
    /* All tiles of the sequence, if the rows of a tile that is no sound must be in one step; else none. */
    const struct image_tile *whole_tiles;
    uint32_t whole_tile_count;
    uint32_t held_blocks[KV_GROUPS_MAX]; /* including blocks shared with others */
};

struct step_snapshot {
    uint32_t group_count;
    uint32_t free_blocks[KV_GROUPS_MAX]; /* including idle blocks of the prefix cache */
    /* Positions from here on take no blocks of the group; 0: all positions do. */
    uint32_t opening_tokens[KV_GROUPS_MAX];
    /* Decodes alternate: a step takes half of them, and none whose token is being drawn. So the devices of
     * a split model compute one half each; with all in each step they would take turns. */
    bool halves;
    uint32_t step_tokens;          /* maximum rows of a step */
    uint32_t mixed_prefill_tokens; /* maximum prompt rows of a step with waiting streams */
    uint32_t image_prefill_tokens; /* of these, maximum rows of prompts with images */
    uint32_t prefill_only_tokens;  /* maximum prompt rows of a step without them; > 0 */
    uint32_t candidate_count;
    const struct step_candidate *candidates; /* oldest first */
};

#endif
