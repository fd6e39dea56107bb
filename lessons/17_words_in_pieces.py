# %% [markdown]
# # 17. Words in pieces
#
# A transformer reads numbers, and its table of embeddings has one row for each of them. So somebody must decide, before
# any training, what a number stands for. Whole words? Then *unbelievably* has no row, and *walked* knows nothing of
# *walk*. Single letters? Then nothing is unknown, but a page becomes thousands of places long, and attention pays for
# each pair of places (lesson 5). Every model you can talk to uses what lies between: **pieces of words**, read off a
# text by counting. The rules fit on a page. You will apply them with a pencil, and then put four things that are said
# about them on trial.
#
# **At the end you can say**
# - how byte-pair encoding (BPE) chooses its pieces, and how it cuts a word that it has never seen;
# - why its cuts are not the shortest ones, and why nobody minds;
# - why it never meets an unknown letter, and what that has to do with bytes;
# - how WordPiece, the tokenizer of BERT, differs in training and in cutting;
# - when WordPiece answers `[UNK]`, unknown, although it could have cut the word.
#
# **Time:** 25 minutes to read, half a minute to run; nothing is downloaded. **Before you start:** what an embedding is
# (any of the lessons 2 to 7). **Run it:** `python lessons/17_words_in_pieces.py`; add `--break merges-last-first` to
# see a check fail.

# %% tags=["plumbing"]
from lessons import faults
from lessons.evidence import words_in_pieces as evidence
from lessons.evidence.words_in_pieces import RINGS
from lessons.figures import words_in_pieces as figures
from lessons.harness.trial import Lesson
from minitransformer.pretrained import byte_pair_training

lesson = Lesson(__file__)
texts, others = evidence.book_reviews(400, seed=1), evidence.book_reviews(100, seed=2)  # of the built-in language

# %% [markdown]
# ## What it looks like
# Here is one sentence of the built-in book reviews, cut by the same method after more and more training. A box is a
# piece; `␣` is a space, which belongs to the word behind it. Look at the first word of each row. Which pieces appear
# first, and why just those?

# %%
sentence = texts[0][: texts[0].index(".") + 1]
rows = evidence.cut_at(texts, sentence, (0, 20, 60, 200, 600))
lesson.show(figures.cuts(rows), "cuts", "From letters to words: each merge makes a piece of two that often meet.")

# %% [markdown]
# ## Training by hand
# Start with letters. Count which two neighbours meet most often, over all words, as often as each word occurs. Make
# these two *one* piece. Count again. That is all.
#
# Take a text of six different words: *sing* five times, *song* three times, *singer* twice, *sung* four times, *ring*
# six times and *rings* three times. How often do `n` and `g` meet? And which pair comes second? Use a pencil before you
# read the output.

# %%
first = evidence.pair_counts({tuple(word): times for word, times in RINGS.items()})
print("at the start:", ", ".join(f"{a}+{b} {count}" for (a, b), count in first.most_common(5)))
for (a, b), count in evidence.by_hand(RINGS, 6):
    print(f"{a:>4} + {b:<4} met {count:2} times  →  {a + b}")

# %% [markdown]
# First the ending that all words share, then stems, then whole words. Nobody told it what an ending is.
#
# The engine's training is faster than ours: a text has far fewer *different* words than words, and a merge changes the
# counts of a few pairs only. Such savings are where programs go wrong. So:
#
# ## First trial: the fast training is the slow one
# **Claim.** Training merges, at each step, the pair that meets most often, and these counts never rise.
#
# **What would refute it.** One merge that differs from the plain program, which counts everything anew each time. Or a
# later merge with a higher count. (Could that happen? A merge makes new pairs; but a new pair can stand only where the
# merged one stood before it, so it is not more frequent.)
#
# **Experiment.** The six words; then 400 reviews of the built-in language and 150 merges. (The next
# cell is this experiment as code; you may skip it.)


# %%
@lesson.trial(
    "bpe-training",
    "Training merges the most frequent pair at each step, and the counts of the merges never rise.",
    controls=[faults.every_word_counts_once, faults.first_place_only, faults.words_not_separated],
)
def bpe_training(trial):
    ours = [left + right for left, right in evidence.engine_merges(evidence.trained_on_words(RINGS, 4))]
    trial.check(ours == [b"ng", b"ing", b"ring", b"sing"], f"on six words: {', '.join(p.decode() for p in ours)}")
    merges, by_hand = evidence.training_compared(texts, 150)
    same = sum(ours == theirs for ours, (theirs, _) in zip(merges, by_hand, strict=True))
    trial.check(same == 150, f"on 400 reviews {same} of 150 merges are those of the plain program, in its order")
    counts = [count for _, count in by_hand]
    trial.check(counts == sorted(counts, reverse=True), f"counts fall from {counts[0]:,} to {counts[-1]:,}, none rises")
    return (
        "proved",
        f"{same} of 150 merges agree with a program that counts anew; counts {counts[0]:,} to {counts[-1]:,}",
    )


