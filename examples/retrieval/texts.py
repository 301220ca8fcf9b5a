"""Questions and passages from a small made-up world. Line i of one file answers line i of the other.

    python texts.py OUT_FOLDER --count 200 --seed 1      writes passages.txt and questions.txt

Everything has several names: Anna is the baker and Velden is the harbour, always. A question mostly uses another name than its
passage, and passages also mention what is not asked for. What is written is held out: train.py never sees those facts.
"""
import argparse
import random
import zlib
from pathlib import Path

# Names of one thing by "/", things by ";".
WORLD = {
    "person": "anna/the baker; bruno/the miller; clara/the surgeon; david/the pilot; elena/the judge; felix/the plumber; "
              "greta/the florist; henry/the butcher; irene/the dentist; jonas/the farmer; karla/the librarian; louis/the tailor; "
              "maria/the sculptor; nils/the shepherd; olga/the teacher; pavel/the carpenter; quinn/the chemist; rosa/the singer; "
              "simon/the fisherman; tessa/the mayor; ulrich/the watchmaker; vera/the nurse; walter/the gardener; yara/the poet",
    "verb": "bought/purchased/acquired; sold/auctioned; found/discovered/located; built/constructed/assembled; "
            "repaired/mended/fixed; lost/mislaid/misplaced; concealed/buried; cleaned/washed/scrubbed; smashed/wrecked/ruined; "
            "mailed/posted/shipped; praised/admired/lauded; borrowed/rented/leased",
    "colour": "red/crimson; blue/azure; green/emerald; yellow/golden; black/dark; white/pale; grey/silver; brown/wooden",
    "thing": "boat/vessel; car/automobile; house/cottage; clock/timepiece; lamp/lantern; horse/pony; coat/jacket; hat/cap; "
             "bicycle/bike; book/novel; picture/portrait; chair/seat; violin/fiddle; ring/jewel; knife/blade; rug/carpet; "
             "cup/mug; letter/note; bag/purse; stone/rock; wagon/cart; sofa/couch; bell/chime; mirror/looking glass",
    "place": "velden/the harbour; orlo/the capital; tarn/the mountain village; brisk/the island; quell/the border town; "
             "nareth/the old mill; pomar/the orchard; sund/the lighthouse; galt/the mine; hova/the monastery; isk/the glacier; "
             "kesh/the desert camp; lomund/the lake; mirra/the castle",
    "month": "january/the first month; february/the shortest month; march/the third month; april/the fourth month; "
             "may/the fifth month; june/early summer; july/high summer; august/late summer; september/early autumn; "
             "october/the tenth month; november/late autumn; december/the last month",
}
WORLD = {kind: [names.strip().split("/") for names in text.split(";")] for kind, text in WORLD.items()}

PASSAGES = (
    "in {month} {person} {verb} the {colour} {thing} in {place} .",
    "the {colour} {thing} was {verb} by {person} near {place} in {month} .",
    "it was {person} who {verb} the {colour} {thing} at {place} during {month} .",
    "at {place} a {colour} {thing} was {verb} in {month} , and {person} did it .",
)
ASIDES = (
    "{person} heard of it later .", "nobody had told {person} .", "the weather was cold and {person} stayed at home .",
    "a {colour} {thing} stood nearby .", "{person} would rather have had a {thing} .", "the road from {place} was closed .",
    "people still talk of it in {place} .", "that was long before {month} .", "until {month} nobody knew .",
)
QUESTIONS = (
    "who {verb} the {colour} {thing} in {place} ?", "who {verb} a {thing} near {place} in {month} ?",
    "what was {verb} by {person} at {place} ?", "which {colour} thing was {verb} by {person} in {month} ?",
    "where was the {colour} {thing} {verb} by {person} ?", "in which town was a {thing} {verb} in {month} by {person} ?",
    "when was the {colour} {thing} {verb} at {place} ?", "in what season did it happen that {person} {verb} the {thing} ?",
    "what colour was the {thing} that {person} {verb} in {place} ?",
)


def is_held_out(fact):
    return zlib.crc32(repr(sorted(fact.items())).encode()) % 10 == 0


def draw_fact(rng):
    """Of each kind the number of one thing."""
    return {kind: rng.randrange(len(things)) for kind, things in WORLD.items()}


def filled(template, fact, rng, avoid=None):
    """The text, and the names that it uses; every second time not those of `avoid`."""
    names = {}
    for kind, number in fact.items():
        choice = WORLD[kind][number]
        if avoid and rng.random() < 0.5:
            choice = [name for name in choice if name != avoid[kind]]
        names[kind] = rng.choice(choice)
    return template.format(**names), names


def draw_pair(rng, held_out):
    """A passage and a question that it answers."""
    fact = draw_fact(rng)
    while is_held_out(fact) != held_out:
        fact = draw_fact(rng)
    passage, names = filled(rng.choice(PASSAGES), fact, rng)
    asides = [filled(aside, draw_fact(rng), rng)[0] for aside in rng.sample(ASIDES, 2)]
    question, _ = filled(rng.choice(QUESTIONS), fact, rng, avoid=names)
    parts = [passage, *asides]
    rng.shuffle(parts)
    return " ".join(parts), question


def draw_pairs(count, seed, held_out):
    rng = random.Random(seed)
    return [draw_pair(rng, held_out) for _ in range(count)]


def all_words():
    """Each word that a text may have, sorted."""
    names = [name for things in WORLD.values() for choice in things for name in choice]
    frames = [template.format(**dict.fromkeys(WORLD, "")) for template in (*PASSAGES, *ASIDES, *QUESTIONS)]
    return sorted(set(" ".join(names + frames).split()))


def main():
    parser = argparse.ArgumentParser(description="Writes questions and passages, one a line.")
    parser.add_argument("out", type=Path)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    pairs = draw_pairs(args.count, args.seed, held_out=True)
    for name, lines in zip(("passages", "questions"), zip(*pairs)):
        (args.out / f"{name}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
