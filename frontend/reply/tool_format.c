/*
 * The table of formats.
 *
 * Every model family marks its calls differently, but there are few kinds of syntax: a JSON object
 * with name and arguments, a name followed by an object, values between tags, two notations of
 * their own. A format is therefore a list of forms (a mark, and how the text after it is read), and
 * a new family is usually one row here. Forms are tolerant: they cover what a family's models have
 * been observed to write, not only what the template shows.
 *
 * The marks come from published chat templates and models; the rows are named after the family that
 * introduced them. The order matters for detection: a template that contains marks of two formats
 * (Hermes' JSON between Qwen's tags) belongs to the first row that matches.
 */
#include "frontend/reply/tool_format.h"

#include <stdio.h>
#include <string.h>

#include "frontend/reply/harmony_parser.h"
#include "frontend/reply/literal_arguments.h"
#include "frontend/reply/tool_form.h"

struct tool_format {
    const char *name;
    const char *template_marks[2];     /* a template of this format contains all of them, … */
    const char *template_mark_instead; /* … or this one */
    const struct tool_form *forms;     /* NULL for harmony */
    const char *openings[3];
    struct tool_frame frame;
    bool nine_character_ids; /* templates take only ids of nine letters and digits */
    bool is_harmony;
    bool is_generic;
};

/* For a list that ends at its first NULL or when it is full. */
#define LIST_CONTAINS(list, text, length)                                                          \
    mark_list_contains(list, sizeof(list) / sizeof *(list), text, length)

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
    .values = {"<parameter=%k>"},
    .call_ends = {"</function>", "</tool_call>"},
    .ends = {"</parameter>", "\n<parameter=%k>", "</function> </tool_call>"},
    .line_breaks = true};
static const struct tagged_syntax seed_tags = {
    .values = {"<parameter=%k>"},
    .call_ends = {"</function>", "</seed:tool_call>"},
    .ends = {"</parameter>", "</function> </seed:tool_call>"}};
static const struct tagged_syntax glm_tags = {.values = {"<arg_key>%k</arg_key> <arg_value>"},
                                              .call_ends = {"</tool_call>"},
                                              .ends = {"</arg_value>"}};
static const struct tagged_syntax hunyuan_tags = {
    .values = {"<arg_key:opensource>%k</arg_key:opensource> <arg_value:opensource>"},
    .call_ends = {"</tool_call:opensource>"},
    .ends = {"</arg_value:opensource>"}};
static const struct tagged_syntax longcat_tags = {
    .values = {"<longcat_arg_key>%k</longcat_arg_key> <longcat_arg_value>"},
    .call_ends = {"</longcat_tool_call>"},
    .ends = {"</longcat_arg_value>"}};
static const struct tagged_syntax minimax_tags = {
    .values = {"<parameter name=\"%k\">"},
    .call_ends = {"</invoke>", "</minimax:tool_call>"},
    .ends = {"</parameter>", "</invoke> </minimax:tool_call>"}};
static const struct tagged_syntax atem_tags = {.values = {"<atem:parameter name=\"%k\">"},
                                               .call_ends = {"</atem:invoke>"},
                                               .ends = {"</atem:parameter>"}};
/* DeepSeek V3.2 marks each value as a string or as JSON. */
static const struct tagged_syntax dsml_tags = {
    .values = {[TAGGED_BY_SCHEMA] = "<｜DSML｜parameter name=\"%k\">",
               [TAGGED_STRING] = "<｜DSML｜parameter name=\"%k\" string=\"true\">",
               [TAGGED_JSON] = "<｜DSML｜parameter name=\"%k\" string=\"false\">"},
    .call_ends = {"</｜DSML｜invoke>"},
    .ends = {"</｜DSML｜parameter>"}};

static const struct literal_syntax gemma4_literals = {
    .quotes = {"<|\"|>", "\""}, .bare_words = true, .assign = ':', .close = '}'};
static const struct literal_syntax function_gemma_literals = {
    .quotes = {"<escape>", "\""}, .bare_words = true, .assign = ':', .close = '}'};

/* --- forms ------------------------------------------------------------------------------------ */

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

