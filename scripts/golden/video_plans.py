#!/usr/bin/env python3
"""Records which frames transformers' video processors show of 750 drawn videos, and their tokens, with the published settings.

usage: video_plans.py FILE

A line for each video: rule (2: Qwen2VLVideoProcessor, 3: Qwen3VLVideoProcessor, 4: Glm4vVideoProcessor, 5: Gemma4VideoProcessor,
6: SmolVLMVideoProcessor with one frame a second, 64 at most, in squares of 364), frames, frames a second, width, height, frames shown,
the sum of (i + 1) * index over them, and tokens. The first two cap pixels as qwen-vl-utils does (cap_pixels_per_frame). Left out are videos at which
the processors fail: those of one frame, and those where torch.arange() is rounded to one frame more, which does not exist.
Needs torch, transformers and numpy.
"""
import random
import sys
import types

import transformers
from transformers.video_processing_utils import BaseVideoProcessor
from transformers.video_utils import VideoMetadata

RATES = [1.0, 2.0, 7.5, 10.0, 14.985, 24.0, 23.976023976023978, 25.0, 29.97002997002997, 30.0, 50.0, 59.94005994005994, 60.0, 0.5, 1 / 3]


def size_of(processor, frames, height, width):
    """The processor's own choice, without a video to resize."""
    shape = types.SimpleNamespace(shape=(1, frames, 3, height, width))
    return processor.resize(videos=shape, size=processor.size, resample=None, factor=processor.patch_size * 2, temporal_factor=2,
                            cap_pixels_per_frame=True)


def more_plans(drawn):
    """Of the other two, 150 each; a last frame that Glm4vVideoProcessor repeats is left out."""
    from transformers.models.gemma4.video_processing_gemma4 import get_aspect_ratio_preserving_size
    from transformers.models.glm4v.video_processing_glm4v import smart_resize
    glm, gemma, lines = transformers.Glm4vVideoProcessor(), transformers.Gemma4VideoProcessor(), []
    while len(lines) < 300:
        rule, rate, frames = 4 + len(lines) % 2, drawn.choice(RATES), int(2 + 10 ** drawn.uniform(0, 4.5))
        width, height = (int(10 ** drawn.uniform(1.2, 3.3)) for _ in range(2))
        if max(width, height) > 190 * min(width, height) or (rule == 5 and (frames < gemma.num_frames or max(width, height) > 60 * min(width, height))):
            continue
        metadata = VideoMetadata(total_num_frames=frames, fps=rate, duration=frames / rate)
        if rule == 4:
            indices = [int(index) for index in glm.sample_frames(metadata)]
            size = smart_resize(len(indices), height, width, 2, 28, glm.size["shortest_edge"], glm.size["longest_edge"])
            tokens = len(indices) // 2 * (size[0] // 28) * (size[1] // 28)
            indices = sorted(set(indices))
        else:
            indices = [int(index) for index in gemma.sample_frames(metadata)]
            size = get_aspect_ratio_preserving_size(height, width, 16, 70 * 9, 3)
            tokens = len(indices) * (size[0] // 48) * (size[1] // 48)
        weighted = sum((i + 1) * index for i, index in enumerate(indices))
        lines.append(f"{rule} {frames} {rate!r} {width} {height} {len(indices)} {weighted} {tokens}")
    return lines


def smolvlm_plans(drawn):
    smol, lines = transformers.SmolVLMVideoProcessor(), []
    while len(lines) < 150:
        rate, frames = drawn.choice(RATES), int(1 + 10 ** drawn.uniform(0, 4.5))
        width, height = (int(10 ** drawn.uniform(1.2, 3.3)) for _ in range(2))
        metadata = VideoMetadata(total_num_frames=frames, fps=rate, duration=frames / rate)
        indices = [int(index) for index in smol.sample_frames(metadata, num_frames=64, fps=1)]
        weighted = sum((i + 1) * index for i, index in enumerate(indices))
        lines.append(f"6 {frames} {rate!r} {width} {height} {len(indices)} {weighted} {len(indices) * 169}")
    return lines


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    drawn = random.Random(27)
    processors = {2: transformers.Qwen2VLVideoProcessor(fps=2, cap_pixels_per_frame=True),
                  3: transformers.Qwen3VLVideoProcessor(size={"shortest_edge": 4096, "longest_edge": 25165824},
                                                        cap_pixels_per_frame=True)}
    BaseVideoProcessor.resize = lambda self, image, size, **others: size
    lines = []
    while len(lines) < 300:
        rule, rate = drawn.choice([2, 3]), drawn.choice(RATES)
        frames = int(2 + 10 ** drawn.uniform(0, 4.5))
        width, height = (int(10 ** drawn.uniform(1.2, 3.3)) for _ in range(2))
        if max(width, height) > 190 * min(width, height):
            continue
        processor = processors[rule]
        metadata = VideoMetadata(total_num_frames=frames, fps=rate)
        indices = [int(index) for index in processor.sample_frames(metadata, fps=2)]
        if indices[-1] >= frames:
            continue
        size, side = size_of(processor, len(indices), height, width), processor.patch_size * 2
        tokens = -(-len(indices) // 2) * (size.height // side) * (size.width // side)
        weighted = sum((i + 1) * index for i, index in enumerate(indices))
        lines.append(f"{rule} {frames} {rate!r} {width} {height} {len(indices)} {weighted} {tokens}")
    lines += more_plans(drawn) + smolvlm_plans(drawn)
    with open(sys.argv[1], "w", encoding="ascii") as file:
        file.write("\n".join(lines) + "\n")
    print(transformers.__version__)


if __name__ == "__main__":
    main()
