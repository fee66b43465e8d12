/*
 * The table of formats.
 *
 * Every model family marks its calls in its own way, but the ways are few: a JSON object that has
 * name and arguments, a name followed by an object, values between tags, two notations of their
 * own. So a format is a list of forms (a mark, and how what stands behind it is read), and most of
 * a new family is a row here. Forms are generous where models are sloppy: what a family's models
 * have been seen to write counts, not only what the template shows.
 *
 * The marks are facts about published chat templates and models; the rows name them by the family
 * that introduced them. Order matters for detection: a template that shows two formats (Hermes'
 * JSON between Qwen's tags) belongs to the one that is listed first.
 */
#include "frontend/reply/tool_format.h"

#include <stdio.h>
#include <string.h>

#include "frontend/base/text_buffer.h"
#include "frontend/reply/literal_arguments.h"
#include "frontend/reply/tool_form.h"

enum id_form { ID_PLAIN, ID_NINE };

struct tool_format {
    const char *name;
    const char *shown[2];      /* texts that a template has: all of them … */
    const char *shown_instead; /* … or this one */
    const struct tool_form *forms;
    const char *openings[3];
    const char *named_prefix; /* %n: the name; NULL: cannot be forced */
    const char *any_prefix;
    enum id_form id_form;
    bool is_harmony;
};

#define ENVELOPE(mark)                                                                             \
    {                                                                                              \
        .kind = FORM_ENVELOPE, .pattern = (mark)                                                   \
    }
#define NEXT(mark)                                                                                 \
    {                                                                                              \
        .kind = FORM_ENVELOPE, .place = FORM_IN_BLOCK, .pattern = (mark)                           \
    }
#define OBJECT(mark)                                                                               \
    {                                                                                              \
        .kind = FORM_OBJECT, .pattern = (mark)                                                     \
    }
#define TAGGED(mark, how)                                                                          \
    {                                                                                              \
        .kind = FORM_TAGGED, .pattern = (mark), .tagged = &(how)                                   \
    }
#define LITERAL(mark, how)                                                                         \
    {                                                                                              \
        .kind = FORM_LITERAL, .pattern = (mark), .literal = &(how)                                 \
    }
#define INNER(mark)                                                                                \
    {                                                                                              \
        .kind = FORM_CLOSING, .place = FORM_IN_BLOCK, .pattern = (mark)                            \
    }
#define CLOSING(mark)                                                                              \
    {                                                                                              \
        .kind = FORM_CLOSING, .place = FORM_AFTER_CALL, .pattern = (mark), .closes_block = true    \
    }

/* --- values between tags ---------------------------------------------------------------------- */

static const struct tagged_syntax qwen_tags = {
    .inside = {"<parameter=%k>", "</function>", "</tool_call>"},
    .value_count = 1,
    .typed_count = 1,
    .ends = {"</parameter>", "\n<parameter=%k>", "</function> </tool_call>"},
    .line_breaks = true};
static const struct tagged_syntax seed_tags = {
    .inside = {"<parameter=%k>", "</function>", "</seed:tool_call>"},
    .value_count = 1,
    .typed_count = 1,
    .ends = {"</parameter>", "</function> </seed:tool_call>"}};
static const struct tagged_syntax glm_tags = {
    .inside = {"<arg_key>%k</arg_key> <arg_value>", "</tool_call>"},
    .value_count = 1,
    .typed_count = 1,
    .ends = {"</arg_value>"}};
static const struct tagged_syntax hunyuan_tags = {
    .inside = {"<arg_key:opensource>%k</arg_key:opensource> <arg_value:opensource>",
               "</tool_call:opensource>"},
    .value_count = 1,
    .typed_count = 1,
    .ends = {"</arg_value:opensource>"}};
static const struct tagged_syntax longcat_tags = {
    .inside = {"<longcat_arg_key>%k</longcat_arg_key> <longcat_arg_value>", "</longcat_tool_call>"},
    .value_count = 1,
    .typed_count = 1,
    .ends = {"</longcat_arg_value>"}};
