/*
 * Decoders take time by bytes, pixels and, of a JPEG, by scans. The budget is two to three times the
 * slowest that was measured for each (frontend/image/README.md), plus half a second, so an image
 * that exceeds it has found a superlinear path in a decoder. A fixed budget would either refuse the
 * largest photographs (2.4 s as PNG) or let a small file take as long as they do.
 */
#include "frontend/media/media_budget_policy.h"

#include <stddef.h>

#define BASE_US            500000
#define NS_PER_BYTE        20
#define NS_PER_PIXEL       100 /* PNG takes 36 */
#define NS_PER_PASS        2   /* a pixel in a scan of a JPEG takes 1 */
#define NS_PER_WORK_PIXEL  40  /* of a video; WebP takes 15 */
#define NS_PER_SHOWN_PIXEL 60  /* of a frame that is converted and resized; takes 25 */
#define NS_PER_FRAME       20000
#define AUDIO_US                                                                                   \
    20000000 /* half an hour of Opus in stereo takes 2.4 s; there may be eight channels */
#define HUNG_US    30000000
#define HUNG_TIMES 10 /* a busy machine gives a process a share of a core */

#ifdef SHOAL_SANITIZED
#define SLOWER 20
#else
#define SLOWER 1
#endif

int64_t media_budget_cpu_us(uint32_t byte_count, const struct image_header *header)
{
    int64_t ns = (int64_t)byte_count * NS_PER_BYTE;
    if (header) {
        int64_t pixels = (int64_t)header->width * header->height;
        ns += pixels * NS_PER_PIXEL + pixels * header->scans * NS_PER_PASS;
    }
    return (BASE_US + ns / 1000) * SLOWER;
}

int64_t media_budget_video_cpu_us(uint32_t byte_count, const struct video_header *header,
                                  const struct video_order *order)
{
    int64_t frame = (int64_t)header->width * header->height;
    int64_t ns = (int64_t)byte_count * NS_PER_BYTE;
    ns += (int64_t)header->work_pixels * NS_PER_WORK_PIXEL + header->frames * (int64_t)NS_PER_FRAME;
    ns += (int64_t)order->count * frame * NS_PER_SHOWN_PIXEL;
    return (BASE_US + ns / 1000) * SLOWER;
}

int64_t media_budget_audio_cpu_us(uint32_t byte_count)
{
    return (BASE_US + AUDIO_US + (int64_t)byte_count * NS_PER_BYTE / 1000) * SLOWER;
}

int64_t media_budget_wall_us(int64_t cpu_us)
{
    return HUNG_US + cpu_us * HUNG_TIMES;
}
