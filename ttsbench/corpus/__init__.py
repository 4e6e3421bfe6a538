"""Seed-TTS lists and the bundled corpus: structure is checked here before any work, contents row by row as they run."""

from ttsbench.corpus.content import content_problem, text_problem
from ttsbench.corpus.layout import Column, Layout, order
from ttsbench.corpus.loader import BUNDLED, load_corpus
from ttsbench.corpus.reference import decode_reference_24k, load_reference_24k, read_reference, reference_bytes
from ttsbench.corpus.select import select
from ttsbench.corpus.types import Corpus, CorpusRow, Locale, Selection

__all__ = [
    "BUNDLED",
    "Column",
    "Corpus",
    "CorpusRow",
    "Layout",
    "Locale",
    "Selection",
    "content_problem",
    "decode_reference_24k",
    "load_corpus",
    "load_reference_24k",
    "order",
    "read_reference",
    "reference_bytes",
    "select",
    "text_problem",
]
