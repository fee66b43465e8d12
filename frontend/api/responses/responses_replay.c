/*
 * A second writer, fed with the steps of the record's script. It counts all events and writes those
 * that are asked for.
 *
 * The script may come from a file: a step that cannot follow the ones before it ends the stream.
 */
#include "frontend/api/responses/responses_replay.h"

#include <stdlib.h>

#include "frontend/api/responses/responses_writer.h"
#include "proto/must.h"

struct responses_replay {
    struct response_record *record;
    struct responses_writer writer;
    struct text_buffer bytes; /* of the current step */
    size_t offset;            /* of the next step */
    bool ended;
};

struct responses_replay *responses_replay_create(struct response_record *record,
                                                 uint64_t first_sequence)
{
    struct responses_replay *replay = must_alloc(1, sizeof *replay);
    replay->record = response_record_hold(record);
    responses_writer_init(&replay->writer, response_record_id(record), true, NULL);
    replay->writer.first_sequence = first_sequence;
    replay->writer.numbers_lines = true;
    return replay;
}

void responses_replay_destroy(struct responses_replay *replay)
{
    responses_writer_fini(&replay->writer);
    text_buffer_fini(&replay->bytes);
    response_record_release(replay->record);
    free(replay);
}

const struct response_record *responses_replay_record(const struct responses_replay *replay)
{
    return replay->record;
}

static void tell(struct responses_replay *replay, const char *name, enum response_status status)
{
    responses_writer_tell(&replay->writer, name, replay->record, status);
}

/* The record is finished before its last step can be read: both happen on the loop's thread. */
static void end(struct responses_replay *replay, const struct response_step *step)
{
    struct responses_writer *writer = &replay->writer;
    replay->ended = true;
    if (!response_status_is_final(response_record_status(replay->record)))
        return;
    if (step->kind == STEP_COMPLETED || step->kind == STEP_INCOMPLETE)
        responses_writer_end_empty(writer);
    responses_writer_close(writer, step->kind == STEP_COMPLETED ? "completed" : "incomplete");
    if (step->kind == STEP_FAILED) {
        /* The code is followed by the end of the step's copy, which is a NUL. */
        responses_writer_tell_error(writer, step->more, step->text ? step->text : "",
                                    step->text_bytes);
    }
    tell(replay,
         step->kind == STEP_COMPLETED ? "completed"
         : step->kind == STEP_FAILED  ? "failed"
                                      : "incomplete",
         response_record_status(replay->record));
}

static void step_repeat(struct responses_replay *replay, const struct response_step *step)
{
    if (response_step_is_last(step->kind)) {
        end(replay, step);
    } else if (step->kind == STEP_QUEUED) {
        tell(replay, "created", RESPONSE_QUEUED);
        tell(replay, "queued", RESPONSE_QUEUED);
    } else if (step->kind == STEP_STARTED) {
        tell(replay, "created", RESPONSE_IN_PROGRESS);
        tell(replay, "in_progress", RESPONSE_IN_PROGRESS);
    } else if (step->kind == STEP_RUNNING) {
        tell(replay, "in_progress", RESPONSE_IN_PROGRESS);
    } else if (!responses_writer_repeat(&replay->writer, step)) {
        replay->ended = true;
    }
}

enum responses_replay_state responses_replay_advance(struct responses_replay *replay,
                                                     size_t enough_bytes, struct text_buffer *out)
{
    struct response_step step;
    replay->writer.out = out;
    while (!replay->ended) {
        if (out->length >= enough_bytes)
            return RESPONSES_REPLAY_MORE;
        if (!response_record_read_step(replay->record, &replay->offset, &replay->bytes, &step)) {
            /* A finished record whose script ends early: it was damaged, or memory ran out. */
            replay->ended = response_status_is_final(response_record_status(replay->record));
            return replay->ended ? RESPONSES_REPLAY_ENDED : RESPONSES_REPLAY_WAITS;
        }
        step_repeat(replay, &step);
    }
    return RESPONSES_REPLAY_ENDED;
}
