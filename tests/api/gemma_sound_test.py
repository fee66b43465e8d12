"""Audio in chats with Gemma's models: tokens and log-probabilities are those of transformers (scripts/golden/gemma_sound_requests.py), alone, in
pairs and beside an image; what cannot be heard is a 400."""

import json

import numpy as np
import pytest

from audio_test import OPTIONS, ask, check, clip, refused, sound, wav
from shoal_server import BUILD, ROOT, ShoalServer
from vision_folder import GEMMA3N_SOUND, GEMMA4_SOUND, GEMMA4_SOUND_WIDE, data_uri, image_part, make_folder, png

ANSWERS = json.loads((ROOT / "tests/golden/audio/gemma_requests.json").read_text(encoding="ascii"))
FORMS = {"gemma3n_sound": GEMMA3N_SOUND, "gemma4_sound": GEMMA4_SOUND, "gemma4_sound_wide": GEMMA4_SOUND_WIDE}
CLIPS = {"two": [7, 9], "image": [8]}

pytestmark = pytest.mark.skipif(not (BUILD / "shoal-av").exists(), reason="built without FFmpeg's libraries")


@pytest.fixture(scope="module", params=list(ANSWERS))
def family_server(request, tmp_path_factory):
    folder = make_folder(tmp_path_factory.mktemp(request.param), request.param, FORMS[request.param])
    with ShoalServer(*OPTIONS, model=folder) as server:
        server.wait_ready()
        yield request.param, server


def test_answers_equal_transformers(family_server):
    family, server = family_server
    for name, expected in ANSWERS[family].items():
        parts = [sound(clip(number)) for number in CLIPS.get(name) or [int(name)]]
        if name == "image":
            parts.insert(0, image_part(data_uri(png(36, 24, (200, 30, 30)))))
        check(ask(server, *parts), expected)


def test_what_is_refused(family_server):
    server = family_server[1]
    one = 100 * np.ones(16000, np.int16)
    refused(server, sound(wav(one[:100])), "100 samples are too short for a token", "invalid_audio")
    refused(server, sound(wav(np.tile(one, 31))), "the model takes sounds of at most 30", "invalid_audio")
    if family_server[0] == "gemma3n_sound":
        refused(server, sound(wav(np.tile(one, 2))), "197 mel rows; the model takes 192", "invalid_audio")
