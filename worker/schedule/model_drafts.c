/*
 * A cell is right if the tokens up to its position were the sequence's tokens when it was computed.
 * Cells of guesses are right as far as the guesses were; cells of a block that came from the prefix
 * cache are right if the draft model filled that block. All of this is settled once a turn, from
 * the block table as it then is: a block that was cut, given back or replaced in the meantime has
 * another number or generation.
 *
 * The time of rounds is measured by rows like that of steps (draft_pace.h).
 */
#include "worker/schedule/model_drafts.h"

#include <string.h>

#include "proto/must.h"
#include "worker/schedule/draft_policy.h"
#include "worker/schedule/sequence_draft.h"
#include "worker/schedule/step_clock.h"

#define FEED_ROWS    32u  /* of a chunk beside streams */
#define FIRST_ROWS   16u  /* of one stream in the first round */
#define LONG_PAUSE   64u  /* steps; in a longer one an ahead layer is not fed */
#define LEAST_CHANCE 0.15 /* a stream whose next token is accepted less often ends its rounds */

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static const struct draft_model_parts *parts_of(const struct worker_engine *engine)
{
    return draft_model_parts(engine->parts.draft_model);
}

/* What computes cells of known tokens. */
static struct draft_model *feeder(const struct worker_engine *engine)
{
    struct draft_model *context = parts_of(engine)->context;
    return context ? context : engine->parts.draft_model;
}

static uint32_t hidden_columns(const struct worker_engine *engine)
{
    return draft_model_parts(feeder(engine))->hidden_columns;
}

bool model_drafts_is_block(const struct worker_engine *engine)
{
    return parts_of(engine)->block_tokens > 0;
}

uint32_t model_drafts_most(const struct worker_engine *engine)
{
    return model_drafts_is_block(engine) ? parts_of(engine)->block_tokens - 1 : DRAFT_MODEL_TOKENS;
}

bool model_drafts_is_ahead(const struct worker_engine *engine)
{
    return hidden_columns(engine) > 0;
}

/* It has no cells of its own. */
static bool borrows_caches(const struct worker_engine *engine)
{
    return parts_of(engine)->borrows_caches;
}

/* Of its own states. */
static uint32_t state_columns(const struct worker_engine *engine)
{
    return parts_of(engine)->state_columns;
}

/* A row of an ahead layer has the token after its position; that of a drafter of blocks has the state alone, and
 * both end before the last known token. */
static uint32_t token_shift(const struct worker_engine *engine)
{
    return model_drafts_is_ahead(engine) ? 1 : 0;
}

uint32_t model_drafts_first_rows(const struct worker_engine *engine,
                                 const struct sequence *sequence)
{
    uint32_t end = sequence->known_tokens - token_shift(engine);
    if (borrows_caches(engine))
        return 1;
    return end > sequence->draft.cells.count ? end - sequence->draft.cells.count : 0;
}

void model_drafts_note_step(struct worker_engine *engine, const struct step_batch_builder *builder)
{
    const struct step_batch *batch = step_batch_builder_batch(builder);
    uint64_t step = ++engine->model_drafts.target_step;
    for (uint32_t i = 0; i < batch->sequence_count; i++) {
        struct sequence *sequence = step_batch_builder_sequence(builder, i);
        if (!sequence)
            continue;
        struct model_cells *cells = &sequence->draft.cells;
        cells->hidden_step = step;
        cells->hidden_row = batch->sequences[i].first_row;
        cells->hidden_rows = batch->sequences[i].row_count;
        cells->hidden_from = batch->sequences[i].first_position;
    }
}

static bool is_held(const struct sequence *sequence, uint32_t first)
{
    return sequence->draft.cells.held_from == first + 1;
}

/* How many of the sequence's rows from `first` on have hidden states of the target's last step, or the one
 * that is held. */
