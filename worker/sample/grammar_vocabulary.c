/*
 * Builds the trie of a vocabulary by sorting the tokens' bytes, and keeps the programs of recent
 * grammars: those in use, and up to GRAMMAR_KEPT_PROGRAMS that wait for a matcher.
 */
#include "worker/sample/grammar_vocabulary.h"

#include <stdlib.h>
#include <string.h>

#include "proto/limits.h"
#include "proto/must.h"
#include "worker/sample/grammar_plain.h"
#include "worker/sample/grammar_program.h"
#include "worker/sample/grammar_trie.h"

/* --- Tokens ------------------------------------------------------------------------------------- */

static bool table_is_valid(const struct token_bytes *table, const uint32_t *end_tokens,
                           size_t end_count, uint32_t logit_count)
{
    if (table->count > logit_count || logit_count > LIMIT_VOCAB_TOKENS)
        return false;
    for (uint32_t t = 0; t < table->count; t++)
        if (table->offsets[t + 1] < table->offsets[t] ||
            table->offsets[t + 1] - table->offsets[t] > LIMIT_TOKEN_BYTES)
            return false;
    for (size_t i = 0; i < end_count; i++)
        if (end_tokens[i] >= logit_count)
            return false;
    return true;
}

static bool copy_tokens(struct grammar_vocabulary *vocabulary, const struct token_bytes *table,
                        const uint32_t *end_tokens, size_t end_count)
{
    uint32_t count = table->count;
    size_t total = count == 0 ? 0 : table->offsets[count] - table->offsets[0];
    vocabulary->bytes = malloc(total + 1);
    vocabulary->offsets = malloc(((size_t)count + 1) * sizeof(uint32_t));
    vocabulary->is_end = calloc((size_t)vocabulary->logit_count + 1, sizeof(bool));
    vocabulary->same_text = malloc(((size_t)count + 1) * sizeof(uint32_t));
    if (vocabulary->bytes == NULL || vocabulary->offsets == NULL || vocabulary->is_end == NULL ||
        vocabulary->same_text == NULL)
        return false;
    for (size_t i = 0; i < end_count; i++)
        vocabulary->is_end[end_tokens[i]] = true;
    uint32_t used = 0;
    for (uint32_t t = 0; t < count; t++) {
        uint32_t bytes = vocabulary->is_end[t] ? 0 : table->offsets[t + 1] - table->offsets[t];
        vocabulary->offsets[t] = used;
        if (bytes > 0)
            memcpy(vocabulary->bytes + used, table->bytes + table->offsets[t], bytes);
        used += bytes;
        vocabulary->longest = bytes > vocabulary->longest ? bytes : vocabulary->longest;
    }
    vocabulary->offsets[count] = used;
    return true;
}

/* --- Trie --------------------------------------------------------------------------------------- */

struct token_text {
    const uint8_t *bytes;
    uint32_t length;
    uint32_t token;
};

static int compare_texts(const void *a, const void *b)
{
    const struct token_text *x = a, *y = b;
    uint32_t common = x->length < y->length ? x->length : y->length;
    int order = memcmp(x->bytes, y->bytes, common);
    if (order != 0)
        return order;
    if (x->length != y->length)
        return x->length < y->length ? -1 : 1;
    return x->token < y->token ? -1 : 1;
}

static uint32_t common_bytes(const struct token_text *x, const struct token_text *y)
{
    uint32_t i = 0;
    while (i < x->length && i < y->length && x->bytes[i] == y->bytes[i])
        i++;
    return i;
}

/* Sorted texts become nodes; open[d] is the node of depth d on the current path. */
static void add_nodes(struct grammar_vocabulary *vocabulary, const struct token_text *texts,
                      uint32_t count, uint32_t *open)
{
    struct grammar_trie_node *nodes = vocabulary->nodes;
    uint32_t used = 1, depth = 0;
    nodes[0] = (struct grammar_trie_node){GRAMMAR_NO_TOKEN, 0, 0, 0, false};
    open[0] = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t common = i == 0 ? 0 : common_bytes(&texts[i - 1], &texts[i]);
        while (depth > common)
            nodes[open[depth--]].end = used;
        while (depth < texts[i].length) {
            uint8_t byte = texts[i].bytes[depth++];
            open[depth] = used;
            nodes[used++] =
                (struct grammar_trie_node){GRAMMAR_NO_TOKEN, 0, (uint16_t)depth, byte, false};
        }
        uint32_t token = texts[i].token;
        vocabulary->same_text[token] = nodes[open[depth]].token;
        nodes[open[depth]].is_shared = nodes[open[depth]].token != GRAMMAR_NO_TOKEN;
        nodes[open[depth]].token = token;
    }
    for (uint32_t d = 0; d <= depth; d++)
        nodes[open[d]].end = used;
    vocabulary->node_count = used;
}

