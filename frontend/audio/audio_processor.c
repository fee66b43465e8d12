/*
 * Qwen2-Audio: rows of the tower stand for two mel rows each, two of them become one feature. The
 * publisher pads every sound with silence to 30 s; of that silence the tower's last rows hear one or two
 * mel rows, which are sent too, or zeros after 30 s.
 *
 * Qwen2.5-Omni's thinker: the same rows of at most chunk_length seconds, without the silence, in pieces of
 * 2 * n_window rows. A last piece of one or two mel rows has no token and is not sent. Of a video with its
 * sound the pieces of seconds_per_chunk alternate, which only fits if the pieces are as long.
 *
 * Gemma's (audio_processor_gemma.c): rows of the tower stand for four mel rows, and all that are begun count. Nothing follows a
 * sound.
 *
 * Source: transformers, processing_qwen2_audio.py, processing_qwen2_5_omni.py and
 * feature_extraction_whisper.py.
 */
#include "frontend/audio/audio_processor.h"

#include <string.h>

#include "proto/hf_config.h"
#include "proto/json_files.h"
#include "proto/limits.h"
#include "proto/mapped_file.h"
#include "proto/must.h"

#define MEL_ROWS        2u /* that a row of the tower stands for, */
#define GEMMA_MEL_ROWS  4u /* and of Gemma's */
#define POOLED          2u /* rows of the tower of a placeholder */
#define DEFAULT_MELS    128u
#define DEFAULT_ROWS    1500u
#define WHISPER_SECONDS 30u
#define MARKER          "<|AUDIO|>"
#define BEGIN           "<|audio_bos|>"
#define END             "<|audio_eos|>"
#define DEFAULT_WINDOW  100u
#define DEFAULT_TIME    25u
#define DEFAULT_SECONDS 2u
#define MOST_TIME       1000u

/* --- settings --------------------------------------------------------------------------------- */

/* Settings of a feature extractor of Whisper's. */
static enum result read_whisper(struct json_value extractor, struct log_mel_settings *mel,
                                struct error_text *error)
{
    uint32_t seconds = WHISPER_SECONDS, mels = mel->mels;
    const struct {
        const char *name;
        uint32_t most;
        uint32_t *value;
    } rows[] = {{"feature_size", LIMIT_AUDIO_MELS, &mel->mels},
                {"sampling_rate", LIMIT_AUDIO_RATE_MOST, &mel->rate},
                {"hop_length", FOURIER_LENGTH_MOST, &mel->hop},
                {"n_fft", FOURIER_LENGTH_MOST, &mel->window},
                {"chunk_length", LIMIT_AUDIO_SAMPLES / LIMIT_AUDIO_RATE_MOST, &seconds}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        enum result result = json_value_member_u32(extractor, rows[i].name, rows[i].most,
                                                   *rows[i].value, rows[i].value, error);
        if (result != RESULT_OK)
            return result;
    }
    mel->fourier = mel->window;
    mel->most_samples = seconds * mel->rate;
    if (mel->mels != mels)
        return error_set(error, RESULT_INVALID, "its feature_size %u contradicts num_mel_bins %u",
                         mel->mels, mels);
    struct log_mel tried;
    enum result result = log_mel_init(&tried, mel, error);
    if (result == RESULT_OK)
        log_mel_fini(&tried);
    return result;
}

struct json_value audio_processor_extractor(const struct audio_processor_files *files)
{
    struct json_value extractor = json_value_member(files->processor, "feature_extractor");
    return json_value_type(extractor) == JSON_OBJECT ? extractor : files->preprocessor;
}

static enum result open_qwen2_audio(const struct audio_processor_files *files,
                                    struct audio_processor *p, struct error_text *error)
{
    struct json_value audio = json_value_member(files->config, "audio_config");
    uint32_t mels = 0;
    enum result result =
        json_value_member_u32(audio, "num_mel_bins", LIMIT_AUDIO_MELS, DEFAULT_MELS, &mels, error);
    if (result == RESULT_OK)
        result = json_value_member_u32(audio, "max_source_positions", LIMIT_PATCH_ROWS,
                                       DEFAULT_ROWS, &p->tower_rows, error);
    if (result != RESULT_OK)
        return result;
    p->mel = log_mel_whisper(mels, WHISPER_SECONDS);
    result = read_whisper(audio_processor_extractor(files), &p->mel, error);
    if (result == RESULT_OK && p->mel.most_samples / p->mel.hop != MEL_ROWS * p->tower_rows)
        return error_set(error, RESULT_INVALID,
                         "its longest sound has %u mel rows and its tower %u rows",
                         p->mel.most_samples / p->mel.hop, p->tower_rows);
    strcpy(p->marker, MARKER);
    strcpy(p->soft, MARKER);
    return result;
}

