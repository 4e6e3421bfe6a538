"""Traditional to simplified Chinese, as every public evaluator does it to the transcript (never to the reference).

The tables of zhconv come from MediaWiki and decide the result, so one version is pinned. They stand under the GPL:
the package is installed by whoever scores Chinese, and is no dependency of this one.
"""

from __future__ import annotations

import threading
from functools import cache
from typing import Any

from ttsbench.score.normalise.packages import missing, require

DISTRIBUTION, VERSION = "zhconv", "1.4.3"
LOCALE = "zh-cn"

_LOADING = threading.Lock()


def to_simplified(text: str) -> str:
    """`text` with the vocabulary of mainland China. Raises InvalidInput without the package."""
    with _LOADING:
        zhconv = _load()
    return zhconv.convert(text, LOCALE)


@cache
def _load() -> Any:
    """The package with its tables filled: another thread would convert by half a table while it fills them."""
    require(DISTRIBUTION, VERSION)
    try:
        import zhconv
    except ImportError as error:
        raise missing(DISTRIBUTION, VERSION, str(error)) from error
    zhconv.convert("一", LOCALE)
    return zhconv
