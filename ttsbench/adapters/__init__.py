"""One file per engine kind that a profile can name, and what they share."""