static const struct tool_format formats[] = {
    {.name = "harmony",
     .template_marks = {"<|channel|>", "<|message|>"},
     .is_harmony = true,
     .frame = {.call = "<|channel|>commentary to=functions.%n <|constrain|>json<|message|>%a"}},
    {.name = "gemma4",
     .template_marks = {"<|tool_call>"},
     .forms = gemma4_forms,
     .openings = {"<|tool_call>"},
     .frame = {.call = "<|tool_call>call:%n{%a}<tool_call|>",
               .separator = "",
               .value = "<|\"|>%v<|\"|>",
               .arguments = ARGUMENTS_LITERAL}},
    {.name = "function_gemma",
     .template_marks = {"<start_function_call>"},
     .forms = function_gemma_forms,
     .openings = {"<start_function_call>"},
     .frame = {.call = "<start_function_call>call:%n{%a}<end_function_call>",
               .separator = "",
               .value = "<escape>%v<escape>",
               .arguments = ARGUMENTS_LITERAL}},
    {.name = "cohere",
     .template_marks = {"<|START_ACTION|>"},
     .forms = cohere_forms,
     .openings = {"<|START_ACTION|>"},
     .frame = {.begin = "<|START_ACTION|>[\n",
               .call = "    {\"tool_call_id\": \"%i\", \"tool_name\": \"%n\", \"parameters\": %a}",
               .separator = ",\n",
               .end = "\n]<|END_ACTION|>"}},
    {.name = "hunyuan_v3",
     .template_marks = {"<tool_sep", "HYTK"},
     .forms = hunyuan_forms,
     .openings = {"<tool_calls:opensource>", "<tool_call:opensource>"},
     .frame = {.begin = "<tool_calls:opensource>\n",
               .call = "<tool_call:opensource>%n<tool_sep:opensource>\n%a</tool_call:opensource>",
               .separator = "\n",
               .end = "\n</tool_calls:opensource>",
               .value = "<arg_key:opensource>%k</arg_key:opensource>\n<arg_value:opensource>%v</"
                        "arg_value:opensource>\n",
               .arguments = ARGUMENTS_TAGGED}},
    {.name = "hunyuan",
     .template_marks = {"<tool_sep>"},
     .forms = hunyuan_forms,
     .openings = {"<tool_calls>", "<tool_call>"},
     .frame = {.begin = "<tool_calls>\n",
               .call = "<tool_call>%n<tool_sep>\n%a</tool_call>",
               .separator = "\n",
               .end = "\n</tool_calls>",
               .value = "<arg_key>%k</arg_key>\n<arg_value>%v</arg_value>\n",
               .arguments = ARGUMENTS_TAGGED}},
    {.name = "solar_open",
     .template_marks = {"<|tool_call:begin|>"},
     .forms = solar_forms,
     .openings = {"<|tool_calls|>", "<|tool_call:begin|>"},
     .frame = {.begin = "<|tool_calls|>",
               .call =
                   "<|tool_call:begin|><|tool_call:name|>%n<|tool_call:args|>%a<|tool_call:end|>",
               .separator = "",
               .end = "<|calls|>"}},
    {.name = "apertus",
     .template_marks = {"<|tools_prefix|>"},
     .forms = apertus_forms,
     .openings = {"<|tools_prefix|>"},
     .frame = {.begin = "<|tools_prefix|>[",
               .call = "{\"%n\": %a}",
               .separator = ", ",
               .end = "]<|tools_suffix|>"}},
    {.name = "gigachat31",
     .template_marks = {"<|function_call|>", "<|role_sep|>"},
     .forms = gigachat_forms,
     .openings = {"<|function_call|>", "function call<|role_sep|>"},
     .frame = {.call = "<|function_call|>{\"name\": \"%n\", \"arguments\": %a}"}},
    {.name = "gigachat3",
     .template_marks = {"function call", "<|role_sep|>"},
     .forms = gigachat_forms,
     .openings = {"function call<|role_sep|>"},
     .frame = {.call = "<|message_sep|>\n\nfunction call<|role_sep|>\n{\"name\": \"%n\", "
                       "\"arguments\": %a}"}},
    {.name = "xlam",
     .template_marks = {"[{\"name\": \"tool_call_name\", \"arguments\": "},
     .forms = xlam_forms,
     .frame = {.begin = "[",
               .call = "{\"name\": \"%n\", \"arguments\": %a}",
               .separator = ", ",
               .end = "]"}},
    {.name = "minimax_m2",
     .template_marks = {"<minimax:tool_call>"},
     .forms = minimax_forms,
     .openings = {"<minimax:tool_call>"},
     .frame = {.begin = "<minimax:tool_call>\n",
               .call = "<invoke name=\"%n\">\n%a</invoke>\n",
               .separator = "",
               .end = "</minimax:tool_call>",
               .value = "<parameter name=\"%k\">%v</parameter>\n",
               .arguments = ARGUMENTS_TAGGED}},
    {.name = "atem",
     .template_marks = {"<atem:function_calls>"},
     .forms = atem_forms,
     .openings = {"<atem:function_calls>"},
     .frame = {.begin = "<atem:function_calls>\n",
               .call = "<atem:invoke name=\"%n\">\n%a</atem:invoke>\n",
               .separator = "",
               .end = "</atem:function_calls>",
               .value = "<atem:parameter name=\"%k\">%v</atem:parameter>\n",
               .arguments = ARGUMENTS_TAGGED}},
    {.name = "seed_oss",
     .template_marks = {"<seed:tool_call>"},
     .forms = seed_forms,
     .openings = {"<seed:tool_call>"},
     .frame = {.call = "<seed:tool_call>\n<function=%n>\n%a</function>\n</seed:tool_call>",
               .separator = "\n",
               .value = "<parameter=%k>%v</parameter>\n",
               .arguments = ARGUMENTS_TAGGED}},
    {.name = "longcat",
     .template_marks = {"<longcat_tool_call>"},
     .forms = longcat_forms,
     .openings = {"<longcat_tool_call>"},
     .frame =
         {.call = "<longcat_tool_call>%n\n%a</longcat_tool_call>",
          .separator = "\n",
          .value =
              "<longcat_arg_key>%k</longcat_arg_key>\n<longcat_arg_value>%v</longcat_arg_value>\n",
          .arguments = ARGUMENTS_TAGGED}},
    {.name = "glm",
     .template_marks = {"<arg_key>"},
     .forms = glm_forms,
     .openings = {"<tool_call>"},
     .frame = {.call = "<tool_call>%n\n%a</tool_call>",
               .separator = "\n",
               .value = "<arg_key>%k</arg_key>\n<arg_value>%v</arg_value>\n",
               .arguments = ARGUMENTS_TAGGED}},
    {.name = "deepseek_v32",
     .template_marks = {"DSML", "function_calls>"},
     .forms = dsml_forms,
     .openings = {"<｜DSML｜function_calls>"},
     .frame = {.begin = "<｜DSML｜function_calls>\n",
               .call = "<｜DSML｜invoke name=\"%n\">\n%a</｜DSML｜invoke>\n",
               .separator = "",
               .end = "</｜DSML｜function_calls>",
               .value = "<｜DSML｜parameter name=\"%k\" string=\"true\">%v</｜DSML｜parameter>\n",
               .json_value =
                   "<｜DSML｜parameter name=\"%k\" string=\"false\">%v</｜DSML｜parameter>\n",
               .arguments = ARGUMENTS_TAGGED}},
    {.name = "deepseek_v4",
     .template_marks = {"DSML"},
     .forms = dsml_forms,
     .openings = {"<｜DSML｜tool_calls>"},
     .frame = {.begin = "<｜DSML｜tool_calls>\n",
               .call = "<｜DSML｜invoke name=\"%n\">\n%a</｜DSML｜invoke>\n",
               .separator = "",
               .end = "</｜DSML｜tool_calls>",
               .value = "<｜DSML｜parameter name=\"%k\" string=\"true\">%v</｜DSML｜parameter>\n",
               .json_value =
                   "<｜DSML｜parameter name=\"%k\" string=\"false\">%v</｜DSML｜parameter>\n",
               .arguments = ARGUMENTS_TAGGED}},
    {.name = "deepseek_v3",
     .template_marks = {"<｜tool▁call▁begin｜>", "```json"},
     .forms = deepseek_forms,
     .openings = {"<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>"},
     .frame =
         {.begin = "<｜tool▁calls▁begin｜>",
          .call =
              "<｜tool▁call▁begin｜>function<｜tool▁sep｜>%n\n```json\n%a\n```<｜tool▁call▁end｜>",
          .separator = "\n",
          .end = "<｜tool▁calls▁end｜>"}},
    {.name = "deepseek_v31",
     .template_marks = {"<｜tool▁call▁begin｜>"},
     .forms = deepseek_forms,
     .openings = {"<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>"},
     .frame = {.begin = "<｜tool▁calls▁begin｜>",
               .call = "<｜tool▁call▁begin｜>%n<｜tool▁sep｜>%a<｜tool▁call▁end｜>",
               .separator = "",
               .end = "<｜tool▁calls▁end｜>"}},
    {.name = "kimi_k2",
     .template_marks = {"<|tool_call_begin|>"},
     .forms = kimi_forms,
     .openings = {"<|tool_calls_section_begin|>", "<|tool_call_begin|>"},
     .frame =
         {.begin = "<|tool_calls_section_begin|>",
          .call =
              "<|tool_call_begin|>functions.%n:%i<|tool_call_argument_begin|>%a<|tool_call_end|>",
          .separator = "",
          .end = "<|tool_calls_section_end|>"}},
    {.name = "mistral_v11",
     .template_marks = {"[TOOL_CALLS]", "[ARGS]"},
     .forms = mistral_forms,
     .openings = {"[TOOL_CALLS]"},
     .nine_character_ids = true,
     .frame = {.call = "[TOOL_CALLS]%n[ARGS]%a", .separator = ""}},
    {.name = "mistral",
     .template_marks = {"[TOOL_CALLS]"},
     .forms = mistral_forms,
     .openings = {"[TOOL_CALLS]"},
     .nine_character_ids = true,
     .frame = {.begin = "[TOOL_CALLS][",
               .call = "{\"name\": \"%n\", \"arguments\": %a}",
               .separator = ", ",
               .end = "]"}},
    {.name = "functionary",
     .template_marks = {">>>all"},
     .forms = functionary_forms,
     .openings = {">>>"},
     .frame = {.call = "%n\n%a", .separator = ">>>"}},
    {.name = "functionary_v2",
     .template_marks = {"<|recipient|>"},
     .forms = functionary_v2_forms,
     .openings = {"<|from|>"},
     .frame = {.call = "%n\n<|content|>%a", .separator = "\n<|from|>assistant\n<|recipient|>"}},
    {.name = "granite",
     .template_marks = {"<|tool_call|>"},
     .forms = granite_forms,
     .openings = {"<|tool_call|>", "<tool_call>"},
     .frame = {.begin = "<|tool_call|>[",
               .call = "{\"name\": \"%n\", \"arguments\": %a}",
               .separator = ", ",
               .end = "]"}},
    {.name = "nemotron",
     .template_marks = {"<TOOLCALL>"},
     .forms = nemotron_forms,
     .openings = {"<TOOLCALL>"},
     .frame = {.begin = "<TOOLCALL>[",
               .call = "{\"name\": \"%n\", \"arguments\": %a}",
               .separator = ", ",
               .end = "]</TOOLCALL>"}},
    {.name = "jamba",
     .template_marks = {"<tool_calls>"},
     .forms = jamba_forms,
     .openings = {"<tool_calls>"},
     .frame = {.begin = "<tool_calls>[\n",
               .call = "{\"name\": \"%n\", \"arguments\": %a}",
               .separator = ",\n",
               .end = "\n]</tool_calls>"}},
    {.name = "firefunction",
     .template_marks = {"functools["},
     .forms = firefunction_forms,
     .openings = {"functools["},
     .frame = {.begin = " functools[",
               .call = "{\"name\": \"%n\", \"arguments\": %a}",
               .separator = ", ",
               .end = "]"}},
    {.name = "internlm",
     .template_marks = {"<|action_start|>"},
     .forms = internlm_forms,
     .openings = {"<|action_start|>"},
     .frame =
         {.call =
              "<|action_start|><|plugin|>\n{\"name\": \"%n\", \"parameters\": %a}<|action_end|>"}},
    {.name = "qwen3_coder",
     .template_marks = {"<tool_call>", "<parameter="},
     .forms = hermes_forms,
     .openings = {"<tool_call>", "<function="},
     .frame = {.call = "<tool_call>\n<function=%n>\n%a</function>\n</tool_call>",
               .separator = "\n",
               .value = "<parameter=%k>\n%v\n</parameter>\n",
               .arguments = ARGUMENTS_TAGGED}},
    {.name = "hermes",
     .template_marks = {"<tool_call>"},
     .forms = hermes_forms,
     .openings = {"<tool_call>", "<function="},
     .frame = {.call = "<tool_call>\n{\"name\": \"%n\", \"arguments\": %a}\n</tool_call>",
               .separator = "\n"}},
    {.name = "generic",
     .forms = hermes_forms,
     .openings = {"<tool_call>", "<function="},
     .frame = {.call = "<tool_call>\n{\"name\": \"%n\", \"arguments\": %a}\n</tool_call>",
               .separator = "\n"},
     .is_generic = true},
    {.name = "lfm2",
     .template_marks = {"<|tool_call_start|>"},
     .template_mark_instead = "List of tools: ",
     .forms = pythonic_forms,
     .openings = {"<|tool_call_start|>"},
     .frame = {.begin = "<|tool_call_start|>[",
               .call = "%n(%a)",
               .separator = ", ",
               .end = "]<|tool_call_end|>",
               .arguments = ARGUMENTS_KEYWORDS}},
    {.name = "pythonic",
     .template_marks = {"<|python_start|>"},
     .template_mark_instead = "[func_name1(",
     .forms = pythonic_forms,
     .openings = {"<|python_start|>"},
     .frame = {.begin = "[",
               .call = "%n(%a)",
               .separator = ", ",
               .end = "]",
               .arguments = ARGUMENTS_KEYWORDS}},
    {.name = "llama3",
     .template_marks = {"<|python_tag|>"},
     .template_mark_instead = "\"parameters\": dictionary of argument name",
     .forms = llama3_forms,
     .openings = {"<|python_tag|>", "<function="},
     .frame = {.call = "{\"name\": \"%n\", \"parameters\": %a}", .separator = "; "}},
};
#define FORMAT_COUNT   (sizeof formats / sizeof *formats)
#define TEMPLATE_MARKS (sizeof formats->template_marks / sizeof *formats->template_marks)