static uint32_t hidden_rows(const struct worker_engine *engine, const struct sequence *sequence,
                            uint32_t first)
{
    const struct model_cells *cells = &sequence->draft.cells;
    uint32_t end = cells->hidden_from + cells->hidden_rows;
    bool there = cells->hidden_step == engine->model_drafts.target_step;
    if (is_held(sequence, first))
        return 1;
    return there && first >= cells->hidden_from && first < end ? end - first : 0;
}

/* That of position `first`; NULL if the draft model takes none. */
static const float *hidden_of(const struct worker_engine *engine, const struct sequence *sequence,
                              uint32_t first)
{
    const struct backend *target = engine->parts.backend;
    const struct model_cells *cells = &sequence->draft.cells;
    if (!model_drafts_is_ahead(engine))
        return NULL;
    must(hidden_rows(engine, sequence, first) > 0);
    if (is_held(sequence, first))
        return cells->held;
    return target->interface->last_hidden(target) +
           (size_t)(cells->hidden_row + first - cells->hidden_from) * hidden_columns(engine);
}

static bool is_filled(const struct model_drafts *drafts, const struct block_table *table,
                      uint32_t at)
{
    return block_table_holds(table, at) &&
           drafts->filled[table->blocks[at]] == table->generations[at];
}

/* Cells of known tokens up to `end` are computed. */
static void note_cells(struct model_drafts *drafts, struct sequence *sequence, uint32_t end)
{
    struct model_cells *cells = &sequence->draft.cells;
    const struct block_table *table = &sequence->tables[drafts->group];
    for (uint32_t at = cells->count / KV_BLOCK_TOKENS; at < end / KV_BLOCK_TOKENS; at++)
        drafts->filled[table->blocks[at]] = table->generations[at];
    cells->count = end;
    cells->tail_at = end / KV_BLOCK_TOKENS;
    for (uint32_t i = 0; i < 2; i++)
        cells->tails[i] = block_table_holds(table, cells->tail_at + i)
                              ? block_table_ref(table, cells->tail_at + i)
                              : (struct kv_block_ref){.block = KV_BLOCK_NONE};
}

/* Keeps the cells of guesses that became known tokens. */
static void settle_guesses(const struct sequence *sequence, struct model_cells *cells)
{
    for (uint32_t i = 0; i < cells->guessed_count; i++) {
        uint32_t position = cells->guessed_from + i;
        if (position < sequence->known_tokens &&
            sequence->request.tokens[position] == cells->guesses[i])
            continue;
        cells->count = least(cells->count, position);
        break;
    }
    cells->guessed_count = 0;
}

/* Keeps the cells of the last two blocks only if these are still the sequence's. */
static void settle_tails(struct model_drafts *drafts, const struct block_table *table,
                         struct model_cells *cells)
{
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t at = cells->tail_at + i, first = at * KV_BLOCK_TOKENS;
        if (cells->count <= first)
            return;
        struct kv_block_ref ref = {.block = KV_BLOCK_NONE};
        if (block_table_holds(table, at))
            ref = block_table_ref(table, at);
        if (ref.block == KV_BLOCK_NONE || ref.block != cells->tails[i].block ||
            ref.generation != cells->tails[i].generation) {
            cells->count = first;
            return;
        }
        if (cells->count >= first + KV_BLOCK_TOKENS)
            drafts->filled[ref.block] = ref.generation;
    }
}

static void settle(struct model_drafts *drafts, struct sequence *sequence)
{
    struct model_cells *cells = &sequence->draft.cells;
    const struct block_table *table = &sequence->tables[drafts->group];
    settle_guesses(sequence, cells);
    settle_tails(drafts, table, cells);
    uint32_t at = 0;
    while (at < cells->count / KV_BLOCK_TOKENS && is_filled(drafts, table, at))
        at++;
    if (at < cells->count / KV_BLOCK_TOKENS)
        cells->count = at * KV_BLOCK_TOKENS;
    for (; (at + 1) * KV_BLOCK_TOKENS <= sequence->computed_tokens && is_filled(drafts, table, at);
         at++)
        if (cells->count < (at + 1) * KV_BLOCK_TOKENS)
            cells->count = (at + 1) * KV_BLOCK_TOKENS;
    cells->count = least(cells->count, sequence->known_tokens - 1);
}

