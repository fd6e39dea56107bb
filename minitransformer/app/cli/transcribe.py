"""Write down what is said in a recording, in English.

FILE is a WAV file of whole numbers (8 to 32 bits, mono or stereo, any usual rate), or bare samples (.raw: 16 bits,
16,000 a second). What lasts longer than 30 seconds is cut at pauses, and each part is printed when it is done.

examples:
  minitransformer transcribe speech.wav
  minitransformer transcribe --times interview.wav
  minitransformer transcribe --sample            somebody says a few words, fetched by pip (29 MB)
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

from minitransformer.app.cli.main import add_backend
from minitransformer.app.cli.namespace import options_of
from minitransformer.app.tasks import borrowed
from minitransformer.errors import UserError, excerpt

MERELY_PRINTS = True


@dataclass(frozen=True)
class Options:
    files: Sequence[str] = ()
    sample: bool = False
    times: bool = False
    model: str = "whisper"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="*", metavar="FILE", help="recordings: .wav, or .raw with 16 bits at 16 kHz")
    parser.add_argument("--sample", action="store_true", help="a recording to try it on")
    parser.add_argument("--times", action="store_true", help="say when each part begins")
    parser.add_argument(
        "--model", metavar="MODEL", default="whisper", help="whisper, or a file of OpenAI's weights (.pt)"
    )
    add_backend(parser)


def run(arguments: argparse.Namespace) -> int:
    from pathlib import Path

    from minitransformer.pretrained.fetch import fetch
    from minitransformer.pretrained.sound_file import read_sound

    options = options_of(Options, arguments)
    files = list(options.files)
    if options.sample:
        files.append(str(fetch("speech") / "goforward.raw"))
    if not files:
        raise UserError("transcribe what? name a recording, or try --sample")
    sounds = [read_sound(path) for path in files]  # all, before the model: a wrong file is known at once
    model, pieces = borrowed.borrow(options.model, "mels", "whisper can")
    place = fetch("whisper") if options.model == "whisper" else Path(options.model)
    place = place if place.is_dir() else place.parent
    if not (place / "mel_filters.npz").is_file():
        raise UserError(
            f"{excerpt(str(place))} lacks mel_filters.npz, the table of pitches that belongs to the weights"
        )
    for path, samples in zip(files, sounds, strict=True):
        _write_down(path if len(files) > 1 else "", samples, model, pieces, place / "mel_filters.npz", options.times)
    return 0


def _write_down(title: str, samples, model, pieces, filters, times: bool) -> None:
    from minitransformer.pretrained import speech

    if title:
        print(f"{title}:", flush=True)
    for start, text in speech.transcribe(model, pieces, samples, speech.mel_filters(filters, model.mels)):
        second = start // speech.RATE
        print(f"{second // 60:3}:{second % 60:02}  {text}" if times else text, flush=True)