static bool build_trie(struct grammar_vocabulary *vocabulary)
{
    uint32_t count = 0;
    size_t bytes = vocabulary->offsets[vocabulary->token_count];
    struct token_text *texts = malloc(((size_t)vocabulary->token_count + 1) * sizeof *texts);
    uint32_t *open = malloc(((size_t)vocabulary->longest + 1) * sizeof *open);
    vocabulary->nodes = malloc((bytes + 1) * sizeof *vocabulary->nodes);
    bool good = texts != NULL && open != NULL && vocabulary->nodes != NULL;
    if (good) {
        for (uint32_t t = 0; t < vocabulary->token_count; t++) {
            uint32_t length = vocabulary->offsets[t + 1] - vocabulary->offsets[t];
            if (length > 0)
                texts[count++] =
                    (struct token_text){vocabulary->bytes + vocabulary->offsets[t], length, t};
        }
        qsort(texts, count, sizeof *texts, compare_texts);
        add_nodes(vocabulary, texts, count, open);
        struct grammar_trie_node *fitted =
            realloc(vocabulary->nodes, vocabulary->node_count * sizeof *fitted);
        vocabulary->nodes = fitted != NULL ? fitted : vocabulary->nodes;
    }
    free(texts);
    free(open);
    return good;
}

/* --- Slices ------------------------------------------------------------------------------------- */

static const uint32_t FIRST_SLICE_LENGTHS[GRAMMAR_SLICES - 1] = {10, 30};

/* The slice of a text, or GRAMMAR_SLICES. */
static uint8_t slice_of(const uint8_t *text, size_t bytes)
{
    uint32_t characters;
    if (!grammar_plain_count(text, bytes, &characters))
        return GRAMMAR_SLICES;
    uint8_t slice = 0;
    while (slice < GRAMMAR_SLICES - 1 && characters > FIRST_SLICE_LENGTHS[slice])
        slice++;
    return slice;
}

/* numbers[n]: nodes before n that have a token outside the slices up to `last` at or below them. */
static bool add_rest(struct grammar_vocabulary *vocabulary, const uint8_t *slices, uint32_t last,
                     uint32_t *numbers)
{
    const struct grammar_trie_node *nodes = vocabulary->nodes;
    uint32_t count = vocabulary->node_count, used = 0;
    numbers[count] = UINT32_MAX; /* the last token outside, from the end: none so far */
    for (uint32_t n = count; n-- > 1;) {
        bool outside = nodes[n].token != GRAMMAR_NO_TOKEN && slices[nodes[n].token] > last;
        numbers[n] = outside ? n : numbers[n + 1];
    }
    struct grammar_rest_node *rest = malloc((size_t)count * sizeof *rest);
    if (rest == NULL)
        return false;
    for (uint32_t n = 1; n < count; n++) {
        bool is_part = numbers[n] < nodes[n].end;
        numbers[n] = used;
        if (is_part)
            rest[used++] = (struct grammar_rest_node){n, 0, nodes[n].depth, nodes[n].byte,
                                                      nodes[n].token != GRAMMAR_NO_TOKEN &&
                                                          slices[nodes[n].token] > last};
    }
    numbers[count] = used;
    for (uint32_t r = 0; r < used; r++)
        rest[r].end = numbers[nodes[rest[r].node].end];
    vocabulary->rest[last] = (struct grammar_rest){rest, used};
    return true;
}

static bool build_slices(struct grammar_vocabulary *vocabulary)
{
    size_t words = grammar_vocabulary_mask_words(vocabulary);
    uint8_t *slices = malloc((size_t)vocabulary->token_count + 1);
    uint32_t *numbers = malloc(((size_t)vocabulary->node_count + 1) * sizeof *numbers);
    bool good = slices != NULL && numbers != NULL;
    for (uint32_t s = 0; s < GRAMMAR_SLICES; s++) {
        vocabulary->slice_length[s] =
            s < GRAMMAR_SLICES - 1 ? FIRST_SLICE_LENGTHS[s] : vocabulary->longest;
        vocabulary->slice_words[s] = calloc(words + 1, sizeof(uint32_t));
        good = good && vocabulary->slice_words[s] != NULL;
    }
    for (uint32_t t = 0; t < vocabulary->token_count && good; t++) {
        uint32_t at = vocabulary->offsets[t], end = vocabulary->offsets[t + 1];
        slices[t] = at == end ? GRAMMAR_SLICES : slice_of(vocabulary->bytes + at, end - at);
        for (uint32_t s = slices[t]; s < GRAMMAR_SLICES; s++)
            vocabulary->slice_words[s][t / 32] |= 1u << t % 32;
    }
    for (uint32_t s = 0; s < GRAMMAR_SLICES && good; s++)
        good = add_rest(vocabulary, slices, s, numbers);
    free(slices);
    free(numbers);
    return good;
}

