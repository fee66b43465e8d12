/*
 * Opens a grammar: checks a copy of the blob, builds the automaton and finds the rules that derive
 * the empty text; parts of groups must not. Finding them repeats passes over all slots until nothing changes; a blob whose
 * rules would need too many passes is refused.
 */
#include "worker/sample/grammar_program.h"

#include <stdlib.h>
#include <string.h>

#include "proto/limits.h"

#define NULLABLE_WORK (64u << 20) /* slots visited */

static bool slot_is_nullable(const struct grammar_program *program, uint32_t slot)
{
    uint32_t value = slot & GRAMMAR_SLOT_VALUE;
    switch (slot & GRAMMAR_SLOT_KIND) {
    case GRAMMAR_SLOT_TERMINAL:
        return (program->terminal_states[value] & GRAMMAR_STATE_ACCEPTS) != 0;
    case GRAMMAR_SLOT_RULE: return program->rule_nullable[value];
    case GRAMMAR_SLOT_REPEAT: {
        const struct grammar_blob_repeat *repeat = &program->view.repeats[value];
        return repeat->minimum == 0 || slot_is_nullable(program, repeat->symbol);
    }
    case GRAMMAR_SLOT_END: return true;
    default: return false;
    }
}

static bool rule_is_nullable(const struct grammar_program *program, uint32_t rule)
{
    const struct grammar_blob_view *view = &program->view;
    for (uint32_t p = view->rules[rule]; p < view->rules[rule + 1]; p++) {
        uint32_t slot = view->productions[p], end = view->productions[p + 1];
        while (slot < end && slot_is_nullable(program, view->slots[slot]))
            slot++;
        if (slot == end)
            return true;
    }
    return false;
}

static bool find_nullable(struct grammar_program *program)
{
    const struct grammar_blob_header *header = program->view.header;
    uint64_t work = 0;
    for (bool changed = true; changed;) {
        changed = false;
        work += header->slot_count + header->rule_count;
        if (work > NULLABLE_WORK)
            return false;
        for (uint32_t rule = header->rule_count; rule-- > 0;)
            if (!program->rule_nullable[rule] && rule_is_nullable(program, rule))
                program->rule_nullable[rule] = changed = true;
    }
    for (uint32_t i = 0; i < header->repeat_count; i++) {
        const struct grammar_blob_repeat *repeat = &program->view.repeats[i];
        program->repeat_minimum[i] =
            slot_is_nullable(program, repeat->symbol) ? 0 : repeat->minimum;
    }
    return true;
}

/* Fills group_first; false: a part of a group matches the empty text. */
static bool check_groups(struct grammar_program *program)
{
    const struct grammar_blob_view *view = &program->view;
    uint32_t choice = 0;
    for (uint32_t i = 0; i < view->header->group_count; i++) {
        const struct grammar_blob_group *group = &view->groups[i];
        program->group_first[i] = choice;
        if (slot_is_nullable(program, GRAMMAR_SLOT_TERMINAL | group->separator) ||
            (group->extra != GRAMMAR_NO_RULE && program->rule_nullable[group->extra]))
            return false;
        for (uint32_t end = choice + group->choice_count; choice < end; choice++)
            if (program->rule_nullable[view->choices[choice].rule])
                return false;
    }
    return true;
}

static enum grammar_result prepare(struct grammar_program *program, const void *blob, size_t bytes)
{
    program->blob = malloc(bytes == 0 ? 1 : bytes);
    if (program->blob == NULL)
        return GRAMMAR_MEMORY;
    if (bytes > 0)
        memcpy(program->blob, blob, bytes);
    program->blob_bytes = bytes;
    struct error_text error;
    enum result checked = grammar_blob_check(program->blob, bytes, &program->view, &error);
    if (checked != RESULT_OK)
        return checked == RESULT_OUT_OF_MEMORY ? GRAMMAR_MEMORY : GRAMMAR_REFUSED;
    const struct grammar_blob_header *header = program->view.header;
    program->terminal_states = calloc((size_t)header->terminal_count + 1, sizeof(uint32_t));
    program->rule_nullable = calloc(header->rule_count, sizeof(bool));
    program->repeat_minimum = calloc((size_t)header->repeat_count + 1, sizeof(uint32_t));
    program->group_first = calloc((size_t)header->group_count + 1, sizeof(uint32_t));
    if (program->terminal_states == NULL || program->rule_nullable == NULL ||
        program->repeat_minimum == NULL || program->group_first == NULL)
        return GRAMMAR_MEMORY;
    if (!grammar_automaton_init(&program->automaton, &program->view, program->terminal_states) ||
        !find_nullable(program))
        return GRAMMAR_FUEL;
    return check_groups(program) ? GRAMMAR_OK : GRAMMAR_REFUSED;
}

struct grammar_program *grammar_program_open(const void *blob, size_t bytes,
                                             enum grammar_result *result)
{
    *result = GRAMMAR_MEMORY;
    if (bytes > LIMIT_GRAMMAR_BLOB_BYTES) {
        *result = GRAMMAR_REFUSED;
        return NULL;
    }
    struct grammar_program *program = calloc(1, sizeof *program);
    if (program == NULL)
        return NULL;
    pthread_mutex_init(&program->lock, NULL);
    *result = prepare(program, blob, bytes);
    if (*result == GRAMMAR_OK)
        return program;
    grammar_program_close(program);
    return NULL;
}

void grammar_program_close(struct grammar_program *program)
{
    grammar_mask_cache_fini(&program->masks);
    grammar_automaton_fini(&program->automaton);
    free(program->blob);
    free(program->terminal_states);
    free(program->rule_nullable);
    free(program->repeat_minimum);
    free(program->group_first);
    pthread_mutex_destroy(&program->lock);
    free(program);
}
