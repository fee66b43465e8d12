/*
 * Memory, errors and states of the schema compiler, and the loop that writes the rules of states.
 * States are found by the hash of their literals; every step takes fuel of the builder, which also
 * pays for hash chains, so no schema makes this long.
 */
#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/grammar/json_number_regex.h"
#include "frontend/grammar/json_schema_parts.h"
#include "frontend/grammar/json_text_regex.h"
#include "proto/limits.h"

/* Fuel of one step of this compiler, which takes longer than one of the builder. */
#define STEP_FUEL     5u
#define CHUNK_BYTES   65536u
#define STATE_BUCKETS 4096u
/* Alternatives of one state; a schema with more is an explosion of anyOf. */
#define STATE_ALTERNATIVES 2048u

struct schema_arena_chunk {
    struct schema_arena_chunk *next;
    max_align_t bytes[];
};

void *schema_take(struct schema_compiler *compiler, size_t bytes)
{
    struct schema_arena *arena = &compiler->arena;
    bytes = (bytes + sizeof(max_align_t) - 1) / sizeof(max_align_t) * sizeof(max_align_t);
    if (arena->capacity - arena->used < bytes) {
        size_t size = bytes > CHUNK_BYTES ? bytes : CHUNK_BYTES;
        struct schema_arena_chunk *chunk =
            arena->total + size > LIMIT_SCHEMA_WORK_BYTES ? NULL : malloc(sizeof(*chunk) + size);
        if (!chunk) {
            schema_refuse(compiler, compiler->document.root, "", "it needs too much memory");
            return NULL;
        }
        chunk->next = arena->chunks;
        *arena =
            (struct schema_arena){.chunks = chunk, .capacity = size, .total = arena->total + size};
    }
    void *taken = (char *)arena->chunks->bytes + arena->used;
    arena->used += bytes;
    return taken;
}

static void arena_free(struct schema_arena *arena)
{
    while (arena->chunks) {
        struct schema_arena_chunk *next = arena->chunks->next;
        free(arena->chunks);
        arena->chunks = next;
    }
}

bool schema_refuse(struct schema_compiler *compiler, const cJSON *node, const char *keyword,
                   const char *reason)
{
    if (compiler->failed)
        return false;
    compiler->failed = true;
    struct grammar_error *error = compiler->error;
    schema_document_pointer(&compiler->document, node, error->pointer, sizeof(error->pointer));
    snprintf(error->keyword, sizeof(error->keyword), "%s", keyword);
    snprintf(error->message, sizeof(error->message), "%s", reason);
    return false;
}

bool schema_spend(struct schema_compiler *compiler, uint32_t steps)
{
    if (compiler->failed)
        return false;
    return grammar_builder_spend(compiler->builder, (uint64_t)steps * STEP_FUEL) ||
           schema_refuse(compiler, compiler->document.root, "",
                         grammar_builder_reason(compiler->builder));
}

/* The place of a node: its own, or an empty one. */
static struct node_number *table_place(const struct node_table *table, const void *node)
{
    uint64_t hash = (uint64_t)(uintptr_t)node * 0x9E3779B97F4A7C15ull >> 32;
    uint32_t place = (uint32_t)hash & (table->capacity - 1);
    while (table->entries[place].node && table->entries[place].node != node)
        place = (place + 1) & (table->capacity - 1);
    return &table->entries[place];
}

static bool table_grow(struct schema_compiler *compiler, struct node_table *table)
{
    struct node_table larger = {.count = table->count,
                                .capacity = table->capacity ? table->capacity * 2 : 64};
    larger.entries = schema_take(compiler, larger.capacity * sizeof(*larger.entries));
    if (!larger.entries || !schema_spend(compiler, larger.capacity / 16))
        return false;
    memset(larger.entries, 0, larger.capacity * sizeof(*larger.entries));
    for (uint32_t i = 0; i < table->capacity; i++) {
        if (table->entries[i].node)
            *table_place(&larger, table->entries[i].node) = table->entries[i];
    }
    *table = larger;
    return true;
}

uint32_t *node_table_find(struct schema_compiler *compiler, struct node_table *table,
                          const void *node)
{
    if (table->count * 2 >= table->capacity && !table_grow(compiler, table))
        return NULL;
    struct node_number *entry = table_place(table, node);
    table->count += entry->node == NULL;
    entry->node = node;
    return &entry->number;
}

/* Nothing but annotations beside its $ref. */
static bool is_bare_reference(const struct schema_compiler *compiler, const cJSON *node)
{
    if (!cJSON_IsObject(node))
        return false;
    if (schema_is_reference_only(compiler, node))
        return true;
    bool reference = false;
    for (const cJSON *member = node->child; member; member = member->next) {
        if (strcmp(member->string, "$ref") == 0)
            reference = cJSON_IsString(member);
        else if (strcmp(member->string, "description") != 0 && strcmp(member->string, "title") != 0)
            return false;
    }
    return reference;
}