static const struct tagged_syntax minimax_tags = {
    .inside = {"<parameter name=\"%k\">", "</invoke>", "</minimax:tool_call>"},
    .value_count = 1,
    .typed_count = 1,
    .ends = {"</parameter>", "</invoke> </minimax:tool_call>"}};
static const struct tagged_syntax atem_tags = {
    .inside = {"<atem:parameter name=\"%k\">", "</atem:invoke>"},
    .value_count = 1,
    .typed_count = 1,
    .ends = {"</atem:parameter>"}};
/* DeepSeek V3.2 says itself what is a string and what is JSON. */
static const struct tagged_syntax dsml_tags = {
    .inside = {"<｜DSML｜parameter name=\"%k\">", "<｜DSML｜parameter name=\"%k\" string=\"true\">",
               "<｜DSML｜parameter name=\"%k\" string=\"false\">", "</｜DSML｜invoke>"},
    .value_count = 3,
    .typed_count = 1,
    .ends = {"</｜DSML｜parameter>"}};

static const struct literal_syntax gemma4_literals = {
    .quotes = {"<|\"|>", "\""}, .bare_words = true, .assign = ':', .close = '}'};
static const struct literal_syntax function_gemma_literals = {
    .quotes = {"<escape>", "\""}, .bare_words = true, .assign = ':', .close = '}'};

/* --- forms ------------------------------------------------------------------------------------ */

/* Not read by tool_call_parser.h: the marks alone. */
static const struct tool_form harmony_forms[] = {
    CLOSING("<|channel|>"), CLOSING("<|message|>"),   CLOSING("<|start|>"),  CLOSING("<|end|>"),
    CLOSING("<|call|>"),    CLOSING("<|constrain|>"), CLOSING("<|return|>"), {0}};

static const struct tool_form hermes_forms[] = {
    ENVELOPE("<tool_call> {"),
    ENVELOPE("<tool_call> [ {"),
    TAGGED("<tool_call> <function=%n>", qwen_tags),
    TAGGED("<function=%n>", qwen_tags),
    {.kind = FORM_TAGGED, .place = FORM_IN_BLOCK, .pattern = "<function=%n>", .tagged = &qwen_tags},
    NEXT("{"),
    NEXT(", {"),
    INNER("]"),
    CLOSING("</tool_call>"),
    {0}};

static const struct tool_form gemma4_forms[] = {LITERAL("<|tool_call> call:%n {", gemma4_literals),
                                                CLOSING("<tool_call|>"),
                                                CLOSING("<|tool_response>"),
                                                {0}};
static const struct tool_form function_gemma_forms[] = {
    LITERAL("<start_function_call> call:%n {", function_gemma_literals),
    CLOSING("<end_function_call>"),
    CLOSING("<start_function_response>"),
    {0}};

static const struct tool_form cohere_forms[] = {ENVELOPE("<|START_ACTION|> [ {"),
                                                ENVELOPE("<|START_ACTION|> {"),
                                                NEXT(", {"),
                                                INNER("]"),
                                                CLOSING("<|END_ACTION|>"),
                                                {0}};
static const struct tool_form granite_forms[] = {ENVELOPE("<|tool_call|> [ {"),
                                                 ENVELOPE("<|tool_call|> {"),
                                                 ENVELOPE("<tool_call> [ {"),
                                                 ENVELOPE("<tool_call> {"),
                                                 NEXT(", {"),
                                                 INNER("]"),
                                                 CLOSING("<|/tool_call|>"),
                                                 CLOSING("</tool_call>"),
                                                 {0}};
static const struct tool_form nemotron_forms[] = {ENVELOPE("<TOOLCALL> [ {"),
                                                  ENVELOPE("<TOOLCALL> {"),
                                                  NEXT(", {"),
                                                  INNER("]"),
                                                  CLOSING("</TOOLCALL>"),
                                                  {0}};
