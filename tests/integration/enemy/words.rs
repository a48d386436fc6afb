//! What the commands, the metrics and the documents say.
