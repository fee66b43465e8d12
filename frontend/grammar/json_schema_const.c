/*
 * Constants. Scalars become regexes; an object or array becomes what says the same: these members
 * and no others, these elements and no more.
 */
#include <cjson/cJSON.h>
#include <stdlib.h>

#include "frontend/grammar/json_number_regex.h"
#include "frontend/grammar/json_schema_parts.h"
#include "frontend/grammar/json_text_regex.h"

static uint32_t type_of(const cJSON *value)
{
    if (cJSON_IsNull(value))
        return TYPE_NULL;
    if (cJSON_IsBool(value))
        return cJSON_IsTrue(value) ? TYPE_TRUE : TYPE_FALSE;
    if (cJSON_IsNumber(value))
        return TYPE_NUMBER;
    if (cJSON_IsString(value))
        return TYPE_STRING;
    return cJSON_IsArray(value) ? TYPE_ARRAY : TYPE_OBJECT;
}

static regex_id number_regex(struct schema_compiler *compiler, const cJSON *value, bool all)
{
    regex_id regex = GRAMMAR_NONE;
    bool good = all ? json_number_equal(compiler->builder, value->valuedouble, &regex)
                    : json_number_literal(compiler->builder, value->valuedouble, &regex);
    if (!good)
        schema_refuse(compiler, value, "", "a constant of 2^53 or more may have been rounded");
    return regex;
}

static void object_const_apply(struct schema_compiler *compiler, struct conjunct *conjunct,
                               const cJSON *value)
{
    conjunct_apply(compiler, conjunct,
                   &(struct schema_atom){.kind = ATOM_MEMBERS,
                                         .literal = {.node = value, .kind = LITERAL_CONST}});
    for (const cJSON *member = value->child; member && !compiler->failed; member = member->next)
        conjunct_apply(compiler, conjunct,
                       &(struct schema_atom){.kind = ATOM_REQUIRED, .name = member->string});
}

static void array_const_apply(struct schema_compiler *compiler, struct conjunct *conjunct,
                              const cJSON *value)
{
    uint32_t count = (uint32_t)cJSON_GetArraySize(value);
    conjunct_apply(compiler, conjunct,
                   &(struct schema_atom){.kind = ATOM_ELEMENTS,
                                         .literal = {.node = value, .kind = LITERAL_CONST}});
    conjunct_apply(compiler, conjunct,
                   &(struct schema_atom){.kind = ATOM_MIN_ITEMS, .number = count});
    conjunct_apply(compiler, conjunct,
                   &(struct schema_atom){.kind = ATOM_MAX_ITEMS, .number = count});
}

void const_apply(struct schema_compiler *compiler, struct conjunct *conjunct, const cJSON *value)
{
    uint32_t type = type_of(value);
    struct schema_atom atom = {.kind = ATOM_STRING};
    conjunct_restrict(conjunct, type);
    if ((conjunct->types & type) == 0)
        return;
    switch (type) {
    case TYPE_NUMBER:
        atom = (struct schema_atom){.kind = ATOM_NUMBER,
                                    .regex = number_regex(compiler, value, false)};
        conjunct_apply(compiler, conjunct, &atom);
        break;
    case TYPE_STRING:
        atom.regex = json_text_literal(compiler->builder, value->valuestring);
        conjunct_apply(compiler, conjunct, &atom);
        break;
    case TYPE_ARRAY: array_const_apply(compiler, conjunct, value); break;
    case TYPE_OBJECT: object_const_apply(compiler, conjunct, value); break;
    default: break;
    }
}

static struct schema_choice *typed_choice(struct schema_compiler *compiler,
                                          struct schema_disjunction *ways, uint32_t types)
{
    struct schema_choice *choice = disjunction_choice(compiler, ways);
    choice_add(compiler, choice, (struct schema_atom){.kind = ATOM_TYPES, .types = types});
    return choice;
}

static void scalar_const_deny(struct schema_compiler *compiler, struct schema_disjunction *ways,
                              const cJSON *value, uint32_t type)
{
    struct grammar_builder *builder = compiler->builder;
    bool number = type == TYPE_NUMBER;
    regex_id equal = number ? number_regex(compiler, value, true)
                            : json_text_literal(builder, value->valuestring);
    regex_id all = number ? compiler->plain_number : compiler->any_text;
    regex_id other = grammar_regex_and(builder, all, grammar_regex_not(builder, equal));
    choice_add(compiler, typed_choice(compiler, ways, type),
               (struct schema_atom){.kind = number ? ATOM_NUMBER : ATOM_STRING, .regex = other});
}

static void array_const_deny(struct schema_compiler *compiler, struct schema_disjunction *ways,
                             const cJSON *value)
{
    uint32_t count = (uint32_t)cJSON_GetArraySize(value), index = 0;
    if (count > 0)
        choice_add(compiler, typed_choice(compiler, ways, TYPE_ARRAY),
                   (struct schema_atom){.kind = ATOM_MAX_ITEMS, .number = count - 1});
    choice_add(compiler, typed_choice(compiler, ways, TYPE_ARRAY),
               (struct schema_atom){.kind = ATOM_MIN_ITEMS, .number = count + 1});
    for (const cJSON *element = value->child; element; element = element->next, index++) {
        struct schema_choice *choice = typed_choice(compiler, ways, TYPE_ARRAY);
        choice_add(compiler, choice,
                   (struct schema_atom){.kind = ATOM_MIN_ITEMS, .number = index + 1});
        choice_add(compiler, choice,
                   (struct schema_atom){.kind = ATOM_ELEMENT,
                                        .number = index,
                                        .literal = {.node = element, .kind = LITERAL_NOT_CONST}});
    }
}

