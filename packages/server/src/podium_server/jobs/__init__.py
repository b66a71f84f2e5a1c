"""Work in the background: a queue in the database of the journal, which all replicas share."""
