#!/usr/bin/env python3
"""Writes the golden data of the tokenizers: tests/golden/tokenizer/{corpus.txt,<name>.txt}.

Usage: scripts/golden/tokenizer_ids.py
Needs: pip install tokenizers gguf; build/cache/tokenizers (scripts/fetch_tokenizers) and build/cache/models.

corpus.txt has one case a line: text with \\n \\r \\t \\\\ and \\xNN (any byte) escaped; "@N text" is the text N times.
<name>.txt has one line for each case: count and hash of the ids with no special token recognized (a user's text), then
count and hash with all recognized (a template's text) where they differ, then up to four ids. The hash is FNV-1a, 64 bits,
over the ids as little-endian 32-bit words.
"""
import json
import pathlib
import random

from gguf import GGUFReader
from tokenizers import Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUT = ROOT / "tests/golden/tokenizer"
CACHE = ROOT / "build/cache"
JSON_NAMES = ["gpt2", "llama2", "llama3", "qwen3", "gemma3", "deepseek_v3"]
FIRST_IDS = 4

SENTENCES = [
    "The quick brown fox jumps over the lazy dog.", "Hello, world! It's 10:42 a.m., isn't it?",
    "I'LL say WE'VE they'RE he'D I'M DON'T can't won't 'S 'ſ 's\u017f", "don’t use ‘curly’ “quotes”… they’re — fine –",
    "Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich. STRASSE/straße",
    "Portez ce vieux whisky au juge blond qui fume ; là-bas, où ça ? « Voilà ! »",
    "El pingüino Wenceslao hizo kilómetros bajo exhaustiva lluvia: ¿qué? ¡Ñandú!",
    "Съешь же ещё этих мягких французских булок, да выпей чаю. Ёлка й и\u0306",
    "Ξεσκεπάζω την ψυχοφθόρα βδελυγμία. ᾧ ἄνθρωπος Ω Ω", "Příliš žluťoučký kůň úpěl ďábelské ódy. İstanbul ışık",
    "नमस्ते दुनिया, यह एक परीक्षण है। क़ क़ ड़", "আমার সোনার বাংলা, আমি তোমায় ভালোবাসি। ড় য়",
    "தமிழ் மொழி வாழ்க! கோ கொ", "తెలుగు భాష తియ్యన", "ಕನ್ನಡ ನಾಡು ಕೊ", "മലയാളം ഭാഷ ൊ",
    "ภาษาไทยไม่มีช่องว่างระหว่างคำ กำลังทดสอบ", "ພາສາລາວ ທົດສອບ", "မြန်မာဘာသာ စမ်းသပ်မှု", "ភាសាខ្មែរ សាកល្បង",
    "שלום עולם, זוהי בדיקה. שָׁלוֹם שׁ", "السلام عليكم ورحمة الله، كيف الحال؟ مُحَمَّد ١٢٣", "فارسی: سلام دنیا، می‌خواهم ۴۵۶",
    "今日は世界、これはテストです。カタカナ ｶﾀｶﾅ ひらがな が が", "你好，世界！这是一个测试。繁體中文測試 １２３ＡＢＣ", "안녕하세요 세계, 시험입니다. 각 한",
    "ქართული ენა", "Հայերեն լեզու", "ᐃᓄᒃᑎᑐᑦ", "አማርኛ ቋንቋ ነው።", "ᏣᎳᎩ ᎦᏬᏂᎯᏍᏗ", "བོད་ཡིག་ཨ་མདོ", "монгол ᠮᠣᠩᠭᠣᠯ\u180eᠦ",
    "👍🏽 👨‍👩‍👧‍👦 🏳️‍🌈 🇩🇪🇫🇷 ☺️ ☺ 🤷🏻‍♀️ 1️⃣ 🫠🫨", "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𝒽ℯ𝓁𝓁ℴ ①②③ ½ ⅷ ² ₃ 𐍈 𓀀 𒀀",
    "e\u0301 é e\u0323\u0307 ẹ\u0307 a\u0328\u0301 ą́ \u1e9b\u0323 \u212b \u2126 \ufb01 \u0344 \u0958 \u2adc \u0f43",
    "\u1112\u1161\u11ab 한 \u1100\u1161 가 \uac00\u11a8 \u11a8 \u1161", "Z\u0351\u0346\u0300a\u0327\u0335\u0301l\u0321\u0300g\u0301\u0323o\u0308\u0300",
    "\u0301leading mark", "a\u0315\u0300\u05ae\u0062 \U0001d15f \U00011131\U00011127 \u0cc6\u0cc2\u0cd5",
    "tel: +1 (555) 010-9999, 3.14159, 1,000,000, 0x1F, 1e-9, 2024-02-29, v1.2.3-rc4", "1234567890 12345 123 12 1 ٣٤٥ ४५६ 七八九 ⅣⅤ 1²3³",
    "a_b __init__ snake_case camelCase PascalCase SCREAMING_CASE kebab-case HTTPServer2Go iPhone15Pro",
    "user@example.com https://example.org/path?q=a%20b&c=d#frag C:\\Windows\\System32 /usr/bin/env $HOME ~/.bashrc",
    "!!! ??? ... ,,, ;;; ::: --- === *** ### @@@ $$$ %%% ^^^ &&& ((( ))) [[[ ]]] {{{ }}} <<< >>> ||| ~~~ ``` \"\"\" ''' \\\\\\ ///",
    "a.b,c;d:e!f?g-h_i+j=k*l/m\\n|o~p`q'r\"s(t)u[v]w{x}y<z>", "¡¿§¶•©®™€£¥¢₿°±×÷≠≈≤≥∞∑∏√∫∂∇∈∉⊂⊃∪∩→←↑↓⇒⇔",
]
CODE = [
    "def f(x):\n    if x > 0:\n        return x ** 2  # squared\n    raise ValueError(f\"bad {x!r}\")\n",
    "#include <stdio.h>\nint main(void)\n{\n\tprintf(\"%d\\n\", 42);\n\treturn 0;\n}\n",
    "SELECT a.id, COUNT(*) AS n FROM t1 a JOIN t2 b ON a.id=b.id WHERE a.x >= 10 GROUP BY 1;\r\n",
    "const f = async ({a, b = 1}) => { await x?.y ?? z; return `t ${a}`; };\n\n\n// end\n",
    "{\"k\": [1, 2.5, null, true, \"s\\u00e9\"], \"n\": {\"x\": {}}}\n", "<div class=\"a b\">\n  <p>x &amp; y</p>\n</div>\n<h1>T</h1><table><tr><td>",
    "fn main() -> Result<(), Box<dyn Error>> {\n    let v: Vec<u8> = vec![0; 10];\n    Ok(())\n}\n", "x=1;y=2\nfor i in $(seq 1 10); do echo \"$i\"; done\n",
    "\\begin{equation}\nE = mc^2 \\quad \\forall x \\in \\mathbb{R}\n\\end{equation}\n", "| a | b |\n|---|:-:|\n| 1 | 2 |\n\n* item\n  * sub\n1. one\n",
]
SPACES = [
    "", " ", "  ", "   x", "x   ", " x ", "\n", "\n\n", "\n \n", " \n", "\n x", "\r\n", "\r\n\r\n  x", "\t", "\t\tx", " \t \n \t x", "a\n\n\nb", "a  b   c    d",
    "a \n b", "\u00a0x\u00a0", "x\u3000y", "\u2003\u2009x\u200bx\u2028y\u2029z", "\u0085x\u0085", "\u1680a\u180eb\u202fc\u205fd\ufeffe", "\x0b\x0cx\x1c\x1d\x1e\x1fy",
    " " * 31 + "x", " " * 32, " " * 33 + "\n" + " " * 100 + "x", "\n" * 31, "\n" * 40 + "x", "\t" * 33 + "x", "x" + "\t" * 5, "  \n" * 12 + "x", "▁▁ ▁x▁ ▁", "▁", "▁a b▁c",
    "word" + " " * 257 + "word", "\n" + " " * 300 + "\n", "no-break\u00a0space and\u2007figure", "    int x;\n        int y;\n\n    }",
]
SPECIALS = [
    "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi <|im_end|> there<|im_end|>\n<|im_start|>assistant\n",
    "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nHello<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n",
    "<bos><start_of_turn>user\nWhy is the sky blue?<end_of_turn>\n<start_of_turn>model\n", "<s>[INST] <<SYS>>\nx\n<</SYS>>\n\nhi [/INST] yes </s><s>[INST] more [/INST]",
    "<｜begin▁of▁sentence｜>sys<｜User｜>q<｜Assistant｜>a<｜end▁of▁sentence｜>", "<think>\nhm\n</think>\n\n<tool_call>\n{\"name\": \"f\"}\n</tool_call><tool_response>x</tool_response>",
    "<|endoftext|>", "a<|endoftext|>b", " <|endoftext|> ", "<|endoftext|><|endoftext|>", "<|end<|endoftext|>oftext|>", "<|im_start", "<|im_start|", "<<|im_start|>>", "<|fim_prefix|>a<|fim_suffix|>b<|fim_middle|>",
    "<unk>x<pad>", "<0x0A><0xE2>", "</s>", "x</s>y", "<eos>\n\n<bos>", "é<|im_end|>\u0301x", "e<|eot_id|>\u0301", "[multimodal]<html></html><table><h1>x</h1>", "<|vision_start|><|image_pad|><|vision_end|>",
    "<jupyter_start><filename>a.py<file_sep>", "<|reserved_special_token_0|>", "<｜fim▁hole｜>x<｜tool▁calls▁begin｜>", "<START_OF_TURN><|IM_END|>",
]
BYTES = [
    b"\xff\xfe", b"a\x80b", b"\xc3", b"\xc3(", b"\xe2\x82", b"\xe2\x82x", b"\xed\xa0\x80\xed\xb0\x80", b"\xf0\x9f\x98", b"\xf0\x9f\x98\xe2\x9f\x98", b"\xf4\x90\x80\x80",
    b"\xc0\xaf\xe0\x80\xaf", b"ok\xf8\x88\x80\x80\x80ok", bytes(range(0, 32)), bytes(range(127, 160)), b"nul\x00in\x00side\x00", b"\x00", b"\x7f\x1b[31mred\x1b[0m",
    b"\xef\xbb\xbfbom", "\ufffd\ufffe\uffff\U0010ffff\ue000\U000f0000".encode(), bytes(range(160, 256)), "\u200d\u200c\ufe0f\u2060".encode(),
]
REPEATED = [
    (1 << 20, "a"), (1 << 16, " "), (1 << 16, "\n"), (1 << 16, "1"), (1 << 16, "!"), (1 << 15, "é"), (1 << 14, "漢"), (1 << 14, "e\u0301"), (1 << 14, " \n"),
    (1 << 14, "\n  "), (1 << 14, "'s"), (1 << 14, "ab"), (1 << 13, "\U0001f600"), (1 << 14, "A"), (1 << 14, "aB"), (1 << 13, "\u0301\u0323"), (1000, "The cat sat on the mat. "),
    (1 << 14, "\t"), (1 << 11, "<|im_end|>"), (1 << 14, "▁"), (1 << 14, "x "), (1 << 12, " \n\r\t x"),
]