/* How many rows from `first` on have tokens whose features are there, if they are of images. */
static uint32_t rows_with_features(const struct worker_engine *engine,
                                   const struct sequence *sequence, uint32_t first)
{
    const struct sequence_images *images = &sequence->request.images;
    if (!engine->model_drafts.feature_rows || images->count == 0)
        return UINT32_MAX;
    return sequence_images_ready_tokens(images, engine->pools.features, first + 1);
}

/* How many of the `rows` next tokens the draft model knows and has positions for. */
static uint32_t rows_it_takes(const struct worker_engine *engine, const struct sequence *sequence,
                              uint32_t rows)
{
    const struct draft_model_parts *parts = parts_of(engine);
    uint32_t first = sequence->draft.cells.count, taken = 0, shift = token_shift(engine);
    if (shift > 0)
        rows = least(least(rows, hidden_rows(engine, sequence, first)),
                     rows_with_features(engine, sequence, first));
    while (taken < rows && first + taken < parts->context_tokens &&
           sequence->request.tokens[first + taken + shift] < parts->vocab_tokens)
        taken++;
    return taken;
}

static enum result run(struct worker_engine *engine, uint32_t rows, bool is_round,
                       struct error_text *error)
{
    struct model_drafts *drafts = &engine->model_drafts;
    uint64_t began_us = step_clock_us();
    enum result result = draft_model_run(is_round ? engine->parts.draft_model : feeder(engine),
                                         drafts->results, error);
    uint64_t time_us = step_clock_us() - began_us;
    if (!is_round)
        return result;
    uint64_t counted_us =
        (uint64_t)draft_pace_note_round(&engine->drafts.pace, rows, (double)time_us);
    drafts->rounds_us += counted_us > 0 ? counted_us : 1;
    return result;
}

/* Fills the image arrays: a row has its own rotary position and the feature of the token after it. */
static void fill_images(struct worker_engine *engine, const struct sequence *sequence,
                        uint32_t first, uint32_t rows)
{
    const struct sequence_images *images = &sequence->request.images;
    struct model_drafts *drafts = &engine->model_drafts;
    for (uint32_t i = 0; i < rows; i++) {
        uint32_t position = first + i;
        drafts->feature_rows[i] = sequence_images_feature_row(images, position + 1);
        drafts->rope_positions[i] =
            engine->parts.vision->grid_positions
                ? image_tiles_position(images->tiles, images->tile_count, position)
                : (struct rope_position){position, position, position};
    }
}

/* States of an ahead layer's first row: the target's, or its own. */
struct given_states {
    const float *hidden;
    const float *own;
};

static void add_rows(struct worker_engine *engine, const struct sequence *sequence, uint32_t first,
                     uint32_t rows, const struct row_sampling *sampling, struct given_states states)
{
    const uint32_t *tokens = sequence->request.tokens + first + token_shift(engine);
    struct draft_model_rows part = {.tokens = tokens,
                                    .hidden = states.hidden,
                                    .own = states.own,
                                    .first_position = first,
                                    .row_count = rows,
                                    .blocks = sequence->tables[engine->model_drafts.group].blocks,
                                    .samplings = sampling,
                                    .draw_count = sampling ? 1 : 0};
    if (engine->model_drafts.feature_rows && sequence->request.images.count > 0) {
        fill_images(engine, sequence, first, rows);
        part.feature_rows = engine->model_drafts.feature_rows;
        part.rope_positions = engine->model_drafts.rope_positions;
    }
    draft_model_add(sampling ? engine->parts.draft_model : feeder(engine), &part);
}

/* A stream that was left behind in a pause is not caught up: the rows would cost as much as plain
 * steps do. Only the last rows of a prompt are fed to a stream. */