# %% [markdown]
# ## Cutting a new word
# What training leaves is a *list of merges in their order*. A new word starts as letters; then the merges are done in
# that order, each wherever it can be. Try *springs* with the six merges above. The letter `p` was never seen.

# %%
ringing = evidence.trained_on_words(RINGS, 6)
for word in ("rings", "springs", "singing", "song"):
    print(f"{word:8}", " ".join(ringing.decode([i]) for i in ringing.encode(word)))

# %% [markdown]
# *springs* keeps its `ring`. What was seen helps with what was not: that is the whole point.
#
# ## Second trial: is it the shortest way?
# One reads that BPE cuts a word into as few pieces as possible, or that it takes the longest piece that fits. Both
# sound right. Suppose the merges are, in this order, `b+c`, `a+b`, `c+d`. How is *abcd* cut? And how many pieces would
# be enough?
#
# **Claim.** Byte-pair encoding cuts a word into the fewest pieces that its vocabulary allows.
#
# **What would refute it.** One word with a shorter cut. **Experiment.** A vocabulary of 200 merges, and hundreds of new
# words, made of two or three of its pieces. For each: the engine's cut, the merges replayed one by one, and the
# shortest cut of all, found by trying every end.


# %%
@lesson.trial(
    "bpe-fewest",
    "Byte-pair encoding cuts a word into the fewest pieces that its vocabulary allows.",
    controls=[faults.merges_from_the_left, faults.merges_last_first, faults.always_the_fewest],
)
def bpe_fewest(trial):
    tokenizer = byte_pair_training.train(texts, 256 + 200)
    words = evidence.new_words(tokenizer, 600)
    found = evidence.cuts_compared(tokenizer, words)
    same = sum(ours == replayed for ours, replayed, *_ in found)
    trial.check(same == len(words), f"{same} of {len(words)} cuts are those of the merges replayed in their order")
    fewer = sum(len(ours) < least for ours, _, least, _ in found)
    trial.check(fewer == 0, f"{fewer} words have fewer pieces than the fewest possible")
    longer = [(word, cut) for word, cut in zip(words, found, strict=True) if len(cut[0]) > cut[2]]
    trial.check(longer, f"{len(longer)} of {len(words)} words are cut into more pieces than necessary")
    other = sum(ours != greedy for ours, _, _, greedy in found)
    trial.check(other, f"{other} cuts differ from taking the longest piece from the left")
    word, (ours, _, least, _) = longer[0]
    example = f"{word} becomes {' '.join(p.decode() for p in ours)}, though {least} pieces would do"
    trial.note(example)
    return "refuted", f"{len(longer)} of {len(words)} new words could be shorter ({example})"


# %% [markdown]
# In the little example, `b+c` comes first: *a bc d*, three pieces, though *ab cd* would be two. The order of training
# decides, not the length. Why does nobody mind? Six words in a hundred are a piece too long, and these were made up to
# be awkward. And the rule has a merit: the same word is always cut alike, and a model learns *this* cut, not the best
# one.
#
# ## Bytes: nothing is unknown
# Which letters does one start from? Unicode has more than 150,000 characters, and a row for each would be a waste.
# GPT-2 and its heirs start from the 256 **bytes** by which computers store text. A plain letter is one byte, é two, 書
# three, an emoji four.

# %%
plain = byte_pair_training.train(texts, 256)
for sign in ("e", "é", "書", "🎵"):
    print(f"{sign}  bytes {list(sign.encode())}, {len(plain.encode(sign))} pieces before any merge")

# %% [markdown]
# So a piece may be *a third of a letter*. One that decodes piece by piece writes rubbish there, which one sees at times
# when a chat program streams a rare letter.
#
# **Claim.** Byte-pair encoding over bytes loses nothing: whatever the text, decoding gives it back, letter by letter.
#
# **What would refute it.** One text that comes back changed. **Experiment.** 1,000 texts of letters of many scripts,
# marks, emoji and control characters, although the tokenizer was trained on English book reviews. And WordPiece beside
# it, with all small English letters: if *it* brought them back too, the texts would be too easy.


# %%
@lesson.trial(
    "bytes-enough",
    "Byte-pair encoding over bytes gives every text back, letter by letter, whatever it was trained on.",
    controls=[faults.pieces_decoded_alone, faults.only_plain_bytes, faults.spaces_trimmed],
)
def bytes_enough(trial):
    tokenizer, strange = byte_pair_training.train(texts, 256 + 200), evidence.strange_texts(1000)
    ids = [tokenizer.encode(text) for text in strange]
    back = sum(tokenizer.decode(row) == text for row, text in zip(ids, strange, strict=True))
    trial.check(back == 1000, f"{back} of 1,000 strange texts come back as they were")
    most = max(len(row) - len(text.encode()) for row, text in zip(ids, strange, strict=True))
    trial.check(most <= 0, f"none has more pieces than bytes (at most {most:+} of them)")
    again = sum(tokenizer.decode(tokenizer.encode(text)) == text for text in others)
    trial.check(again == len(others), f"{again} of {len(others)} unseen reviews too")
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = evidence.piece_tokenizer([*letters, *(f"##{letter}" for letter in letters)])
    lost = sum(words.decode(words.encode(text)) != text for text in strange)
    trial.check(lost > 500, f"WordPiece with all English letters changes {lost} of them (more than half expected)")
    return "proved", f"{back} of 1,000 texts of all scripts come back; WordPiece changes {lost}"