static enum result open_omni(const struct audio_processor_files *files, struct audio_processor *p,
                             struct error_text *error)
{
    struct json_value config = hf_config_main(files->config);
    struct json_value audio = json_value_member(config, "audio_config");
    uint32_t mels = 0, seconds = 0;
    enum result result =
        json_value_member_u32(audio, "num_mel_bins", LIMIT_AUDIO_MELS, DEFAULT_MELS, &mels, error);
    if (result == RESULT_OK)
        result = json_value_member_u32(audio, "n_window", LIMIT_PATCH_ROWS, DEFAULT_WINDOW,
                                       &p->tower_rows, error);
    if (result == RESULT_OK)
        result = json_value_member_u32(config, "position_id_per_seconds", MOST_TIME, DEFAULT_TIME,
                                       &p->time_scale, error);
    if (result == RESULT_OK)
        result = json_value_member_u32(config, "seconds_per_chunk", MOST_TIME, DEFAULT_SECONDS,
                                       &seconds, error);
    p->mel = log_mel_whisper(mels, WHISPER_SECONDS);
    if (result == RESULT_OK)
        result = read_whisper(audio_processor_extractor(files), &p->mel, error);
    if (result == RESULT_OK && p->tower_rows % POOLED != 0)
        result = error_set(error, RESULT_UNSUPPORTED, "its n_window %u is odd", p->tower_rows);
    p->piece_time = p->time_scale * seconds == p->tower_rows / POOLED ? p->tower_rows / POOLED : 0;
    strcpy(p->marker, MARKER);
    strcpy(p->soft, MARKER);
    strcpy(p->begin, BEGIN);
    strcpy(p->end, END);
    return result;
}

static const struct {
    const char *model_type;
    enum audio_family family;
    enum result (*open)(const struct audio_processor_files *files, struct audio_processor *p,
                        struct error_text *error);
} model_types[] = {{"qwen2_audio", AUDIO_FAMILY_QWEN2_AUDIO, open_qwen2_audio},
                   {"qwen2_5_omni_thinker", AUDIO_FAMILY_QWEN2_5_OMNI, open_omni},
                   {"gemma3n", AUDIO_FAMILY_GEMMA3N, audio_processor_open_gemma3n},
                   {"gemma4", AUDIO_FAMILY_GEMMA4, audio_processor_open_gemma4}};

static bool is_gemma(enum audio_family family)
{
    return family == AUDIO_FAMILY_GEMMA3N || family == AUDIO_FAMILY_GEMMA4;
}

enum result audio_processor_open(const struct audio_processor_files *files,
                                 struct audio_processor *processor, struct error_text *error)
{
    char model_type[64] = "";
    struct json_value config = hf_config_main(files->config);
    bool hears = json_value_type(json_value_member(config, "audio_config")) != JSON_ABSENT;
    *processor = (struct audio_processor){.family = AUDIO_FAMILY_NONE};
    (void)json_value_string(json_value_member(config, "model_type"), model_type, sizeof model_type);
    for (size_t i = 0; i < sizeof model_types / sizeof model_types[0]; i++) {
        bool optional = is_gemma(model_types[i].family);
        if (strcmp(model_type, model_types[i].model_type) != 0 || (optional && !hears))
            continue;
        enum result result = model_types[i].open(files, processor, error);
        processor->family = result == RESULT_OK ? model_types[i].family : AUDIO_FAMILY_NONE;
        processor->hash_key = keyed_hash_random_key();
        return result;
    }
    return RESULT_OK;
}

enum result audio_processor_open_folder(int folder_fd, struct audio_processor *processor,
                                        struct error_text *error)
{
    struct audio_processor_files files = {0};
    struct json_file parts[] = {{"config.json", &files.config, {0}},
                                {"preprocessor_config.json", &files.preprocessor, {0}},
                                {"processor_config.json", &files.processor, {0}}};
    const size_t count = sizeof parts / sizeof parts[0];
    enum result result = json_files_open(folder_fd, parts, count, error);
    if (result == RESULT_OK)
        result = audio_processor_open(&files, processor, error);
    json_files_close(parts, count);
    return result;
}

/* Settings that change what is heard change the key. */
void audio_processor_set_key(struct audio_processor *processor, const struct keyed_hash_key *key)
{
    const struct log_mel_settings *mel = &processor->mel;
    const double settings[] = {processor->family, mel->rule,    mel->rate,        mel->mels,
                               mel->window,       mel->hop,     mel->fourier,     mel->most_samples,
                               mel->least_hz,     mel->most_hz, mel->preemphasis, mel->floor};
    keyed_hash_wide(key, settings, sizeof settings, processor->hash_key.words);
}

/* --- one sound -------------------------------------------------------------------------------- */

uint32_t audio_plan_piece_rows(const struct audio_plan *plan, uint32_t piece)
{
    must(piece < plan->pieces);
    return piece + 1 < plan->pieces ? plan->piece_rows : plan->rows - piece * plan->piece_rows;
}