/* All keys but those of the object. */
static regex_id other_keys(struct schema_compiler *compiler, const cJSON *value)
{
    struct grammar_builder *builder = compiler->builder;
    size_t count = (size_t)cJSON_GetArraySize(value), used = 0;
    regex_id *names = schema_take(compiler, (count + 1) * sizeof(*names));
    if (!names)
        return GRAMMAR_NONE;
    for (const cJSON *member = value->child; member; member = member->next)
        names[used++] = json_text_literal(builder, member->string);
    if (used == 0)
        return compiler->any_text;
    regex_id named = grammar_regex_or_of(builder, names, used);
    return grammar_regex_and(builder, compiler->any_text, grammar_regex_not(builder, named));
}

static void object_const_deny(struct schema_compiler *compiler, struct schema_disjunction *ways,
                              const cJSON *value)
{
    for (const cJSON *member = value->child; member; member = member->next) {
        choice_add(compiler, typed_choice(compiler, ways, TYPE_OBJECT),
                   (struct schema_atom){.kind = ATOM_MEMBER,
                                        .name = member->string,
                                        .literal = {.node = compiler->never}});
        struct schema_choice *choice = typed_choice(compiler, ways, TYPE_OBJECT);
        choice_add(compiler, choice,
                   (struct schema_atom){.kind = ATOM_REQUIRED, .name = member->string});
        choice_add(compiler, choice,
                   (struct schema_atom){.kind = ATOM_MEMBER,
                                        .name = member->string,
                                        .literal = {.node = member, .kind = LITERAL_NOT_CONST}});
    }
    choice_add(
        compiler, typed_choice(compiler, ways, TYPE_OBJECT),
        (struct schema_atom){.kind = ATOM_EXTRA,
                             .regex = other_keys(compiler, value),
                             .literal = {.node = compiler->never, .kind = LITERAL_NOT_SCHEMA}});
}

void const_deny(struct schema_compiler *compiler, struct schema_disjunction *ways,
                const cJSON *value)
{
    uint32_t type = type_of(value);
    typed_choice(compiler, ways, TYPE_ALL & ~type);
    switch (type) {
    case TYPE_NUMBER:
    case TYPE_STRING: scalar_const_deny(compiler, ways, value, type); break;
    case TYPE_ARRAY: array_const_deny(compiler, ways, value); break;
    case TYPE_OBJECT: object_const_deny(compiler, ways, value); break;
    default: break;
    }
}

/* The scalars of an enum as atoms: one regex for all strings, one for all numbers. */
static uint32_t scalars_collect(struct schema_compiler *compiler, const cJSON *values,
                                regex_id *string, regex_id *number)
{
    struct grammar_builder *builder = compiler->builder;
    size_t count = (size_t)cJSON_GetArraySize(values), strings = 0, numbers = 0;
    regex_id *parts = schema_take(compiler, (count + 1) * sizeof(*parts));
    uint32_t types = 0;
    if (!parts)
        return 0;
    for (const cJSON *value = values->child; value && schema_spend(compiler, 4);
         value = value->next) {
        types |= type_of(value) & ~(uint32_t)(TYPE_ARRAY | TYPE_OBJECT);
        if (cJSON_IsString(value)) /* strings from the front, numbers from the back */
            parts[strings++] = json_text_literal(builder, value->valuestring);
        else if (cJSON_IsNumber(value))
            parts[count - ++numbers] = number_regex(compiler, value, false);
    }
    *string = strings ? grammar_regex_or_of(builder, parts, strings) : GRAMMAR_NONE;
    *number =
        numbers ? grammar_regex_or_of(builder, parts + count - numbers, numbers) : GRAMMAR_NONE;
    return types;
}

void enum_apply(struct schema_compiler *compiler, struct conjunct *conjunct, const cJSON *schema,
                const cJSON *values)
{
    (void)schema;
    regex_id string = GRAMMAR_NONE, number = GRAMMAR_NONE;
    uint32_t types = scalars_collect(compiler, values, &string, &number);
    struct schema_disjunction *ways = disjunction_new(compiler);
    if (types && ways) {
        struct schema_choice *choice = typed_choice(compiler, ways, types);
        if (string != GRAMMAR_NONE)
            choice_add(compiler, choice,
                       (struct schema_atom){.kind = ATOM_STRING, .regex = string});
        if (number != GRAMMAR_NONE)
            choice_add(compiler, choice,
                       (struct schema_atom){.kind = ATOM_NUMBER, .regex = number});
    }
    for (const cJSON *value = values->child; value && ways && !compiler->failed;
         value = value->next) {
        if (cJSON_IsArray(value) || cJSON_IsObject(value))
            choice_add_literal(compiler, disjunction_choice(compiler, ways), value, LITERAL_CONST);
    }
    conjunct_branch(compiler, conjunct, ways);
}