static bool is_young(const struct sequence *sequence)
{
    return sequence->known_tokens - sequence->request.run.prompt_tokens <= FIRST_ROWS;
}

void model_drafts_settle(struct worker_engine *engine)
{
    for (uint32_t i = 0; !borrows_caches(engine) && i < sequence_table_running(engine->table); i++)
        settle(&engine->model_drafts, sequence_table_running_at(engine->table, i));
}

/* Keeps the state of the row that lacks only the features of the token after it: the target computes no
 * further row of the sequence before they are there, but other sequences' steps go on. */
static void hold(struct worker_engine *engine, struct sequence *sequence)
{
    struct model_cells *cells = &sequence->draft.cells;
    uint32_t columns = hidden_columns(engine);
    if (hidden_rows(engine, sequence, cells->count) != 1 || is_held(sequence, cells->count) ||
        rows_with_features(engine, sequence, cells->count) > 0)
        return;
    if (!cells->held)
        cells->held = must_alloc(columns, sizeof *cells->held);
    memcpy(cells->held, hidden_of(engine, sequence, cells->count), columns * sizeof *cells->held);
    cells->held_from = cells->count + 1;
}

/* Feeds the sequence's rows in as many runs as they need. *fed: rows since the last run. */
static enum result feed_ahead(struct worker_engine *engine, struct sequence *sequence,
                              uint32_t *fed, struct error_text *error)
{
    enum result result = RESULT_OK;
    uint32_t left;
    while ((left = rows_it_takes(engine, sequence, model_drafts_first_rows(engine, sequence))) >
           0) {
        uint32_t first = sequence->draft.cells.count;
        bool was_held = is_held(sequence, first);
        uint32_t rows = least(left, draft_model_room(feeder(engine)));
        if (rows > 0) {
            struct given_states states = {.hidden = hidden_of(engine, sequence, first)};
            add_rows(engine, sequence, first, rows, NULL, states);
            note_cells(&engine->model_drafts, sequence, first + rows);
        }
        *fed += rows;
        if (rows == left && !was_held)
            continue;
        result = run(engine, *fed, false, error);
        *fed = 0;
        if (result != RESULT_OK)
            return result;
    }
    hold(engine, sequence);
    return result;
}

/* What the layer has read of features is not needed again. */
static void release_images(struct worker_engine *engine, bool decoding)
{
    for (uint32_t i = 0; i < sequence_table_running(engine->table); i++) {
        struct sequence *sequence = sequence_table_running_at(engine->table, i);
        if ((sequence->state == SEQUENCE_DECODE) == decoding)
            sequence_images_release(&sequence->request.images, engine->pools.features,
                                    sequence->computed_tokens);
    }
}

enum result model_drafts_feed_ahead(struct worker_engine *engine, bool decoding,
                                    struct error_text *error)
{
    uint32_t fed = 0;
    enum result result = RESULT_OK;
    bool rests = borrows_caches(engine) || engine->drafts.pace.model.pause_steps > LONG_PAUSE;
    for (uint32_t i = 0; !rests && i < sequence_table_running(engine->table); i++) {
        struct sequence *sequence = sequence_table_running_at(engine->table, i);
        if ((sequence->state == SEQUENCE_DECODE) == decoding && sequence_draft_is_wanted(sequence))
            result = feed_ahead(engine, sequence, &fed, error);
        if (result != RESULT_OK)
            return result;
    }
    if (fed > 0)
        result = run(engine, fed, false, error);
    if (engine->pools.features_are_read_again)
        release_images(engine, decoding);
    return result;
}

