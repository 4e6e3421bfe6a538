"""What the goldens are made from: one Case per prompt the package can build, and the strings for its tokeniser."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

MAX_NEW_TOKENS = 24
"""Cap of every greedy utterance. At the cap the package drops the last id it sampled: at most 23 frames come back."""

TEXT = "Hello there, it's 9 o'clock."
INSTRUCT = "Speak slowly, in a happy voice."
REFERENCES = {"short": 0.5, "long": 2.35}
"""Seconds of each reference recording: 7 and 30 frames."""
REF_TEXT = "The thing said so."


@dataclass(frozen=True)
class Case:
    """One request to one toy checkpoint, in the package's own words."""

    name: str
    toy: str
    method: str
    text: str
    language: str
    non_streaming_mode: bool
    speaker: str | None = None
    instruct: str | None = None
    reference: str | None = None
    ref_text: str | None = None
    """None with a reference: only its speaker embedding is used."""

    def arguments(self) -> dict[str, Any]:
        """Keyword arguments of the wrapper's method, but for the reference."""
        given: dict[str, Any] = {
            "text": self.text,
            "language": self.language,
            "non_streaming_mode": self.non_streaming_mode,
        }
        if self.speaker is not None:
            given["speaker"] = self.speaker
        if self.method != "generate_voice_clone":
            given["instruct"] = self.instruct
        return given


def prompt_cases() -> list[Case]:
    """Every mode of the prompt: task, text layout, language resolution, instruction, speaker row, reference."""
    cases: list[Case] = []
    for layout in ("streaming", "non_streaming"):
        late = layout == "non_streaming"
        cases += _custom_voice(layout, late) + _voice_design(layout, late) + _base(layout, late)
    return cases


def _custom_voice(layout: str, late: bool) -> list[Case]:
    method = "generate_custom_voice"
    cases = []
    for speaker in ("Serena", "eric"):
        for language in ("Auto", "English", "chinese"):
            for label, instruct in (("plain", None), ("instruct", INSTRUCT)):
                name = f"custom_voice.{layout}.{speaker.lower()}.{language.lower()}.{label}"
                cases.append(Case(name, "toy-custom-voice", method, TEXT, language, late, speaker, instruct))
    name = f"custom_voice.{layout}.vivian.german.one_token"
    cases.append(Case(name, "toy-custom-voice", method, "a", "german", late, "vivian"))
    name = f"custom_voice_0b6.{layout}.vivian.english.instruct_dropped"
    cases.append(Case(name, "toy-custom-voice-0b6", method, "你好，世界 😀", "english", late, "vivian", INSTRUCT))
    return cases


def _voice_design(layout: str, late: bool) -> list[Case]:
    def case(language: str, label: str, instruct: str) -> Case:
        name = f"voice_design.{layout}.{language}.{label}"
        return Case(name, "toy-voice-design", "generate_voice_design", TEXT, language, late, instruct=instruct)

    return [case("auto", "instruct", INSTRUCT), case("english", "instruct", INSTRUCT), case("english", "empty", "")]


def _base(layout: str, late: bool) -> list[Case]:
    def case(label: str, language: str, reference: str, text: str, ref_text: str | None) -> Case:
        name = f"base.{layout}.{label}.{language}"
        return Case(
            name, "toy-base", "generate_voice_clone", text, language, late, reference=reference, ref_text=ref_text
        )

    return [
        case("x_vector", "auto", "short", TEXT, None),
        case("x_vector", "chinese", "long", TEXT, None),
        case("icl_text_longer", "english", "short", TEXT, REF_TEXT),
        case("icl_ref_longer", "auto", "long", "Hi.", "So so."),
        # 3 + 4 text ids and the end of text fill exactly the 7 frames and the start of codes.
        case("icl_equal", "english", "short", "abc!", "xyz"),
    ]


TOKEN_STRINGS = (
    "Hello world",
    "hello",
    " leading space",
    "trailing space ",
    "double  space   and more",
    "it's we're I'll don't you'd I'm they've",
    "IT'S WE'RE I'LL",
    "it’s a curly apostrophe",
    "1234567890",
    "3.14, 2,000 and 50%",
    "HelloWorld iPhone CamelCase XMLHttp",
    "and/or either/or //",
    "wait... what?! (really)",
    "line one\nline two",
    "para one\n\npara two",
    "\nleading newline",
    "trailing newline\n",
    "tab\tand\r\nwindows newline",
    "café naïve Ångström",
    "cafe\u0301 decomposed",
    "你好，世界。今天天气很好！",
    "mixed 中文 and English",
    "こんにちは 한국어 Привет",
    "emoji 😀 👩‍👩‍👧 flags 🇩🇪",
    "full　width　space ＡＢＣ",
    "non\u00a0breaking and zero\u200bwidth",
    "special <|im_end|> inside <tts_pad> text",
    "",
    " ",
)
