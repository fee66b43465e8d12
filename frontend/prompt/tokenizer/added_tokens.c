/*
 * A trie over the contents of added tokens, searched from each position for the longest token.
 *
 * Most positions end at the table of first bytes. The walk at one position is as long as a token's
 * prefix matches, so the search is linear in the text, times at most the longest token
 * (LIMIT_TOKEN_BYTES). Trust is part of the search, not a filter after it: if the longest token is
 * special and not wholly the template's, a shorter one that may match still does, and text that a
 * user wrote can never absorb the beginning of a template's token that follows it.
 */
#include "frontend/prompt/tokenizer/added_tokens.h"

#include <stdlib.h>
#include <string.h>

#include "frontend/base/cancel_flag.h"
#include "proto/limits.h"
#include "proto/utf8.h"

enum { LOOK_STARTS = 64 }; /* possible starts of a token between two looks at the cancel flag */

static const char word_regex[] = "[\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{200c}\\x{200d}]";

static void trie_fini(struct added_trie *trie)
{
    free(trie->nodes);
    *trie = (struct added_trie){0};
}

void added_tokens_fini(struct added_tokens *added)
{
    for (size_t i = 0; i < added->count; i++)
        free(added->tokens[i].content);
    free(added->tokens);
    trie_fini(&added->raw);
    trie_fini(&added->normalized);
    pretokenizer_pattern_close(added->word);
    *added = (struct added_tokens){0};
}

enum result added_tokens_add(struct added_tokens *added, const struct added_token *token)
{
    if (added->count == LIMIT_VOCAB_TOKENS || token->content_bytes > LIMIT_TOKEN_BYTES)
        return RESULT_TOO_LARGE;
    if (token->content_bytes == 0)
        return RESULT_OK; /* matches nowhere */
    if (added->count == added->capacity) {
        size_t capacity = added->capacity ? added->capacity * 2 : 32;
        struct added_token *grown = realloc(added->tokens, capacity * sizeof *grown);
        if (!grown)
            return RESULT_OUT_OF_MEMORY;
        added->tokens = grown;
        added->capacity = capacity;
    }
    struct added_token copy = *token;
    copy.content = malloc(token->content_bytes);
    if (!copy.content)
        return RESULT_OUT_OF_MEMORY;
    memcpy(copy.content, token->content, token->content_bytes);
    added->tokens[added->count++] = copy;
    added->has_strips |= token->lstrip || token->rstrip;
    return RESULT_OK;
}

static enum result trie_add_node(struct added_trie *trie, uint8_t byte, uint32_t *node)
{
    if (trie->count == 0)
        trie->count = 1; /* 0 means none */
    if (trie->count >= trie->capacity) {
        uint32_t capacity = trie->capacity ? trie->capacity * 2 : 256;
        struct added_node *grown = realloc(trie->nodes, capacity * sizeof *grown);
        if (!grown)
            return RESULT_OUT_OF_MEMORY;
        trie->nodes = grown;
        trie->capacity = capacity;
    }
    *node = trie->count++;
    trie->nodes[*node] = (struct added_node){.token = -1, .byte = byte};
    return RESULT_OK;
}

static uint32_t trie_child(const struct added_trie *trie, uint32_t parent, uint8_t byte)
{
    uint32_t node = trie->nodes[parent].child;
    while (node != 0 && trie->nodes[node].byte != byte)
        node = trie->nodes[node].sibling;
    return node;
}

/* If contents are equal the later token counts, as in Hugging Face's map. */
static enum result trie_insert(struct added_trie *trie, const char *content, size_t bytes,
                               int32_t token)
{
    enum result result = RESULT_OK;
    uint32_t node = trie->roots[(uint8_t)content[0]];
    if (node == 0) {
        result = trie_add_node(trie, (uint8_t)content[0], &node);
        if (result)
            return result;
        trie->roots[(uint8_t)content[0]] = node;
    }
    for (size_t i = 1; i < bytes; i++) {
        uint32_t child = trie_child(trie, node, (uint8_t)content[i]);
        if (child == 0) {
            result = trie_add_node(trie, (uint8_t)content[i], &child);
            if (result)
                return result;
            trie->nodes[child].sibling = trie->nodes[node].child;
            trie->nodes[node].child = child;
        }
        node = child;
    }
    trie->nodes[node].token = token;
    return RESULT_OK;
}

static enum result index_normalized(struct added_tokens *added, size_t token,
                                    const struct normalizer *normalizer)
{
    struct marked_text text = {0};
    struct marked_text spare = {0};
    enum result result = marked_text_append(&text, added->tokens[token].content,
                                            added->tokens[token].content_bytes, 1);
    if (!result)
        result = normalizer_run(normalizer, &text, &spare, NULL);
    if (!result && text.count > 0 && text.count <= LIMIT_TOKEN_BYTES)
        result = trie_insert(&added->normalized, text.bytes, text.count, (int32_t)token);
    marked_text_fini(&text);
    marked_text_fini(&spare);
    return result;
}