# %% [markdown]
# The price is paid by those whose scripts were rare in training: their letters stay bytes, and the same sentence costs
# them several times as many places.
#
# ## WordPiece: surprise instead of frequency
# BERT's tokenizer differs twice. *In training* it does not ask how often a pair meets, but how often compared with what
# its parts would do by chance: count of the pair, divided by the counts of both parts. In our six words, which pair
# wins now?

# %%
best = sorted(evidence.surprise(RINGS).items(), key=lambda pair: -pair[1])
print("most surprising:", ", ".join(f"{a}+{b} {score:.3f}" for (a, b), score in best[:4]))

# %% [markdown]
# `e+r`, from *singer* alone, and far behind `n+g`: wherever an `e` stands, an `r` follows. Frequent letters meet
# by chance; rare ones that always meet belong together.
#
# *In cutting* it keeps no merges, only a vocabulary. From the left it takes the longest piece, then the longest that
# goes on, written with `##`. There is no second thought: if nothing goes on, the whole word is `[UNK]`. With the pieces
# `a`, `ab` and `##bcd`: what becomes of *abcd*?

# %%
print(evidence.piece_tokenizer(["a", "ab", "##bcd"]).cut("abcd"), "though a + ##bcd would fit")

# %% [markdown]
# ## Last trial: when is a word unknown?
# **Claim.** WordPiece says `[UNK]` only for words that its pieces cannot make up.
#
# **What would refute it.** We have just seen it. But how often, and does it happen to BERT, whose vocabulary has every
# letter alone? **Experiment.** All 1,092 words of up to six letters *a*, *b*, *c*, under twelve random vocabularies;
# once more with the single letters added, at the start of a word and inside.


# %%
@lesson.trial(
    "wordpiece-unknown",
    "WordPiece says [UNK] only for words that its pieces cannot make up.",
    controls=[faults.shortest_piece_first, faults.second_thoughts, faults.inside_as_outside],
)
def wordpiece_unknown(trial):
    tried, said, needless, other = evidence.unknown_words(with_letters=False)
    trial.check(other == 0, f"{tried - other:,} of {tried:,} cuts are those of the rule: longest first, from the left")
    trial.check(needless > 0, f"{said:,} words are [UNK], {needless:,} of them although a cut exists")
    tried, said, lost, other = evidence.unknown_words(with_letters=True)
    trial.check((said, lost, other) == (0, 0, 0), f"with every letter as a piece, {said} of {tried:,} words are [UNK]")
    return "sharpened", f"{needless:,} words are [UNK] without need; none, if every letter is a piece by itself"


# %% [markdown]
# So the claim is true once a condition is added, and those who made BERT's vocabulary knew it: every letter of its
# alphabet is in it twice, as `a` and as `##a`. What is left are *other* letters, and words of more than a hundred.
#
# ## How large should a vocabulary be?
# More merges make texts shorter, and tables longer. Here is the trade, on reviews that training has not seen:

# %%
sizes = (0, 25, 50, 100, 200, 400, 800)
found = evidence.pieces_by_size(texts, others, sizes)
lesson.show(
    figures.pieces_a_word(sizes, found), "sizes", "Each doubling saves half a piece a word, until words are whole."
)

# %% [markdown]
# GPT-2 has 50,257 pieces, BERT 30,522, SmolLM2 49,152. With a width of 384, MiniLM spends 11.7 of its 22.6 million
# weights on the table: half of the model is its dictionary.
#
# ## Questions to think about
# 1. Trained on English, a tokenizer needs three pieces for 書. What does that do to the price of a Japanese text, and
#    to the number of words that fit into 512 places?
# 2. ` the` with a space and `the` without are two pieces. When does a model meet the second?
# 3. Should digits be merged? Think of how 12,345 + 678 would look, cut as `12 345` and `678`, or digit by digit.
# 4. A text says `[MASK]` in plain letters. Should the tokenizer make the special piece of it? Who wrote the text?
#
# ## Further reading
# - Gage, *A new algorithm for data compression*, 1994: byte pairs, long before transformers.
# - Sennrich, Haddow and Birch, *Neural machine translation of rare words with subword units*, 2016: BPE for
#   translation.
# - Schuster and Nakajima, *Japanese and Korean voice search*, 2012: where WordPiece comes from.
# - Radford and others, *Language models are unsupervised multitask learners*, 2019: bytes instead of letters, in GPT-2.
#
# ## Exercises
# `minitransformer exercise cut-word` cuts a new word by a list of merges, `merge-pairs` reads the list off a text;
# `mask-words` hides pieces as BERT does. Without a judge: write the training of WordPiece with `evidence.surprise`, and
# compare its pieces with those of BPE on 400 reviews. In `minitransformer/pretrained`, `wordpiece.py` and
# `byte_pair.py` are the tokenizers of real models, some hundred lines each.

# %%
lesson.finish()
