"""Running an engine over a corpus and writing down what it did."""