enum result added_tokens_index(struct added_tokens *added, const struct normalizer *normalizer)
{
    enum result result = RESULT_OK;
    for (size_t i = 0; i < added->count && !result; i++) {
        const struct added_token *token = &added->tokens[i];
        if (token->single_word && !added->word)
            result =
                pretokenizer_pattern_open(word_regex, sizeof word_regex - 1, &added->word, NULL);
        if (result)
            break;
        if (token->normalized)
            result = index_normalized(added, i, normalizer);
        else
            result = trie_insert(&added->raw, token->content, token->content_bytes, (int32_t)i);
    }
    return result;
}

const struct added_token *added_tokens_find(const struct added_tokens *added, const char *content,
                                            size_t content_bytes)
{
    for (size_t i = added->count; i-- > 0;) {
        const struct added_token *token = &added->tokens[i];
        if (token->content_bytes == content_bytes &&
            memcmp(token->content, content, content_bytes) == 0)
            return token;
    }
    return NULL;
}

const struct added_token *added_tokens_special_at(const struct added_tokens *added,
                                                  const char *text, size_t bytes)
{
    const struct added_token *found = NULL;
    uint32_t node = bytes > 0 ? added->raw.roots[(uint8_t)text[0]] : 0;
    for (size_t at = 1; node != 0; at++) {
        int32_t token = added->raw.nodes[node].token;
        if (token >= 0 && added->tokens[token].special)
            found = &added->tokens[token];
        node = at < bytes ? trie_child(&added->raw, node, (uint8_t)text[at]) : 0;
    }
    return found;
}

/* The longest token that starts at `at` and may match there, or NULL. */
static const struct added_token *longest_at(const struct added_tokens *added,
                                            const struct added_trie *trie, const char *bytes,
                                            const uint8_t trusted[], size_t count, size_t at,
                                            size_t *end)
{
    const struct added_token *longest = NULL;
    bool all_trusted = true;
    uint32_t node = trie->roots[(uint8_t)bytes[at]];
    while (node != 0) {
        all_trusted = all_trusted && trusted[at];
        at++;
        if (trie->nodes[node].token >= 0) {
            const struct added_token *token = &added->tokens[trie->nodes[node].token];
            if (!token->special || all_trusted) {
                longest = token;
                *end = at;
            }
        }
        node = at < count ? trie_child(trie, node, (uint8_t)bytes[at]) : 0;
    }
    return longest;
}

static enum result is_word_char(const struct added_tokens *added, const char *bytes, size_t start,
                                size_t end, bool *is_word)
{
    struct pattern_search *search = pattern_search_create();
    if (!search)
        return RESULT_OUT_OF_MEMORY;
    size_t match_start;
    size_t match_end;
    enum result result = pretokenizer_pattern_find(added->word, search, bytes + start, end - start,
                                                   0, &match_start, &match_end);
    pattern_search_destroy(search);
    *is_word = result == RESULT_OK;
    return result == RESULT_NOT_FOUND ? RESULT_OK : result;
}

static enum result stands_alone(const struct added_tokens *added, const char *bytes, size_t count,
                                const struct added_match *match, bool *alone)
{
    bool word_before = false;
    bool word_after = false;
    enum result result = RESULT_OK;
    if (match->start > 0)
        result = is_word_char(added, bytes, utf8_previous(bytes, match->start), match->start,
                              &word_before);
    if (!result && match->end < count)
        result = is_word_char(added, bytes, match->end,
                              match->end + utf8_char_bytes(bytes[match->end]), &word_after);
    *alone = !word_before && !word_after;
    return result;
}

static void swallow_spaces(const char *bytes, size_t count, size_t from, struct added_match *match)
{
    uint32_t code;
    while (match->token->lstrip && match->start > from) {
        size_t before = utf8_previous(bytes, match->start);
        utf8_decode(bytes + before, match->start - before, &code);
        if (before < from || !utf8_is_space(code))
            break;
        match->start = before;
    }
    while (match->token->rstrip && match->end < count) {
        size_t length = utf8_decode(bytes + match->end, count - match->end, &code);
        if (!utf8_is_space(code))
            break;
        match->end += length;
    }
}

enum result added_tokens_next(const struct added_tokens *added, const struct added_trie *trie,
                              const struct added_text *text, size_t from, struct added_match *match)
{
    const char *bytes = text->bytes;
    size_t count = text->count;
    if (trie->count == 0)
        return RESULT_NOT_FOUND;
    size_t looks = 0;
    for (size_t at = from; at < count; at++) {
        if (trie->roots[(uint8_t)bytes[at]] == 0)
            continue;
        size_t end = at;
        if (looks++ % LOOK_STARTS == 0 && cancel_flag_is_set(text->cancelled))
            return RESULT_CANCELLED;
        const struct added_token *token =
            longest_at(added, trie, bytes, text->trusted, count, at, &end);
        if (!token)
            continue;
        *match = (struct added_match){.start = at, .end = end, .token = token};
        bool alone = true;
        if (token->single_word) {
            enum result result = stands_alone(added, bytes, count, match, &alone);
            if (result)
                return result;
        }
        if (alone) {
            swallow_spaces(bytes, count, from, match);
            return RESULT_OK;
        }
        at = end - 1;
    }
    return RESULT_NOT_FOUND;
}