static bool text_has(const char *text, size_t bytes, const char *part)
{
    return memmem(text, bytes, part, strlen(part)) != NULL;
}

/* Marks of formats that no form here reads, although their templates contain marks of one that is
 * read: MiniMax M3 nests an argument's members in tags named after them, each after this mark. */
static const char unread_mark[] = "]<]minimax[>[";

const struct tool_format *tool_format_detect(const char *template_source, size_t bytes)
{
    if (text_has(template_source, bytes, unread_mark))
        return NULL;
    for (size_t f = 0; f < FORMAT_COUNT; f++) {
        bool all = formats[f].template_marks[0] != NULL;
        for (size_t i = 0; i < TEMPLATE_MARKS && formats[f].template_marks[i]; i++)
            all = all && text_has(template_source, bytes, formats[f].template_marks[i]);
        const char *instead = formats[f].template_mark_instead;
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

bool tool_format_is_generic(const struct tool_format *format)
{
    return format->is_generic;
}

bool tool_format_is_harmony(const struct tool_format *format)
{
    return format->is_harmony;
}

const struct tool_form *tool_format_forms(const struct tool_format *format)
{
    return format->forms;
}

bool tool_format_has_mark(const struct tool_format *format, const char *text, size_t length)
{
    if (length < 2)
        return false; /* no tokenizer hides tokens of a single character */
    if (format->is_harmony)
        return mark_list_contains(harmony_marks, HARMONY_MARK_COUNT, text, length);
    for (const struct tool_form *form = format->forms; form->kind != FORM_END; form++) {
        if (mark_list_contains(&form->pattern, 1, text, length) ||
            (form->tagged && (LIST_CONTAINS(form->tagged->values, text, length) ||
                              LIST_CONTAINS(form->tagged->call_ends, text, length) ||
                              LIST_CONTAINS(form->tagged->ends, text, length))) ||
            (form->literal && LIST_CONTAINS(form->literal->quotes, text, length)))
            return true;
    }
    return false;
}

const char *tool_format_opening(const struct tool_format *format, size_t index)
{
    return index < sizeof format->openings / sizeof *format->openings ? format->openings[index]
                                                                      : NULL;
}

const struct tool_frame *tool_format_frame(const struct tool_format *format)
{
    return &format->frame;
}

bool tool_format_call_id(const struct tool_format *format, uint64_t random, uint32_t call,
                         char id[TOOL_CALL_ID_BYTES])
{
    static const char alphabet[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    uint64_t mixed = random + call * 0x9e3779b97f4a7c15u; /* calls of one answer differ */
    if (!format->nine_character_ids)
        return false;
    for (size_t i = 0; i + 1 < TOOL_CALL_ID_BYTES; i++, mixed /= sizeof alphabet - 1)
        id[i] = alphabet[mixed % (sizeof alphabet - 1)];
    id[TOOL_CALL_ID_BYTES - 1] = '\0';
    return true;
}