static const struct tool_form jamba_forms[] = {ENVELOPE("<tool_calls> [ {"),
                                               ENVELOPE("<tool_calls> {"),
                                               NEXT("{"),
                                               NEXT(", {"),
                                               INNER("]"),
                                               CLOSING("</tool_calls>"),
                                               {0}};
static const struct tool_form firefunction_forms[] = {
    ENVELOPE("functools[ {"), ENVELOPE("functools [ {"), NEXT(", {"), INNER("]"), {0}};
static const struct tool_form internlm_forms[] = {
    ENVELOPE("<|action_start|> <|plugin|> {"), CLOSING("<|action_end|>"), {0}};

static const struct tool_form gigachat_forms[] = {
    ENVELOPE("<|function_call|> {"),
    ENVELOPE("function call<|role_sep|> {"),
    ENVELOPE("<|message_sep|> function call<|role_sep|> {"),
    CLOSING("<|message_sep|>"),
    {0}};
/* A list that is the whole answer, or in a fence, or between the marks of the model it was made of.
 */
static const struct tool_form xlam_forms[] = {
    {.kind = FORM_ENVELOPE, .place = FORM_AT_START, .pattern = "[ {", .offered_only = true},
    {.kind = FORM_ENVELOPE, .place = FORM_AT_START, .pattern = "```json [ {", .offered_only = true},
    ENVELOPE("[TOOL_CALLS] [ {"),
    ENVELOPE("<tool_call> [ {"),
    NEXT(", {"),
    INNER("]"),
    CLOSING("```"),
    CLOSING("</tool_call>"),
    {0}};

static const struct tool_form seed_forms[] = {
    TAGGED("<seed:tool_call> <function=%n>", seed_tags), CLOSING("</seed:tool_call>"), {0}};
static const struct tool_form glm_forms[] = {
    TAGGED("<tool_call> %n", glm_tags), ENVELOPE("<tool_call> {"), CLOSING("</tool_call>"), {0}};
/* Names of the tags end with a word of the checkpoint, ":opensource" in those that are published,
 * or with nothing. */
static const struct tool_form hunyuan_forms[] = {
    TAGGED("<tool_calls:opensource> <tool_call:opensource> %n <tool_sep:opensource>", hunyuan_tags),
    TAGGED("<tool_call:opensource> %n <tool_sep:opensource>", hunyuan_tags),
    CLOSING("</tool_calls:opensource>"),
    TAGGED("<tool_calls> <tool_call> %n <tool_sep>", glm_tags),
    TAGGED("<tool_call> %n <tool_sep>", glm_tags),
    CLOSING("</tool_calls>"),
    {0}};
static const struct tool_form longcat_forms[] = {
    TAGGED("<longcat_tool_call> %n", longcat_tags), CLOSING("</longcat_tool_call>"), {0}};
static const struct tool_form minimax_forms[] = {
    TAGGED("<minimax:tool_call> <invoke name=\"%n\">", minimax_tags),
    {.kind = FORM_TAGGED,
     .place = FORM_IN_BLOCK,
     .pattern = "<invoke name=\"%n\">",
     .tagged = &minimax_tags},
    CLOSING("</minimax:tool_call>"),
    {0}};
static const struct tool_form atem_forms[] = {
    TAGGED("<atem:function_calls> <atem:invoke name=\"%n\">", atem_tags),
    {.kind = FORM_TAGGED,
     .place = FORM_IN_BLOCK,
     .pattern = "<atem:invoke name=\"%n\">",
     .tagged = &atem_tags},
    CLOSING("</atem:function_calls>"),
    {0}};
static const struct tool_form dsml_forms[] = {
    TAGGED("<｜DSML｜function_calls> <｜DSML｜invoke name=\"%n\">", dsml_tags),
    {.kind = FORM_TAGGED,
     .place = FORM_IN_BLOCK,
     .pattern = "<｜DSML｜invoke name=\"%n\">",
     .tagged = &dsml_tags},
    TAGGED("<｜DSML｜tool_calls> <｜DSML｜invoke name=\"%n\">", dsml_tags),
    CLOSING("</｜DSML｜function_calls>"),
    CLOSING("</｜DSML｜tool_calls>"),
    {0}};

