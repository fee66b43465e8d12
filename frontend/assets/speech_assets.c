/*
 * Tokens are found by their text in the tokenizer; suppressed ones are settings of generation_config.json, or of
 * config.json in older folders. Whisper's vocabulary is text, <|endoftext|>, tokens with a meaning, timestamps.
 *
 * Sources: transformers, tokenization_whisper.py and generation_whisper.py.
 */
#include "frontend/assets/speech_assets.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "proto/json_files.h"
#include "proto/must.h"

#define MEL_ROWS      2u /* that a row of the encoder stands for */
#define DEFAULT_ROWS  1500u
#define DEFAULT_MELS  80u
#define DEFAULT_CHUNK 30u
#define FIRST_STAMP   50u

const struct speech_language speech_languages[SPEECH_LANGUAGES] = {
    {"en", "english"},        {"zh", "chinese"},     {"de", "german"},        {"es", "spanish"},
    {"ru", "russian"},        {"ko", "korean"},      {"fr", "french"},        {"ja", "japanese"},
    {"pt", "portuguese"},     {"tr", "turkish"},     {"pl", "polish"},        {"ca", "catalan"},
    {"nl", "dutch"},          {"ar", "arabic"},      {"sv", "swedish"},       {"it", "italian"},
    {"id", "indonesian"},     {"hi", "hindi"},       {"fi", "finnish"},       {"vi", "vietnamese"},
    {"he", "hebrew"},         {"uk", "ukrainian"},   {"el", "greek"},         {"ms", "malay"},
    {"cs", "czech"},          {"ro", "romanian"},    {"da", "danish"},        {"hu", "hungarian"},
    {"ta", "tamil"},          {"no", "norwegian"},   {"th", "thai"},          {"ur", "urdu"},
    {"hr", "croatian"},       {"bg", "bulgarian"},   {"lt", "lithuanian"},    {"la", "latin"},
    {"mi", "maori"},          {"ml", "malayalam"},   {"cy", "welsh"},         {"sk", "slovak"},
    {"te", "telugu"},         {"fa", "persian"},     {"lv", "latvian"},       {"bn", "bengali"},
    {"sr", "serbian"},        {"az", "azerbaijani"}, {"sl", "slovenian"},     {"kn", "kannada"},
    {"et", "estonian"},       {"mk", "macedonian"},  {"br", "breton"},        {"eu", "basque"},
    {"is", "icelandic"},      {"hy", "armenian"},    {"ne", "nepali"},        {"mn", "mongolian"},
    {"bs", "bosnian"},        {"kk", "kazakh"},      {"sq", "albanian"},      {"sw", "swahili"},
    {"gl", "galician"},       {"mr", "marathi"},     {"pa", "punjabi"},       {"si", "sinhala"},
    {"km", "khmer"},          {"sn", "shona"},       {"yo", "yoruba"},        {"so", "somali"},
    {"af", "afrikaans"},      {"oc", "occitan"},     {"ka", "georgian"},      {"be", "belarusian"},
    {"tg", "tajik"},          {"sd", "sindhi"},      {"gu", "gujarati"},      {"am", "amharic"},
    {"yi", "yiddish"},        {"lo", "lao"},         {"uz", "uzbek"},         {"fo", "faroese"},
    {"ht", "haitian creole"}, {"ps", "pashto"},      {"tk", "turkmen"},       {"nn", "nynorsk"},
    {"mt", "maltese"},        {"sa", "sanskrit"},    {"lb", "luxembourgish"}, {"my", "myanmar"},
    {"bo", "tibetan"},        {"tl", "tagalog"},     {"mg", "malagasy"},      {"as", "assamese"},
    {"tt", "tatar"},          {"haw", "hawaiian"},   {"ln", "lingala"},       {"ha", "hausa"},
    {"ba", "bashkir"},        {"jw", "javanese"},    {"su", "sundanese"},     {"yue", "cantonese"},
};

uint32_t speech_language_find(const char *text)
{
    uint32_t at = 0;
    while (at < SPEECH_LANGUAGES && strcasecmp(text, speech_languages[at].code) != 0 &&
           strcasecmp(text, speech_languages[at].name) != 0)
        at++;
    return at;
}

struct files {
    struct json_value config;
    struct json_value generation;
    struct json_value preprocessor;
};

