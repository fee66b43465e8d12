/*
 * Any bytes as a file of a stored response. The first byte chooses whether they are read as they are
 * or with a right head and checksum, so that the checks after the checksum are reached. A file that
 * is read becomes a record, which is written, listed and streamed as a server does, and a file
 * again. scripts/golden/state_seeds.py writes the seeds.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/api/responses/response_file.h"
#include "frontend/api/responses/response_store.h"
#include "frontend/api/responses/responses_replay.h"
#include "proto/keyed_hash.h"
#include "proto/must.h"

#define HEAD_BYTES   328u
#define CHECKED_FROM 40u
#define PIECE_BYTES  512u

/* Sets magic, version, lengths of head and file, and the checksum (the byte map in
 * response_file.h). */
static void file_seal(char *bytes, size_t count)
{
    static const char magic[8] = {'s', 'h', 'o', 'a', 'l', 'r', 's', 'p'};
    const uint32_t version = 1, head_bytes = HEAD_BYTES;
    const uint64_t file_bytes = count;
    const struct keyed_hash_key key = {{0x73686f616c727370u ^ file_bytes, version}};
    uint64_t checksum[2];
    keyed_hash_wide(&key, bytes + CHECKED_FROM, count - CHECKED_FROM, checksum);
    memcpy(bytes, magic, sizeof magic);
    memcpy(bytes + 8, &version, sizeof version);
    memcpy(bytes + 12, &head_bytes, sizeof head_bytes);
    memcpy(bytes + 16, &file_bytes, sizeof file_bytes);
    memcpy(bytes + 24, checksum, sizeof checksum);
}

static void items_use(const struct response_items *items, const char *id,
                      enum response_item_side side, struct text_buffer *out)
{
    for (size_t i = 0; i < items->count; i++) {
        response_items_write(items, i, id, side, out);
        response_items_write_id(items, i, id, side, out);
    }
}

static void record_stream(struct response_record *record, struct text_buffer *out)
{
    struct responses_replay *replay = responses_replay_create(record, 1);
    enum responses_replay_state state;
    do {
        text_buffer_clear(out);
        state = responses_replay_advance(replay, PIECE_BYTES, out);
    } while (state == RESPONSES_REPLAY_MORE);
    bool final = response_status_is_final(response_record_status(record));
    must(state == (final ? RESPONSES_REPLAY_ENDED : RESPONSES_REPLAY_WAITS));
    responses_replay_destroy(replay);
}

static void record_use(struct response_file *file, uint64_t file_bytes)
{
    struct response_store *store = response_store_create(1 << 20, 4);
    const struct client_key client = file->client_key;
    struct text_buffer out = {0};
    struct response_record *record = response_record_restore(store, file, NULL, true, file_bytes);
    const char *id = response_record_id(record);
    struct response_record *found = response_store_find(store, &client, id);
    must(found == record || !found); /* evicted */
    response_record_release(found);
    response_record_write(record, &out);
    items_use(response_record_input(record), id, RESPONSE_INPUT, &out);
    items_use(response_record_output(record), id, RESPONSE_OUTPUT, &out);
    record_stream(record, &out);
    response_record_withdraw(record);
    response_record_release(record);
    must(response_store_bytes(store) == 0 && response_store_file_bytes(store) == 0);
    text_buffer_fini(&out);
    response_store_destroy(store);
}

/* A file that was read is written and read again. */
static void file_repeat(const struct response_file *file)
{
    struct response_file again;
    struct text_buffer bytes = {0};
    response_file_encode(file, &bytes);
    must(bytes.length == response_file_bytes(file));
    must(response_file_decode(bytes.bytes, bytes.length, &again, NULL) == RESULT_OK);
    must(strcmp(again.id, file->id) == 0 && again.script.length == file->script.length);
    response_file_fini(&again);
    text_buffer_fini(&bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    struct response_file file;
    struct error_text error = {""};
    if (count == 0)
        return 0;
    char *copy = malloc(count); /* without a NUL or room after it */
    must(copy != NULL);
    memcpy(copy, bytes + 1, count - 1);
    if (bytes[0] % 2 && count - 1 >= HEAD_BYTES)
        file_seal(copy, count - 1);
    char *exact = realloc(copy, count > 1 ? count - 1 : 1);
    must(exact != NULL);
    enum result result = response_file_decode(exact, count - 1, &file, &error);
    if (result == RESULT_OK) {
        file_repeat(&file);
        record_use(&file, count - 1);
    } else {
        must(error.text[0] != '\0');
    }
    free(exact);
    return 0;
}
