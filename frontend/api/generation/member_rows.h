/*
 * The rows of the members of objects in field_rows.h, included by field_table.c only. An object without a row for an
 * API is not walked: its reader, or the template, decides about its members.
 *
 * Columns: object; member; chat completions, completions, Responses, messages (states as in
 * field_rows.h); the word that a refused member may be, because it asks for nothing, or NULL.
 * Refused members may also be null, false, 0, "" and empty lists and objects.
 *
 * tests/api/field_table_test.py reads this file and sends every member to every API.
 */
/* clang-format off */
static const struct member_row member_rows[] = {
    /* object, member                                     chat, compl, respo, messa, harmless */
    MEMBER("stream_options", "include_usage",             DONE,  DONE,  NONE,  NONE, NULL)
    MEMBER("stream_options", "continuous_usage_stats",    DONE,  DONE,  NONE,  NONE, NULL)
    MEMBER("stream_options", "include_obfuscation",        NOT,   NOT,  DONE,  NONE, NULL)
    MEMBER("reasoning", "effort",                         NONE,  NONE,  DONE,  NONE, NULL)
    MEMBER("reasoning", "summary",                        NONE,  NONE,  DONE,  NONE, NULL)
    MEMBER("reasoning", "generate_summary",               NONE,  NONE,  DONE,  NONE, NULL)
    MEMBER("reasoning", "context",                        NONE,  NONE,   NOT,  NONE, "auto")
    MEMBER("reasoning", "mode",                           NONE,  NONE,   NOT,  NONE, "standard")
    MEMBER("text", "format",                              NONE,  NONE,  DONE,  NONE, NULL)
    MEMBER("text", "verbosity",                           NONE,  NONE,  DONE,  NONE, NULL)
    MEMBER("background_options", "completion_window",     NONE,  NONE,  DONE,  NONE, NULL)
    MEMBER("background_options", "continuation_id",       NONE,  NONE, NOTED,  NONE, NULL)
    MEMBER("thinking", "type",                            DONE,  NONE,  NONE,  DONE, NULL)
    MEMBER("thinking", "budget_tokens",                   DONE,  NONE,  NONE,  DONE, NULL)
    MEMBER("thinking", "display",                         NONE,  NONE,  NONE,  DONE, NULL)
    MEMBER("thinking", "block_binding",                   NONE,  NONE,  NONE,   NOT, NULL)
    MEMBER("output_config", "effort",                     NONE,  NONE,  NONE,  DONE, NULL)
    MEMBER("output_config", "format",                     NONE,  NONE,  NONE,  DONE, NULL)
    MEMBER("output_config", "task_budget",                NONE,  NONE,  NONE,   NOT, NULL)
    MEMBER("tool_choice", "type",                         NONE,  NONE,  NONE,  DONE, NULL)
    MEMBER("tool_choice", "name",                         NONE,  NONE,  NONE,  DONE, NULL)
    MEMBER("tool_choice", "disable_parallel_tool_use",    NONE,  NONE,  NONE,  DONE, NULL)
};
/* clang-format on */