static enum result read_mel(const struct files *files, struct speech_assets *speech,
                            struct error_text *error)
{
    uint32_t rows = 0, mels = 0, seconds = 0;
    struct log_mel_settings *mel = &speech->mel;
    enum result result = json_value_member_u32(files->config, "max_source_positions",
                                               LIMIT_PATCH_ROWS, DEFAULT_ROWS, &rows, error);
    if (result == RESULT_OK)
        result = json_value_member_u32(files->config, "num_mel_bins", LIMIT_AUDIO_MELS,
                                       DEFAULT_MELS, &mels, error);
    if (result == RESULT_OK)
        result = json_value_member_u32(files->preprocessor, "chunk_length",
                                       LIMIT_AUDIO_SAMPLES / LIMIT_AUDIO_RATE_MOST, DEFAULT_CHUNK,
                                       &seconds, error);
    if (result != RESULT_OK)
        return result;
    *mel = log_mel_whisper(mels, seconds);
    const struct {
        const char *name;
        uint32_t most;
        uint32_t *value;
    } numbers[] = {{"feature_size", LIMIT_AUDIO_MELS, &mel->mels},
                   {"sampling_rate", LIMIT_AUDIO_RATE_MOST, &mel->rate},
                   {"hop_length", FOURIER_LENGTH_MOST, &mel->hop},
                   {"n_fft", FOURIER_LENGTH_MOST, &mel->window}};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0] && result == RESULT_OK; i++)
        result = json_value_member_u32(files->preprocessor, numbers[i].name, numbers[i].most,
                                       *numbers[i].value, numbers[i].value, error);
    mel->fourier = mel->window;
    mel->most_samples = seconds * mel->rate;
    speech->window_rows = MEL_ROWS * rows;
    if (result == RESULT_OK &&
        (mel->mels != mels || mel->hop == 0 || mel->most_samples / mel->hop != speech->window_rows))
        result = error_set(error, RESULT_INVALID,
                           "its windows have %u rows of %u mels and its encoder takes %u of %u",
                           mel->most_samples / mel->hop, mel->mels, speech->window_rows, mels);
    struct log_mel tried;
    if (result == RESULT_OK) {
        result = log_mel_init(&tried, mel, error);
        log_mel_fini(&tried);
    }
    return result;
}

static uint32_t find(const struct tokenizer *tokenizer, const char *text)
{
    int32_t id = tokenizer_find_token(tokenizer, text, strlen(text));
    return id < 0 ? SPEECH_NO_TOKEN : (uint32_t)id;
}

static enum result find_tokens(const struct tokenizer *tokenizer, struct speech_assets *speech,
                               struct error_text *error)
{
    const struct {
        const char *text;
        bool needed;
        uint32_t *id;
    } rows[] = {{"<|startoftranscript|>", true, &speech->start},
                {"<|endoftext|>", true, &speech->end},
                {"<|notimestamps|>", true, &speech->no_timestamps},
                {"<|transcribe|>", false, &speech->transcribe},
                {"<|translate|>", false, &speech->translate},
                {"<|startofprev|>", false, &speech->previous},
                {"<|nospeech|>", false, &speech->silence}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        *rows[i].id = find(tokenizer, rows[i].text);
        if (rows[i].needed && *rows[i].id == SPEECH_NO_TOKEN)
            return error_set(error, RESULT_INVALID, "its tokenizer has no %s", rows[i].text);
    }
    if (speech->silence == SPEECH_NO_TOKEN)
        speech->silence = find(tokenizer, "<|nocaptions|>"); /* its name in older folders */
    if (speech->silence == SPEECH_NO_TOKEN)
        return error_set(error, RESULT_INVALID, "its tokenizer has no <|nospeech|>");
    if (speech->end > speech->no_timestamps)
        return error_set(error, RESULT_UNSUPPORTED, "its <|endoftext|> follows <|notimestamps|>");
    for (uint32_t i = 0; i < SPEECH_LANGUAGES; i++) {
        char text[16];
        snprintf(text, sizeof text, "<|%s|>", speech_languages[i].code);
        speech->languages[i] = find(tokenizer, text);
    }
    return RESULT_OK;
}

static enum result read_suppressed(const struct files *files, uint32_t vocab_tokens,
                                   struct speech_assets *speech, struct error_text *error)
{
    struct json_value list = json_value_member(files->generation, "suppress_tokens"), element;
    if (json_value_type(list) != JSON_ARRAY)
        list = json_value_member(files->config, "suppress_tokens");
    if (json_value_type(list) != JSON_ARRAY)
        return RESULT_OK;
    for (struct json_reader at = json_value_elements(list); json_value_next(&at, &element);) {
        uint32_t id = 0;
        if (json_value_u32(element, &id) != RESULT_OK || id >= vocab_tokens ||
            speech->suppressed_count == SPEECH_SUPPRESS_MAX)
            return error_set(error, RESULT_INVALID, "its suppress_tokens are not at most %u tokens",
                             SPEECH_SUPPRESS_MAX);
        speech->suppressed[speech->suppressed_count++] = id;
    }
    return RESULT_OK;
}

