/*
 * Token texts in one growing block of bytes, fixed-size entries by id, and an open-addressing
 * index.
 *
 * A vocabulary has a quarter of a million short texts: one malloc for each would cost more memory
 * than the texts. All numbers come from a file, so counts, lengths and ids are checked here, and
 * the hash is keyed with random bits, so that a crafted file cannot make loading quadratic.
 */
#include "frontend/prompt/tokenizer/vocabulary.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "proto/limits.h"
#include "proto/must.h"

#define ID_BITS   20
#define ID_MASK   ((1u << ID_BITS) - 1)
#define MAX_TAG   0xFFFu
#define FREE_SLOT UINT32_MAX

_Static_assert(LIMIT_VOCAB_TOKENS <= 1u << ID_BITS, "an id fits its part of a slot");

void vocabulary_init(struct vocabulary *vocabulary)
{
    *vocabulary = (struct vocabulary){.seed = vocabulary_random_seed()};
}

void vocabulary_fini(struct vocabulary *vocabulary)
{
    free(vocabulary->tokens);
    free(vocabulary->bytes);
    free(vocabulary->slots);
    *vocabulary = (struct vocabulary){0};
}

uint64_t vocabulary_random_seed(void)
{
    uint64_t seed;
    if (getrandom(&seed, sizeof seed, 0) == (ssize_t)sizeof seed)
        return seed;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_nsec * 0x9E3779B97F4A7C15ull;
}

