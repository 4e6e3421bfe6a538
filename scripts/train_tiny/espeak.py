"""Text to the teacher's symbols in bulk: libespeak-ng in this process, some hundred times faster than the program.

The teacher is paced word by word, so its symbols must show the same words as the text. espeak-ng joins small words
("of the"): they are cut again here. Where the words still do not match one to one, there are no symbols.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import re

from scripts.make_mini_en.phonemes import rewrite

RETRIEVAL, UTF8, IPA, KEEP_RUNNING = 2, 1, 2, 0x8000
"""Values of `speak_lib.h`: no audio device, the text's coding, the output's alphabet, no exit on an error."""


JOINED_ARTICLE = re.compile(r"(?<=[^ ])(?=ð[əɪ](?: |$))")
"""No English word ends so but "the"."""
PAIRS = (
    # there was, there were, there are, for a, for an, of a, of an, at a, not a, was a, that a, than a, than an
    "ðɛɹ wˌʌz,ðɛɹ wˌɜɹ,ðɛɹ ˌɑɹ,fəɹ ə,fəɹ ən,əv ə,əv ən,æɾ ə,nˌɑɾ ə,wʌz ə,ðˌæɾ ə,ðˌæn ə,ðˌæn ən,"
    # that it, that one, no one, at once, in which, of which, out of, many of, to be, had to, has been, have been
    "ðˌəɾ ɪt,ðˈæt wˈʌn,nˈO wˈʌn,ət wˈʌns,ɪn wˌɪʧ,ʌv wˈɪʧ,ˌWɾ əv,mˈɛni əv,tə bi,hæd tə,hæd tʊ,hˈæz bin,həv bɪn,"
    # had been, would have, should have, must have, does not, did not, do not, I am, I shall, I've had, no more
    "həd bɪn,wʊd həv,ʃˌʊd əv,mˈʌst əv,dʌz nˌɑt,dɪd nˌɑt,du nˌɑt,I əm,I ʃˌəl,Iv hˌæd,nˈO mˌoɹ"
)
JOINED = {pair.replace(" ", ""): pair for pair in PAIRS.split(",")}
JOINED |= {"əvəɹ": "əv ə", "æɾəɹ": "æɾ ə", "fəɹəɹ": "fəɹ ə", "ðˌæɾəɹ": "ðˌæɾ ə"}
"""Other words that espeak-ng joins, the most frequent ones; before an r it lends the article an r."""


class Espeak:
    """American English. The library has one state per process."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(ctypes.util.find_library("espeak-ng") or "libespeak-ng.so.1")
        translate = self._library.espeak_TextToPhonemes
        translate.restype = ctypes.c_char_p
        translate.argtypes = [ctypes.POINTER(ctypes.c_char_p), ctypes.c_int, ctypes.c_int]
        if self._library.espeak_Initialize(RETRIEVAL, 0, None, KEEP_RUNNING) < 0:
            raise RuntimeError("espeak-ng did not start: is its data installed?")
        if self._library.espeak_SetVoiceByName(b"en-us") != 0:
            raise RuntimeError("espeak-ng has no voice en-us")

    def ipa(self, clause: str) -> str:
        """IPA of text without marks, words between single spaces; what `espeak-ng -q --ipa -v en-us` prints."""
        rest = ctypes.c_char_p(clause.encode())
        pieces = []
        while rest.value is not None:
            pieces.append(self._library.espeak_TextToPhonemes(ctypes.byref(rest), UTF8, IPA).decode())
        return " ".join(" ".join(pieces).split())

    def symbols(self, text: str) -> str | None:
        """The teacher's symbols of `text`, which ends with a mark; its marks are kept in place. None: other words."""
        clauses = re.findall(r"([^,.?!]+)([,.?!] ?)", text)
        symbols = "".join(apart(rewrite(self.ipa(clause), british=False)) + mark for clause, mark in clauses)
        return symbols if len(symbols.split()) == len(text.split()) else None


def apart(symbols: str) -> str:
    """A clause's symbols with joined words cut."""
    return " ".join(JOINED.get(word, word) for word in JOINED_ARTICLE.sub(" ", symbols).split(" "))