void literal_list_add(struct schema_compiler *compiler, struct literal_list *list,
                      struct schema_literal literal)
{
    bool schema = literal.kind == LITERAL_SCHEMA || literal.kind == LITERAL_NOT_SCHEMA;
    for (uint32_t i = 0;
         schema && i < LIMIT_JSON_DEPTH && is_bare_reference(compiler, literal.node); i++) {
        literal.node = schema_reference(compiler, literal.node);
        if (!literal.node)
            return;
    }
    if (literal.kind == LITERAL_SCHEMA &&
        (cJSON_IsTrue(literal.node) || (cJSON_IsObject(literal.node) && !literal.node->child)))
        return;
    for (uint32_t i = 0; i < list->count; i++) {
        if (list->items[i].node == literal.node && list->items[i].kind == literal.kind)
            return;
    }
    if (!schema_spend(compiler, 4 + list->count))
        return;
    if (list->count == list->capacity) {
        uint32_t capacity = list->capacity ? list->capacity * 2 : 2;
        struct schema_literal *grown = schema_take(compiler, capacity * sizeof(*grown));
        if (!grown)
            return;
        if (list->count > 0)
            memcpy(grown, list->items, list->count * sizeof(*grown));
        list->items = grown;
        list->capacity = capacity;
    }
    list->items[list->count++] = literal;
}

bool literal_list_is_never(const struct schema_compiler *compiler, const struct literal_list *list)
{
    (void)compiler;
    for (uint32_t i = 0; i < list->count; i++) {
        const struct schema_literal *literal = &list->items[i];
        if (literal->kind == LITERAL_SCHEMA && cJSON_IsFalse(literal->node))
            return true;
        if (literal->kind == LITERAL_NOT_SCHEMA &&
            (cJSON_IsTrue(literal->node) ||
             (cJSON_IsObject(literal->node) && !literal->node->child)))
            return true;
    }
    return false;
}

static uint32_t list_hash(const struct literal_list *list)
{
    uint64_t hash = 14695981039346656037ull;
    for (uint32_t i = 0; i < list->count; i++) {
        hash ^= (uint64_t)(uintptr_t)list->items[i].node + list->items[i].kind;
        hash *= 1099511628211ull;
        hash ^= hash >> 29;
    }
    return (uint32_t)hash % STATE_BUCKETS;
}

static bool list_equal(const struct literal_list *left, const struct literal_list *right)
{
    if (left->count != right->count)
        return false;
    for (uint32_t i = 0; i < left->count; i++) {
        if (left->items[i].node != right->items[i].node ||
            left->items[i].kind != right->items[i].kind)
            return false;
    }
    return true;
}

symbol_id schema_state_symbol(struct schema_compiler *compiler, const struct literal_list *list)
{
    if (!schema_spend(compiler, 8))
        return GRAMMAR_NONE;
    uint32_t *bucket = &compiler->buckets[list_hash(list)];
    for (uint32_t i = *bucket; i != UINT32_MAX; i = compiler->states[i].next) {
        if (!schema_spend(compiler, 1))
            return GRAMMAR_NONE;
        if (list_equal(&compiler->states[i].literals, list))
            return compiler->states[i].symbol;
    }
    if (compiler->state_count == compiler->state_capacity) {
        uint32_t capacity = compiler->state_capacity ? compiler->state_capacity * 2 : 64;
        struct schema_state *grown = capacity > LIMIT_SCHEMA_STATES
                                         ? NULL
                                         : realloc(compiler->states, capacity * sizeof(*grown));
        if (!grown) {
            schema_refuse(compiler, compiler->document.root, "", "it has too many parts");
            return GRAMMAR_NONE;
        }
        compiler->states = grown;
        compiler->state_capacity = capacity;
    }
    symbol_id symbol = grammar_rule(compiler->builder);
    compiler->states[compiler->state_count] =
        (struct schema_state){.literals = *list, .symbol = symbol, .next = *bucket};
    *bucket = compiler->state_count++;
    return symbol;
}

static regex_id quoted(struct grammar_builder *builder, regex_id content)
{
    regex_id quote = grammar_regex_literal(builder, "\"", 1);
    return grammar_regex_concat(builder, quote, grammar_regex_concat(builder, content, quote));
}

/* The scalars of an alternative as one regex; GRAMMAR_NONE: it has none. */
static regex_id scalar_regex(struct schema_compiler *compiler, const struct conjunct *conjunct)
{
    struct grammar_builder *builder = compiler->builder;
    regex_id parts[5];
    size_t count = 0;
    if (conjunct->types & TYPE_NULL)
        parts[count++] = grammar_regex_literal(builder, "null", 4);
    if (conjunct->types & TYPE_TRUE)
        parts[count++] = grammar_regex_literal(builder, "true", 4);
    if (conjunct->types & TYPE_FALSE)
        parts[count++] = grammar_regex_literal(builder, "false", 5);
    if (conjunct->types & TYPE_NUMBER)
        parts[count++] = conjunct->number == GRAMMAR_NONE ? compiler->any_number : conjunct->number;
    if (conjunct->types & TYPE_STRING)
        parts[count++] = quoted(builder, conjunct->string == GRAMMAR_NONE ? compiler->any_text
                                                                          : conjunct->string);
    return count ? grammar_regex_or_of(builder, parts, count) : GRAMMAR_NONE;
}