enum result model_drafts_feed(struct worker_engine *engine, uint32_t step_rows,
                              struct error_text *error)
{
    struct model_drafts *drafts = &engine->model_drafts;
    bool is_paused = draft_pace_model_is_paused(&engine->drafts.pace);
    uint32_t left = least(step_rows > FEED_ROWS ? step_rows : FEED_ROWS, DRAFT_MODEL_ROWS);
    uint32_t fed = 0;
    for (uint32_t i = 0; i < sequence_table_running(engine->table); i++) {
        struct sequence *sequence = sequence_table_running_at(engine->table, i);
        bool decodes = sequence->state == SEQUENCE_DECODE;
        if (is_paused || !sequence_draft_is_wanted(sequence) || (decodes && !is_young(sequence)))
            continue;
        uint32_t behind = sequence->computed_tokens > sequence->draft.cells.count
                              ? sequence->computed_tokens - sequence->draft.cells.count
                              : 0;
        if (decodes && behind < FIRST_ROWS) /* the first round computes them */
            continue;
        uint32_t rows = rows_it_takes(engine, sequence, least(behind, left - fed));
        if (rows == 0)
            continue;
        add_rows(engine, sequence, sequence->draft.cells.count, rows, NULL,
                 (struct given_states){0});
        note_cells(drafts, sequence, sequence->draft.cells.count + rows);
        fed += rows;
    }
    return fed > 0 ? run(engine, fed, false, error) : RESULT_OK;
}

/* The target's last step has the state of the row before the last known token. */
static bool has_last_state(const struct worker_engine *engine, const struct sequence *sequence)
{
    return sequence->known_tokens >= 2 &&
           hidden_rows(engine, sequence, sequence->known_tokens - 2) > 0;
}

bool model_drafts_is_ready(const struct worker_engine *engine, const struct sequence *sequence)
{
    uint32_t rows = model_drafts_first_rows(engine, sequence);
    struct row_sampling sampling;
    bool is_fed =
        borrows_caches(engine) ? has_last_state(engine, sequence)
        : model_drafts_is_block(engine)
            ? rows == 0
            : rows > 0 && rows <= FIRST_ROWS && rows_it_takes(engine, sequence, rows) == rows;
    return sequence->state == SEQUENCE_DECODE && is_fed &&
           sequence->known_tokens + model_drafts_most(engine) <= parts_of(engine)->context_tokens &&
           sequence_next_draw(sequence, &sampling) == SEQUENCE_DRAW_KNOWN && !sampling.is_forced;
}

/* The draft model draws as the target would, with the target's random number. If its logits are
 * not those of the same ids, only by temperature and filters. */
static void guess_sampling(const struct worker_engine *engine, const struct sequence *sequence,
                           struct model_round *round, struct row_sampling *sampling)
{
    if (round->tokens == 0)
        must(sequence_next_draw(sequence, sampling) == SEQUENCE_DRAW_KNOWN);
    else
        sequence_guess_draw(sequence, round->tokens, sampling);
    sampling->wants_logprob = true;
    sampling->top_logprobs = 0;
    const struct draft_model_parts *parts = parts_of(engine);
    bool is_block = parts->block_tokens > 0; /* the tokens before the draw are not known */
    if (parts->vocab_tokens == engine->parts.vocab_tokens && !parts->token_map && !is_block)
        return;
    round->params = *sampling->params;
    round->params.dry_multiplier = 0.0f;
    sampling->params = &round->params;
    sampling->counts = NULL;
    if (is_block && parts->vocab_tokens == engine->parts.vocab_tokens)
        return;
    sampling->logit_bias_count = 0;
    sampling->barred_count = 0;
    sampling->mask = NULL;
}

/* The ahead layer's own hidden state of the pick's last round. */
static float *own_state(struct worker_engine *engine, const struct model_pick *pick)
{
    struct model_drafts *drafts = &engine->model_drafts;
    return drafts->states + (size_t)(pick - drafts->picks) * state_columns(engine);
}

