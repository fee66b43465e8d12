/*
 * The parts of a request that name a video.
 */
#ifndef SHOAL_FRONTEND_API_GENERATION_REQUEST_VIDEOS_H
#define SHOAL_FRONTEND_API_GENERATION_REQUEST_VIDEOS_H

#include "frontend/base/api_error.h"
#include "frontend/image/image_source.h"
#include "frontend/image/video_processor.h"

struct cJSON;

struct video_frame_name {
    char *name; /* owned */
    enum image_naming naming;
};

/* What a part says of its video, besides the name of a file. */
struct request_video {
    struct video_request wanted;
    double rate; /* of `frames`; 0: not given */
    bool heard;  /* with the sound of its file */
    uint32_t frame_count;
    struct video_frame_name frames[]; /* [frame_count] 0: the video is one file */
};

/* True if parts of this type are videos: video_url, input_video and video. */
bool request_videos_is_type(const char *type);
/* Reads a part of such a type. *name is then the file's, in the part's memory, or NULL for a list of
 * frames; *video is the caller's and freed by request_video_free(). */
enum result request_videos_read(const struct cJSON *part, const char *place, const char **name,
                                enum image_naming *naming, struct request_video **video,
                                struct api_error *error) RESULT_CHECKED;
void request_video_free(struct request_video *video); /* NULL is allowed */

#endif