static void state_write(struct schema_compiler *compiler, uint32_t index)
{
    struct literal_list literals = compiler->states[index].literals;
    symbol_id rule = compiler->states[index].symbol;
    struct grammar_builder *builder = compiler->builder;
    const struct conjunct *conjunct = conjuncts_of(compiler, &literals, STATE_ALTERNATIVES);
    uint32_t count = 0, used = 0;
    for (const struct conjunct *each = conjunct; each; each = each->next)
        count++;
    regex_id *scalars = schema_take(compiler, (count + 1) * sizeof(*scalars));
    for (; scalars && conjunct && schema_spend(compiler, 16); conjunct = conjunct->next) {
        scalars[used] = scalar_regex(compiler, conjunct);
        used += scalars[used] != GRAMMAR_NONE;
        if (conjunct->types & TYPE_ARRAY)
            array_write(compiler, rule, conjunct);
        if (conjunct->types & TYPE_OBJECT)
            object_write(compiler, rule, conjunct);
    }
    if (used > 0) {
        symbol_id terminal = grammar_terminal(builder, grammar_regex_or_of(builder, scalars, used));
        grammar_production(builder, rule, &terminal, 1);
    }
}

static symbol_id mark(struct schema_compiler *compiler, const char *text, bool before, bool after)
{
    struct grammar_builder *builder = compiler->builder;
    regex_id regex = grammar_regex_literal(builder, text, strlen(text));
    if (before)
        regex = grammar_regex_concat(builder, compiler->blanks, regex);
    if (after)
        regex = grammar_regex_concat(builder, regex, compiler->blanks);
    return grammar_terminal(builder, regex);
}

static bool compiler_open(struct schema_compiler *compiler)
{
    static const uint64_t blank[4] = {1ull << ' ' | 1ull << '\t' | 1ull << '\n' | 1ull << '\r'};
    struct grammar_builder *builder = compiler->builder;
    compiler->buckets = malloc(STATE_BUCKETS * sizeof(*compiler->buckets));
    compiler->never = cJSON_CreateFalse();
    if (!compiler->buckets || !compiler->never)
        return schema_refuse(compiler, compiler->document.root, "", "not enough memory");
    memset(compiler->buckets, 0xFF, STATE_BUCKETS * sizeof(*compiler->buckets));
    compiler->blanks = grammar_regex_repeat(builder, grammar_regex_bytes(builder, blank), 0,
                                            compiler->options->blanks);
    compiler->character = json_text_character(builder);
    compiler->any_text = json_text_any(builder);
    compiler->any_number = json_number_any(builder);
    compiler->plain_number = json_number_plain(builder);
    compiler->integer = json_number_integer(builder);
    compiler->comma = mark(compiler, ",", true, true);
    compiler->object_open = mark(compiler, "{", false, true);
    compiler->object_close = mark(compiler, "}", true, false);
    compiler->object_empty = mark(compiler, "}", false, false);
    compiler->array_open = mark(compiler, "[", false, true);
    compiler->array_close = mark(compiler, "]", true, false);
    compiler->array_empty = mark(compiler, "]", false, false);
    return true;
}

static void compiler_close(struct schema_compiler *compiler)
{
    schema_document_close(&compiler->document);
    arena_free(&compiler->arena);
    free(compiler->states);
    free(compiler->buckets);
    cJSON_Delete(compiler->never);
}

bool json_schema_compile(struct grammar_builder *builder, const cJSON *schema,
                         const struct json_schema_options *options, symbol_id *out,
                         struct grammar_error *error)
{
    struct schema_compiler compiler = {.builder = builder, .options = options, .error = error};
    *error = (struct grammar_error){0};
    enum schema_document_result opened = schema_document_open(&compiler.document, schema);
    if (opened != SCHEMA_DOCUMENT_OK) {
        compiler.document.root = schema;
        schema_refuse(&compiler, schema, "",
                      opened == SCHEMA_DOCUMENT_TOO_DEEP ? "it is nested too deeply"
                                                         : "not enough memory");
    } else if (compiler_open(&compiler) &&
               (!options->strict || schema_check_strict(&compiler, schema))) {
        struct literal_list root = {0};
        literal_list_add(&compiler, &root,
                         (struct schema_literal){.node = schema, .kind = LITERAL_SCHEMA});
        *out = schema_state_symbol(&compiler, &root);
        for (uint32_t i = 0; i < compiler.state_count && schema_spend(&compiler, 1); i++)
            state_write(&compiler, i);
    }
    if (grammar_builder_failed(builder))
        schema_refuse(&compiler, schema, "", grammar_builder_reason(builder));
    compiler_close(&compiler);
    return !compiler.failed;
}

bool json_schema_compile_object(struct grammar_builder *builder,
                                const struct json_schema_options *options, symbol_id *out,
                                struct grammar_error *error)
{
    struct json_schema_options loose = *options;
    loose.strict = false;
    cJSON *schema = cJSON_CreateObject();
    bool good = schema && cJSON_AddStringToObject(schema, "type", "object") &&
                json_schema_compile(builder, schema, &loose, out, error);
    cJSON_Delete(schema);
    return good;
}