def random_lines():
    pick = random.Random(20261121)
    pools = [
        range(0x20, 0x7F), range(0x20, 0x7F), range(0xA0, 0x250), range(0x300, 0x370), range(0x370, 0x530), range(0x5D0, 0x5EB), range(0x620, 0x6D4), range(0x900, 0x980),
        range(0xE01, 0xE5C), range(0x1100, 0x1200), range(0x1E00, 0x2070), range(0x2070, 0x2C00), range(0x3000, 0x3100), range(0x4E00, 0x4F00), range(0xAC00, 0xAD00),
        range(0xF900, 0xFA6E), range(0xFB00, 0xFB50), range(0xFF00, 0xFFF0), range(0x1D400, 0x1D800), range(0x1F300, 0x1F700), range(0x00, 0x20), range(0x2000, 0x2070),
    ]
    for _ in range(60):
        chosen = pick.sample(pools, 4)
        yield "".join(chr(pick.choice(pick.choice(chosen))) for _ in range(pick.randint(5, 40)))


def escape(data):
    out = []
    for char in data.decode("utf-8", "surrogateescape"):
        if 0xDC80 <= ord(char) <= 0xDCFF:
            out.append(f"\\x{ord(char) - 0xDC00:02x}")
        elif char in "\n\r\t\\":
            out.append({"\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\"}[char])
        elif ord(char) < 0x20 or char == "\x7f" or ord(char) in (0x85, 0x2028, 0x2029):
            out.extend(f"\\x{byte:02x}" for byte in char.encode())
        else:
            out.append(char)
    text = "".join(out)
    return "\\x40" + text[1:] if text.startswith("@") else text


def cases():
    for text in SENTENCES + CODE + SPACES + SPECIALS + list(random_lines()):
        yield 1, text.encode()
    for data in BYTES:
        yield 1, data
    yield 1, "\n".join(SENTENCES + CODE).encode()
    for count, text in REPEATED:
        yield count, text.encode()


def digest(ids):
    value = 0xCBF29CE484222325
    for byte in b"".join(i.to_bytes(4, "little") for i in ids):
        value = (value ^ byte) * 0x100000001B3 % (1 << 64)
    return f"{len(ids)} {value:016x}"


def gguf_fields(path):
    fields = GGUFReader(path).fields
    strings = lambda key: [bytes(fields[key].parts[i]).decode("utf-8", "replace") for i in fields[key].data]
    types = [int(fields["tokenizer.ggml.token_type"].parts[i][0]) for i in fields["tokenizer.ggml.token_type"].data]
    merges = strings("tokenizer.ggml.merges") if "tokenizer.ggml.merges" in fields else None
    return strings("tokenizer.ggml.tokens"), types, merges


def smollm2():
    """SmolLM2's published tokenizer.json in code, with vocabulary and merges from the GGUF file."""
    tokens, types, merges = gguf_fields(CACHE / "models/smollm2-135m-instruct-q4_1.gguf")
    vocab = {token: i for i, token in enumerate(tokens)}
    tokenizer = Tokenizer(BPE(vocab=vocab, merges=[tuple(merge.split(" ")) for merge in merges]))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([token for token, kind in zip(tokens, types) if kind == 3])
    return tokenizer


def gemma3_gguf():
    """Gemma 3's tokenizer.json, with "special" as the GGUF file's token types have it."""
    document = json.loads((CACHE / "tokenizers/gemma3/tokenizer.json").read_text())
    tokens, types, _ = gguf_fields(CACHE / "models/gemma-3-270m-q4_k_m.gguf")
    document["added_tokens"] = [dict(token, special=types[token["id"]] in (2, 3))
                                for token in document["added_tokens"] if token["id"] < len(tokens)]
    return Tokenizer.from_str(json.dumps(document))


def write(name, tokenizer, of_users=None):
    lines = []
    for count, data in cases():
        text = data.decode("utf-8", "replace") * count if count > 1 else data.decode("utf-8", "replace")
        tokenizer.encode_special_tokens = True
        user = (of_users or tokenizer).encode(text, add_special_tokens=False).ids
        tokenizer.encode_special_tokens = False
        template = tokenizer.encode(text, add_special_tokens=False).ids
        parts = [digest(user)] + ([digest(template)] if template != user else [])
        lines.append(" | ".join(parts) + " : " + " ".join(map(str, template[:FIRST_IDS])))
    (OUT / f"{name}.txt").write_text("\n".join(lines) + "\n")
    print(name, len(lines))


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    corpus = [(f"@{count} " if count > 1 else "") + escape(data) for count, data in cases()]
    (OUT / "corpus.txt").write_text("\n".join(corpus) + "\n")
    for name in JSON_NAMES:
        write(name, Tokenizer.from_file(str(CACHE / f"tokenizers/{name}/tokenizer.json")))
    write("smollm2-gguf", smollm2())
    write("gemma3-gguf", gemma3_gguf())


if __name__ == "__main__":
    main()
