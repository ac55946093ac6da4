"""Tasks run one after the other, by local processes or threads, or by a cluster."""