/* V3 and R1 write "function" and a fence of Markdown around the object, V3.1 only the object. */
static const struct tool_form deepseek_forms[] = {
    OBJECT("<｜tool▁calls▁begin｜> <｜tool▁call▁begin｜>function<｜tool▁sep｜>%n ```json {"),
    OBJECT("<｜tool▁calls▁begin｜> <｜tool▁call▁begin｜>%n<｜tool▁sep｜> {"),
    OBJECT("<｜tool▁call▁begin｜>function<｜tool▁sep｜>%n ```json {"),
    OBJECT("<｜tool▁call▁begin｜>%n<｜tool▁sep｜> {"),
    INNER("```"),
    {.kind = FORM_CLOSING, .place = FORM_AFTER_CALL, .pattern = "<｜tool▁call▁end｜>"},
    CLOSING("<｜tool▁calls▁end｜>"),
    {0}};

static const struct tool_form kimi_forms[] = {
    {.kind = FORM_OBJECT,
     .pattern =
         "<|tool_calls_section_begin|> <|tool_call_begin|> %i <|tool_call_argument_begin|> {",
     .name_in_id = true},
    {.kind = FORM_OBJECT,
     .pattern = "<|tool_call_begin|> %i <|tool_call_argument_begin|> {",
     .name_in_id = true},
    CLOSING("<|tool_call_end|>"),
    CLOSING("<|tool_calls_section_end|>"),
    {0}};

static const struct tool_form solar_forms[] = {
    OBJECT("<|tool_calls|> <|tool_call:begin|> %i <|tool_call:name|> %n <|tool_call:args|> {"),
    OBJECT("<|tool_calls|> <|tool_call:begin|> <|tool_call:name|> %n <|tool_call:args|> {"),
    OBJECT("<|tool_call:begin|> %i <|tool_call:name|> %n <|tool_call:args|> {"),
    OBJECT("<|tool_call:begin|> <|tool_call:name|> %n <|tool_call:args|> {"),
    {.kind = FORM_CLOSING, .place = FORM_AFTER_CALL, .pattern = "<|tool_call:end|>"},
    CLOSING("<|calls|>"),
    {0}};

/* An object's only member is the call: its name, and its arguments. */
static const struct tool_form apertus_forms[] = {
    OBJECT("<|tools_prefix|> [ { \"%n\" : {"),
    {.kind = FORM_OBJECT, .place = FORM_IN_BLOCK, .pattern = "} , { \"%n\" : {"},
    INNER("} ]"),
    CLOSING("<|tools_suffix|>"),
    {0}};

/* From 7B v0.3 (a list) through Nemo to v11 (a name, perhaps an id, [ARGS]). */
static const struct tool_form mistral_forms[] = {ENVELOPE("[TOOL_CALLS] [ {"),
                                                 ENVELOPE("[TOOL_CALLS] {"),
                                                 OBJECT("[TOOL_CALLS] %n {"),
                                                 OBJECT("[TOOL_CALLS] %n[ARGS] {"),
                                                 OBJECT("[TOOL_CALLS] %n[CALL_ID] %i[ARGS] {"),
                                                 NEXT(", {"),
                                                 INNER("]"),
                                                 {0}};

/* Version 3.2 begins every message with its recipient, the first one without >>>. */
static const struct tool_form functionary_forms[] = {
    {.kind = FORM_OBJECT, .pattern = ">>>%n {", .offered_only = true},
    {.kind = FORM_OBJECT, .place = FORM_AT_START, .pattern = "%n {", .offered_only = true},
    {.kind = FORM_CLOSING, .pattern = ">>>all\n"},
    {.kind = FORM_CLOSING, .place = FORM_AT_START, .pattern = "all\n"},
    OBJECT("<function=%n> {"),
    CLOSING("</function>"),
    {0}};