uint32_t audio_plan_piece_tokens(const struct audio_plan *plan, uint32_t piece)
{
    must(piece < plan->pieces);
    return piece + 1 < plan->pieces ? plan->piece_tokens
                                    : plan->tokens - piece * plan->piece_tokens;
}

static void plan_gemma(uint32_t mel_rows, struct audio_plan *plan)
{
    plan->rows = mel_rows;
    plan->tokens = (mel_rows + GEMMA_MEL_ROWS - 1) / GEMMA_MEL_ROWS;
}

/* Pieces of the mel rows, without a last one that has no token. */
static void plan_pieces(const struct audio_processor *processor, uint32_t mel_rows,
                        struct audio_plan *plan)
{
    plan->tokens = (mel_rows + MEL_ROWS - 1) / MEL_ROWS / POOLED;
    plan->piece_rows = MEL_ROWS * processor->tower_rows;
    plan->piece_tokens = processor->tower_rows / POOLED;
    plan->pieces = (plan->tokens + plan->piece_tokens - 1) / plan->piece_tokens;
    plan->rows = mel_rows;
    if (plan->rows > plan->pieces * plan->piece_rows)
        plan->rows = plan->pieces * plan->piece_rows;
}

enum result audio_processor_plan(const struct audio_processor *processor, uint32_t samples,
                                 struct audio_plan *plan, struct error_text *error)
{
    const struct log_mel_settings *mel = &processor->mel;
    must(processor->family != AUDIO_FAMILY_NONE && samples > 0);
    if (samples > mel->most_samples)
        return error_set(error, RESULT_TOO_LARGE,
                         "it lasts %.1f seconds; the model takes sounds of at most %u",
                         (double)samples / mel->rate, mel->most_samples / mel->rate);
    uint32_t rows = (log_mel_rows(mel, samples) + MEL_ROWS - 1) / MEL_ROWS;
    *plan = (struct audio_plan){
        .samples = samples, .rows = MEL_ROWS * rows + 1, .tokens = rows / POOLED, .pieces = 1};
    if (processor->family == AUDIO_FAMILY_QWEN2_5_OMNI)
        plan_pieces(processor, log_mel_rows(mel, samples), plan);
    if (is_gemma(processor->family))
        plan_gemma(log_mel_rows(mel, samples), plan);
    if (is_gemma(processor->family) && plan->tokens > processor->tower_rows)
        return error_set(error, RESULT_TOO_LARGE, "it has %u mel rows; the model takes %u",
                         plan->rows, GEMMA_MEL_ROWS * processor->tower_rows);
    if (plan->tokens == 0)
        return error_set(error, RESULT_INVALID, "%u samples are too short for a token", samples);
    if (processor->fixed_tokens > 0)
        plan->tokens = processor->fixed_tokens;
    return RESULT_OK;
}

void audio_processor_expand(const struct audio_processor *processor, const struct audio_plan *plan,
                            struct text_buffer *text)
{
    text_buffer_append_text(text, processor->before);
    for (uint32_t i = 0; i < plan->tokens; i++)
        text_buffer_append_text(text, processor->soft);
    text_buffer_append_text(text, processor->after);
}

void audio_processor_record(const struct audio_processor *processor, const struct audio_plan *plan,
                            uint32_t piece, struct image_record *record)
{
    record->sound = 1;
    record->tiles = 1;
    record->width = processor->mel.mels;
    record->height = audio_plan_piece_rows(plan, piece);
    record->token_count = audio_plan_piece_tokens(plan, piece);
    for (size_t i = 0; i < sizeof record->scale / sizeof record->scale[0]; i++)
        record->scale[i] = 1.0f;
}

enum result audio_processor_run(const struct audio_processor *processor,
                                const struct audio_plan *plan, const float *samples, float *rows,
                                struct error_text *error)
{
    struct log_mel mel;
    uint32_t mels = processor->mel.mels, most = processor->mel.most_samples / processor->mel.hop;
    uint32_t heard = plan->rows < most ? plan->rows : most;
    enum result result = log_mel_init(&mel, &processor->mel, error);
    if (result == RESULT_OK)
        result = log_mel_run(&mel, samples, plan->samples, rows, heard, error);
    log_mel_fini(&mel);
    if (result != RESULT_OK)
        return result;
    memset(rows + (size_t)heard * mels, 0, (size_t)(plan->rows - heard) * mels * sizeof *rows);
    return RESULT_OK;
}

void audio_processor_hash(const struct audio_processor *processor, const float *rows,
                          uint32_t count, uint8_t hash[IMAGE_HASH_BYTES])
{
    uint64_t content[2];
    _Static_assert(sizeof content == IMAGE_HASH_BYTES, "a wide hash");
    keyed_hash_wide(&processor->hash_key, rows, (size_t)count * processor->mel.mels * sizeof *rows,
                    content);
    memcpy(hash, content, sizeof content);
}