/* Adds the row of a stream's next round: its last token, or the last one drafted, always at the same place. */
static uint32_t add_borrowed_round(struct worker_engine *engine, const struct model_pick *pick,
                                   struct model_round *round)
{
    const struct sequence *sequence = pick->sequence;
    const uint32_t *blocks[KV_GROUPS_MAX];
    uint32_t place = sequence->known_tokens - 2;
    struct row_sampling sampling;
    guess_sampling(engine, sequence, round, &sampling);
    for (uint32_t group = 0; group < parts_of(engine)->group_count; group++)
        blocks[group] = sequence->tables[group].blocks;
    draft_model_add(engine->parts.draft_model,
                    &(struct draft_model_rows){
                        .tokens = sequence->request.tokens + place + 1 + round->tokens,
                        .hidden = round->tokens == 0 ? hidden_of(engine, sequence, place) : NULL,
                        .own = round->tokens == 0 ? NULL : own_state(engine, pick),
                        .first_position = place,
                        .row_count = 1,
                        .group_blocks = blocks,
                        .samplings = &sampling,
                        .draw_count = 1});
    return 1;
}

/* Adds the rows of a stream's next round. */
static uint32_t add_round(struct worker_engine *engine, const struct model_pick *pick,
                          struct model_round *round)
{
    const struct sequence *sequence = pick->sequence;
    uint32_t first = sequence->draft.cells.count;
    uint32_t end = sequence->known_tokens + round->tokens - token_shift(engine);
    struct given_states states = {0};
    struct row_sampling sampling;
    if (borrows_caches(engine))
        return add_borrowed_round(engine, pick, round);
    guess_sampling(engine, sequence, round, &sampling);
    if (round->tokens > 0) {
        first = end - 1;
        if (model_drafts_is_ahead(engine))
            states.own = own_state(engine, pick);
    } else {
        states.hidden = hidden_of(engine, sequence, first);
    }
    add_rows(engine, sequence, first, end - first, &sampling, states);
    return end - first;
}

/* Takes the token that a stream's round drew, draw number `draw`. The cells that an ahead layer computes
 * from its own states do not count: later ones are computed from the target's. */
static void take_guess(struct worker_engine *engine, const struct model_pick *pick,
                       struct model_round *round, uint32_t draw)
{
    const struct sampled_token *drawn = &engine->model_drafts.results[draw];
    struct sequence *sequence = pick->sequence;
    struct model_cells *cells = &sequence->draft.cells;
    uint32_t columns = state_columns(engine);
    if (columns > 0)
        memcpy(own_state(engine, pick),
               draft_model_hidden(engine->parts.draft_model) + (size_t)draw * columns,
               columns * sizeof(float));
    if (borrows_caches(engine)) {
        cells->guessed_count = 0;
    } else if (round->tokens == 0) {
        note_cells(&engine->model_drafts, sequence, sequence->known_tokens - token_shift(engine));
        cells->guessed_from = sequence->known_tokens;
    } else if (columns == 0) {
        cells->guesses[cells->guessed_count++] = pick->proposal->tokens[round->tokens - 1];
        cells->count = sequence->known_tokens + round->tokens;
    }
    round->ends = drawn->token >= engine->parts.vocab_tokens ||
                  drawn->token >= parts_of(engine)->vocab_tokens;
    if (round->ends)
        return;
    uint8_t class = draft_model_class(drawn->logprob);
    sequence->request.tokens[sequence->known_tokens + round->tokens] = drawn->token;
    pick->proposal->tokens[round->tokens] = drawn->token;
    pick->proposal->classes[round->tokens++] = class;
    pick->proposal->count = round->tokens;
    round->chance *= draft_policy_acceptance(&engine->drafts.pace, class, pick->trust);
    round->ends = round->tokens == pick->most || round->chance < LEAST_CHANCE;
}

