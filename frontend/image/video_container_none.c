/*
 * For programs without FFmpeg's libraries. A program that links another implementation before the
 * archive with this file does not get this one.
 */
#include "frontend/image/video_container.h"

static enum result refuse(struct error_text *error)
{
    return error_set(
        error, RESULT_UNSUPPORTED,
        "this server was built without MP4, WebM and Matroska: send a GIF, a WebP or a "
        "list of frames");
}

enum result video_container_probe(const struct image_source *source, struct video_header *header,
                                  struct error_text *error)
{
    (void)source;
    (void)header;
    return refuse(error);
}

enum result video_container_run(const struct image_source *source,
                                const struct video_header *header, struct video_taker *taker,
                                struct error_text *error)
{
    (void)source;
    (void)header;
    (void)taker;
    return refuse(error);
}