/* One token of text, and the end, which min_tokens bars. */
static enum result read_blank(const struct files *files, uint32_t vocab_tokens,
                              struct speech_assets *speech, struct error_text *error)
{
    struct json_value list = json_value_member(files->generation, "begin_suppress_tokens"), element;
    if (json_value_type(list) != JSON_ARRAY)
        list = json_value_member(files->config, "begin_suppress_tokens");
    speech->blank = SPEECH_NO_TOKEN;
    if (json_value_type(list) != JSON_ARRAY)
        return RESULT_OK;
    for (struct json_reader at = json_value_elements(list); json_value_next(&at, &element);) {
        uint32_t id = 0;
        if (json_value_u32(element, &id) != RESULT_OK || id >= vocab_tokens)
            return error_set(error, RESULT_INVALID, "its begin_suppress_tokens are no tokens");
        speech->end_not_first |= id == speech->end;
        if (id == speech->end || id == speech->blank)
            continue;
        if (speech->blank != SPEECH_NO_TOKEN)
            return error_set(error, RESULT_UNSUPPORTED,
                             "its begin_suppress_tokens are more than one and the end");
        speech->blank = id;
    }
    return RESULT_OK;
}

static enum result open_files(const struct files *files, const struct tokenizer *tokenizer,
                              struct speech_assets *speech, struct error_text *error)
{
    uint32_t vocab_tokens = tokenizer_vocab_tokens(tokenizer);
    enum result result = read_mel(files, speech, error);
    if (result == RESULT_OK)
        result = find_tokens(tokenizer, speech, error);
    if (result == RESULT_OK)
        result = read_suppressed(files, vocab_tokens, speech, error);
    if (result == RESULT_OK)
        result = read_blank(files, vocab_tokens, speech, error);
    if (result == RESULT_OK)
        result =
            json_value_member_u32(files->generation, "max_initial_timestamp_index",
                                  LIMIT_VOCAB_TOKENS, FIRST_STAMP, &speech->first_stamp, error);
    speech->multilingual = speech->transcribe != SPEECH_NO_TOKEN &&
                           speech->translate != SPEECH_NO_TOKEN &&
                           speech->languages[0] != SPEECH_NO_TOKEN;
    (void)json_value_bool(json_value_member(files->generation, "is_multilingual"),
                          &speech->multilingual);
    if (result == RESULT_OK && speech->multilingual &&
        (speech->transcribe == SPEECH_NO_TOKEN || speech->translate == SPEECH_NO_TOKEN))
        return error_set(error, RESULT_INVALID, "its tokenizer has no <|transcribe|>");
    return result;
}

enum result speech_assets_open(const char *folder, const struct tokenizer *tokenizer,
                               const struct keyed_hash_key *key, struct speech_assets **speech,
                               struct error_text *error)
{
    struct files files = {0};
    struct json_value processor = {0};
    struct json_file parts[] = {{"config.json", &files.config, {0}},
                                {"generation_config.json", &files.generation, {0}},
                                {"preprocessor_config.json", &files.preprocessor, {0}},
                                {"processor_config.json", &processor, {0}}};
    const size_t count = sizeof parts / sizeof parts[0];
    char type[64] = "";
    *speech = NULL;
    int folder_fd = open(folder, O_RDONLY | O_CLOEXEC | O_DIRECTORY);
    if (folder_fd < 0)
        return RESULT_OK;
    enum result result = json_files_open(folder_fd, parts, count, error);
    close(folder_fd);
    (void)json_value_string(json_value_member(files.config, "model_type"), type, sizeof type);
    if (json_value_type(json_value_member(processor, "feature_extractor")) == JSON_OBJECT)
        files.preprocessor = json_value_member(processor, "feature_extractor");
    if (result == RESULT_OK && strcmp(type, "whisper") == 0) {
        struct speech_assets *made = must_alloc(1, sizeof *made);
        made->hash_key = key ? *key : keyed_hash_random_key();
        result = open_files(&files, tokenizer, made, error);
        if (result == RESULT_OK)
            *speech = made;
        else
            free(made);
    }
    json_files_close(parts, count);
    return result;
}