static const struct tool_form functionary_v2_forms[] = {
    OBJECT("<|from|> assistant <|recipient|> %n <|content|> {"),
    {.kind = FORM_OBJECT,
     .place = FORM_AT_START,
     .pattern = "%n <|content|> {",
     .offered_only = true},
    {.kind = FORM_CLOSING, .pattern = "<|from|> assistant <|recipient|> all <|content|>"},
    {.kind = FORM_CLOSING, .place = FORM_AT_START, .pattern = "all <|content|>"},
    {0}};

static const struct tool_form llama3_forms[] = {
    ENVELOPE("<|python_tag|> {"),
    {.kind = FORM_ENVELOPE, .place = FORM_AT_START, .pattern = "{", .offered_only = true},
    OBJECT("<function=%n> {"),
    NEXT("; {"),
    NEXT(", {"),
    CLOSING("</function>"),
    {0}};
static const struct tool_form pythonic_forms[] = {
    LITERAL("<|tool_call_start|> [ %n(", literal_syntax_python),
    ENVELOPE("<|tool_call_start|> [ {"),
    LITERAL("<|python_start|> [ %n(", literal_syntax_python),
    {.kind = FORM_LITERAL,
     .place = FORM_AT_START,
     .pattern = "[ %n(",
     .offered_only = true,
     .literal = &literal_syntax_python},
    {.kind = FORM_ENVELOPE, .place = FORM_AT_START, .pattern = "{", .offered_only = true},
    {.kind = FORM_LITERAL,
     .place = FORM_IN_BLOCK,
     .pattern = ", %n(",
     .literal = &literal_syntax_python},
    NEXT(", {"),
    INNER("]"),
    CLOSING("<|tool_call_end|>"),
    CLOSING("<|python_end|>"),
    {0}};

/* --- formats ---------------------------------------------------------------------------------- */

#define DEEPSEEK_BEGIN "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>"

