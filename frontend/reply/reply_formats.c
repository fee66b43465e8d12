/*
 * Chooses formats from names and templates.
 *
 * The two tables are searched one after the other; they depend on each other only for harmony,
 * where one parser reads reasoning and calls.
 */
#include "frontend/reply/reply_formats.h"

#include <stdio.h>
#include <string.h>

#include "frontend/reply/mark_tokens.h"

static bool is_auto(const char *name)
{
    return !name || strcmp(name, "auto") == 0;
}

static bool is_none(const char *name)
{
    return name && strcmp(name, "none") == 0;
}

enum result reply_format_names_check(const struct reply_format_names *names,
                                     struct error_text *error)
{
    char list[sizeof error->text];
    if (!is_auto(names->reasoning) && !is_none(names->reasoning) &&
        !reasoning_format_find(names->reasoning)) {
        reasoning_format_list(list, sizeof list);
        return error_set(error, RESULT_INVALID,
                         "--reasoning-format: '%.40s' is none of auto, none, %s", names->reasoning,
                         list);
    }
    if (!is_auto(names->tools) && !is_none(names->tools) && !tool_format_by_name(names->tools)) {
        size_t length = 0;
        list[0] = '\0';
        const struct tool_format *row;
        for (size_t i = 0; (row = tool_format_at(i)) && length < sizeof list; i++)
            length += (size_t)snprintf(list + length, sizeof list - length, ", %s",
                                       tool_format_name(row));
        return error_set(error, RESULT_INVALID,
                         "--tool-call-parser: '%.40s' is none of auto, none%s", names->tools, list);
    }
    return RESULT_OK;
}

static const struct tool_format *find_harmony(void)
{
    const struct tool_format *row;
    for (size_t i = 0; (row = tool_format_at(i)); i++) {
        if (tool_format_is_harmony(row))
            return row;
    }
    return NULL;
}

enum result reply_formats_choose(struct reply_formats *formats,
                                 const struct reply_format_names *names, const char *source,
                                 size_t source_bytes, const struct tokenizer *tokenizer)
{
    *formats = (struct reply_formats){0};
    if (is_auto(names->reasoning))
        formats->reasoning = reasoning_format_detect(source, source_bytes);
    else if (!is_none(names->reasoning))
        formats->reasoning = reasoning_format_find(names->reasoning);
    if (is_auto(names->tools))
        formats->tools = source_bytes > 0 ? tool_format_detect(source, source_bytes) : NULL;
    else if (!is_none(names->tools))
        formats->tools = tool_format_by_name(names->tools);

    bool joint = formats->reasoning && formats->reasoning->joint;
    bool harmony = formats->tools && tool_format_is_harmony(formats->tools);
    if (harmony && !joint && is_auto(names->reasoning))
        formats->reasoning = reasoning_format_find("harmony");
    else if (harmony && !joint)
        formats->tools = NULL;
    else if (joint && !harmony && !is_none(names->tools))
        formats->tools = find_harmony();
    return mark_tokens_find(tokenizer, formats->reasoning, formats->tools, &formats->mark_tokens);
}

void reply_formats_fini(struct reply_formats *formats)
{
    token_list_fini(&formats->mark_tokens);
    *formats = (struct reply_formats){0};
}
