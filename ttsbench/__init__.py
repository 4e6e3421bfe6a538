"""ttsbench: prove that a speech-synthesis engine got faster and still says the same words in the same voice."""

__version__ = "0.1.0"
