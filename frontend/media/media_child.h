/*
 * A media process as the frontend holds it: started, asked one thing at a time, killed.
 *
 *   closed --open--> STARTING --greeting--> idle <--answer-- asked
 *                        |                                     |
 *                        +---- death, broken rule, budget, cancel: closed
 */
#ifndef SHOAL_FRONTEND_MEDIA_MEDIA_CHILD_H
#define SHOAL_FRONTEND_MEDIA_MEDIA_CHILD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "frontend/image/image_reader.h"
#include "frontend/media/media_record.h"

/* Zeroed: closed, and none was open yet. */
struct media_child {
    pid_t pid; /* 0: none */
    int pid_fd;
    int socket;
    int area; /* of MEDIA_AREA_BYTES (media_record.h) */
    bool greeted;
    uint32_t sandbox; /* once greeted */
    uint64_t last_id;
    int64_t cpu_us;       /* of this process, when it was last read */
    int64_t total_cpu_us; /* of this one and of those that this struct held before */
};

/* Starts the program at `path`. The calling thread lives as long as this process: the kernel kills
 * the child when that thread ends. RESULT_IO. */
enum result media_child_open(struct media_child *child, const char *path,
                             struct error_text *error) RESULT_CHECKED;
/* Kills it if it lives, and reaps it. Writes how it ended if `how` is not NULL. */
void media_child_close(struct media_child *child, struct error_text *how);
bool media_child_is_alive(const struct media_child *child);

/* How a question ended. After MEDIA_ANSWERED and MEDIA_NOT_ASKED the child stays open, otherwise it
 * is closed. */
enum media_outcome {
    MEDIA_ANSWERED,
    MEDIA_NOT_ASKED,   /* the error is this process's: no memory, no descriptor */
    MEDIA_NOT_STARTED, /* it ended or hung before its greeting */
    MEDIA_CRASHED,     /* it died of the image, or its reply broke a rule */
    MEDIA_KILLED,      /* killed from outside, or without CPU time for too long */
    MEDIA_OVER_BUDGET, /* killed: it took more CPU time than allowed */
    MEDIA_CANCELLED    /* killed: the result is not wanted */
};

struct media_question {
    enum media_action action;
    const struct image_input *input;
    const struct image_header *header; /* MEDIA_DECODE; NULL otherwise */
    uint32_t wanted_width;
    uint32_t wanted_height;
    /* MEDIA_VIDEO_DECODE; NULL otherwise */
    const struct video_header *video;
    const struct video_order *order;
    uint8_t *const *places; /* [order->count], each of video_order_frame_bytes() */
    /* MEDIA_AUDIO_*; 0 otherwise */
    uint32_t rate;
    uint32_t samples_wanted; /* MEDIA_AUDIO_DECODE; 0 otherwise, like: */
    float *samples;          /* [samples_wanted] */
};

/* Waits for the greeting of a child that was opened. The error says why it did not come. */
enum media_outcome media_child_greet(struct media_child *child, struct error_text *error);

/*
 * Asks an open child and waits. After MEDIA_ANSWERED *reply is checked, and if it says RESULT_OK for
 * MEDIA_DECODE, *pixels is the caller's own copy; for MEDIA_VIDEO_DECODE the frames are in the
 * question's places, and for MEDIA_AUDIO_DECODE the samples, which may be any numbers. Other outcomes set the error.
 */
enum media_outcome media_child_ask(struct media_child *child, const struct media_question *question,
                                   struct media_reply *reply, struct image_pixels *pixels,
                                   struct error_text *error);

#endif