static const struct tool_format formats[] = {
    {"harmony",
     {"<|channel|>", "<|message|>"},
     NULL,
     harmony_forms,
     {NULL},
     "<|channel|>commentary to=functions.%n <|constrain|>json<|message|>",
     "<|channel|>commentary to=functions.",
     ID_PLAIN,
     true},
    {"gemma4",
     {"<|tool_call>"},
     NULL,
     gemma4_forms,
     {"<|tool_call>"},
     "<|tool_call>call:%n{",
     "<|tool_call>call:",
     ID_PLAIN,
     false},
    {"function_gemma",
     {"<start_function_call>"},
     NULL,
     function_gemma_forms,
     {"<start_function_call>"},
     "<start_function_call>call:%n{",
     "<start_function_call>call:",
     ID_PLAIN,
     false},
    {"cohere",
     {"<|START_ACTION|>"},
     NULL,
     cohere_forms,
     {"<|START_ACTION|>"},
     "<|START_ACTION|>[\n    {\"tool_call_id\": \"0\", \"tool_name\": \"%n\", \"parameters\": ",
     "<|START_ACTION|>[\n    {\"tool_call_id\": \"0\", \"tool_name\": \"",
     ID_PLAIN,
     false},
    {"hunyuan_v3",
     {"<tool_sep", "HYTK"},
     NULL,
     hunyuan_forms,
     {"<tool_calls:opensource>", "<tool_call:opensource>"},
     "<tool_calls:opensource>\n<tool_call:opensource>%n<tool_sep:opensource>\n",
     "<tool_calls:opensource>\n<tool_call:opensource>",
     ID_PLAIN,
     false},
    {"hunyuan",
     {"<tool_sep>"},
     NULL,
     hunyuan_forms,
     {"<tool_calls>", "<tool_call>"},
     "<tool_calls>\n<tool_call>%n<tool_sep>\n",
     "<tool_calls>\n<tool_call>",
     ID_PLAIN,
     false},
    {"solar_open",
     {"<|tool_call:begin|>"},
     NULL,
     solar_forms,
     {"<|tool_calls|>", "<|tool_call:begin|>"},
     "<|tool_calls|><|tool_call:begin|><|tool_call:name|>%n<|tool_call:args|>",
     "<|tool_calls|><|tool_call:begin|><|tool_call:name|>",
     ID_PLAIN,
     false},
    {"apertus",
     {"<|tools_prefix|>"},
     NULL,
     apertus_forms,
     {"<|tools_prefix|>"},
     "<|tools_prefix|>[{\"%n\": ",
     "<|tools_prefix|>[{\"",
     ID_PLAIN,
     false},
    {"gigachat31",
     {"<|function_call|>", "<|role_sep|>"},
     NULL,
     gigachat_forms,
     {"<|function_call|>", "function call<|role_sep|>"},
     "<|function_call|>{\"name\": \"%n\", \"arguments\": ",
     "<|function_call|>{\"name\": \"",
     ID_PLAIN,
     false},
    {"gigachat3",
     {"function call", "<|role_sep|>"},
     NULL,
     gigachat_forms,
     {"function call<|role_sep|>"},
     "<|message_sep|>\n\nfunction call<|role_sep|>\n{\"name\": \"%n\", \"arguments\": ",
     "<|message_sep|>\n\nfunction call<|role_sep|>\n{\"name\": \"",
     ID_PLAIN,
     false},
    {"xlam",
     {"[{\"name\": \"tool_call_name\", \"arguments\": "},
     NULL,
     xlam_forms,
     {NULL},
     "[{\"name\": \"%n\", \"arguments\": ",
     "[{\"name\": \"",
     ID_PLAIN,
     false},
    {"minimax_m2",
     {"<minimax:tool_call>"},
     NULL,
     minimax_forms,
     {"<minimax:tool_call>"},
     "<minimax:tool_call>\n<invoke name=\"%n\">\n",
     "<minimax:tool_call>\n<invoke name=\"",
     ID_PLAIN,
     false},
    {"atem",
     {"<atem:function_calls>"},
     NULL,
     atem_forms,
     {"<atem:function_calls>"},
     "<atem:function_calls>\n<atem:invoke name=\"%n\">\n",
     "<atem:function_calls>\n<atem:invoke name=\"",
     ID_PLAIN,
     false},
    {"seed_oss",
     {"<seed:tool_call>"},
     NULL,
     seed_forms,
     {"<seed:tool_call>"},
     "<seed:tool_call>\n<function=%n>\n",
     "<seed:tool_call>\n<function=",
     ID_PLAIN,
     false},
    {"longcat",
     {"<longcat_tool_call>"},
     NULL,
     longcat_forms,
     {"<longcat_tool_call>"},
     "<longcat_tool_call>%n\n",
     "<longcat_tool_call>",
     ID_PLAIN,
     false},
    {"glm",
     {"<arg_key>"},
     NULL,
     glm_forms,
     {"<tool_call>"},
     "<tool_call>%n\n",
     "<tool_call>",
     ID_PLAIN,
     false},
    {"deepseek_v32",
     {"DSML", "function_calls>"},
     NULL,
     dsml_forms,
     {"<｜DSML｜function_calls>"},
     "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"%n\">\n",
     "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"",
     ID_PLAIN,
     false},
    {"deepseek_v4",
     {"DSML"},
     NULL,
     dsml_forms,
     {"<｜DSML｜tool_calls>"},
     "<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"%n\">\n",
     "<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"",
     ID_PLAIN,
     false},
    {"deepseek_v3",
     {"<｜tool▁call▁begin｜>", "```json"},
     NULL,
     deepseek_forms,
     {"<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>"},
     DEEPSEEK_BEGIN "function<｜tool▁sep｜>%n\n```json\n",
     DEEPSEEK_BEGIN "function<｜tool▁sep｜>",
     ID_PLAIN,
     false},
    {"deepseek_v31",
     {"<｜tool▁call▁begin｜>"},
     NULL,
     deepseek_forms,
     {"<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>"},
     DEEPSEEK_BEGIN "%n<｜tool▁sep｜>",
     DEEPSEEK_BEGIN,
     ID_PLAIN,
     false},
    {"kimi_k2",
     {"<|tool_call_begin|>"},
     NULL,
     kimi_forms,
     {"<|tool_calls_section_begin|>", "<|tool_call_begin|>"},
     "<|tool_calls_section_begin|><|tool_call_begin|>functions.%n:",
     "<|tool_calls_section_begin|><|tool_call_begin|>functions.",
     ID_PLAIN,
     false},
    {"mistral_v11",
     {"[TOOL_CALLS]", "[ARGS]"},
     NULL,
     mistral_forms,
     {"[TOOL_CALLS]"},
     "[TOOL_CALLS]%n[ARGS]",
     "[TOOL_CALLS]",
     ID_NINE,
     false},
    {"mistral",
     {"[TOOL_CALLS]"},
     NULL,
     mistral_forms,
     {"[TOOL_CALLS]"},
     "[TOOL_CALLS][{\"name\": \"%n\", \"arguments\": ",
     "[TOOL_CALLS][{\"name\": \"",
     ID_NINE,
     false},
    {"functionary", {">>>all"}, NULL, functionary_forms, {">>>"}, "%n\n", NULL, ID_PLAIN, false},
    {"functionary_v2",
     {"<|recipient|>"},
     NULL,
     functionary_v2_forms,
     {"<|from|>"},
     "%n\n<|content|>",
     NULL,
     ID_PLAIN,
     false},
    {"granite",
     {"<|tool_call|>"},
     NULL,
     granite_forms,
     {"<|tool_call|>", "<tool_call>"},
     "<|tool_call|>[{\"name\": \"%n\", \"arguments\": ",
     "<|tool_call|>[{\"name\": \"",
     ID_PLAIN,
     false},
    {"nemotron",
     {"<TOOLCALL>"},
     NULL,
     nemotron_forms,
     {"<TOOLCALL>"},
     "<TOOLCALL>[{\"name\": \"%n\", \"arguments\": ",
     "<TOOLCALL>[{\"name\": \"",
     ID_PLAIN,
     false},
    {"jamba",
     {"<tool_calls>"},
     NULL,
     jamba_forms,
     {"<tool_calls>"},
     "<tool_calls>[\n{\"name\": \"%n\", \"arguments\": ",
     "<tool_calls>[\n{\"name\": \"",
     ID_PLAIN,
     false},
    {"firefunction",
     {"functools["},
     NULL,
     firefunction_forms,
     {"functools["},
     " functools[{\"name\": \"%n\", \"arguments\": ",
     " functools[{\"name\": \"",
     ID_PLAIN,
     false},
    {"internlm",
     {"<|action_start|>"},
     NULL,
     internlm_forms,
     {"<|action_start|>"},
     "<|action_start|><|plugin|>\n{\"name\": \"%n\", \"parameters\": ",
     "<|action_start|><|plugin|>\n{\"name\": \"",
     ID_PLAIN,
     false},
    {"qwen3_coder",
     {"<tool_call>", "<parameter="},
     NULL,
     hermes_forms,
     {"<tool_call>", "<function="},
     "<tool_call>\n<function=%n>\n",
     "<tool_call>\n<function=",
     ID_PLAIN,
     false},
    {"hermes",
     {"<tool_call>"},
     NULL,
     hermes_forms,
     {"<tool_call>", "<function="},
     "<tool_call>\n{\"name\": \"%n\", \"arguments\": ",
     "<tool_call>\n{\"name\": \"",
     ID_PLAIN,
     false},
    {"lfm2",
     {"<|tool_call_start|>"},
     "List of tools: ",
     pythonic_forms,
     {"<|tool_call_start|>"},
     "<|tool_call_start|>[%n(",
     "<|tool_call_start|>[",
     ID_PLAIN,
     false},
    {"pythonic",
     {"<|python_start|>"},
     "[func_name1(",
     pythonic_forms,
     {"<|python_start|>"},
     "[%n(",
     "[",
     ID_PLAIN,
     false},
    {"llama3",
     {"<|python_tag|>"},
     "\"parameters\": dictionary of argument name",
     llama3_forms,
     {"<|python_tag|>", "<function="},
     "{\"name\": \"%n\", \"parameters\": ",
     "{\"name\": \"",
     ID_PLAIN,
     false},
};
#define FORMAT_COUNT (sizeof formats / sizeof formats[0])

