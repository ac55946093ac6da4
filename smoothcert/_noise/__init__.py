"""Where noise is drawn: its seeds, and the arrays it is drawn into."""
