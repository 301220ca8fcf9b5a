"""Token ids of text files: tokenize.py encode TOKENIZER LIST OUT; texts of token ids: tokenize.py decode TOKENIZER IDS OUT.

TOKENIZER is a tokenizer.json, or the folder that it lies in. LIST names a file a line. The first line written to OUT is
"lines" or "windows"; then comes one line of token ids for each sample, "-" before those of a new file. In front of
windows stands "begin", with the tokens that the tokenizer puts in front of a text ([BOS]).

A tokenizer that puts a token behind each text ([SEP], </s>) is one of whole texts: each line is a sample, with the
tokens that it puts around it. Any other is a language model's: a file is one long sequence, to be cut into windows.

IDS holds a line of token ids for each text; OUT becomes a JSON list of the texts.
"""
import json
import os
import sys

try:
    from tokenizers import Tokenizer
except ImportError:
    sys.exit("error: the Python package tokenizers is not there; install it (pip install tokenizers) for this Python, or "
             "name another with SEQTO_PYTHON")


def open_tokenizer(tokenizer_path):
    if os.path.isdir(tokenizer_path):
        tokenizer_path = os.path.join(tokenizer_path, "tokenizer.json")
    try:
        return Tokenizer.from_file(tokenizer_path)
    except Exception as error:
        sys.exit(f"error: {tokenizer_path} is no tokenizer.json of the package tokenizers: {error}")


def encode(tokenizer, list_path, out_path):
    tokenizer.no_padding()
    tokenizer.no_truncation()
    plain, framed = (tokenizer.encode("a", add_special_tokens=special).ids for special in (False, True))
    lines = bool(framed) and framed[-1:] != plain[-1:]
    with open(list_path, encoding="utf-8") as names, open(out_path, "w", encoding="ascii") as out:
        out.write("lines\n" if lines else "windows\n")
        if not lines:
            begin = framed[:len(framed) - len(plain)]
            out.write(" ".join(map(str, ["begin", *begin])) + "\n")
        for name in names.read().split("\n"):
            if not name:
                continue
            out.write("-\n")
            try:
                with open(name, encoding="utf-8-sig") as file:  # without a byte order mark
                    text = file.read()
            except UnicodeDecodeError as error:
                sys.exit(f"error: {name} is no text in UTF-8: {error}")
            texts = [line for line in text.split("\n") if line.strip()] if lines else [text]
            for encoding in tokenizer.encode_batch(texts, add_special_tokens=lines):
                out.write(" ".join(map(str, encoding.ids)) + "\n")


def decode(tokenizer, ids_path, out_path):
    with open(ids_path, encoding="ascii") as ids:
        texts = [tokenizer.decode([int(i) for i in line.split()], skip_special_tokens=False) for line in ids]
    with open(out_path, "w", encoding="ascii") as out:
        json.dump(texts, out)


{"encode": encode, "decode": decode}[sys.argv[1]](open_tokenizer(sys.argv[2]), *sys.argv[3:])