struct grammar_vocabulary *grammar_vocabulary_open(const struct token_bytes *table,
                                                   const uint32_t *end_tokens, size_t end_count,
                                                   uint32_t logit_count)
{
    if (!table_is_valid(table, end_tokens, end_count, logit_count))
        return NULL;
    struct grammar_vocabulary *vocabulary = calloc(1, sizeof *vocabulary);
    if (vocabulary == NULL)
        return NULL;
    pthread_mutex_init(&vocabulary->lock, NULL);
    vocabulary->token_count = table->count;
    vocabulary->logit_count = logit_count;
    if (copy_tokens(vocabulary, table, end_tokens, end_count) && build_trie(vocabulary) &&
        build_slices(vocabulary))
        return vocabulary;
    grammar_vocabulary_close(vocabulary);
    return NULL;
}

void grammar_vocabulary_close(struct grammar_vocabulary *vocabulary)
{
    if (vocabulary == NULL)
        return;
    for (uint32_t i = 0; i < GRAMMAR_KEPT_PROGRAMS; i++)
        if (vocabulary->programs[i] != NULL) {
            must(vocabulary->programs[i]->matchers == 0);
            grammar_program_close(vocabulary->programs[i]);
        }
    pthread_mutex_destroy(&vocabulary->lock);
    free(vocabulary->bytes);
    free(vocabulary->offsets);
    free(vocabulary->is_end);
    free(vocabulary->same_text);
    free(vocabulary->nodes);
    for (uint32_t s = 0; s < GRAMMAR_SLICES; s++) {
        free(vocabulary->slice_words[s]);
        free(vocabulary->rest[s].nodes);
    }
    free(vocabulary);
}

size_t grammar_vocabulary_mask_words(const struct grammar_vocabulary *vocabulary)
{
    return grammar_trie_mask_words(vocabulary);
}

/* --- Programs ----------------------------------------------------------------------------------- */

static uint32_t find_program(const struct grammar_vocabulary *vocabulary, const void *blob,
                             size_t bytes)
{
    uint32_t i = 0;
    for (; i < GRAMMAR_KEPT_PROGRAMS; i++) {
        const struct grammar_program *program = vocabulary->programs[i];
        if (program != NULL && program->blob_bytes == bytes &&
            memcmp(program->blob, blob, bytes) == 0)
            break;
    }
    return i;
}

/* Puts a program first; the last one leaves and is closed by its last matcher. */
static void put_first(struct grammar_vocabulary *vocabulary, struct grammar_program *program,
                      uint32_t from)
{
    if (from == GRAMMAR_KEPT_PROGRAMS) {
        struct grammar_program *last = vocabulary->programs[--from];
        if (last != NULL) {
            last->is_kept = false;
            if (last->matchers == 0)
                grammar_program_close(last);
        }
    }
    memmove(vocabulary->programs + 1, vocabulary->programs, from * sizeof *vocabulary->programs);
    vocabulary->programs[0] = program;
    program->is_kept = true;
}

struct grammar_program *grammar_vocabulary_take_program(struct grammar_vocabulary *vocabulary,
                                                        const void *blob, size_t bytes,
                                                        enum grammar_result *result)
{
    *result = GRAMMAR_OK;
    pthread_mutex_lock(&vocabulary->lock);
    uint32_t at = find_program(vocabulary, blob, bytes);
    struct grammar_program *program = at < GRAMMAR_KEPT_PROGRAMS
                                          ? vocabulary->programs[at]
                                          : grammar_program_open(blob, bytes, result);
    if (program != NULL) {
        put_first(vocabulary, program, at);
        program->matchers++;
    }
    pthread_mutex_unlock(&vocabulary->lock);
    return program;
}

struct grammar_program *grammar_vocabulary_renew_program(struct grammar_vocabulary *vocabulary,
                                                         struct grammar_program *full,
                                                         enum grammar_result *result)
{
    pthread_mutex_lock(&vocabulary->lock);
    for (uint32_t i = 0; i < GRAMMAR_KEPT_PROGRAMS && full->is_kept; i++)
        if (vocabulary->programs[i] == full) {
            memmove(vocabulary->programs + i, vocabulary->programs + i + 1,
                    (GRAMMAR_KEPT_PROGRAMS - 1 - i) * sizeof *vocabulary->programs);
            vocabulary->programs[GRAMMAR_KEPT_PROGRAMS - 1] = NULL;
            full->is_kept = false;
        }
    pthread_mutex_unlock(&vocabulary->lock);
    return grammar_vocabulary_take_program(vocabulary, full->blob, full->blob_bytes, result);
}

void grammar_vocabulary_give_program(struct grammar_vocabulary *vocabulary,
                                     struct grammar_program *program)
{
    pthread_mutex_lock(&vocabulary->lock);
    program->matchers--;
    if (program->matchers == 0 && !program->is_kept)
        grammar_program_close(program);
    pthread_mutex_unlock(&vocabulary->lock);
}
