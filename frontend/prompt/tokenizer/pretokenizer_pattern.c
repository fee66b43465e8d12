/*
 * Oniguruma's semantics on PCRE2's engine.
 *
 * The difference that matters is `\s`: in Oniguruma it is Unicode's White_Space, PCRE2 adds U+180E.
 * So `\s` and `\S` are rewritten as sets before compiling (`\S` inside a set cannot be expressed
 * and is refused). `^` and `$` are line anchors in Ruby, hence PCRE2_MULTILINE. Property classes,
 * possessive quantifiers and case folding agree.
 *
 * Hostile texts: no pattern in use nests repeats, so each search is linear in the bytes it consumes
 * or gives back (the tests time a megabyte of every class of character). A pattern from a hostile
 * file may be exponential: each search is bounded in steps and memory, and a text that exceeds the
 * bound is refused, never split wrongly. If the JIT's stack is too small, the interpreter runs the
 * same search on the heap.
 */
#include "frontend/prompt/tokenizer/pretokenizer_pattern.h"

#include <pcre2.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "proto/limits.h"
#include "proto/must.h"

#define SPACE_SET                                                                                  \
    "\\t-\\r\\x20\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}"   \
    "\\x{3000}"

enum {
    SEARCH_STEPS = 1000 * 1000, /* for any text; each byte of it allows 16 more */
    SEARCH_HEAP_KIB = 64 * 1024,
};

struct pretokenizer_pattern {
    pcre2_code *code;
    bool has_jit;
};

struct pattern_search {
    pcre2_match_data *data;
    pcre2_match_context *context;
};

struct rewriting {
    char *out;
    size_t count;
    bool in_set;
};

static void put(struct rewriting *rewriting, const char *text, size_t bytes)
{
    memcpy(rewriting->out + rewriting->count, text, bytes);
    rewriting->count += bytes;
}

static bool put_space_class(struct rewriting *rewriting, char letter)
{
    if (rewriting->in_set && letter == 'S')
        return false;
    const char *set = rewriting->in_set ? SPACE_SET
                      : letter == 's'   ? "[" SPACE_SET "]"
                                        : "[^" SPACE_SET "]";
    put(rewriting, set, strlen(set));
    return true;
}

/* `out` has room for sizeof SPACE_SET + 2 bytes for each byte of the regex. False: cannot be
 * expressed. */
static bool rewrite(const char *regex, size_t bytes, struct rewriting *rewriting)
{
    for (size_t at = 0; at < bytes; at++) {
        char current = regex[at];
        if (current == '\\' && at + 1 < bytes) {
            char escaped = regex[++at];
            if (escaped != 's' && escaped != 'S')
                put(rewriting, regex + at - 1, 2);
            else if (!put_space_class(rewriting, escaped))
                return false;
            continue;
        }
        if (!rewriting->in_set && current == '[') {
            rewriting->in_set = true;
            put(rewriting, &current, 1);
            if (at + 1 < bytes && regex[at + 1] == '^')
                put(rewriting, &regex[++at], 1);
            if (at + 1 < bytes && regex[at + 1] == ']')
                put(rewriting, &regex[++at], 1);
            continue;
        }
        if (rewriting->in_set && current == ']')
            rewriting->in_set = false;
        put(rewriting, &current, 1);
    }
    return true;
}

static pcre2_code *compile(const char *regex, size_t bytes, struct error_text *error)
{
    int code = 0;
    PCRE2_SIZE offset = 0;
    pcre2_code *compiled = pcre2_compile(
        (PCRE2_SPTR)regex, bytes, PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C,
        &code, &offset, NULL);
    if (!compiled) {
        PCRE2_UCHAR words[128] = "";
        pcre2_get_error_message(code, words, sizeof words);
        error_set(error, RESULT_UNSUPPORTED, "pre-tokenizer pattern: %s", (const char *)words);
    }
    return compiled;
}

enum result pretokenizer_pattern_open(const char *regex, size_t regex_bytes,
                                      struct pretokenizer_pattern **pattern,
                                      struct error_text *error)
{
    if (regex_bytes > LIMIT_PATTERN_BYTES)
        return error_set(error, RESULT_TOO_LARGE, "pre-tokenizer pattern of %zu bytes",
                         regex_bytes);
    struct rewriting rewriting = {.out = malloc(regex_bytes * (sizeof SPACE_SET + 2) + 1)};
    struct pretokenizer_pattern *opened = calloc(1, sizeof *opened);
    enum result result = RESULT_OK;
    if (!rewriting.out || !opened)
        result = RESULT_OUT_OF_MEMORY;
    else if (!rewrite(regex, regex_bytes, &rewriting))
        result = error_set(error, RESULT_UNSUPPORTED, "pre-tokenizer pattern has \\S in a set");
    else if (!(opened->code = compile(rewriting.out, rewriting.count, error)))
        result = RESULT_UNSUPPORTED;
    else
        opened->has_jit = pcre2_jit_compile(opened->code, PCRE2_JIT_COMPLETE) == 0;
    free(rewriting.out);
    if (result) {
        free(opened);
        return result;
    }
    *pattern = opened;
    return RESULT_OK;
}

void pretokenizer_pattern_close(struct pretokenizer_pattern *pattern)
{
    if (!pattern)
        return;
    pcre2_code_free(pattern->code);
    free(pattern);
}

struct pattern_search *pattern_search_create(void)
{
    struct pattern_search *search = calloc(1, sizeof *search);
    if (!search)
        return NULL;
    search->data = pcre2_match_data_create(1, NULL);
    search->context = pcre2_match_context_create(NULL);
    if (!search->data || !search->context) {
        pattern_search_destroy(search);
        return NULL;
    }
    pcre2_set_heap_limit(search->context, SEARCH_HEAP_KIB);
    return search;
}

void pattern_search_destroy(struct pattern_search *search)
{
    if (!search)
        return;
    pcre2_match_data_free(search->data);
    pcre2_match_context_free(search->context);
    free(search);
}

enum result pretokenizer_pattern_find(const struct pretokenizer_pattern *pattern,
                                      struct pattern_search *search, const char *text,
                                      size_t text_bytes, size_t from, size_t *start, size_t *end)
{
    size_t steps = SEARCH_STEPS + 16 * text_bytes;
    pcre2_set_match_limit(search->context, steps > UINT32_MAX ? UINT32_MAX : (uint32_t)steps);
    int code = PCRE2_ERROR_JIT_STACKLIMIT;
    if (pattern->has_jit)
        code = pcre2_jit_match(pattern->code, (PCRE2_SPTR)text, text_bytes, from, 0, search->data,
                               search->context);
    if (code == PCRE2_ERROR_JIT_STACKLIMIT)
        code = pcre2_match(pattern->code, (PCRE2_SPTR)text, text_bytes, from,
                           PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, search->data, search->context);
    if (code == PCRE2_ERROR_NOMATCH)
        return RESULT_NOT_FOUND;
    if (code < 0)
        return code == PCRE2_ERROR_NOMEMORY ? RESULT_OUT_OF_MEMORY : RESULT_UNSUPPORTED;
    const PCRE2_SIZE *offsets = pcre2_get_ovector_pointer(search->data);
    if (offsets[0] > offsets[1]) /* possible with \K inside a look-ahead */
        return RESULT_UNSUPPORTED;
    *start = offsets[0];
    *end = offsets[1];
    return *start < from || *end > text_bytes ? RESULT_UNSUPPORTED : RESULT_OK;
}
