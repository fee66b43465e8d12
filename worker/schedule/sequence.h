/*
 * One request inside the worker: its tokens, how many of them are computed, its blocks, and where
 * it stands.
 *
 *              begin              admit                  draw
 *     FREE ─────────────▶ WAITING ─────▶ PREFILL ──────────────────▶ DECODE
 *      ▲                     │           ▲  │                          │
 *      │                     │     admit │  │ preempt          preempt │
 *      │                     │        PREEMPTED ◀──────────────────────┘
 *      │                     │           │
 *      └─────────────────────┴───────────┴── finish (also from PREFILL and DECODE)
 *
 * state      known tokens                  drawn   computed              blocks
 * WAITING    prompt                        0       0                     none
 * PREEMPTED  prompt + what was generated   0       0                     none
 * PREFILL    prompt + what was generated   0       < known               of the computed positions
 * DECODE     prompt + what was generated   any     known + drawn - 1     of the computed positions
 *
 * A position counts as computed, and the token after the last one as drawn, as soon as the step
 * that does it is launched; when the step has been waited for the token is known. In between the
 * sequence goes on with a token that only the device knows. Ending it then, or giving blocks back,
 * disturbs no step under way (backend.h); preempting it would lose the token and is left until none
 * is.
 *
 * A running sequence of a model with recurrent layers also has a slot for their state, which is as
 * far as its launched rows: rows can be added to it and never taken away. So nothing here takes a
 * computed row back; what ends or is preempted gives its slot back whole, and whoever runs next
 * begins at position 0, where the slot's contents do not matter (state_layout.h), or with a copy of
 * a checkpoint.
 *
 * With a prefix cache a sequence begins behind what is there of its tokens (sequence_prefix.h):
 * these positions count as computed, and their blocks it shares.
 *
 * Preemption is by recomputation: the generated tokens become part of what is prefilled again, less
 * what the prefix cache still has of them.
 * Because a draw depends only on the tokens, the parameters and the position, the sequence goes on
 * as if nothing had happened, and no token is told twice.
 */
#ifndef SHOAL_WORKER_SCHEDULE_SEQUENCE_H
#define SHOAL_WORKER_SCHEDULE_SEQUENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/token_event.h"
#include "worker/schedule/sequence_facts.h"

/* Frees what a request owns. Safe on a zeroed struct. */
void sequence_request_fini(struct sequence_request *request);

/* The edges. begin takes over `request` (also when it fails). */
enum result sequence_begin(struct sequence *sequence, struct sequence_request *request,
                           uint64_t arrival, uint32_t tokens_max) RESULT_CHECKED;
/* Reserves memory for all that the sequence can become, takes a slot for its recurrent state (one
 * is free: there are as many as sequences that run) and shares what the prefix cache has; on
 * RESULT_OUT_OF_MEMORY nothing changed. */
enum result sequence_admit(struct sequence *sequence, struct kv_pools *pools) RESULT_CHECKED;
/* The token after the last computed one is draw `draw` of the step that is launched. */
void sequence_draw(struct sequence *sequence, uint32_t draw);
void sequence_preempt(struct sequence *sequence, struct kv_pools *pools);
void sequence_finish(struct sequence *sequence, struct kv_pools *pools);

/* Between the edges: takes the blocks that `rows` more positions need (they must be available);
 * counts the rows of a launched step as computed and gives back what no later query sees; appends
 * the oldest drawn token, now that it is known. */
void sequence_take_blocks(struct sequence *sequence, struct kv_pools *pools, uint32_t rows);
void sequence_advance(struct sequence *sequence, struct kv_pools *pools, uint32_t rows);
enum result sequence_append(struct sequence *sequence, struct kv_pools *pools,
                            uint32_t token) RESULT_CHECKED;

/* How the token after the last known or drawn one is to be drawn. UNKNOWN: it may be a forced one,
 * which depends on a token that is drawn and not yet known; *sampling is then good for all but
 * that. */
enum sequence_draw_kind { SEQUENCE_DRAW_KNOWN, SEQUENCE_DRAW_UNKNOWN };
enum sequence_draw_kind sequence_next_draw(const struct sequence *sequence,
                                           struct row_sampling *sampling);

bool sequence_is_running(const struct sequence *sequence); /* PREFILL or DECODE */
/* The end that its last known token, `token`, reaches (proto/generation_end.h). */
enum finish_reason sequence_end_at(const struct sequence *sequence, uint32_t token);
/* Positions that could be computed next: tokens known or drawn, less those computed. */
uint32_t sequence_rows_left(const struct sequence *sequence);
/* Whether its last token is being drawn: there is nothing left to compute. */
bool sequence_draws_last(const struct sequence *sequence);
/* Tokens generated so far and known, those of before a replay included. */
uint32_t sequence_generated_tokens(const struct sequence *sequence);

/* Asserts the table above; between steps. */
void sequence_check(const struct sequence *sequence, const struct kv_pools *pools);

#endif