static uint64_t mix(uint64_t a, uint64_t b)
{
    unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* A keyed 64-bit hash. */
static uint64_t text_hash(uint64_t seed, const char *bytes, size_t byte_count)
{
    uint64_t hash = seed ^ byte_count;
    for (; byte_count >= 8; bytes += 8, byte_count -= 8) {
        uint64_t word;
        memcpy(&word, bytes, sizeof word);
        hash = mix(hash ^ word, 0xA0761D6478BD642Full);
    }
    uint64_t word = 0;
    memcpy(&word, bytes, byte_count);
    return mix(hash ^ word, 0xE7037ED1A0B428DBull ^ seed);
}

static enum result vocabulary_grow_tokens(struct vocabulary *vocabulary, uint32_t id)
{
    if (id < vocabulary->token_capacity)
        return RESULT_OK;
    uint32_t capacity = vocabulary->token_capacity ? vocabulary->token_capacity : 1024;
    while (capacity <= id)
        capacity *= 2;
    struct vocabulary_token *tokens =
        realloc(vocabulary->tokens, capacity * sizeof *vocabulary->tokens);
    if (!tokens)
        return RESULT_OUT_OF_MEMORY;
    memset(tokens + vocabulary->token_capacity, 0,
           (capacity - vocabulary->token_capacity) * sizeof *tokens);
    vocabulary->tokens = tokens;
    vocabulary->token_capacity = capacity;
    return RESULT_OK;
}

/* At most LIMIT_VOCAB_TOKENS texts and as many shown ones of LIMIT_TOKEN_BYTES: 2 GiB, so offsets
 * fit 32 bits. */
static enum result vocabulary_append(struct vocabulary *vocabulary, const char *bytes,
                                     size_t byte_count, uint32_t *start)
{
    if (byte_count > UINT32_MAX - vocabulary->byte_count)
        return RESULT_TOO_LARGE;
    if (vocabulary->byte_count + byte_count > vocabulary->byte_capacity) {
        size_t capacity = vocabulary->byte_capacity ? vocabulary->byte_capacity * 2 : 1 << 16;
        char *grown = realloc(vocabulary->bytes, capacity);
        if (!grown)
            return RESULT_OUT_OF_MEMORY;
        vocabulary->bytes = grown;
        vocabulary->byte_capacity = capacity;
    }
    *start = (uint32_t)vocabulary->byte_count;
    if (byte_count == 0)
        return RESULT_OK;
    memcpy(vocabulary->bytes + vocabulary->byte_count, bytes, byte_count);
    vocabulary->byte_count += byte_count;
    return RESULT_OK;
}

enum result vocabulary_set_text(struct vocabulary *vocabulary, uint32_t id, const char *text,
                                size_t text_bytes, unsigned flags)
{
    if (id >= LIMIT_VOCAB_TOKENS || text_bytes > LIMIT_TOKEN_BYTES)
        return RESULT_TOO_LARGE;
    uint32_t start;
    enum result result = vocabulary_grow_tokens(vocabulary, id);
    if (!result)
        result = vocabulary_append(vocabulary, text, text_bytes, &start);
    if (result)
        return result;
    struct vocabulary_token *token = &vocabulary->tokens[id];
    *token = (struct vocabulary_token){
        .text_start = start,
        .shown_start = start,
        .text_bytes = (uint16_t)text_bytes,
        .shown_bytes = (uint16_t)text_bytes,
        .flags = (uint8_t)(token->flags | flags | VOCABULARY_PRESENT),
    };
    if (id >= vocabulary->token_count)
        vocabulary->token_count = id + 1;
    if (text_bytes > vocabulary->longest_bytes)
        vocabulary->longest_bytes = (uint32_t)text_bytes;
    return RESULT_OK;
}

enum result vocabulary_set_shown(struct vocabulary *vocabulary, uint32_t id, const char *shown,
                                 size_t shown_bytes)
{
    must(vocabulary_has(vocabulary, id, VOCABULARY_PRESENT));
    must(shown_bytes <= LIMIT_TOKEN_BYTES);
    uint32_t start;
    enum result result = vocabulary_append(vocabulary, shown, shown_bytes, &start);
    if (result)
        return result;
    vocabulary->tokens[id].shown_start = start;
    vocabulary->tokens[id].shown_bytes = (uint16_t)shown_bytes;
    return RESULT_OK;
}

/* A few bits of the hash next to the id save most comparisons with other texts. */
static uint32_t slot_tag(uint64_t hash)
{
    uint32_t tag = (uint32_t)(hash >> 52);
    return (tag == MAX_TAG ? 0 : tag) << ID_BITS; /* all ones means free */
}

/* The slot that holds `text`, or the free one where it belongs. */
static uint32_t vocabulary_slot(const struct vocabulary *vocabulary, const char *text,
                                size_t text_bytes, uint32_t *tag)
{
    uint64_t hash = text_hash(vocabulary->seed, text, text_bytes);
    *tag = slot_tag(hash);
    for (uint32_t slot = (uint32_t)hash;; slot++) {
        slot &= vocabulary->slot_mask;
        uint32_t entry = vocabulary->slots[slot];
        if (entry == FREE_SLOT)
            return slot;
        if ((entry & ~ID_MASK) != *tag)
            continue;
        const struct vocabulary_token *token = &vocabulary->tokens[entry & ID_MASK];
        if (token->text_bytes == text_bytes &&
            memcmp(vocabulary->bytes + token->text_start, text, text_bytes) == 0)
            return slot;
    }
}

enum result vocabulary_index(struct vocabulary *vocabulary)
{
    uint32_t slot_count = 16;
    while (slot_count < vocabulary->token_count * 2)
        slot_count *= 2;
    free(vocabulary->slots);
    vocabulary->slots = malloc(slot_count * sizeof *vocabulary->slots);
    if (!vocabulary->slots)
        return RESULT_OUT_OF_MEMORY;
    memset(vocabulary->slots, 0xFF, slot_count * sizeof *vocabulary->slots);
    vocabulary->slot_mask = slot_count - 1;
    for (uint32_t id = 0; id < vocabulary->token_count; id++) {
        const struct vocabulary_token *token = &vocabulary->tokens[id];
        if (!(token->flags & VOCABULARY_FINDABLE) || token->text_bytes == 0)
            continue;
        uint32_t tag;
        uint32_t slot = vocabulary_slot(vocabulary, vocabulary->bytes + token->text_start,
                                        token->text_bytes, &tag);
        if (vocabulary->slots[slot] == FREE_SLOT)
            vocabulary->slots[slot] = tag | id;
    }
    return RESULT_OK;
}

int32_t vocabulary_find(const struct vocabulary *vocabulary, const char *text, size_t text_bytes)
{
    must(vocabulary->slots != NULL);
    uint32_t tag;
    uint32_t entry = vocabulary->slots[vocabulary_slot(vocabulary, text, text_bytes, &tag)];
    return entry == FREE_SLOT ? -1 : (int32_t)(entry & ID_MASK);
}

int32_t vocabulary_find_ordinary(const struct vocabulary *vocabulary, const char *text,
                                 size_t text_bytes)
{
    int32_t id = vocabulary_find(vocabulary, text, text_bytes);
    return id >= 0 && vocabulary_has(vocabulary, (uint32_t)id, VOCABULARY_SPECIAL) ? -1 : id;
}

int32_t vocabulary_find_byte(const struct vocabulary *vocabulary, uint8_t byte)
{
    char name[8];
    int bytes = snprintf(name, sizeof name, "<0x%02X>", byte);
    return vocabulary_find_ordinary(vocabulary, name, (size_t)bytes);
}

bool vocabulary_has(const struct vocabulary *vocabulary, uint32_t id, unsigned flags)
{
    return id < vocabulary->token_count && (vocabulary->tokens[id].flags & flags) == flags;
}

const char *vocabulary_text(const struct vocabulary *vocabulary, uint32_t id, size_t *text_bytes)
{
    *text_bytes = 0;
    if (!vocabulary_has(vocabulary, id, VOCABULARY_PRESENT))
        return "";
    *text_bytes = vocabulary->tokens[id].text_bytes;
    return vocabulary->bytes + vocabulary->tokens[id].text_start;
}

const char *vocabulary_shown(const struct vocabulary *vocabulary, uint32_t id, size_t *shown_bytes)
{
    *shown_bytes = 0;
    if (!vocabulary_has(vocabulary, id, VOCABULARY_PRESENT))
        return "";
    *shown_bytes = vocabulary->tokens[id].shown_bytes;
    return vocabulary->bytes + vocabulary->tokens[id].shown_start;
}