static bool text_has(const char *text, size_t bytes, const char *part)
{
    return memmem(text, bytes, part, strlen(part)) != NULL;
}

/* Of formats that no form here reads, and that show marks of one that is read: MiniMax M3 nests an
 * argument's members in tags of their names, each behind this mark. */
static const char unread_mark[] = "]<]minimax[>[";

const struct tool_format *tool_format_detect(const char *template_source, size_t bytes)
{
    if (text_has(template_source, bytes, unread_mark))
        return NULL;
    for (size_t f = 0; f < FORMAT_COUNT; f++) {
        bool all = true;
        for (size_t i = 0; i < 2 && formats[f].shown[i]; i++)
            all = all && text_has(template_source, bytes, formats[f].shown[i]);
        const char *instead = formats[f].shown_instead;
        if (all || (instead && text_has(template_source, bytes, instead)))
            return &formats[f];
    }
    return NULL;
}

const struct tool_format *tool_format_by_name(const char *name)
{
    for (size_t f = 0; f < FORMAT_COUNT; f++) {
        if (strcmp(formats[f].name, name) == 0)
            return &formats[f];
    }
    return NULL;
}

const struct tool_format *tool_format_at(size_t index)
{
    return index < FORMAT_COUNT ? &formats[index] : NULL;
}