/* Adds a stream's block: its last known token, and masks for `tokens` more. */
static void add_block(struct worker_engine *engine, const struct model_pick *pick,
                      struct model_round *round, uint32_t tokens)
{
    const struct sequence *sequence = pick->sequence;
    struct row_sampling samplings[DRAFT_BLOCK_TOKENS];
    uint32_t ids[1 + DRAFT_BLOCK_TOKENS];
    ids[0] = sequence->request.tokens[sequence->known_tokens - 1];
    for (uint32_t i = 0; i < tokens; i++) {
        ids[1 + i] = parts_of(engine)->mask_token;
        round->tokens = i;
        guess_sampling(engine, sequence, round, &samplings[i]);
    }
    draft_model_add(
        engine->parts.draft_model,
        &(struct draft_model_rows){.tokens = ids,
                                   .first_position = sequence->known_tokens - 1,
                                   .row_count = 1 + tokens,
                                   .blocks = sequence->tables[engine->model_drafts.group].blocks,
                                   .samplings = samplings,
                                   .draw_count = tokens});
}

/* drawn: [tokens] */
static void take_block(const struct worker_engine *engine, const struct model_pick *pick,
                       const struct sampled_token *drawn, uint32_t tokens)
{
    struct draft_proposal *proposal = pick->proposal;
    for (uint32_t i = 0; i < tokens && drawn[i].token < engine->parts.vocab_tokens; i++) {
        proposal->tokens[proposal->count] = drawn[i].token;
        proposal->classes[proposal->count++] = draft_model_class(drawn[i].logprob);
    }
}

/* One round of a drafter of blocks, for `tokens` of each pick at most. */
static enum result propose_blocks(struct worker_engine *engine, const struct model_pick *picks,
                                  uint32_t count, uint32_t tokens, struct error_text *error)
{
    struct model_drafts *drafts = &engine->model_drafts;
    uint32_t rows = 0, at = 0;
    for (uint32_t i = 0; i < count; i++) {
        add_block(engine, &picks[i], &drafts->rounds[i], least(tokens, picks[i].most));
        rows += 1 + least(tokens, picks[i].most);
    }
    enum result result = run(engine, rows, true, error);
    for (uint32_t i = 0; i < count && result == RESULT_OK; i++) {
        uint32_t drawn = least(tokens, picks[i].most);
        take_block(engine, &picks[i], drafts->results + at, drawn);
        at += drawn;
    }
    return result;
}

enum result model_drafts_propose(struct worker_engine *engine, struct model_pick *picks,
                                 uint32_t count, uint32_t rounds, struct error_text *error)
{
    struct model_drafts *drafts = &engine->model_drafts;
    struct kv_block_pool *pool = engine->pools.group[drafts->group];
    bool is_block = model_drafts_is_block(engine);
    for (uint32_t i = 0; i < count; i++) {
        struct sequence *sequence = picks[i].sequence;
        struct block_table *table = &sequence->tables[drafts->group];
        uint32_t tokens =
            sequence->known_tokens + least(rounds, picks[i].most) - (is_block ? 0 : 1);
        must(picks[i].most > 0);
        if (!borrows_caches(engine)) {
            kv_pools_make_room(&engine->pools, drafts->group, block_table_missing(table, tokens));
            block_table_extend(table, pool, tokens);
        }
        drafts->rounds[i] = (struct model_round){.chance = 1.0};
        picks[i].proposal->count = 0;
    }
    if (is_block)
        return propose_blocks(engine, picks, count, rounds, error);
    for (uint32_t round = 0; round < rounds; round++) {
        uint32_t rows = 0, at = 0;
        for (uint32_t i = 0; i < count; i++)
            if (!drafts->rounds[i].ends)
                rows += add_round(engine, &picks[i], &drafts->rounds[i]);
        if (rows == 0)
            return RESULT_OK;
        enum result result = run(engine, rows, true, error);
        if (result != RESULT_OK)
            return result;
        for (uint32_t i = 0; i < count; i++)
            if (!drafts->rounds[i].ends)
                take_guess(engine, &picks[i], &drafts->rounds[i], at++);
    }
    return RESULT_OK;
}

void model_drafts_trim(struct worker_engine *engine, struct sequence *sequence)
{
    uint32_t group = engine->model_drafts.group;
    block_table_cut(&sequence->tables[group], engine->pools.group[group],
                    sequence->computed_tokens + 1 + sequence->draft.count);
}
