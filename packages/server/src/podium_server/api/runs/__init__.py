"""The runs API: lists, shows, starts, approves, cancels, resumes and replays runs."""