const char *tool_format_name(const struct tool_format *format)
{
    return format->name;
}

bool tool_format_is_harmony(const struct tool_format *format)
{
    return format->is_harmony;
}

const struct tool_form *tool_format_forms(const struct tool_format *format)
{
    return format->forms;
}

static bool list_has(const char *const *patterns, size_t count, const char *text, size_t length)
{
    for (size_t i = 0; i < count && patterns[i]; i++) {
        if (memmem(patterns[i], strlen(patterns[i]), text, length))
            return true;
    }
    return false;
}

bool tool_format_has_mark(const struct tool_format *format, const char *text, size_t length)
{
    if (length < 2)
        return false; /* single signs are no tokens that a tokenizer hides */
    for (const struct tool_form *form = format->forms; form->kind != FORM_END; form++) {
        if (list_has(&form->pattern, 1, text, length) ||
            (form->tagged && (list_has(form->tagged->inside, 6, text, length) ||
                              list_has(form->tagged->ends, 4, text, length))) ||
            (form->literal && list_has(form->literal->quotes, 4, text, length)))
            return true;
    }
    return false;
}

const char *tool_format_opening(const struct tool_format *format, size_t index)
{
    return index < sizeof format->openings / sizeof *format->openings ? format->openings[index]
                                                                      : NULL;
}

bool tool_format_forced_prefix(const struct tool_format *format, const char *name,
                               struct text_buffer *prefix)
{
    const char *text = name ? format->named_prefix : format->any_prefix;
    if (!text)
        return false;
    const char *place = name ? strstr(text, "%n") : NULL;
    text_buffer_append(prefix, text, place ? (size_t)(place - text) : strlen(text));
    if (place) {
        text_buffer_append_text(prefix, name);
        text_buffer_append_text(prefix, place + 2);
    }
    return true;
}

bool tool_format_call_id(const struct tool_format *format, uint64_t random, uint32_t call,
                         char id[TOOL_CALL_ID_BYTES])
{
    static const char signs[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    uint64_t mixed = random + call * 0x9e3779b97f4a7c15u; /* calls of one answer differ */
    if (format->id_form != ID_NINE)
        return false;
    for (size_t i = 0; i + 1 < TOOL_CALL_ID_BYTES; i++, mixed /= sizeof signs - 1)
        id[i] = signs[mixed % (sizeof signs - 1)];
    id[TOOL_CALL_ID_BYTES - 1] = '\0';
    return true;
}
